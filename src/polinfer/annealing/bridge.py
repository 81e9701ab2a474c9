"""The path from the start to the posterior, and how far a step along it may go.

At `b` the target is ``exp(b scale J)`` under the prior ``g_b(a|s) ∝ q0(a|s)^(1-b) u(a|s)^b``, normalised in
each state: at 0 that is the start `q0`, at 1 the posterior relative to the uniform measure `u`.  As ``g_b``
is normalised, only states that a policy reaches enter its weight, and the estimate of ``log Z`` is that of
annealed importance sampling (Neal 2001) and sequential Monte Carlo samplers (Del Moral, Doucet and Jasra
2006).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from polinfer.annealing.moves import Target, Walkers, columns_of, pick, total
from polinfer.exact.solution import Floats

CANDIDATES = 16


def log_bridge(log_start: Array, log_even: Array, inverse: Array) -> tuple[Array, Array]:
    """Return the prior at `b` ``[N, A]``, and the log of what it was normalised by ``[N]``."""
    legal = jnp.isfinite(log_even)
    both = (1.0 - inverse) * jnp.where(legal, log_start, 0.0) + inverse * jnp.where(legal, log_even, 0.0)
    logit = jnp.where(legal, both, -jnp.inf)
    norm = jax.nn.logsumexp(logit, axis=1)
    return logit - norm[:, None], norm


def bridge_target(log_start: Array, log_even: Array, inverse: Array, scale: Array) -> Target:
    """Return the target at `b`."""
    prior = log_bridge(log_start, log_even, inverse)[0]
    return Target(inverse * scale, prior, log_start, jnp.ones(prior.shape[0]))


def increments(
    walkers: Walkers, log_start: Array, log_even: Array, scale: Array, now: Array, candidates: Array
) -> Array:
    """Return the log weights ``[K, P]`` of going from `now` to each of the candidates ``[K]``."""
    returns, visits, _ = walkers.evaluation
    come = visits > 0
    legal = jnp.isfinite(log_even)
    gap = jnp.where(legal, log_even - jnp.where(legal, log_start, 0.0), 0.0)
    ratio = total(jnp.where(come, pick(columns_of(gap, gap.dtype), walkers.policy), 0.0))  # [P]
    norm = jax.vmap(lambda b: log_bridge(log_start, log_even, b)[1])(candidates)  # [K, N]
    norm = norm - log_bridge(log_start, log_even, now)[1]
    return (candidates - now)[:, None] * (scale * returns + ratio) - norm @ come.astype(norm.dtype)


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
