"""Policy evaluation in batches: return, visits and adjoint of many deterministic policies from two passes.

The adjoint ``G[s, a] = sum_t d_t(s) Q_t(s, a)`` is the derivative of ``J`` with respect to the probability of
action `a` in state `s`.  Where no episode comes back to a state, differences of it over `a` are exact
differences of ``J``.

Policies lie along the last axis, so that following a transition moves a whole row.  A row product costs
about a tenth of looking single entries up, so all actions are evaluated and not only those taken.  Memory
per policy: ``4 (2 A + 4) N`` bytes by levels; otherwise ``4 N (T / k + k + 2 A + 4)`` for `k` checkpoints of
the forward pass over `T` steps (``k = 1`` unless a batch of `CHUNK_BYTES` would hold too few policies).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from polinfer.annealing.problem import Problem, is_dense, transition_matrix

CHUNK_BYTES = 1 << 28
_UNROLLED = 32
_LOOK = 8  # steps between looks at whether anything still changes
_FEW = 64  # policies per batch below which the forward pass is checkpointed


class Evaluation(NamedTuple):
    """What a batch of policies does."""

    returns: Array  # [P] J
    visits: Array  # [N, P] expected number of visits; above zero where the policy comes at all
    adjoint: Array  # [N, A, P]


class Rows(NamedTuple):
    """A problem's arrays on the device; compiled code is shared by problems of equal shapes."""

    successor: Array  # [B, N * A] int32
    probability: Array  # [B, N * A]
    matrix: Array  # [N * A, N], or empty where rows are looked up
    gain: Array  # [N, A]
    initial: Array  # [N]
    origin: Array  # [K, N]
    inflow: Array  # [K, N]
    hub_origin: Array  # [E]
    hub_target: Array  # [E]
    hub_inflow: Array  # [E]


Evaluate = Callable[[Rows, Array], Evaluation]
"""From a problem's rows and actions ``[N, P]`` to their evaluation."""


def make_rows(problem: Problem, dtype: Any = np.float32) -> Rows:
    """Put a problem on the device."""
    size, actions, outcomes = problem.successor.shape
    matrix = transition_matrix(problem).toarray() if is_dense(problem) else np.zeros((0, 0))

    def put(values: Any, kind: Any = dtype) -> Array:
        return jnp.asarray(np.asarray(values, kind))

    return Rows(
        successor=put(problem.successor.reshape(size * actions, outcomes).T, np.int32),
        probability=put(problem.probability.reshape(size * actions, outcomes).T),
        matrix=put(matrix),
        gain=put(problem.gain),
        initial=put(problem.initial),
        origin=put(problem.origin.T, np.int32),
        inflow=put(problem.inflow.T),
        hub_origin=put(problem.hub_origin, np.int32),
        hub_target=put(problem.hub_target, np.int32),
        hub_inflow=put(problem.hub_inflow),
    )


