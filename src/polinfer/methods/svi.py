"""Structured variational inference: VSMC with one particle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from polinfer.learning.config import BaselineFields, OptimiserFields, TrainConfig
from polinfer.methods.fitted import FittedConfig, FittedMethod, training_of
from polinfer.smc.config import DynamicsFields, MemoFields, WorldFields


@dataclass(frozen=True, kw_only=True)
class SviConfig(MemoFields, WorldFields, DynamicsFields, OptimiserFields, BaselineFields, FittedConfig):
    """The paper's settings where it prints one; there is nothing to resample."""

    method: ClassVar[str] = "svi"

    def __post_init__(self) -> None:
        self.training()

    def training(self) -> TrainConfig:
        """Return what is trained: the surrogate, with one particle."""
        return training_of(self, objective="surrogate", particles=1)


class Svi(FittedMethod[SviConfig]):
    """The paper's method with one particle."""

    name = "svi"
    summary = "Structured variational inference: the same with one particle."
    Config = SviConfig
