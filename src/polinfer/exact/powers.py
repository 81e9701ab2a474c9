"""Long horizons by squaring: `T` steps of a stationary policy are about ``log2 T`` products of matrices.

A policy that does not look at the step moves by one matrix, so what it does in ``j + k`` steps follows from
what it does in `j` and in `k`.  Rows, together with the probability of having ended, are scaled to one after
every product: otherwise a table whose rows sum to ``1 + 1e-16`` would gain mass by the million steps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.special import logsumexp

from polinfer.exact.solution import Floats

T = TypeVar("T")


def _scaled(move: Any, leave: Any) -> tuple[Any, Any]:
    total = move.sum(axis=-1) + leave
    return move / total[..., None], leave / total


def affine_power(move: Array, leave: Array, gain: Array, steps: Array) -> Array:
    """Return the values ``[..., n]`` after `steps` rounds of ``v = gain + move v`` from zero.

    Parameters
    ----------
    move
        ``[..., n, n]``, the probability of moving on.
    leave
        ``[..., n]``, that of ending.
    gain
        ``[..., n]``, the expected reward of a step.
    steps
        A number, which may be traced.
    """

    def halve(state: Any) -> Any:
        left, move, leave, gained, value = state
        value = jnp.where(left % 2 == 1, gained + (move @ value[..., None])[..., 0], value)
        gained = gained + (move @ gained[..., None])[..., 0]
        leave = leave + (move @ leave[..., None])[..., 0]
        return (left // 2, *_scaled(move @ move, leave), gained, value)

    start = (steps, *_scaled(move, leave), gain, jnp.zeros_like(gain))
    value: Array = jax.lax.while_loop(lambda state: state[0] > 0, halve, start)[-1]
    return value


def exponential_power(log_move: Array, log_leave: Array, steps: Array) -> Array:
    """Return ``log E exp(return)`` ``[..., n]`` after `steps` steps, in log space throughout.

    `log_move` is ``[..., n, n]`` and `log_leave` ``[..., n]``.
    """

    def times(one: Array, other: Array) -> Array:
        return logsumexp(one[..., :, :, None] + other[..., None, :, :], axis=-2)

    def after(move: Array, value: Array) -> Array:
        return logsumexp(move + value[..., None, :], axis=-1)

    def halve(state: Any) -> Any:
        left, move, ended, value = state
        value = jnp.where(left % 2 == 1, jnp.logaddexp(ended, after(move, value)), value)
        return left // 2, times(move, move), jnp.logaddexp(ended, after(move, ended)), value

    start = (steps, log_move, log_leave, jnp.zeros_like(log_leave))
    value: Array = jax.lax.while_loop(lambda state: state[0] > 0, halve, start)[-1]
    return value


class Episode(NamedTuple):
    """What a policy does in some number of steps, from each state."""

    move: Floats  # [n, n], where it is then
    ended: Floats  # [n, E], the probability of having ended, by ending
    value: Floats  # [n], expected return
    variance: Floats  # [n]
    tilt: Floats  # [n, n], E[return - value; being there then]
    visits: Floats  # [n, n], expected


def follow(move: Floats, ended: Floats, value: Floats, variance: Floats, tilt: Floats, steps: int) -> Episode:
    """Return what `steps` steps do, from what one step does (see `Episode`)."""
    one = _whole(Episode(move, ended, value, variance, tilt, np.eye(len(value))))
    return _power(one, steps, _then)


def _whole(episode: Episode) -> Episode:
    total = episode.move.sum(axis=1) + episode.ended.sum(axis=1)
    return episode._replace(move=episode.move / total[:, None], ended=episode.ended / total[:, None])


def _then(first: Episode, second: Episode) -> Episode:
    """Return what comes of `first` and then `second`.

    Nothing cancels: returns are measured from their own means, as in the law of total variance.
    """
    ahead = first.move @ second.value
    # An end is worth nothing from there on, and its share of the mean is missing in the others.
    over = first.ended.sum(axis=1)
    gap = second.value[None, :] - ahead[:, None]
    spread = (first.move * gap**2).sum(axis=1) + over * ahead**2
    # The tilts of a row sum to zero, those of having ended included.
    together = (first.tilt * gap).sum(axis=1) + first.tilt.sum(axis=1) * ahead
    return _whole(
        Episode(
            first.move @ second.move,
            first.ended + first.move @ second.ended,
            first.value + ahead,
            first.variance + first.move @ second.variance + spread + 2 * together,
            first.tilt @ second.move + first.move @ second.tilt + (first.move * gap) @ second.move,
            first.visits + first.move @ second.visits,
        )
    )


def _power(one: T, steps: int, then: Callable[[T, T], T]) -> T:
    result: T | None = None
    while True:
        if steps % 2:
            result = one if result is None else then(result, one)
        steps //= 2
        if not steps:
            assert result is not None
            return result
        one = then(one, one)


def stationary_values(move: Floats, leave: Floats, gain: Floats, steps: int) -> Floats:
    """Return the values ``[P, n]`` of policies ``[P, n, n]`` over `steps` steps; see `affine_power`."""
    move, leave = _scaled(move, leave)
    value = np.zeros_like(gain)
    while steps:
        if steps % 2:
            value = gain + (move @ value[..., None])[..., 0]
        gain = gain + (move @ gain[..., None])[..., 0]
        leave = leave + (move @ leave[..., None])[..., 0]
        move, leave = _scaled(move @ move, leave)
        steps //= 2
    return value