def make_evaluate(
    size: int, actions: int, width: int, horizon: int, policies: int, itemsize: int = 4
) -> Evaluate:
    """Return the traceable evaluation of `policies` policies, in as many chunks as memory asks for.

    `size`, `width` and `horizon` are those of the `Problem`.
    """
    stored, segments = 1 if width else horizon, 1
    other = 2 * actions + 4
    fits = CHUNK_BYTES // (itemsize * max(size, 1) * (stored + other))
    if not width and fits < min(_FEW, policies):
        segments = max(1, math.isqrt(horizon))
        fits = CHUNK_BYTES // (itemsize * size * (segments + -(-horizon // segments) + other))
    chunks = -(-policies // max(1, min(fits, policies)))
    while policies % chunks:
        chunks += 1
    evaluate = _by_level(width) if width else _by_step(horizon, segments)
    if chunks == 1:
        return evaluate

    def chunked(rows: Rows, policy: Array) -> Evaluation:
        split = jnp.moveaxis(policy.reshape(size, chunks, -1), 1, 0)
        parts = jax.lax.map(lambda own: evaluate(rows, own), split)
        return Evaluation(
            parts.returns.reshape(-1),
            jnp.moveaxis(parts.visits, 0, 1).reshape(size, -1),
            jnp.moveaxis(parts.adjoint, 0, 2).reshape(size, actions, -1),
        )

    return chunked


def sum_rows(values: Array, index: Array, weight: Array) -> Array:
    """Return ``sum_k weight[k, n] values[index[k, n]]``, ``[n, P]``; `values` has a last row of zeros."""
    count = index.shape[0]
    if count <= _UNROLLED:
        few = weight[0][:, None] * values[index[0]]
        for k in range(1, count):
            few = few + weight[k][:, None] * values[index[k]]
        return few
    empty = jnp.zeros((index.shape[1], values.shape[1]), values.dtype)
    total: Array = jax.lax.fori_loop(
        0, count, lambda k, so_far: so_far + weight[k][:, None] * values[index[k]], empty
    )
    return total


def _pad(values: Array) -> Array:
    return jnp.concatenate([values, jnp.zeros((1, values.shape[1]), values.dtype)])


def _taken(policy: Array, actions: int) -> Array:
    return policy[:, None, :] == jnp.arange(actions, dtype=policy.dtype)[:, None]


def _ahead(rows: Rows, value: Array) -> Array:
    """Return what each action earns, ``[N, A, P]``, if what follows is worth `value` ``[N, P]``."""
    size, actions = rows.gain.shape
    if rows.matrix.size:
        after = rows.matrix @ value
    else:
        after = sum_rows(_pad(value), rows.successor, rows.probability)
    return rows.gain[:, :, None] + after.reshape(size, actions, -1)


def _onward(rows: Rows, taken: Array, here: Array) -> Array:
    """Return where policies are one step after `here` ``[N, P]``."""
    size, actions = rows.gain.shape
    flow = jnp.where(taken, here[:, None, :], 0.0).reshape(size * actions, -1)
    if rows.matrix.size:
        return rows.matrix.T @ flow
    flow = _pad(flow)
    there = sum_rows(flow, rows.origin, rows.inflow)
    if rows.hub_origin.size:
        more = rows.hub_inflow[:, None] * flow[rows.hub_origin]
        there = there + jax.ops.segment_sum(more, rows.hub_target, size, indices_are_sorted=True)
    return there


class _Forward(NamedTuple):
    step: Array  # []
    here: Array  # [N, P]
    visits: Array  # [N, P] so far
    trail: Array  # [L, N, P]


def _by_step(horizon: int, segments: int) -> Evaluate:
    """Evaluate step by step; both passes stop as soon as nothing changes any more."""
    length = -(-horizon // segments)

    def evaluate(rows: Rows, policy: Array) -> Evaluation:
        size, actions = rows.gain.shape
        count, dtype = policy.shape[1], rows.gain.dtype
        precision = float(np.finfo(dtype).eps) / 2
        taken = _taken(policy, actions)
        blank = jnp.zeros((size, count), dtype)
        start = jnp.broadcast_to(rows.initial[:, None], (size, count))

        def forward(first: Array, here: Array, visits: Array) -> _Forward:
            """Follow the policies for `length` steps from step `first`."""

            def going(now: _Forward) -> Array:
                # After as many steps as there are states, whatever can be reached has been.
                look = (first + now.step >= size) & (now.step % _LOOK == 0)
                left: Array = jax.lax.cond(look, lambda: now.here.max() > precision / size, lambda: True)
                on: Array = (now.step < length) & (first + now.step < horizon) & left
                return on

            def step(now: _Forward) -> _Forward:
                return _Forward(
                    now.step + 1,
                    _onward(rows, taken, now.here),
                    now.visits + now.here,
                    now.trail.at[now.step].set(now.here),
                )

            trail = jnp.zeros((length, size, count), dtype)
            gone: _Forward = jax.lax.while_loop(going, step, _Forward(jnp.asarray(0), here, visits, trail))
            return gone

        def backward(carry: Any, first: Array, trail: Array) -> Any:
            """Go back over a segment; `carry` is value, adjoint, visits gone over, and whether to stop."""

            def going(state: Any) -> Array:
                on: Array = (state[0] >= 0) & ~state[4]
                return on

            def step(state: Any) -> Any:
                at, value, adjoint, seen, _ = state
                worth = _ahead(rows, value)
                new = jnp.where(taken, worth, 0.0).sum(axis=1)
                still = jax.lax.cond(
                    at % _LOOK == 0,
                    lambda: jnp.abs(new - value).max() <= precision * jnp.abs(new).max(),
                    lambda: False,
                )
                here = trail[at]
                return at - 1, new, adjoint + here[:, None, :] * worth, seen + here, still

            last = jnp.minimum(length, horizon - first) - 1
            return jax.lax.while_loop(going, step, (last, *carry))[1:]

        carry = (blank, jnp.zeros((size, actions, count), dtype), blank, jnp.asarray(False))
        if segments == 1:
            gone = forward(jnp.asarray(0), start, blank)
            visits = gone.visits
            carry = backward(carry, jnp.asarray(0), gone.trail)
        else:

            def mark(state: tuple[Array, Array], number: Array) -> tuple[tuple[Array, Array], Array]:
                gone = forward(number * length, *state)
                return (gone.here, gone.visits), state[0]

            (_, visits), marks = jax.lax.scan(mark, (start, blank), jnp.arange(segments))

            def again(carry: Any, number: Array) -> tuple[Any, None]:
                def go(carry: Any) -> Any:
                    trail = forward(number * length, marks[number], blank).trail
                    return backward(carry, number * length, trail)

                return jax.lax.cond(carry[3], lambda kept: kept, go, carry), None

            carry, _ = jax.lax.scan(again, carry, jnp.arange(segments)[::-1])
        value, adjoint, seen, _ = carry
        # Where values no longer changed, all earlier visits meet the same ones.
        rest = jnp.maximum(visits - seen, 0.0)[:, None, :]
        return Evaluation(rows.initial @ value, visits, adjoint + rest * _ahead(rows, value))

    return evaluate


def _by_level(width: int) -> Evaluate:
    """Evaluate level by level: one visit to each state, forwards and backwards."""

    def evaluate(rows: Rows, policy: Array) -> Evaluation:
        visits = level_visits(rows, policy, width)
        size, actions = rows.gain.shape

        def back(carry: Any, number: Array) -> tuple[Any, None]:
            value, adjoint = carry
            first = number * width
            worth = level_worth(rows, value, first, width)
            chosen = jax.lax.dynamic_slice_in_dim(policy, first, width)
            new = jnp.where(_taken(chosen, actions), worth, 0.0).sum(axis=1)
            here = jax.lax.dynamic_slice_in_dim(visits, first, width)
            value = jax.lax.dynamic_update_slice_in_dim(value, new, first, 0)
            adjoint = jax.lax.dynamic_update_slice_in_dim(adjoint, here[:, None, :] * worth, first, 0)
            return (value, adjoint), None

        count, dtype = policy.shape[1], rows.gain.dtype
        carry = (jnp.zeros((size + 1, count), dtype), jnp.zeros((size, actions, count), dtype))
        (value, adjoint), _ = jax.lax.scan(back, carry, jnp.arange(size // width)[::-1])
        return Evaluation(rows.initial @ value[:size], visits, adjoint)

    return evaluate


def level_worth(rows: Rows, value: Array, first: Array, width: int) -> Array:
    """Return what each action of a piece's states earns, ``[width, A, P]``; `value` is ``[N + 1, P]``."""
    actions = rows.gain.shape[1]
    index = jax.lax.dynamic_slice_in_dim(rows.successor, first * actions, width * actions, 1)
    weight = jax.lax.dynamic_slice_in_dim(rows.probability, first * actions, width * actions, 1)
    gain = jax.lax.dynamic_slice_in_dim(rows.gain, first, width)
    return gain[:, :, None] + sum_rows(value, index, weight).reshape(width, actions, -1)


def level_visits(rows: Rows, policy: Array, width: int) -> Array:
    """Return the probability of coming to each state, ``[N, P]``, level by level."""
    size, actions = rows.gain.shape
    count = policy.shape[1]
    chosen = jnp.concatenate([policy, jnp.zeros((1, count), policy.dtype)])

    def onward(visits: Array, number: Array) -> tuple[Array, None]:
        first = number * width
        pair = jax.lax.dynamic_slice_in_dim(rows.origin, first, width, 1)
        weight = jax.lax.dynamic_slice_in_dim(rows.inflow, first, width, 1)
        state, action = pair // actions, (pair % actions).astype(policy.dtype)
        start = jax.lax.dynamic_slice_in_dim(rows.initial, first, width)[:, None]

        def come(k: Any) -> Array:
            took = chosen[state[k]] == action[k][:, None]
            return jnp.where(took, weight[k][:, None] * visits[state[k]], 0.0)

        if rows.origin.shape[0] <= _UNROLLED:
            arrived = sum((come(k) for k in range(1, rows.origin.shape[0])), start=start + come(0))
        else:
            begin = jnp.broadcast_to(start, (width, count))
            arrived = jax.lax.fori_loop(0, rows.origin.shape[0], lambda k, so_far: so_far + come(k), begin)
        return jax.lax.dynamic_update_slice_in_dim(visits, arrived, first, 0), None

    empty = jnp.zeros((size + 1, count), rows.gain.dtype)
    visits: Array = jax.lax.scan(onward, empty, jnp.arange(size // width))[0][:size]
    return visits
