"""Evaluation where every action has one outcome: episodes end up going round in circles.

Where policies are after `t` steps, and what a further step at the front of an episode adds to its values,
then both repeat themselves after some steps, the number of which has mostly to do with how far there is to
go, and not with the horizon.  A number that all short circles divide is looked for, `CYCLE`, at distances
from the end of the horizon that it divides:

- Onward: as soon as ``d_t = d_{t - L}`` in every state, the same is true ever after.
- Back: let ``V_m`` be the value of `m` steps.  As soon as ``V_m - V_{m-1} = V_{m-L} - V_{m-L-1}`` in every
  state, all later increments repeat too, so that ``V_{m + jL} = V_m + j (V_m - V_{m-L})``.

Over `n` whole circles in which both repeat, ``sum_j d (V + j D) = n d (V + (n - 1) D / 2)``: going back over
one of them with a value that was shifted and visits that count `n` times gives the exact sum.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from polinfer.annealing.rows import Evaluate, Evaluation, Rows, make_steps

CYCLE = 12  # steps; circles of 1, 2, 3, 4, 6 and 12 steps divide it
_ROUNDING = 4  # units in the last place of a value by which increments that repeat may differ


class _Onward(NamedTuple):
    step: Array  # []
    here: Array  # [N, P]
    visits: Array  # [N, P] before this step
    trail: Array  # [T, N, P]
    mark: Array  # [N, P] where policies were at the last look
    marked: Array  # [N, P] visits before it


class _Back(NamedTuple):
    at: Array  # [] step to go over next
    value: Array  # [N, P] of the steps that were gone over
    sums: Any
    mark: Array  # [N, P] value at the last look
    increment: Array  # [N, P] what the step before the last look added to it
    repeats: Array  # []
    change: Array  # [N, P] of the value over the last circle


def by_cycle(most: int) -> Evaluate:
    """Return an evaluation of at most so many steps that leaves out what repeats itself."""

    def evaluate(rows: Rows, policy: Array) -> Evaluation:
        size, (count, dtype) = rows.gain.shape[0], (policy.shape[1], rows.gain.dtype)
        horizon, steps = rows.horizon, make_steps(rows, policy)
        blank, no = jnp.zeros((size, count), dtype), jnp.asarray(False)
        start = jnp.broadcast_to(rows.initial[:, None], (size, count))

        def going(now: _Onward) -> Array:
            look = (horizon - now.step) % CYCLE == 0
            repeats = jax.lax.cond(look, lambda: jnp.array_equal(now.here, now.mark), lambda: no)
            on: Array = (now.step < horizon) & ~repeats
            return on

        def onward(now: _Onward) -> _Onward:
            mark, marked = jax.lax.cond(
                (horizon - now.step) % CYCLE == 0,
                lambda: (now.here, now.visits),
                lambda: (now.mark, now.marked),
            )
            return _Onward(
                now.step + 1,
                steps.onward(now.here),
                now.visits + now.here,
                now.trail.at[now.step].set(now.here),
                mark,
                marked,
            )

        trail = jnp.zeros((most, size, count), dtype)
        nowhere = jnp.full((size, count), -1.0, dtype)
        gone: _Onward = jax.lax.while_loop(
            going, onward, _Onward(jnp.asarray(0), start, blank, trail, nowhere, blank)
        )
        circles = (horizon - gone.step) // CYCLE
        visits = gone.visits + circles.astype(dtype) * (gone.visits - gone.marked)
        # From this step on, where policies are repeats itself.
        first = jnp.where(gone.step < horizon, gone.step - CYCLE, horizon)

        def back(now: _Back, weight: Any = 1.0) -> _Back:
            """Go over a step."""
            at = jnp.where(now.at < first, now.at, first + (now.at - first) % CYCLE)
            value, sums = steps.back(weight * gone.trail[at], now.value, now.sums)
            look = (horizon - now.at) % CYCLE == 0

            def compare() -> tuple[Array, Array, Array, Array]:
                added = value - now.value
                rounding = _ROUNDING * float(np.finfo(dtype).eps) * jnp.abs(value)
                repeats = (jnp.abs(added - now.increment) <= rounding).all()
                return value, added, repeats, value - now.mark

            same = (now.mark, now.increment, no, now.change)
            mark, increment, repeats, change = jax.lax.cond(look, compare, lambda: same)
            return _Back(now.at - 1, value, sums, mark, increment, repeats, change)

        blind = jnp.full((size, count), jnp.nan, dtype)
        now: _Back = jax.lax.while_loop(
            lambda now: (now.at >= first) & ~now.repeats,
            back,
            _Back(horizon - 1, blank, steps.nothing, blank, blind, no, blank),
        )
        left = jnp.where(now.repeats, (now.at + 1 - first) // CYCLE, 0)
        weight = left.astype(dtype)
        shift = jnp.where(left > 0, (weight - 1) / 2, 0.0) * now.change
        now = now._replace(value=now.value + shift)
        round_once = jnp.where(left > 0, CYCLE, 0)
        now = jax.lax.fori_loop(0, round_once, lambda _, state: back(state, weight), now)
        now = now._replace(at=first - 1, value=now.value + shift)
        now = jax.lax.while_loop(lambda state: state.at >= 0, back, now)
        return Evaluation(rows.initial @ now.value, visits, steps.adjoint(visits, now.sums))

    return evaluate
