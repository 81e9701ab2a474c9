"""Sequential Monte Carlo over whole policies: the posterior at every reward scale."""

from polinfer.tempered.config import TemperedConfig
from polinfer.tempered.estimated import RolloutPosterior, pseudo_marginal, rollout_posterior
from polinfer.tempered.path import TemperedPath, TemperedPoint
from polinfer.tempered.reverse import UpperBound, reverse_evidence
from polinfer.tempered.sampler import pass_cost, temper

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
