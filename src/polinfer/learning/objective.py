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

from polinfer.smc.record import Sweep

Baseline = Literal["none", "running", "leave-one-out"]
Objective = Literal["surrogate", "wake"]


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
    """Return the coefficients of the paper's surrogate, Eq. det-surrogate-objective-stratified.

    They have the shape of the record's `drawn`: ``[T, N]``, or ``[T, N, M]`` with several worlds.  The score
    term pairs an action drawn at step t with ``log Z-hat_t``; the derivative of ``log Z-hat``
    itself through the weight's ``-log q`` is minus the particle's share of its segment.  A
    `baseline` ``[T]`` that does not depend on the sweep's own actions leaves the expectation as it is.
    """
    signal = evidence_to_go(sweep) - baseline
    return _where_drawn(sweep, signal[:, None] - segment_weights(sweep))


def wake_coefficients(sweep: Sweep) -> Array:
    """Return the coefficients of the wake objective: fit the proposal to the weighted particles' own choices.

    Each drawn action counts by the final weights of the particles that descend from it, so the objective is
    ``sum_i W_i sum_s log q(pi_i(s) | s)``, the sum being over the states that particle `i` has a memo of.
    It is the wake step of reweighted wake-sleep (Bornschein and Bengio 2015): inclusive KL, and no score
    function.
    """
    last = jax.nn.softmax(sweep.log_weight[-1])
    count = last.shape[0]

    def back(weight: Array, ancestor: Array) -> tuple[Array, Array]:
        # Compare and sum: a scatter would be a loop.
        parent = jnp.where(ancestor[None, :] == jnp.arange(count)[:, None], weight[None, :], 0.0).sum(axis=1)
        return parent, parent

    _, before = jax.lax.scan(back, last, sweep.ancestor[:-1], reverse=True)
    return _where_drawn(sweep, jnp.concatenate([before, last[None]]))


def _where_drawn(sweep: Sweep, of_particle: Array) -> Array:
    """Give every drawn action the number ``[T, N]`` of its particle; zero elsewhere."""
    worlds = sweep.drawn.ndim - of_particle.ndim
    return jnp.where(sweep.drawn, of_particle.reshape(*of_particle.shape, *[1] * worlds), 0.0)


def leave_one_out(to_go: Array) -> Array:
    """Return for each of U sweeps the mean ``log Z-hat_t`` of the others, ``[U, T]``."""
    others = to_go.shape[0] - 1
    return (to_go.sum(axis=0) - to_go) / others
