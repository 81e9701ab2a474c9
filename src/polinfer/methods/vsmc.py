"""Variational sequential Monte Carlo over policies: the paper's method, to the letter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from polinfer.learning.config import BaselineFields, OptimiserFields, TrainConfig
from polinfer.methods.fitted import FittedConfig, FittedMethod, training_of
from polinfer.smc.config import DynamicsFields, MemoFields, ParticleFields, ResamplingFields, WorldFields


@dataclass(frozen=True, kw_only=True)
class VsmcConfig(
    ParticleFields,
    ResamplingFields,
    MemoFields,
    WorldFields,
    DynamicsFields,
    OptimiserFields,
    BaselineFields,
    FittedConfig,
):
    """The paper's settings where it prints one."""

    method: ClassVar[str] = "vsmc"

    def __post_init__(self) -> None:
        self.training()

    def training(self) -> TrainConfig:
        """Return what is trained: the surrogate."""
        return training_of(self, objective="surrogate")


class Vsmc(FittedMethod[VsmcConfig]):
    """The paper's method."""

    name = "vsmc"
    summary = "Variational sequential Monte Carlo over policies: the paper's method."
    Config = VsmcConfig
