"""Wake: fit the proposal to the weighted policies of sweeps (the wake step of reweighted wake-sleep)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from polinfer.annealing.soft import soft_start
from polinfer.core.errors import PolinferError
from polinfer.core.protocol import MDP
from polinfer.exact.solution import Floats
from polinfer.learning.config import BaselineFields, OptimiserFields, TrainConfig
from polinfer.methods.base import need_table
from polinfer.methods.fitted import FittedConfig, FittedMethod, training_of
from polinfer.problems.registry import Problem
from polinfer.problems.tables import table_of
from polinfer.smc.config import DynamicsFields, ResamplingScheme
from polinfer.smc.weights import NEEDS_TABLE


@dataclass(frozen=True, kw_only=True)
class WakeConfig(DynamicsFields, OptimiserFields, BaselineFields, FittedConfig):
    """Few sweeps with many particles, weighed exactly where there is a table."""

    method: ClassVar[str] = "wake"
    weights: Literal["auto", "worlds", "exact"] = "auto"
    """What a policy is weighed by at the end of a sweep: its exact J, which needs a table, or its return in
    the sweep's worlds; 'auto' is exact on tables unless worlds or a surrogate share are given."""
    particles: int | None = None
    """Partial policies that are rolled out together in a sweep (200 with exact weights, 100 with worlds)."""
    worlds: int | None = None
    """Realisations of the dynamics that each particle is rolled through at once (1 with exact weights, 50
    with worlds)."""
    resample_below: float | None = None
    """Resample when the effective sample size falls below this share of the particles (never with exact
    weights: resampling loses policies that are paid late; 0.5 with worlds)."""
    resampling: ResamplingScheme = "systematic"
    """How resampled particles are picked."""
    initial: Literal["auto", "uniform", "soft"] = "auto"
    """The proposal that training starts from: the prior (uniform), or on tables the reach-weighted soft one,
    which sees rewards that come late; 'auto' is soft with exact weights."""
    surrogate_share: float = 0.0
    """Share of the paper's surrogate in what is ascended, for a higher log Z-hat from few particles; what is
    learned is then not the posterior."""
    sweeps: int = 1_000
    """SMC sweeps per seed."""
    learning_rate: float = 5e-3
    """Initial rate of Adam."""
    final_rate_share: float = 0.02
    """The cosine decay ends at this share of the initial rate."""

    def __post_init__(self) -> None:
        if self.weights not in ("auto", "worlds", "exact"):
            raise PolinferError(f"weights must be auto, worlds or exact, got {self.weights!r}")
        if self.initial not in ("auto", "uniform", "soft"):
            raise PolinferError(f"initial must be auto, uniform or soft, got {self.initial!r}")
        self.training()

    def filled(self, on_table: bool) -> WakeConfig:
        """Return the configuration with what 'auto' and None stand for."""
        weights = self.weights
        if weights == "auto":
            by_worlds = self.worlds is not None or self.surrogate_share or not on_table
            weights = "worlds" if by_worlds else "exact"
        particles, worlds, below = (200, 1, 0.0) if weights == "exact" else (100, 50, 0.5)
        values: dict[str, Any] = {
            "weights": weights,
            "particles": particles if self.particles is None else self.particles,
            "worlds": worlds if self.worlds is None else self.worlds,
            "resample_below": below if self.resample_below is None else self.resample_below,
        }
        if self.initial == "auto":
            values["initial"] = "soft" if weights == "exact" else "uniform"
        if all(getattr(self, name) == value for name, value in values.items()):
            return self
        return replace(self, **values)

    def training(self) -> TrainConfig:
        """Return what is trained: the fit to the weighted policies."""
        return training_of(self.filled(on_table=False), objective="wake")


class Wake(FittedMethod[WakeConfig]):
    """Our objective: the inclusive divergence to the posterior."""

    name = "wake"
    summary = "Fit a proposal to the weighted policies of sweeps: near the posterior, on any simulator."
    Config = WakeConfig

    def complete(self, problem: Problem, config: WakeConfig) -> WakeConfig:
        """Weigh policies exactly where the problem has a table."""
        return config.filled(on_table=isinstance(problem, MDP) and table_of(problem) is not None)

    def check(self, problem: Problem, config: WakeConfig, *, seed: int, seeds: int) -> None:
        """Refuse a soft start without a table."""
        super().check(problem, config, seed=seed, seeds=seeds)
        if config.initial == "soft" and not (isinstance(problem, MDP) and table_of(problem) is not None):
            soft = "initial 'soft' needs a problem that fits a table; leave it out"
            raise PolinferError(NEEDS_TABLE if config.weights == "exact" else soft)

    def start(self, problem: Problem, config: WakeConfig) -> Floats | None:
        """Return the soft start where it was asked for, else the prior where there is one on a table."""
        if config.initial == "soft":
            return soft_start(need_table(problem))
        table = table_of(problem) if isinstance(problem, MDP) else None
        return table.prior if table is not None and table.has_prior else None
