"""What soft actor-critic aims at, exactly: soft value iteration with the same alpha, gamma and ends.

A later reward counts the problem's discount times the method's `gamma`; a prior is held to by its divergence.

An episode that the horizon cuts off is bootstrapped from, so the aim knows no horizon: it is the stationary
fixed point.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from polinfer import exact
from polinfer.actor_critic.config import SacConfig
from polinfer.core.absorbing import Absorbing
from polinfer.exact.solution import Result, Solution
from polinfer.posterior.oracle import Oracle
from polinfer.posterior.posterior import Posterior
from polinfer.problems.tabular.table import TabularMDP


def soft_oracle(posterior: Posterior) -> Oracle | None:
    """Compare what ``sac`` learned with what it tends to; None where there is no table."""
    table, probs, config = posterior.view, posterior.table_probs(), posterior.config
    if not isinstance(config, SacConfig) or not isinstance(table, TabularMDP) or probs is None:
        return None
    alpha, gamma = float(config.alpha), float(config.gamma)
    if config.autotune:
        alpha = float(posterior.trace["alpha"][-1].mean())
    solution, expected_return = _solve(table, alpha, gamma, config.absorbing)
    distances = None
    if solution.result is not Result.NOT_CONVERGED:
        acting = ~table.absorbing
        distances = 0.5 * np.abs(probs - solution.policy)[:, acting].sum(axis=-1).mean(axis=-1)
    times = f", discount={table.discount:g}" if table.discount < 1 else ""
    reading = "" if config.absorbing == "end" else f", absorbing={config.absorbing}"
    name = f"soft, no horizon (alpha={alpha:g}, gamma={gamma:g}{times}{reading})"
    return Oracle(name, {"alpha": alpha, "gamma": gamma}, solution, expected_return, distances)


@lru_cache(maxsize=32)
def _solve(table: TabularMDP, alpha: float, gamma: float, absorbing: Absorbing) -> tuple[Solution, float]:
    solution = exact.soft_stationary(table, alpha, gamma * table.discount, absorbing=absorbing)
    return solution, exact.evaluate_policy(table, solution.policy).expected_return
