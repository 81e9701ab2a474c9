"""Sequential Monte Carlo over whole policies: the posterior at every reward scale."""

from polinfer.tempered.config import TemperedConfig
from polinfer.tempered.path import TemperedPath, TemperedPoint
from polinfer.tempered.sampler import temper

__all__ = ["TemperedConfig", "TemperedPath", "TemperedPoint", "temper"]
