"""An experiment's table: the paper's numbers, ours, and the exact ones, line by line."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polinfer.analysis.comparison import policy_distance
from polinfer.methods import METHODS
from polinfer.problems.registry import make
from polinfer.reproduce.experiment import Column, Experiment, Found, Printed, Results
from polinfer.reproduce.problems import table_for

PAPER, MEASURED, EXACT, REFERENCE = "paper", "measured", "exact", "reference"


class Line(NamedTuple):
    """One line of a table."""

    group: str
    policy: str
    source: str  # paper, measured, exact or reference
    cells: tuple[str, ...]
    ours: bool  # not among the paper's rows


class Table(NamedTuple):
    """A table to print, as Markdown or HTML."""

    head: tuple[str, ...]
    lines: tuple[Line, ...]


class Disagreement(NamedTuple):
    """A number of ours that differs from the paper's."""

    experiment: str
    key: str  # of the row
    row: str
    column: str
    printed: Printed
    found: float
    spread: float
    exact: float | None  # what the row estimates
    size: float  # in deviations over runs, of both together


def make_table(experiment: Experiment, results: Results) -> Table:
    """Return the table of an experiment; rows that were not run are left out."""
    lines = []
    for row in experiment.rows:
        found = results.get(row.key)
        if row.printed and row.reading != "continue":  # whose twin stands above
            told = [_printed(row.printed.get(c.field), c.digits) for c in experiment.columns]
            lines.append(Line(row.group, row.label, PAPER, (*told, ""), ours=False))
        if found is not None:
            cells = [_measured(found, column) for column in experiment.columns]
            cells.append(_distance(found, results))
            lines.append(Line(row.group, row.label, _source(found), tuple(cells), ours=row.extra))
    return _without_empty((*(column.name for column in experiment.columns), "distance to aim"), lines)


def _without_empty(names: tuple[str, ...], lines: list[Line]) -> Table:
    """Leave out columns in which no line says anything."""
    kept = [i for i in range(len(names)) if not lines or any(line.cells[i] for line in lines)]
    return Table(
        tuple(names[i] for i in kept),
        tuple(line._replace(cells=tuple(line.cells[i] for i in kept)) for line in lines),
    )


def _source(found: Found) -> str:
    """Say where a number is from: a posterior with standard errors is a long run of sampling."""
    if found.row.method in (*METHODS, "chance"):
        return MEASURED
    sampled = "policy_stderr" in found and bool(found["policy_stderr"].any())
    return REFERENCE if sampled else EXACT


def disagreements(experiment: Experiment, results: Results, columns: Sequence[Column]) -> list[Disagreement]:
    """Return every printed number of some columns with ours, the most different first."""
    found = []
    for row in experiment.rows:
        mine, aim = results.get(row.key), results.get(row.aim)
        if mine is None:
            continue
        for column in columns:
            printed, values = row.printed.get(column.field), column.of(mine)
            if printed is None or values is None:
                continue
            spread = float(values.std(ddof=1)) if len(values) > 1 else 0.0
            # A printed number is rounded, so nothing is told apart more finely than that.
            noise = np.hypot(max(printed.spread or 0.0, 0.5 * 10.0 ** -min(column.digits, 2)), spread)
            known = None if aim is None else column.of(aim)
            found.append(
                Disagreement(
                    experiment.name,
                    row.key,
                    f"{row.group}: {row.label}" if row.group else row.label,
                    column.name,
                    printed,
                    float(values.mean()),
                    spread,
                    None if known is None else float(known.mean()),
                    float(abs(values.mean() - printed.mean) / noise),
                )
            )
    return sorted(found, key=lambda one: -one.size)


def distances(found: Found, aim: Found) -> NDArray[np.float64]:
    """Return the total variation of each run to the aim's policy, weighted by where the aim goes."""
    weight = np.where(_absorbing(aim), 0.0, np.asarray(aim["occupancy"][0], np.float64))
    return np.array([policy_distance(policy, aim.policy[0], weight) for policy in found.policy])


def _absorbing(found: Found) -> NDArray[np.bool_]:
    # Scaled rewards leave the states as they are.
    options = {name: value for name, value in found.row.options.items() if name != "reward_scale"}
    return _table_ends(found.row.domain, tuple(sorted(options.items())))


@lru_cache(maxsize=64)
def _table_ends(domain: str, options: tuple[tuple[str, object], ...]) -> NDArray[np.bool_]:
    return table_for(make(domain, **dict(options))).absorbing


def _distance(found: Found, results: Results) -> str:
    aim = results.get(found.row.aim)
    if aim is None or "policy" not in found or "policy" not in aim:
        return ""
    return _spread_out(distances(found, aim), 3)


def _measured(found: Found, column: Column) -> str:
    values = column.of(found)
    return "" if values is None else _spread_out(values, column.digits)


def _spread_out(values: NDArray[np.float64], digits: int) -> str:
    """Write mean ± deviation over runs, and the standard error of the mean in brackets."""
    mean = _number(float(values.mean()), digits)
    if len(values) == 1:
        return mean
    spread = float(values.std(ddof=1))
    return f"{mean} ± {spread:.{digits}f} ({spread / np.sqrt(len(values)):.{digits}f})"


def _printed(printed: Printed | None, digits: int) -> str:
    if printed is None:
        return ""
    digits = min(digits, 2)
    mean = _number(printed.mean, digits)
    return mean if printed.spread is None else f"{mean} ± {printed.spread:.{digits}f}"


def _number(value: float, digits: int) -> str:
    return f"{value:.{digits}f}".replace("-", "−")


def group_lines(lines: Sequence[Line]) -> dict[str, list[Line]]:
    """Return the lines by group, in order."""
    groups: dict[str, list[Line]] = {}
    for line in lines:
        groups.setdefault(line.group, []).append(line)
    return groups
