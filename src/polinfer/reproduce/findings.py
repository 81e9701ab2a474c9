"""All that a report tells, gathered from a store: the same for every form in which it is written."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any, NamedTuple

from matplotlib.figure import Figure

from polinfer.core.absorbing import Absorbing
from polinfer.core.errors import PolinferError
from polinfer.reproduce.assumptions import ASSUMPTIONS, Assumption
from polinfer.reproduce.budgets import Budget
from polinfer.reproduce.claims import Claim, Verdict
from polinfer.reproduce.experiment import Experiment, Results
from polinfer.reproduce.experiments import EXPERIMENTS
from polinfer.reproduce.readings import (
    READINGS,
    Nearer,
    as_record,
    compare_readings,
    judge_readings,
    under_each,
)
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
    nearer: list[Nearer]  # printed numbers of rows that were run under both readings

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

    @property
    def nearer(self) -> list[Nearer]:
        """Which reading of absorbing states the paper's numbers are nearer to."""
        return [one for section in self.sections for one in section.nearer]

    def counts(self, reading: Absorbing = "end") -> dict[Verdict, int]:
        """Return how many claims got each verdict under one reading of absorbing states."""
        ledger = [claim for claim in self.claims if claim.reading in ("", reading)]
        return {verdict: sum(c.verdict is verdict for c in ledger) for verdict in Verdict}

    def count_lines(self) -> list[str]:
        """Say how many claims got each verdict, in a sentence per reading."""
        if not any(claim.reading for claim in self.claims):
            return [f"{len(self.claims)} statements: {_told(self.counts())}."]
        judged = sum(claim.reading == "continue" for claim in self.claims)
        return [
            f"Absorbing states {'end episodes' if reading == 'end' else 'continue'}: "
            f"{_told(self.counts(reading))}."
            for reading in READINGS
        ] + [f"{judged} statements depend on the reading and were judged under both."]


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
    drawn = {
        _figure_name(name, reading): figure
        for name, draw in experiment.figures.items()
        for reading, figure in under_each(experiment, results, draw).items()
    }
    judged = [one for claim in experiment.claims for one in judge_readings(experiment, results, claim)]
    return Section(
        experiment,
        make_table(experiment, results),
        [claim for claim in judged if claim is not None],
        {name: figure for name, figure in drawn.items() if figure is not None},
        Times(sum(time.seconds for time in known), sum(time.cpu_seconds for time in known)),
        len(units),
        waiting,
        judged.count(None),
        compare_readings(experiment, results),
    )


def _figure_name(name: str, reading: Absorbing | None) -> str:
    return name.replace(".png", "-continue.png") if reading == "continue" else name


def _told(counts: dict[Verdict, int]) -> str:
    return ", ".join(f"{count} {verdict.value}" for verdict, count in counts.items() if count)


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
        "readings": [as_record(one) for one in findings.nearer],
        "disagreements": [one._asdict() for one in findings.disagreements],
    }
