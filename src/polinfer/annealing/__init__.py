"""Annealing from dynamic programming: the posterior over deterministic policies at every reward scale."""

from polinfer.annealing.config import TemperedConfig
from polinfer.annealing.path import AnnealedPath, AnnealedPoint
from polinfer.annealing.pseudo_marginal import RolloutPosterior, RolloutsConfig, pseudo_marginal
from polinfer.annealing.run import AnnealingRun, anneal

__all__ = [
    "AnnealedPath",
    "AnnealedPoint",
    "AnnealingRun",
    "RolloutPosterior",
    "RolloutsConfig",
    "TemperedConfig",
    "anneal",
    "pseudo_marginal",
]
