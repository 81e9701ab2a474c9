"""The settings of discrete soft actor-critic, and the two presets that they come from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from polinfer.core.absorbing import Absorbing, check_absorbing
from polinfer.core.errors import PolinferError, check_at_least, check_share
from polinfer.posterior.config import MethodConfig

Preset = Literal["a", "b"]
_MOST = 1_000_000_000  # steps are counted in 32 bits


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
    "b": {
        "learning_starts": 5_000,
        "batch": 256,
        "steps_per_update": 1,
        "critic_rate": 1e-3,
        "adam_epsilon": 1e-8,
        "target_every": 1,
        "tau": 0.005,
    },
}


# A field that the preset decides: None until ``__post_init__`` has filled it in, so never seen by a user.
_BY_PRESET: Any = None


@dataclass(frozen=True, kw_only=True)
class SacConfig(MethodConfig):
    """How soft actor-critic learns.  The defaults are preset b, CleanRL's for continuous actions.

    `alpha` and `gamma` belong beside every number that comes of it: they are part of what it maximises.

    Examples
    --------
    >>> SacConfig(preset="a", alpha=0.2).batch
    64
    >>> SacConfig(steps=10_000).learning_starts
    1000
    """

    method: ClassVar[str] = "sac"
    later_fields: ClassVar[frozenset[str]] = frozenset({"absorbing"})

    alpha: float = 1.0
    """Weight of the policy's entropy; where it is tuned, the weight to start from."""
    autotune: bool = False
    """Tune alpha so that the policy keeps 89% of the entropy of the uniform one."""
    gamma: float = 0.99
    """Discount.  With gamma 1 an agent that is paid for entropy may gain from never ending."""
    absorbing: Absorbing = "end"
    """Whether episodes end in absorbing states, or continue there until the horizon, which pays entropy."""
    steps: int = 1_000_000
    """Steps in the environment, per seed."""
    preset: Preset = "b"
    """Where the settings below come from: CleanRL's for discrete (a) or for continuous actions (b)."""
    buffer: int = 1_000_000
    """Transitions that are kept for replay."""
    learning_starts: int = _BY_PRESET
    """Steps with uniformly drawn actions before the first update (a 20,000, b 5,000, but at most a tenth of
    all steps)."""
    batch: int = _BY_PRESET
    """Transitions per update (a 64, b 256)."""
    steps_per_update: int = _BY_PRESET
    """Steps in the environment between updates (a 4, b 1)."""
    critic_rate: float = _BY_PRESET
    """Learning rate of the critics, by Adam (a 3e-4, b 1e-3)."""
    actor_rate: float = 3e-4
    """Learning rate of the actor, by Adam."""
    adam_epsilon: float = _BY_PRESET
    """Added to Adam's denominator (a 1e-4, b 1e-8)."""
    target_every: int = _BY_PRESET
    """Steps in the environment between moves of the target critics (a 8,000, b 1)."""
    tau: float = _BY_PRESET
    """Share of the way that the target critics move, 1 is a copy (a 1, b 0.005)."""
    width: int = 64
    """Units per hidden layer."""
    depth: int = 2
    """Hidden layers."""

    def __post_init__(self) -> None:
        if self.preset not in PRESETS:
            raise PolinferError(f"unknown preset {self.preset!r}; there are {' and '.join(PRESETS)}")
        for name, value in PRESETS[self.preset].items():
            if getattr(self, name) is None:
                # A short run that does not say when learning starts gives a tenth of it to the random start.
                short = name == "learning_starts" and isinstance(self.steps, int)
                object.__setattr__(self, name, min(value, self.steps // 10) if short else value)
        for name in ("alpha", "critic_rate", "actor_rate", "adam_epsilon", "tau"):
            value = getattr(self, name)
            if not (isinstance(value, int | float) and np.isfinite(value) and value > 0):
                raise PolinferError(f"{name} must be above zero, got {value}")
        check_absorbing(self.absorbing)
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
