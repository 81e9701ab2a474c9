"""What a tempered run found: the posterior at each reward scale, with standard errors."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polinfer.exact.solution import Floats
from polinfer.problems.tabular.table import TabularMDP


class TemperedPoint(NamedTuple):
    """The posterior at one reward scale; standard errors are over islands."""

    scale: float  # multiple of the problem's own rewards
    log_evidence: float  # log of the mean of exp(scale * J) under the uniform measure
    log_evidence_stderr: float
    expected_return: float  # E[J], in the problem's own rewards
    expected_return_stderr: float
    entropy: float  # of the posterior over policies, nats
    policy: Floats  # [S, A] marginal policy
    policy_stderr: Floats  # [S, A]
    reach_policy: Floats  # [S, A]
    sample: NDArray[np.int32]  # [policies, S] policies drawn from the posterior
    sample_returns: Floats  # [policies] their J

    @property
    def effective_policies(self) -> float:
        """How many equally probable policies would have the same entropy."""
        return float(np.exp(min(self.entropy, 700.0)))


class TemperedPath(NamedTuple):
    """A run: points in ascending order of scale, and the ladder that led through them."""

    table: TabularMDP
    points: tuple[TemperedPoint, ...]
    ladder: Floats  # [k] all scales, from zero
    ladder_log_evidence: Floats  # [k, islands]
    ladder_return: Floats  # [k] E[J] at each
    accepted: float  # share of proposals, at the last scale

    def at(self, scale: float) -> TemperedPoint:
        """Return the point at a scale that was asked for."""
        for point in self.points:
            if np.isclose(point.scale, scale):
                return point
        known = ", ".join(f"{point.scale:g}" for point in self.points)
        raise KeyError(f"scale {scale:g} was not asked for; there are {known}")
