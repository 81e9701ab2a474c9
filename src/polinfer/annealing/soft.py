"""The soft start as a policy of a table, for methods that draw from a proposal."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from polinfer.annealing import starts
from polinfer.annealing.config import TemperedConfig
from polinfer.annealing.ensemble import Ensemble
from polinfer.annealing.problem import arrange, reduce_table
from polinfer.exact.solution import Floats
from polinfer.problems.tabular.table import TabularMDP


@lru_cache(maxsize=16)
def soft_start(table: TabularMDP, seed: int = 0) -> Floats:
    """Return the reach-weighted soft policy ``[S, A]`` with a share of the reference measure.

    Examples
    --------
    >>> import polinfer
    >>> table = polinfer.tabulate(polinfer.make("continuation", rho=0.5))
    >>> soft_start(table)[0].round(2).tolist()
    [0.28, 0.72]
    """
    rows = np.array(table.prior)
    problem = reduce_table(table)
    if not (problem.legal.sum(axis=1) > 1).any():
        return rows
    problem = arrange(problem)
    start = starts.soft_start(Ensemble(problem, TemperedConfig(policies=32)), seed)
    rows[problem.state[problem.occupied]] = start[problem.occupied]
    return rows
