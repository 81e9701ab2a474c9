"""Tables by exploration: from a simulator that only draws to a table with estimated probabilities."""

from polinfer.problems.tabular.exploration.options import (
    OPTIONS,
    Exploration,
    NotMarkovError,
    exploration_of,
    with_exploration,
)
from polinfer.problems.tabular.exploration.problem import explore_problem

__all__ = [
    "OPTIONS",
    "Exploration",
    "NotMarkovError",
    "exploration_of",
    "explore_problem",
    "with_exploration",
]
