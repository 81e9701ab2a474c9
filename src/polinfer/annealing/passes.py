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
from functools import reduce
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from polinfer.annealing.edges import find_edges
from polinfer.annealing.problem import Problem, is_dense, transition_matrix
from polinfer.annealing.returning import (
    corrected,
    dense_chances,
    dense_returns,
    return_chances,
    two_step_returns,
)

CHUNK_BYTES = 1 << 28
_TOGETHER = 128  # policies per batch where a step is short; measured: 32 to 64 and 256 are slower
_TOGETHER_LARGE = 8  # likewise above `_LARGE` states: a third faster than 128 on maps of 24x24 to 48x48
_LARGE = 512
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

    matrix: Array  # [N * A, N], or empty where rows are looked up; then all other transitions are empty
    gain: Array  # [N, A]
    initial: Array  # [N]
    successor: Array  # [B, N * A] int32
    probability: Array  # [B, N * A]
    origin: Array  # [K, N]
    inflow: Array  # [K, N]
    hub_origin: Array  # [E]
    hub_target: Array  # [E]
    hub_inflow: Array  # [E]
    neighbour: Array  # [U, N]; as in `Edges`
    weight: Array  # [U, N, A]
    arriving: Array  # [K, N]
    stays: Array  # [N, A] probability of staying
    back: Array  # of leaving and returning at once, as `return_chances` or `dense_chances` takes it
    horizon: Array  # [] steps


_LOOKED_UP = (
    "successor",
    "probability",
    "origin",
    "inflow",
    "hub_origin",
    "hub_target",
    "hub_inflow",
    "neighbour",
    "weight",
    "arriving",
)
Evaluate = Callable[[Rows, Array], Evaluation]
"""From a problem's rows and actions ``[N, P]`` to their evaluation."""


def make_rows(problem: Problem, dtype: Any = np.float32) -> Rows:
    """Put a problem on the device."""
    size, actions, outcomes = problem.successor.shape

    def put(values: Any, kind: Any = dtype) -> Array:
        return jnp.asarray(np.asarray(values, kind))

    dense = is_dense(problem)
    stays, back = dense_returns(problem) if dense else two_step_returns(problem)
    edges = find_edges(problem)
    rows = Rows(
        matrix=put(np.zeros((0, 0))),
        gain=put(problem.gain),
        initial=put(problem.initial),
        successor=put(problem.successor.reshape(size * actions, outcomes).T, np.int32),
        probability=put(problem.probability.reshape(size * actions, outcomes).T),
        origin=put(problem.origin.T, np.int32),
        inflow=put(problem.inflow.T),
        hub_origin=put(problem.hub_origin, np.int32),
        hub_target=put(problem.hub_target, np.int32),
        hub_inflow=put(problem.hub_inflow),
        neighbour=put(edges.neighbour, np.int32),
        weight=put(edges.weight),
        arriving=put(edges.arriving, np.int32),
        stays=put(stays),
        back=put(back),
        horizon=put(problem.horizon, np.int32),
    )
    if not dense:
        return rows
    # What is not looked up has no shape, so that more problems share a program.
    unused = {name: getattr(rows, name).reshape(-1)[:0] for name in _LOOKED_UP}
    return rows._replace(matrix=put(transition_matrix(problem).toarray()), **unused)


def make_evaluate(
    size: int, actions: int, width: int, horizon: int, policies: int, itemsize: int = 4
) -> Evaluate:
    """Return the traceable evaluation of `policies` policies, in as many chunks as memory asks for.

    `size` and `width` are those of the `Problem`, and `horizon` is the most steps that it may have.
    """
    stored, segments = 1 if width else horizon, 1
    other = 2 * actions + 4
    fits = CHUNK_BYTES // (itemsize * max(size, 1) * (stored + other))
    if not width and fits < min(_FEW, policies):
        segments = max(1, math.isqrt(horizon))
        fits = CHUNK_BYTES // (itemsize * size * (segments + -(-horizon // segments) + other))
    if not width:
        # Steps go over the same numbers again and again: they should stay in the processor's cache.
        fits = min(fits, _TOGETHER_LARGE if size > _LARGE else _TOGETHER)
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


def with_returns(evaluate: Evaluate) -> Evaluate:
    """Return an evaluation whose adjoint counts immediate returns, see `polinfer.annealing.returning`."""

    def judge(rows: Rows, policy: Array) -> Evaluation:
        found = evaluate(rows, policy)
        if not rows.back.size:
            return found
        if rows.matrix.size:
            chance = dense_chances(rows.stays, rows.back, policy)
        else:
            chance = return_chances(rows.stays, rows.back, rows.successor, policy)
        return found._replace(adjoint=corrected(found.adjoint, policy, chance, rows.horizon))

    return judge


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


class _Steps(NamedTuple):
    """How policies move on and look back, one step at a time."""

    onward: Callable[[Array], Array]  # from where they are to where they are next, [N, P]
    back: Callable[[Array, Array, Any], tuple[Array, Any]]  # visits, later value and sums to value and sums
    nothing: Any  # sums before the first step
    adjoint: Callable[[Array, Any], Array]  # visits and sums to [N, A, P]


