"""How a run went: one row per piece, one column per seed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Trace:
    """Measurements taken during a run, each ``[C, seeds]``: C pieces, the last one at the end."""

    unit: str = "sweeps"  # what `done` counts
    done: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))  # [C]
    columns: Mapping[str, NDArray[np.float32]] = field(default_factory=dict)  # [C, seeds]

    def __len__(self) -> int:
        return len(self.done)

    def __getitem__(self, name: str) -> NDArray[np.float32]:
        return self.columns[name]

    def __contains__(self, name: object) -> bool:
        return name in self.columns

    @classmethod
    def empty(cls, unit: str, names: Iterable[str], seeds: int) -> Trace:
        """Return the trace of a run that has not begun."""
        return cls(unit, np.zeros(0, np.int64), {name: np.zeros((0, seeds), np.float32) for name in names})

    def extend(self, done: int, metrics: Any) -> Trace:
        """Add a row: `metrics` has an attribute ``[seeds]`` for each column."""
        columns = {
            name: np.concatenate([old, np.asarray(getattr(metrics, name), np.float32)[None]])
            for name, old in self.columns.items()
        }
        return Trace(self.unit, np.append(self.done, done), columns)

    def of_seed(self, member: int) -> Trace:
        """Return the trace of one seed."""
        return Trace(self.unit, self.done, {name: rows[:, [member]] for name, rows in self.columns.items()})

    def tail(self, name: str, share: float) -> NDArray[np.float32]:
        """Return the last rows of a column, at least one, ``[c, seeds]``."""
        return self.columns[name][-max(1, int(len(self) * share)) :]
