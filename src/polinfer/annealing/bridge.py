"""The path from the start to the posterior, and how far a step along it may go.

At `b` the target is ``exp(b scale J) prod_{s reached} q0(pi(s)|s)^(1-b) u(pi(s)|s)^b``: at 0 that is the
start `q0`, at 1 the posterior relative to the reference measure `u`.  A policy's weight is linear in `b`, and
constant over policies where the start is exact.  Its mean under `q0` is the variational bound of the start,
its exponential mean is ``Z``; the estimate of ``log Z`` is that of annealed importance sampling (Neal 2001)
and sequential Monte Carlo samplers (Del Moral, Doucet and Jasra 2006).
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray
from scipy.special import expit

from polinfer.annealing.moves import Target, Walkers, columns_of, pick, total
from polinfer.exact.solution import Floats


def log_bridge(log_start: Array, log_prior: Array, inverse: Array) -> Array:
    """Return the log of ``q0^(1-b) u^b``, ``[N, A]``; it is normalised at both ends only."""
    legal = jnp.isfinite(log_prior)
    both = (1.0 - inverse) * jnp.where(legal, log_start, 0.0) + inverse * jnp.where(legal, log_prior, 0.0)
    return jnp.where(legal, both, -jnp.inf)


def bridge_target(log_start: Array, log_prior: Array, inverse: Array, scale: Array) -> Target:
    """Return the target at `b`."""
    return Target(
        inverse * scale,
        log_bridge(log_start, log_prior, inverse),
        log_start,
        jnp.ones(log_start.shape[0]),
        jnp.ones(()),
        inverse == 1.0,
    )


def log_weights(walkers: Walkers, log_start: Array, log_prior: Array, scale: Array) -> Array:
    """Return the log weight ``[P]`` of each policy under `q0`: the slope of the path in `b`."""
    returns, visits, _ = walkers.evaluation
    legal = jnp.isfinite(log_prior)
    gap = jnp.where(legal, log_prior - jnp.where(legal, log_start, 0.0), 0.0)
    ratio = total(jnp.where(visits > 0, pick(columns_of(gap, gap.dtype), walkers.policy), 0.0))
    return scale * returns + ratio


def longest_step(log_weight: Floats, longest: float, ess: float) -> float:
    """Return the largest step that leaves the islands ``[I, P]``, on average, this share of policies."""

    def enough(step: float) -> bool:
        return bool(effective_share(step * log_weight).mean() >= ess)

    if enough(longest):
        return longest
    low, high = 0.0, longest
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if enough(middle) else (low, middle)
    return max(low, 1e-9 * longest)


def effective_share(log_weight: Floats) -> Floats:
    """Return the effective sample size of each island ``[..., I, P]`` as a share of its policies."""
    weight = np.exp(log_weight - log_weight.max(axis=-1, keepdims=True))
    share = weight.sum(axis=-1) ** 2 / ((weight**2).sum(axis=-1) * weight.shape[-1])
    return np.asarray(share)


def resample(log_weight: Floats, draws: Floats) -> tuple[Floats, NDArray[np.int32]]:
    """Resample each island ``[I, P]`` systematically, by one uniform number ``[I]`` each.

    Returns the log of each island's mean weight, and the policies that go on, islands one after the other.
    """
    count = log_weight.shape[1]
    top = log_weight.max(axis=1, keepdims=True)
    weight = np.exp(log_weight - top)
    place = (np.arange(count) + draws[:, None]) / count
    cumulative = np.cumsum(weight, axis=1)
    picked = [
        np.minimum(np.searchsorted(row / row[-1], at, side="right"), count - 1) + number * count
        for number, (row, at) in enumerate(zip(cumulative, place, strict=True))
    ]
    return np.log(weight.mean(axis=1)) + top[:, 0], np.concatenate(picked).astype(np.int32)


def bennett(below: Floats, above: Floats) -> Floats:
    """Return the log of the ratio of two normalising constants ``[I]``, from samples of both ends.

    `below` and `above` ``[I, P]`` are the log ratios of the upper density to the lower one, of policies drawn
    from the lower and from the upper one.  This is the acceptance ratio of Bennett (1976): policies that only
    one end ever draws count for little, where the mean of inverse weights would rest on them.
    """
    low = np.minimum(below.min(axis=1), above.min(axis=1))
    high = np.maximum(below.max(axis=1), above.max(axis=1))
    while True:
        middle = (low + high) / 2
        if not ((low < middle) & (middle < high)).any():
            return np.asarray(middle)
        shift = middle[:, None]
        rising = expit(below - shift).mean(axis=1) > expit(shift - above).mean(axis=1)
        low, high = np.where(rising, middle, low), np.where(rising, high, middle)