def _by_action(rows: Rows, policy: Array) -> _Steps:
    """Go over all actions and their outcomes."""
    size, actions = rows.gain.shape
    taken = _taken(policy, actions)

    def back(here: Array, value: Array, adjoint: Array) -> tuple[Array, Array]:
        worth = _ahead(rows, value)
        return jnp.where(taken, worth, 0.0).sum(axis=1), adjoint + here[:, None, :] * worth

    nothing = jnp.zeros((size, actions, policy.shape[1]), rows.gain.dtype)
    return _Steps(lambda here: _onward(rows, taken, here), back, nothing, lambda visits, adjoint: adjoint)


def _held(*values: Any) -> Any:
    return jax.lax.optimization_barrier(values)  # type: ignore[no-untyped-call]


def _by_edge(rows: Rows, policy: Array) -> _Steps:
    """Go over the neighbours of each state, see `polinfer.annealing.edges`."""
    (size, actions), count = rows.gain.shape, policy.shape[1]
    width = rows.neighbour.shape[0]

    def taken(columns: Array) -> Array:
        own = jnp.zeros((size, count), columns.dtype)  # a policy without an action (-1) stops
        for action in range(actions):
            own = jnp.where(policy == action, columns[:, action, None], own)
        return own

    leaving = [taken(rows.weight[u]) for u in range(width)]
    every = _pad(jnp.concatenate(leaving))
    source = [jnp.where(edge < width * size, edge % size, size - 1) for edge in rows.arriving]
    # Held in memory: they are the same at every step.
    entering = [every[edge] for edge in rows.arriving]
    leaving, entering, earned = _held(leaving, entering, taken(rows.gain))

    def onward(here: Array) -> Array:
        there: Array = reduce(jnp.add, (own * here[at] for own, at in zip(entering, source, strict=True)))
        return there

    def back(here: Array, value: Array, met: tuple[Array, ...]) -> tuple[Array, tuple[Array, ...]]:
        padded = _pad(value)
        near = [padded[at] for at in rows.neighbour]
        new = reduce(jnp.add, (own * there for own, there in zip(leaving, near, strict=True)), earned)
        return new, tuple(so_far + here * there for so_far, there in zip(met, near, strict=True))

    def adjoint(visits: Array, met: tuple[Array, ...]) -> Array:
        def of(action: int) -> Array:
            ahead = (rows.weight[u, :, action, None] * met[u] for u in range(width))
            return reduce(jnp.add, ahead, rows.gain[:, action, None] * visits)

        return jnp.stack([of(action) for action in range(actions)], axis=1)

    blank = jnp.zeros((size, count), rows.gain.dtype)
    return _Steps(onward, back, (blank,) * width, adjoint)


class _Forward(NamedTuple):
    step: Array  # []
    here: Array  # [N, P]
    visits: Array  # [N, P] so far
    trail: Array  # [L, N, P]


def _by_step(most: int, segments: int) -> Evaluate:
    """Evaluate step by step, up to `most`; both passes stop as soon as nothing changes any more."""
    length = -(-most // segments)

    def evaluate(rows: Rows, policy: Array) -> Evaluation:
        size, (count, dtype) = rows.gain.shape[0], (policy.shape[1], rows.gain.dtype)
        horizon = rows.horizon
        precision = float(np.finfo(dtype).eps) / 2
        steps = _by_edge(rows, policy) if rows.neighbour.size else _by_action(rows, policy)
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
                    steps.onward(now.here),
                    now.visits + now.here,
                    now.trail.at[now.step].set(now.here),
                )

            trail = jnp.zeros((length, size, count), dtype)
            gone: _Forward = jax.lax.while_loop(going, step, _Forward(jnp.asarray(0), here, visits, trail))
            return gone

        def backward(carry: Any, first: Array, trail: Array) -> Any:
            """Go back over a segment; `carry` is value, sums, visits gone over, and whether to stop."""

            def going(state: Any) -> Array:
                on: Array = (state[0] >= 0) & ~state[4]
                return on

            def step(state: Any) -> Any:
                at, value, sums, seen, _ = state
                here = trail[at]
                new, sums = steps.back(here, value, sums)
                still = jax.lax.cond(
                    at % _LOOK == 0,
                    lambda: jnp.abs(new - value).max() <= precision * jnp.abs(new).max(),
                    lambda: False,
                )
                return at - 1, new, sums, seen + here, still

            last = jnp.minimum(length, horizon - first) - 1
            return jax.lax.while_loop(going, step, (last, *carry))[1:]

        carry = (blank, steps.nothing, blank, jnp.asarray(False))
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
        value, sums, seen, _ = carry
        # Where values no longer changed, all earlier visits meet the same ones.
        _, sums = steps.back(jnp.maximum(visits - seen, 0.0), value, sums)
        return Evaluation(rows.initial @ value, visits, steps.adjoint(visits, sums))

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
