"""Importance-weighted variational inference: VSMC without resampling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from polinfer.learning.config import BaselineFields, OptimiserFields, TrainConfig
from polinfer.methods.fitted import FittedConfig, FittedMethod, training_of
from polinfer.smc.config import DynamicsFields, MemoFields, ParticleFields, WorldFields


@dataclass(frozen=True, kw_only=True)
class IwaeConfig(
    ParticleFields, MemoFields, WorldFields, DynamicsFields, OptimiserFields, BaselineFields, FittedConfig
):
    """The paper's settings where it prints one."""

    method: ClassVar[str] = "iwae"

    def __post_init__(self) -> None:
        self.training()

    def training(self) -> TrainConfig:
        """Return what is trained: the surrogate, never resampled."""
        return training_of(self, objective="surrogate", resample_below=0.0)


class Iwae(FittedMethod[IwaeConfig]):
    """The paper's method without resampling."""

    name = "iwae"
    summary = "Importance weighting: the same without resampling."
    Config = IwaeConfig
