"""The settings of tempered sampling."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Literal

from polinfer.core.errors import PolinferError, check_at_least, check_share, is_number
from polinfer.posterior.config import MethodConfig

Moves = Literal["auto", "gibbs", "block"]


@dataclass(frozen=True, kw_only=True)
class TemperedConfig(MethodConfig):
    """How a population of policies is annealed."""

    method: ClassVar[str] = "tempered"

    policies: int = 250
    """Policies per island."""
    islands: int = 8
    """Independent populations; standard errors are taken over them."""
    ess: float = 0.9
    """The next scale is the one at which the effective sample size falls to this share."""
    scans: int = 2
    """Passes of rejuvenation after each step; one pass moves every state once, on average."""
    final_scans: int = 8
    """Passes at a reward scale that is reported; answers are averaged over them."""
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


def check_scales(scales: Iterable[float]) -> tuple[float, ...]:
    """Return reward scales in ascending order, each once, or say what is wrong with them."""
    given = tuple(scales)
    if not given:
        raise PolinferError("scales must name at least one reward scale")
    for scale in given:
        if not is_number(scale) or not 0 < scale < math.inf:
            raise PolinferError(f"scales must be numbers above zero, got {scale!r}")
    return tuple(sorted({float(scale) for scale in given}))
