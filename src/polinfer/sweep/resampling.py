"""Which particles go on: systematic, stratified and multinomial resampling from log weights."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array
from jax.scipy.special import logsumexp

from polinfer.sweep.config import Resampling


def effective_sample_size(log_weight: Array) -> Array:
    """Return ``(sum w)^2 / sum w^2`` of the weights ``[N]``, in particles."""
    return jnp.exp(2 * logsumexp(log_weight) - logsumexp(2 * log_weight))


def pick_ancestors(uniform: Array, log_weight: Array, scheme: Resampling) -> Array:
    """Return N ancestors ``[N] int32``, each particle on average in proportion to its weight.

    Compare and sum: at these sizes it is faster on CPU than a binary search.
    """
    count = log_weight.shape[0]
    slots = jnp.arange(count, dtype=uniform.dtype)
    position = {
        "systematic": (slots + uniform[0]) / count,
        "stratified": (slots + uniform) / count,
        "multinomial": uniform,
    }[scheme]
    cumulative = jnp.cumsum(jax.nn.softmax(log_weight))
    inside = position[:, None] * cumulative[-1] >= cumulative[None, :-1]
    return inside.sum(axis=1).astype(jnp.int32)
