"""The settings of training as flags.

The flags are those of `TrainConfig` and `SweepConfig`, but checked only when the command runs: a bad value is
then one sentence like any other mistake, and not a box of the parser's.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field

import tyro

from polinfer.infer import train_config
from polinfer.learning.train import TrainConfig
from polinfer.sweep.config import SweepConfig


@dataclass(frozen=True)
class SweepFlags(SweepConfig):
    """Settings of a sweep."""

    def __post_init__(self) -> None:
        """Leave the checks to `train_config_of`."""


@dataclass(frozen=True)
class TrainFlags(TrainConfig):
    """Settings of training."""

    sweep: tyro.conf.OmitArgPrefixes[SweepFlags] = field(default_factory=SweepFlags)
    """Settings of a sweep."""

    def __post_init__(self) -> None:
        """Leave the checks to `train_config_of`."""


def train_config_of(method: str, flags: TrainFlags) -> TrainConfig:
    """Check the flags; where the user left a default, the method sets what it stands for."""
    fields = {k: v for k, v in asdict(flags).items() if k != "sweep"} | asdict(flags.sweep)
    default = SweepConfig()
    if method == "svi" and flags.sweep.particles == default.particles:
        fields["particles"] = 1
    if method == "iwae" and flags.sweep.resample_below == default.resample_below:
        fields["resample_below"] = 0.0
    return train_config(method, **fields)
