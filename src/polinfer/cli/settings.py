"""The settings of training as flags.

The flags are those of the configurations, but checked only when the command runs: a bad value is then one
sentence like any other mistake, and not a box of the parser's.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import Annotated, Any

import tyro

from polinfer.actor_critic.config import Preset, SacConfig, sac_config
from polinfer.annealing.config import Moves, TemperedConfig
from polinfer.core.errors import PolinferError
from polinfer.learning.config import TrainConfig
from polinfer.learning.fit import Config
from polinfer.learning.objective import Weights
from polinfer.methods.inference import SamplingConfig, sampling_config, train_config
from polinfer.smc.config import SweepConfig
from polinfer.smc.particles import ParticleConfig


def _told(default: Any, wake: Any, elsewhere: Any, particles: Any) -> Any:
    """Return the mark of a flag whose default depends on the method, for the help to tell."""
    of_wake = f"{wake}" if wake == elsewhere else f"{wake} on tables, {elsewhere} elsewhere"
    words = f"(default: {default}; wake {of_wake}; particles {particles})"
    return tyro.conf.arg(help_behavior_hint=words)


_PARTICLES = sampling_config("particles")
assert isinstance(_PARTICLES, ParticleConfig)
_TRAINED = (train_config("vsmc"), train_config("wake", True), train_config("wake"))
_ALL = (*_TRAINED, _PARTICLES)


@dataclass(frozen=True)
class SweepFlags(SweepConfig):
    """Settings of a sweep."""

    particles: Annotated[int, _told(*(config.sweep.particles for config in _ALL))] = SweepConfig.particles
    """Partial policies that are rolled out together in a sweep."""
    worlds: Annotated[int, _told(*(config.sweep.worlds for config in _ALL))] = SweepConfig.worlds
    """Realisations of the dynamics that each particle is rolled through at once."""
    resample_below: Annotated[float, _told(*(config.sweep.resample_below for config in _ALL))] = (
        SweepConfig.resample_below
    )
    """Resample when the effective sample size is below this share of the particles; 0 is never."""

    def __post_init__(self) -> None:
        """Leave the checks to `config_of_flags`."""


@dataclass(frozen=True)
class TrainFlags(TrainConfig):
    """Settings of training."""

    sweep: tyro.conf.OmitArgPrefixes[SweepFlags] = field(default_factory=SweepFlags)
    """Settings of a sweep."""
    sweeps: Annotated[int, _told(*(config.sweeps for config in _ALL))] = TrainConfig.sweeps
    """SMC sweeps per seed."""
    learning_rate: Annotated[float, _told(*(config.learning_rate for config in _TRAINED), "has none")] = (
        TrainConfig.learning_rate
    )
    """Initial rate of Adam."""
    weights: Weights | None = None  # type: ignore[assignment]
    """What wake and particles weigh a policy by at the end of a sweep: its exact J (on tables, unless
    --worlds or --surrogate-share is given), or its return in the sweep's worlds."""

    def __post_init__(self) -> None:
        """Leave the checks to `config_of_flags`."""


@dataclass(frozen=True)
class SacFlags:
    """Settings of soft actor-critic; those that are left out come from the preset."""

    alpha: float = SacConfig.alpha
    """Weight of the policy's entropy; where it is tuned, the weight to start from."""
    gamma: float = SacConfig.gamma
    """Discount.  With gamma 1 an agent that is paid for entropy may gain from never ending."""
    steps: int = SacConfig.steps
    """Steps in the environment, per seed."""
    preset: Preset = "b"
    """Where the other settings come from: CleanRL's for discrete (a) or for continuous actions (b)."""
    autotune: bool = SacConfig.autotune
    """Tune alpha so that the policy keeps 89% of the entropy of the uniform one."""
    buffer: int | None = None
    """Transitions that are kept for replay (1,000,000)."""
    learning_starts: int | None = None
    """Steps with uniformly drawn actions before the first update (a 20,000, b 5,000)."""
    batch: int | None = None
    """Transitions per update (a 64, b 256)."""
    steps_per_update: int | None = None
    """Steps in the environment between updates (a 4, b 1)."""
    critic_rate: float | None = None
    """Learning rate of the critics (a 3e-4, b 1e-3)."""
    actor_rate: float | None = None
    """Learning rate of the actor (3e-4)."""
    adam_epsilon: float | None = None
    """Added to Adam's denominator (a 1e-4, b 1e-8)."""
    target_every: int | None = None
    """Steps in the environment between moves of the target critics (a 8,000, b 1)."""
    tau: float | None = None
    """Share of the way that the target critics move (a 1, b 0.005)."""


