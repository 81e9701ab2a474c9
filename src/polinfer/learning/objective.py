"""Objectives turn the record of a sweep into one coefficient per drawn action.

The gradient of every objective here is a weighted sum of scores: ascending
``sum coefficient * log q(action | state)`` with the coefficients held fixed.  Nothing differentiates through
a sweep.
"""

from __future__ import annotations

from typing import Literal

import jax
import jax.numpy as jnp
from jax import Array

from polinfer.sweep.record import Sweep

Baseline = Literal["none", "running", "leave-one-out"]


def evidence_to_go(sweep: Sweep) -> Array:
    """Return ``log Z-hat_t`` ``[T]``: the contribution of steps t..H to ``log Z-hat``."""
    return jnp.cumsum(sweep.log_mean[::-1])[::-1]


def segment_weights(sweep: Sweep) -> Array:
    """Return each particle's normalised weight at the end of its resampling segment, ``[T, N]``."""
    horizon = sweep.log_weight.shape[0]
    step = jnp.arange(horizon)
    # The last step ends a segment whether or not it resamples.
    last = jnp.where(sweep.resampled | (step == horizon - 1), step, horizon)
    end = jax.lax.cummin(last, reverse=True)
    return jax.nn.softmax(sweep.log_weight, axis=-1)[end]


def vsmc_coefficients(sweep: Sweep, baseline: Array | float = 0.0) -> Array:
    """Return the coefficients ``[T, N]`` of the paper's surrogate, Eq. det-surrogate-objective-stratified.

    The score term pairs an action drawn at step t with ``log Z-hat_t``; the derivative of ``log Z-hat``
    itself through the weight's ``-log q`` is minus the particle's share of its segment.  A
    `baseline` ``[T]`` that does not depend on the sweep's own actions leaves the expectation as it is.
    """
    signal = evidence_to_go(sweep) - baseline
    return jnp.where(sweep.drawn, signal[:, None] - segment_weights(sweep), 0.0)


def leave_one_out(to_go: Array) -> Array:
    """Return for each of U sweeps the mean ``log Z-hat_t`` of the others, ``[U, T]``."""
    others = to_go.shape[0] - 1
    return (to_go.sum(axis=0) - to_go) / others
