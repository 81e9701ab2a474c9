"""The settings of discrete soft actor-critic, and the two presets that they come from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from polinfer.core.errors import PolinferError, check_at_least, check_share, suggest

Preset = Literal["a", "b"]
_MOST = 1_000_000_000  # steps are counted in 32 bits


@dataclass(frozen=True)
class SacConfig:
    """How soft actor-critic learns.  The defaults are preset b, CleanRL's for continuous actions.

    `alpha` and `gamma` belong beside every number that comes of it: they are part of what it maximises.
    """

    alpha: float = 1.0
    """Weight of the policy's entropy; where it is tuned, the weight to start from."""
    autotune: bool = False
    """Tune alpha so that the policy keeps 89% of the entropy of the uniform one."""
    gamma: float = 0.99
    """Discount.  With gamma 1 an agent that is paid for entropy may gain from never ending."""
    steps: int = 1_000_000
    """Steps in the environment, per seed."""
    buffer: int = 1_000_000
    """Transitions that are kept for replay."""
    learning_starts: int = 5_000
    """Steps with uniformly drawn actions before the first update."""
    batch: int = 256
    """Transitions per update."""
    steps_per_update: int = 1
    """Steps in the environment between updates."""
    critic_rate: float = 1e-3
    """Learning rate of the critics (Adam)."""
    actor_rate: float = 3e-4
    """Learning rate of the actor (Adam)."""
    adam_epsilon: float = 1e-8
    """Added to Adam's denominator."""
    target_every: int = 1
    """Steps in the environment between moves of the target critics."""
    tau: float = 0.005
    """Share of the way that the target critics move: 1 is a copy."""
    width: int = 64
    """Units per hidden layer."""
    depth: int = 2
    """Hidden layers."""

    def __post_init__(self) -> None:
        for name in ("alpha", "critic_rate", "actor_rate", "adam_epsilon", "tau"):
            value = getattr(self, name)
            if not (isinstance(value, int | float) and np.isfinite(value) and value > 0):
                raise PolinferError(f"{name} must be above zero, got {value}")
        for name in ("gamma", "tau"):
            check_share(name, getattr(self, name))
        for name in ("steps", "buffer", "batch", "steps_per_update", "target_every", "width"):
            check_at_least(name, getattr(self, name), 1)
        for name in ("steps", "target_every"):
            if getattr(self, name) > _MOST:
                raise PolinferError(f"{name} must be at most {_MOST:,}, got {getattr(self, name):,}")
        for name in ("learning_starts", "depth"):
            check_at_least(name, getattr(self, name), 0)
        # Learning begins with an update, so after a whole number of strides.
        if -(-self.learning_starts // self.steps_per_update) * self.steps_per_update >= self.steps:
            raise PolinferError(
                f"learning_starts {self.learning_starts:,} leaves nothing of {self.steps:,} steps to learn "
                "in; make it smaller or steps larger"
            )


PRESETS: dict[str, dict[str, Any]] = {
    # CleanRL's discrete (Atari) agent; the paper adapted SAC from CleanRL and does not say from which.
    "a": {
        "learning_starts": 20_000,
        "batch": 64,
        "steps_per_update": 4,
        "critic_rate": 3e-4,
        "adam_epsilon": 1e-4,
        "target_every": 8_000,
        "tau": 1.0,
    },
    # CleanRL's continuous agent.  It updates the actor twice at every second step; here it is once at every.
    "b": {},
}


def sac_config(preset: Preset = "b", **settings: Any) -> SacConfig:
    """Return a preset with some settings changed.

    A short run that does not say when learning starts gives a tenth of its steps to the random start.

    Examples
    --------
    >>> sac_config("a", alpha=0.2).batch
    64
    >>> sac_config(steps=10_000).learning_starts
    1000
    """
    if preset not in PRESETS:
        raise PolinferError(f"unknown preset {preset!r}; there are a and b")
    known = SacConfig.__dataclass_fields__
    for name in settings:
        if name not in known:
            raise PolinferError(
                f"method 'sac' has no setting {name!r}{suggest(name, known)}; "
                f"it has preset, {', '.join(known)}"
            )
    chosen = {**PRESETS[preset], **settings}
    steps = chosen.get("steps", SacConfig.steps)
    if "learning_starts" not in settings and isinstance(steps, int):
        chosen["learning_starts"] = min(chosen.get("learning_starts", SacConfig.learning_starts), steps // 10)
    return SacConfig(**chosen)
