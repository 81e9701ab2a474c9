"""What annealing found: the posterior at each reward scale, with standard errors and a bound."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polinfer.exact.solution import Floats
from polinfer.problems.tabular.table import TabularMDP


class AnnealedPoint(NamedTuple):
    """The posterior at one reward scale; standard errors are over islands, and zero where it is exact."""

    scale: float  # multiple of the problem's own rewards
    log_evidence: float  # log of the mean of exp(scale * J) under the reference measure
    log_evidence_stderr: float
    expected_return: float  # E[J], in the problem's own rewards
    expected_return_stderr: float
    entropy: float  # of the posterior over policies, nats
    policy: Floats  # [S, A] marginal policy
    policy_stderr: Floats  # [S, A]
    reach_policy: Floats  # [S, A]
    sample: NDArray[np.int32]  # [policies, S] policies drawn from the posterior
    sample_returns: Floats  # [policies] their J
    lower_bound: float  # of log_evidence: the mass of all reach classes that were found
    best: NDArray[np.int32]  # [S] the best policy found
    best_return: float  # its J
    round_log_evidence: tuple[Floats, ...]  # [rounds, islands] for each part that was annealed
    distance: float  # expected distance of the marginal policy from its limit, weighted by occupancy
    exact: bool  # everything was enumerated
    reverse_log_evidence: float = np.nan  # as annealing back finds it; nan where that was not done
    reverse_log_evidence_stderr: float = 0.0

    @property
    def effective_policies(self) -> float:
        """How many equally probable policies would have the same entropy."""
        return float(np.exp(min(self.entropy, 700.0)))


class AnnealedPath(NamedTuple):
    """A run: points in ascending order of scale."""

    table: TabularMDP
    points: tuple[AnnealedPoint, ...]
    parts: int  # independent parts of the problem
    annealed: int  # how many of them were not enumerated

    def at(self, scale: float) -> AnnealedPoint:
        """Return the point at a scale that was asked for."""
        for point in self.points:
            if np.isclose(point.scale, scale):
                return point
        known = ", ".join(f"{point.scale:g}" for point in self.points)
        raise KeyError(f"scale {scale:g} was not asked for; there are {known}")
