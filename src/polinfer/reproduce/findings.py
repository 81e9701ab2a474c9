"""All that a report tells, gathered from a store: the same for every form in which it is written."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any, NamedTuple, TypeVar

from matplotlib.figure import Figure

from polinfer.core.errors import PolinferError
from polinfer.reproduce.assumptions import ASSUMPTIONS, Assumption
from polinfer.reproduce.budgets import Budget
from polinfer.reproduce.claims import Claim, Verdict
from polinfer.reproduce.experiment import Experiment, MissingRowError, Results
from polinfer.reproduce.experiments import EXPERIMENTS
from polinfer.reproduce.store import Store, Times
from polinfer.reproduce.tables import Disagreement, Table, disagreements, make_table

_PACKAGES = ("polinfer", "jax", "optax", "numpy", "gymnasium")


class Section(NamedTuple):
    """One experiment, told."""

    experiment: Experiment
    table: Table
    claims: list[Claim]
    figures: dict[str, Figure]  # by file name
    times: Times  # of all units together
    units: int
    waiting: int  # units that are not finished
    undecided: int  # claims that wait for them

    @property
    def missing(self) -> str:
        """What is not there yet, in a sentence; empty where all is."""
        if not self.waiting:
            return ""
        claims = f", {self.undecided} of its claims not judged" if self.undecided else ""
        return f"{self.waiting} of {self.units} units are not finished: their rows are missing{claims}."


class Findings(NamedTuple):
    """What was run and what came of it."""

    budget: Budget
    sections: list[Section]
    assumptions: tuple[Assumption, ...]
    versions: dict[str, str]
    disagreements: list[Disagreement]  # the largest in each table's first column, largest first

    @property
    def claims(self) -> list[Claim]:
        """The ledger."""
        return [claim for section in self.sections for claim in section.claims]

    def counts(self) -> dict[Verdict, int]:
        """Return how many claims got each verdict."""
        return {verdict: sum(c.verdict is verdict for c in self.claims) for verdict in Verdict}


def gather(store: Store, budget: Budget, names: Sequence[str] = ()) -> Findings:
    """Read everything of `budget` in `store`, for the named experiments or for all."""
    sections, apart = [], []
    for name in names or EXPERIMENTS:
        experiment = EXPERIMENTS[name]
        results = experiment.results(store, budget)
        if not results:
            continue
        sections.append(_section(experiment, results, store, budget))
        apart += disagreements(experiment, results, experiment.columns[:1])[:1]
    if not sections:
        raise PolinferError(
            f"{store.folder} holds no results of budget {budget.name!r}; run polinfer reproduce all --budget "
            f"{budget.name} --out {store.folder}"
        )
    versions = {name: version(name) for name in _PACKAGES} | {"python": platform.python_version()}
    return Findings(budget, sections, ASSUMPTIONS, versions, sorted(apart, key=lambda one: -one.size))


def _section(experiment: Experiment, results: Results, store: Store, budget: Budget) -> Section:
    units = {unit.key: unit for unit in experiment.units(budget)}.values()
    known = [time for time in map(store.read_times, units) if time is not None]
    waiting = sum(store.read(unit) is None for unit in units)
    drawn = {name: _unless_missing(draw, results) for name, draw in experiment.figures.items()}
    judged = [_unless_missing(claim, results) for claim in experiment.claims]
    return Section(
        experiment,
        make_table(experiment, results),
        [claim for claim in judged if claim is not None],
        {name: figure for name, figure in drawn.items() if figure is not None},
        Times(sum(time.seconds for time in known), sum(time.cpu_seconds for time in known)),
        len(units),
        waiting,
        judged.count(None),
    )


T = TypeVar("T")


def _unless_missing(make: Callable[[Results], T], results: Results) -> T | None:
    """Return None where a row that is needed has not been run yet."""
    try:
        return make(results)
    except MissingRowError:
        return None


APART_HEAD = ("experiment", "row", "number", "paper", "ours", "what it estimates", "apart, in deviations")
TIME_HEAD = ("experiment", "units", "minutes", "processor minutes")


def apart_rows(findings: Findings) -> list[tuple[str, ...]]:
    """Return the largest disagreements as the cells of a table."""
    return [
        (
            one.experiment,
            one.row,
            one.column,
            f"{one.printed.mean:g}",
            f"{one.found:.3g}",
            "" if one.exact is None else f"{one.exact:.3g}",
            f"{one.size:.1f}",
        )
        for one in findings.disagreements
    ]


def time_rows(findings: Findings) -> list[tuple[str, ...]]:
    """Return what each experiment took as the cells of a table."""
    return [
        (
            section.experiment.title,
            f"{section.units - section.waiting} of {section.units}",
            f"{section.times.seconds / 60:.1f}",
            f"{section.times.cpu_seconds / 60:.1f}",
        )
        for section in findings.sections
    ]


def as_json(findings: Findings) -> dict[str, Any]:
    """Return the findings as numbers and words."""
    return {
        "budget": findings.budget.__dict__,
        "versions": findings.versions,
        "claims": [claim._asdict() for claim in findings.claims],
        "experiments": {
            section.experiment.name: {
                "columns": list(section.table.head),
                "lines": [line._asdict() for line in section.table.lines],
                "seconds": section.times.seconds,
                "cpu_seconds": section.times.cpu_seconds,
                "units": section.units,
                "waiting": section.waiting,
                "undecided": section.undecided,
            }
            for section in findings.sections
        },
        "disagreements": [one._asdict() for one in findings.disagreements],
    }
