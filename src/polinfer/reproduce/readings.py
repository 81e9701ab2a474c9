"""Both readings of absorbing states: rows of soft actor-critic have a twin, and claims are judged by each.

The paper does not say whether the episodes that SAC was trained on end in absorbing states or stay there
until the horizon, which pays entropy.  A verdict is under one reading for all of its rows: never is a reading
chosen row by row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from polinfer.core.absorbing import Absorbing
from polinfer.reproduce.claims import Claim
from polinfer.reproduce.experiment import Experiment, Found, MissingRowError, Printed, Results, Row
from polinfer.reproduce.tables import Disagreement, disagreements

READINGS: tuple[Absorbing, ...] = ("end", "continue")
_TWIN = " continue"
_LEVEL = 0.5  # deviations: readings whose distances to the paper differ by less are not told apart

T = TypeVar("T")


class Reading(Mapping[str, Found]):
    """Results under one reading: the key of a row with a twin gives the one of that reading.

    `asked` tells whether any such key was looked up, so whether what was made of the results depends on it.
    """

    def __init__(self, experiment: Experiment, results: Results, reading: Absorbing) -> None:
        self._results, self._reading = results, reading
        self._twins = {row.key for row in experiment.rows if row.reading == "continue"}
        self.asked = False

    def __getitem__(self, key: str) -> Found:
        if key + _TWIN in self._twins:
            self.asked = True
            key = key if self._reading == "end" else key + _TWIN
        if key not in self._results:
            raise MissingRowError(key)
        return self._results[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._results)

    def __len__(self) -> int:
        return len(self._results)


def both(row: Row) -> tuple[Row, Row]:
    """Return a row that is paid for entropy under both readings, the usual one first."""
    aim = row.aim + _TWIN if row.aim else ""
    settings = {**row.settings, "absorbing": "continue"}
    twin = replace(row, key=row.key + _TWIN, label=f"{row.label}, continuing", settings=settings, aim=aim)
    return replace(row, reading="end"), replace(twin, reading="continue")


def under_each(
    experiment: Experiment, results: Results, make: Callable[[Results], T]
) -> dict[Absorbing | None, T | None]:
    """Make something of the results under each reading, or once, under None, where it depends on none.

    What lacks a row is None.
    """
    made: dict[Absorbing | None, T | None] = {}
    for reading in READINGS:
        view = Reading(experiment, results, reading)
        try:
            found = make(view)
        except MissingRowError:
            found = None
        if not view.asked:
            return {None: found}
        made[reading] = found
    return made


def judge_readings(
    experiment: Experiment, results: Results, claim: Callable[[Results], Claim]
) -> list[Claim | None]:
    """Judge a claim under each reading, or once where it depends on none; None where a row is missing."""
    return [
        None if found is None else found._replace(reading=reading or "")
        for reading, found in under_each(experiment, results, claim).items()
    ]


class Nearer(NamedTuple):
    """A printed number of soft actor-critic beside ours under both readings."""

    experiment: str
    row: str
    column: str
    printed: Printed
    found: Mapping[str, float]  # by reading
    size: Mapping[str, float]  # how far from the printed number, in deviations over runs of both together
    reading: str  # that it is nearer to; empty where the two are level

    def cells(self) -> tuple[str, ...]:
        """Return the cells of a table, with `NEARER_HEAD`."""
        told = [f"{self.found[name]:.3g} ({self.size[name]:.1f})" for name in READINGS]
        return (
            self.experiment,
            self.row,
            self.column,
            f"{self.printed.mean:g}",
            *told,
            self.reading or "level",
        )


NEARER_HEAD = (
    "experiment",
    "row",
    "number",
    "paper",
    *(f"{name} (deviations)" for name in READINGS),
    "nearer",
)


def compare_readings(experiment: Experiment, results: Results) -> list[Nearer]:
    """Return every printed number that was measured under both readings."""
    apart: dict[tuple[str, str], Disagreement] = {
        (one.key, one.column): one for one in disagreements(experiment, results, experiment.columns)
    }
    found = []
    for row in experiment.rows:
        for column in experiment.columns:
            pair = [apart.get((key, column.name)) for key in (row.key, row.key + _TWIN)]
            ours: dict[str, Disagreement] = {
                name: one for name, one in zip(READINGS, pair, strict=True) if one is not None
            }
            if len(ours) < len(READINGS):
                continue
            mean, size = (
                {name: getattr(one, what) for name, one in ours.items()} for what in ("found", "size")
            )
            gap = size["continue"] - size["end"]
            nearer = "" if abs(gap) < _LEVEL else "end" if gap > 0 else "continue"
            first = ours["end"]
            found.append(Nearer(experiment.name, first.row, column.name, first.printed, mean, size, nearer))
    return found


def as_record(one: Nearer) -> dict[str, Any]:
    """Return the numbers for a file."""
    return {**one._asdict(), "printed": list(one.printed), "found": dict(one.found), "size": dict(one.size)}
