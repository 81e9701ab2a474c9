"""What soft actor-critic aims at, exactly: soft value iteration with the same alpha, gamma and horizon rule.

An episode that the horizon cuts off is bootstrapped from, so the aim knows no horizon: it is the stationary
fixed point.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from polinfer import exact
from polinfer.exact.solution import Floats, Result, Solution
from polinfer.posterior.posterior import Posterior
from polinfer.posterior.trace import SacTrace
from polinfer.problems.tabular.table import TabularMDP


class SoftOracle(NamedTuple):
    """The exact soft policy, and how far from it each seed ended."""

    alpha: float
    gamma: float
    solution: Solution
    expected_return: float  # of the exact policy, over the horizon
    distances: Floats | None  # [seeds], mean total variation over states; None where there is no fixed point


def soft_oracle(posterior: Posterior) -> SoftOracle | None:
    """Compare what ``sac`` learned with its exact aim; None where there is no table."""
    table, probs = posterior.view, posterior.table_probs()
    if posterior.method != "sac" or not isinstance(table, TabularMDP) or probs is None:
        return None
    settings = posterior.settings["sac"]
    alpha, gamma = float(settings["alpha"]), float(settings["gamma"])
    if settings["autotune"]:
        assert isinstance(posterior.trace, SacTrace)
        alpha = float(posterior.trace.alpha[-1].mean())
    solution, expected_return = _solve(table, alpha, gamma)
    distances = None
    if solution.result is not Result.NOT_CONVERGED:
        acting = ~table.absorbing
        distances = 0.5 * np.abs(probs - solution.policy)[:, acting].sum(axis=-1).mean(axis=-1)
    return SoftOracle(alpha, gamma, solution, expected_return, distances)


@lru_cache(maxsize=32)
def _solve(table: TabularMDP, alpha: float, gamma: float) -> tuple[Solution, float]:
    solution = exact.soft_stationary(table, alpha, gamma)
    return solution, exact.evaluate_policy(table, solution.policy).expected_return
