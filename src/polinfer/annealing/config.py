"""The settings of tempered sampling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from polinfer.core.errors import PolinferError, check_at_least, check_share

Moves = Literal["auto", "gibbs", "block"]


@dataclass(frozen=True)
class TemperedConfig:
    """How a population of policies is annealed."""

    policies: int = 250
    """Policies per island."""
    islands: int = 8
    """Independent populations; standard errors are taken over them."""
    scales: tuple[float, ...] = (1.0,)
    """Reward scales to report, as multiples of the problem's own; the largest is where annealing ends."""
    ess: float = 0.9
    """The next scale is the one at which the effective sample size falls to this share."""
    scans: int = 2
    """Passes of rejuvenation after each step; one pass moves every state once, on average."""
    final_scans: int = 8
    """Passes at a scale that is reported; answers are averaged over them."""
    moves: Moves = "auto"
    """Rejuvenation: draw one state's action from its conditional (gibbs), or propose new actions in a random
    set of states (block); 'auto' takes gibbs where it is cheap."""
    rollouts: int | None = None
    """Judge each policy by the mean return of so many episodes, as where no table is there to compute it
    from; the target is then exp(J) only as they grow (see `polinfer.annealing.pseudo_marginal`)."""

    def __post_init__(self) -> None:
        check_at_least("policies", self.policies, 2)
        check_at_least("islands", self.islands, 2)
        for name in ("scans", "final_scans"):
            check_at_least(name, getattr(self, name), 1)
        check_share("ess", self.ess)
        if not 0 < self.ess < 1:
            raise PolinferError(f"ess must lie between 0 and 1, got {self.ess}")
        if self.moves not in ("auto", "gibbs", "block"):
            raise PolinferError(f"moves must be auto, gibbs or block, got {self.moves!r}")
        if self.rollouts is not None:
            check_at_least("rollouts", self.rollouts, 1)
            if self.moves == "gibbs":
                raise PolinferError(
                    "policies that are judged by rollouts move in blocks; leave out moves='gibbs'"
                )
        scales = tuple(float(scale) for scale in self.scales)
        if not scales or not all(np.isfinite(scale) and scale > 0 for scale in scales):
            raise PolinferError(f"scales must be numbers above zero, got {self.scales}")
        object.__setattr__(self, "scales", tuple(sorted(set(scales))))
