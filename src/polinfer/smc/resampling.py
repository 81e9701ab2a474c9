"""Systematic, stratified and multinomial resampling from log weights."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.scipy.special import logsumexp

from polinfer.smc.config import ResamplingScheme, SweepConfig

MANY = 256
"""Particles from which on comparing each with each costs more than searching or sorting."""


def effective_sample_size(log_weight: Array) -> Array:
    """Return ``(sum w)^2 / sum w^2`` of the weights ``[N]``, in particles."""
    return jnp.exp(2 * logsumexp(log_weight) - logsumexp(2 * log_weight))


class Ancestry(NamedTuple):
    """The result of resampling after a step."""

    ess: Array  # [] effective sample size, in particles
    resampled: Array  # [] bool
    ancestor: Array  # [N] int32; the identity where nothing was resampled


def choose_ancestors(uniform: Array, log_weight: Array, last: Array, config: SweepConfig) -> Ancestry:
    """Resample where the effective sample size is too small, but not after the `last` step.

    The weights of the last step are the result of the sweep.
    """
    ess = effective_sample_size(log_weight)
    wanted = (ess < config.resample_below * config.particles) | (config.resample_below >= 1)
    resampled = wanted & ~last
    picked = pick_ancestors(uniform, log_weight, config.resampling)
    ancestor = jnp.where(resampled, picked, jnp.arange(config.particles)).astype(jnp.int32)
    return Ancestry(ess, resampled, ancestor)


def pick_ancestors(uniform: Array, log_weight: Array, scheme: ResamplingScheme) -> Array:
    """Return N ancestors ``[N] int32``, drawn in proportion to the weights.

    Few particles are compared with all sums, which is faster on CPU than a binary search; many are searched.
    """
    count = log_weight.shape[0]
    slots = jnp.arange(count, dtype=uniform.dtype)
    position = {
        "systematic": (slots + uniform[0]) / count,
        "stratified": (slots + uniform) / count,
        "multinomial": uniform,
    }[scheme]
    cumulative = jnp.cumsum(jax.nn.softmax(log_weight))
    if count > MANY:
        return jnp.searchsorted(cumulative[:-1], position * cumulative[-1], side="right").astype(jnp.int32)
    inside = position[:, None] * cumulative[-1] >= cumulative[None, :-1]
    return inside.sum(axis=1).astype(jnp.int32)
