"""The settings of training, in groups: a method's configuration is put together from those that it has."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from polinfer.core.errors import PolinferError, check_at_least, check_share
from polinfer.learning.objective import Baseline, Objective
from polinfer.smc.config import SweepConfig
from polinfer.smc.proposal import ProposalKind
from polinfer.smc.weights import Weights


@dataclass(frozen=True, kw_only=True)
class OptimiserFields:
    """How the proposal is represented and optimised."""

    sweeps: int = 50_000
    """SMC sweeps per seed."""
    sweeps_per_update: int = 1
    """Sweeps whose gradients are averaged into one update."""
    learning_rate: float = 3e-4
    """Initial rate of Adam; the paper uses 1e-5 to 3e-4, by domain."""
    final_rate_share: float = 0.1
    """The cosine decay ends at this share of the initial rate."""
    proposal: ProposalKind = "network"
    """A network on the encoded state, or a table of logits."""
    width: int = 64
    """Units per hidden layer of the network."""
    depth: int = 2
    """Hidden layers of the network."""


@dataclass(frozen=True, kw_only=True)
class BaselineFields:
    """The control variate of the surrogate's score term."""

    baseline: Baseline = "none"
    """Control variate of the score term; 'none' as the paper."""


@dataclass(frozen=True, kw_only=True)
class TrainConfig(OptimiserFields, BaselineFields):
    """How a proposal is fitted.  The defaults are the paper's where it prints one."""

    sweep: SweepConfig = field(default_factory=SweepConfig)
    objective: Objective = "surrogate"  # the paper's, or the fit to the weighted particles (wake)
    surrogate_share: float = 0.0  # of the paper's surrogate in what wake ascends
    weights: Weights = "worlds"  # what wake weighs a policy by: its worlds' return, or its exact J

    def __post_init__(self) -> None:
        for name in ("sweeps", "sweeps_per_update", "width"):
            check_at_least(name, getattr(self, name), 1)
        check_at_least("depth", self.depth, 0)
        if not (np.isfinite(self.learning_rate) and self.learning_rate > 0):
            raise PolinferError(f"learning_rate must be above zero, got {self.learning_rate}")
        check_share("final_rate_share", self.final_rate_share)
        if self.baseline not in ("none", "running", "leave-one-out"):
            raise PolinferError(f"baseline must be none, running or leave-one-out, got {self.baseline!r}")
        if self.objective not in ("surrogate", "wake"):
            raise PolinferError(f"objective must be surrogate or wake, got {self.objective!r}")
        if self.weights not in ("worlds", "exact"):
            raise PolinferError(f"weights must be worlds or exact, got {self.weights!r}")
        if self.weights == "exact" and self.objective != "wake":
            raise PolinferError(
                "weights 'exact' belong to method wake; the surrogate has those of its worlds"
            )
        check_share("surrogate_share", self.surrogate_share)
        if self.surrogate_share > 0 and self.objective != "wake":
            raise PolinferError("surrogate_share belongs to method wake; the surrogate is all of it already")
        if self.surrogate_share > 0 and self.weights == "exact":
            raise PolinferError("surrogate_share has no part in weights 'exact'; leave one of them out")
        if self.objective == "wake" and self.surrogate_share == 0 and self.baseline != "none":
            raise PolinferError(
                "objective 'wake' has no score term; leave out the baseline, or give a surrogate_share"
            )
        if self.objective == "wake" and self.sweep.refresh > 0:
            raise PolinferError(
                "objective 'wake' fits deterministic policies; leave out memo_refresh and deterministic"
            )
        if self.baseline == "leave-one-out" and self.sweeps_per_update < 2:
            raise PolinferError("baseline 'leave-one-out' needs sweeps_per_update of at least 2")
        if self.proposal not in ("network", "table"):
            raise PolinferError(f"proposal must be network or table, got {self.proposal!r}")

    @property
    def updates(self) -> int:
        """Gradient steps per seed."""
        return -(-self.sweeps // self.sweeps_per_update)