@dataclass(frozen=True)
class TemperedFlags:
    """Settings of tempered sampling."""

    policies: int = TemperedConfig.policies
    """Policies per island."""
    islands: int = TemperedConfig.islands
    """Independent populations; standard errors are taken over them."""
    ess: float = TemperedConfig.ess
    """The next reward scale is the one at which the effective sample size falls to this share."""
    scans: int = TemperedConfig.scans
    """Passes of moves after each step."""
    final_scans: int = TemperedConfig.final_scans
    """Passes of moves at the end, over which answers are averaged."""
    moves: Moves = TemperedConfig.moves
    """Draw single states' actions (gibbs), propose actions in sets of states (block), or choose (auto)."""
    rollouts: int | None = None
    """Judge policies by the mean return of so many episodes instead of computing it."""


_SHARED = ("width", "depth")
_OF_PARTICLES = ("sweeps", "weights", *SweepConfig.__dataclass_fields__)


def config_of_flags(method: str, train: TrainFlags, sac: SacFlags, on_table: bool = False) -> Config:
    """Check the flags of a method that trains, and refuse those that belong to another."""
    if method == "sac":
        _refuse(method, _changed(train, _SHARED))
        named = {name: value for name, value in asdict(sac).items() if value is not None}
        return sac_config(**named, width=train.width, depth=train.depth)
    _refuse(method, _changed(sac))
    return train_config_of(method, train, on_table)


def sampling_config_of(
    method: str, train: TrainFlags, sac: SacFlags, tempered: TemperedFlags
) -> SamplingConfig:
    """Check the flags of a method that samples whole policies, and refuse those that belong to another."""
    if method == "tempered":
        refuse_all(method, train, sac)
        return sampling_config(method, **asdict(tempered))
    _refuse(method, [*_changed(train, _OF_PARTICLES), *_changed(sac), *_changed(tempered)])
    named = asdict(train) | asdict(train.sweep)
    return sampling_config(method, **{name: named[name] for name in _changed(train)})


def refuse_all(method: str, train: TrainFlags, sac: SacFlags) -> None:
    """Refuse every flag of training, for a method that does not train."""
    _refuse(method, [*_changed(train), *_changed(sac)])


def train_config_of(method: str, flags: TrainFlags, on_table: bool = False) -> TrainConfig:
    """Check the flags; where the user left a default, the method sets what it stands for."""
    named = {k: v for k, v in asdict(flags).items() if k != "sweep"} | asdict(flags.sweep)
    return train_config(method, on_table, **{name: named[name] for name in _changed(flags)})


def _changed(flags: Any, shared: tuple[str, ...] = ()) -> list[str]:
    """Return the names of the flags that differ from their defaults."""
    found = []
    for member in fields(flags):
        value = getattr(flags, member.name)
        if member.name == "sweep":
            found += _changed(value, shared)
        elif value != member.default and member.name not in shared:
            found.append(member.name)
    return found


def _refuse(method: str, names: list[str]) -> None:
    if names:
        flag = "--" + names[0].replace("_", "-")
        raise PolinferError(f"method {method!r} has no setting {flag}; leave it out")
