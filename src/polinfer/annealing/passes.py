"""Policy evaluation in batches: return, visits and adjoint of many deterministic policies from two passes.

The adjoint ``G[s, a] = sum_t d_t(s) Q_t(s, a)`` is the derivative of ``J`` with respect to the probability of
action `a` in state `s`.  Where no episode comes back to a state, differences of it over `a` are exact
differences of ``J``.

Memory per policy: ``4 (2 A + 4) N`` bytes by levels; otherwise ``4 N (T / k + k + 2 A + 4)`` for `k`
checkpoints of the forward pass over `T` steps (``k = 1`` unless a batch of `CHUNK_BYTES` would hold too few
policies).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from polinfer.annealing.recurring import CYCLE, by_cycle
from polinfer.annealing.returning import corrected, dense_chances, return_chances
from polinfer.annealing.rows import UNROLLED, Evaluate, Evaluation, Rows, make_steps, sum_rows, taken_actions

CHUNK_BYTES = 1 << 28
_TOGETHER = 128  # policies per batch where a step is short; measured: 32 to 64 and 256 are slower
_TOGETHER_LARGE = 8  # likewise above `_LARGE` states: a third faster than 128 on maps of 24x24 to 48x48
_LARGE = 512
_LOOK = 8  # steps between looks at whether anything still changes
_RECURRING = 4  # cycles that a horizon should have before looking for what recurs pays
_FEW = 64  # policies per batch below which the forward pass is checkpointed


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
    if not width and segments == 1 and horizon >= _RECURRING * CYCLE:
        evaluate = _by_outcomes(by_cycle(horizon), evaluate)
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


def _by_outcomes(certain: Evaluate, chance: Evaluate) -> Evaluate:
    """Return an evaluation that goes one way where every action has one outcome, and another elsewhere."""

    def evaluate(rows: Rows, policy: Array) -> Evaluation:
        one = not rows.matrix.size and rows.successor.shape[0] == 1
        return (certain if one else chance)(rows, policy)

    return evaluate


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
        steps = make_steps(rows, policy)
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
                    lambda: jnp.all(jnp.abs(new - value) <= precision * jnp.abs(new)),
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
            new = jnp.where(taken_actions(chosen, actions), worth, 0.0).sum(axis=1)
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

        if rows.origin.shape[0] <= UNROLLED:
            arrived = sum((come(k) for k in range(1, rows.origin.shape[0])), start=start + come(0))
        else:
            begin = jnp.broadcast_to(start, (width, count))
            arrived = jax.lax.fori_loop(0, rows.origin.shape[0], lambda k, so_far: so_far + come(k), begin)
        return jax.lax.dynamic_update_slice_in_dim(visits, arrived, first, 0), None

    empty = jnp.zeros((size + 1, count), rows.gain.dtype)
    visits: Array = jax.lax.scan(onward, empty, jnp.arange(size // width))[0][:size]
    return visits
