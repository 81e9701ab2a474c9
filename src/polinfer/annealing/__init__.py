"""Sequential Monte Carlo over whole policies: the posterior at every reward scale."""

from polinfer.annealing.config import TemperedConfig
from polinfer.annealing.estimated import RolloutPosterior, pseudo_marginal, rollout_posterior
from polinfer.annealing.path import TemperedPath, TemperedPoint
from polinfer.annealing.reverse import UpperBound, reverse_evidence
from polinfer.annealing.sampler import pass_cost, temper

__all__ = [
    "RolloutPosterior",
    "TemperedConfig",
    "TemperedPath",
    "TemperedPoint",
    "UpperBound",
    "pass_cost",
    "pseudo_marginal",
    "reverse_evidence",
    "rollout_posterior",
    "temper",
]
