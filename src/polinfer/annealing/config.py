"""The settings of annealing."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from polinfer.core.errors import PolinferError, check_at_least, check_finite, is_number
from polinfer.posterior.config import MethodConfig

Start = Literal["soft", "uniform", "known"]
Split = Literal["auto", "always", "never"]


@dataclass(frozen=True, kw_only=True)
class TemperedConfig(MethodConfig):
    """How a population of policies is annealed."""

    method: ClassVar[str] = "tempered"
    policies: int = 128
    """Policies per island; fewer on problems so large that they would not fit into memory, or that one move
    would take long."""
    islands: int = 8
    """Independent populations; standard errors are taken over them."""
    start: Start = "soft"
    """Anneal from the reach-weighted soft policy; from the uniform one, or from around the best policies that
    optimisation knows: both slower, and independent checks."""
    tolerance: float = 0.005
    """Sample until the expected distance of the marginal policy from its limit is below this."""
    evidence_tolerance: float = 0.05
    """Anneal again until the standard error of log Z is below this."""
    rounds: int = 6
    """The most rounds of annealing; each starts from what the one before it found."""
    moves: int = 8
    """Moves of each policy after a step of the ladder; doubled in rounds that come after imprecise ones."""
    ess: float = 0.7
    """A step goes as far as leaves this share of effective policies."""
    enumerate_up_to: int = 200_000
    """Parts of a problem with at most so many policies are enumerated instead; with 0, parts that have a
    closed form are annealed, too."""
    split: Split = "auto"
    """Anneal the policies that take one of two ways of about the same worth apart from those that take the
    other: where the first rounds missed one of them, wherever ways part, or never."""
    replicas: int = 1
    """Independent runs that are pooled; on several processes or a cluster they run side by side."""
    time_limit: float | None = None
    """Seconds after which the answer is given as it is, with its error (none: as long as it takes)."""

    def __post_init__(self) -> None:
        check_at_least("policies", self.policies, 2)
        check_at_least("islands", self.islands, 2)
        check_at_least("rounds", self.rounds, 1)
        check_at_least("replicas", self.replicas, 1)
        check_at_least("moves", self.moves, 1)
        check_at_least("enumerate_up_to", self.enumerate_up_to, 0)
        for name in ("tolerance", "evidence_tolerance", "ess"):
            if check_finite(name, getattr(self, name)) <= 0:
                raise PolinferError(f"{name} must be above zero, got {getattr(self, name)}")
        if self.ess >= 1:
            raise PolinferError(f"ess must lie between 0 and 1, got {self.ess}")
        if self.start not in get_args(Start):
            raise PolinferError(f"start must be soft, uniform or known, got {self.start!r}")
        if self.split not in get_args(Split):
            raise PolinferError(f"split must be auto, always or never, got {self.split!r}")
        if self.time_limit is not None and not check_finite("time_limit", self.time_limit) > 0:
            raise PolinferError(f"time_limit must be above zero seconds, got {self.time_limit}")


def check_scales(scales: Iterable[float]) -> tuple[float, ...]:
    """Return reward scales in ascending order, each once, or say what is wrong with them."""
    given = tuple(scales)
    if not given:
        raise PolinferError("scales must name at least one reward scale")
    for scale in given:
        if not is_number(scale) or not 0 < scale < math.inf:
            raise PolinferError(f"scales must be numbers above zero, got {scale!r}")
    return tuple(sorted({float(scale) for scale in given}))
