"""Verdicts, and the distance between policies by which they are given."""

from __future__ import annotations

import enum
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polinfer import exact
from polinfer.analysis.table_error import TableUncertainty
from polinfer.exact.solution import Floats
from polinfer.posterior.posterior import Posterior
from polinfer.problems.tabular.table import TabularMDP

Effort = Literal["default", "thorough"]

TRUSTED, DOUBTED = 0.03, 0.1
"""Distances up to which an answer is trusted, and from which on it is not."""


class Verdict(enum.Enum):
    """How far an answer can be relied upon."""

    TRUST = "trust"
    CARE = "use with care"
    DISTRUST = "do not trust"

    def __str__(self) -> str:
        return self.value


class Judgement(NamedTuple):
    """A verdict with what decided it."""

    verdict: Verdict
    reason: str
    remedy: str = ""
    known_from: str | None = None
    distance: float | None = None
    error: TableUncertainty | None = None  # what the draws of an estimated table leave open


def distance_to(posterior: Posterior, policy: Floats) -> float:
    """Return the total variation to `policy` ``[S, A]``, mean over seeds, weighted by its occupancy."""
    table, probs = posterior.view, posterior.table_probs()
    assert isinstance(table, TabularMDP)
    assert probs is not None
    return mean_distance(table, policy, probs)


def occupancy_of(posterior: Posterior) -> Floats:
    """Return the expected number of steps ``[S]`` of the marginal policy, zero in terminal states."""
    table = posterior.view
    assert isinstance(table, TabularMDP)
    return np.where(table.absorbing, 0.0, exact.evaluate_policy(table, policy_of(posterior)).occupancy)


def mean_distance(table: TabularMDP, policy: Floats, probs: NDArray[np.floating]) -> float:
    """Return the total variation from `policy` ``[S, A]`` to `probs` ``[seeds, S, A]``, by its occupancy."""
    occupancy = exact.evaluate_policy(table, policy / policy.sum(axis=1, keepdims=True)).occupancy
    weight = np.where(table.absorbing, 0.0, occupancy)
    per_state = 0.5 * np.abs(probs - policy).sum(axis=-1).mean(axis=0)
    return float(per_state @ weight / max(weight.sum(), 1e-300))


def policy_of(posterior: Posterior) -> Floats:
    """Return the marginal policy ``[S, A]`` of a posterior on a table, mean over seeds."""
    probs = posterior.table_probs()
    assert probs is not None
    policy = probs.astype(np.float64).mean(axis=0)
    return np.asarray(policy / policy.sum(axis=1, keepdims=True))
