"""The record of a sweep, which both engines produce and every objective reads."""

from __future__ import annotations

from typing import Any, NamedTuple


class Sweep(NamedTuple):
    """The record of one sweep.  T steps, N particles; a step's fields are those *before* its resampling.

    Particle i of step t+1 continues particle ``ancestor[t, i]`` of step t.
    """

    state: Any  # [T, N, ...] the state of the particle
    action: Any  # [T, N] int32, the action it takes
    drawn: Any  # [T, N] bool, the action was drawn from the proposal: a first visit (or a refresh)
    active: Any  # [T, N] bool, the episode had not ended before the step
    log_prior: Any  # [T, N] float, -log of the number of legal actions where drawn, else 0
    log_proposal: Any  # [T, N] float, log q(action | state) where drawn, else 0
    reward: Any  # [T, N] float
    log_weight: Any  # [T, N] float, accumulated since the last resampling
    ess: Any  # [T] float, effective sample size, in particles
    resampled: Any  # [T] bool, after this step
    ancestor: Any  # [T, N] int32; the identity where nothing was resampled
    log_mean: Any  # [T] float, contribution of the step to log Z-hat
    ended: Any  # [N] bool, the episode ended within the horizon

    @property
    def log_evidence(self) -> Any:
        """``log Z-hat``, the sum of the steps' contributions."""
        return self.log_mean.sum(axis=-1)
