"""The settings of a sweep, in groups from which the configurations of methods are composed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from polinfer.core.errors import PolinferError, check_at_least, check_share

ResamplingScheme = Literal["systematic", "stratified", "multinomial"]
Start = Literal["shared", "averaged", "independent"]


@dataclass(frozen=True, kw_only=True)
class ParticleFields:
    """How many partial policies a sweep carries."""

    particles: int = 10
    """Partial policies that are rolled out together in a sweep."""


@dataclass(frozen=True, kw_only=True)
class ResamplingFields:
    """When and how particles are resampled."""

    resample_below: float = 0.5
    """Resample when the effective sample size falls below this share of the particles; 0 is never
    (importance weighting), 1 is after every step."""
    resampling: ResamplingScheme = "systematic"
    """How resampled particles are picked."""


@dataclass(frozen=True, kw_only=True)
class MemoFields:
    """Whether a particle reuses the action that it has drawn for a state."""

    deterministic: bool = True
    """Reuse the action of a state when it is visited again; off for the paper's ablation."""
    memo_refresh: float = 0.0
    """Stochastic memoisation: the probability of drawing a new action on a revisit."""


@dataclass(frozen=True, kw_only=True)
class WorldFields:
    """The number of worlds in which the return of a policy is averaged."""

    worlds: int = 1
    """Realisations of the dynamics that each particle is rolled through at once; its weight counts their
    mean reward.  1 is the paper's; with many, the target is exp of the expected return."""


@dataclass(frozen=True, kw_only=True)
class DynamicsFields:
    """Which noise particles share."""

    coupled: bool = True
    """Share the realised dynamics among particles; off for the paper's ablation."""
    start: Start = "shared"
    """Where the first state is drawn: one for all particles and worlds (shared), one for each world
    (averaged), or one for each particle (independent: particles with lucky starts get the weight, so the
    target is no posterior of the problem)."""


@dataclass(frozen=True, kw_only=True)
class SweepConfig(ParticleFields, ResamplingFields, MemoFields, WorldFields, DynamicsFields):
    """One SMC pass over policies, Algorithm 1.  The defaults are the paper's where it prints one."""

    def __post_init__(self) -> None:
        for name in ("particles", "worlds"):
            check_at_least(name, getattr(self, name), 1)
        if self.start not in ("shared", "averaged", "independent"):
            raise PolinferError(f"start must be shared, averaged or independent, got {self.start!r}")
        for name in ("resample_below", "memo_refresh"):
            check_share(name, getattr(self, name))
        if self.resampling not in ("systematic", "stratified", "multinomial"):
            raise PolinferError(
                f"resampling must be systematic, stratified or multinomial, got {self.resampling!r}"
            )

    @property
    def refresh(self) -> float:
        """The probability of drawing on a revisit: without determinism, every visit draws."""
        return self.memo_refresh if self.deterministic else 1.0
