"""What an experiment is: rows to run, columns to print, claims to judge, figures to draw."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from polinfer.methods import METHODS
from polinfer.reproduce.assumptions import SAC_GAMMA, SAC_PRESET
from polinfer.reproduce.budgets import BUDGETS, Budget
from polinfer.reproduce.claims import Claim
from polinfer.reproduce.store import Outcome, Store, Times
from polinfer.reproduce.unit import Unit

_LEAST = 10  # of a setting that grows with the budget
_LAST = 0.1  # of training, whose log Z-hat is reported


class Printed(NamedTuple):
    """A number as the paper prints it: mean ± spread over runs."""

    mean: float
    spread: float | None = None


class Column(NamedTuple):
    """A number of a table."""

    name: str  # as the table's head says
    field: str  # of an outcome
    digits: int = 2

    def of(self, found: Found) -> NDArray[np.float64] | None:
        """Return the number of every run; None where it is not known."""
        if self.field not in found:
            return None
        values = np.asarray(found[self.field], np.float64)
        return values if np.isfinite(values).all() else None


@dataclass(frozen=True)
class Row:
    """A row of a table, or a panel of a figure: one method on one problem, all seeds."""

    key: str
    label: str
    domain: str
    method: str
    options: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    group: str = ""  # rows of a group stand together: an instance
    printed: Mapping[str, Printed] = field(default_factory=dict)  # by the column's field
    aim: str = ""  # key of the row that is, exactly, what this one estimates
    extra: bool = False  # ours, beside what the paper shows
    growing: Mapping[str, int] = field(default_factory=dict)  # settings at the paper's budget, less at others
    certified: bool = False  # bound log Z, too
    reading: str = ""  # of absorbing states, where a row is paid for entropy; `polinfer.reproduce.readings`
    lengthy: bool = False  # as long at any budget: left out where it only matters that all runs

    def units(self, budget: Budget) -> list[Unit]:
        """Return the batches of seeds that make up the row; none where the budget leaves it out."""
        if self.lengthy and not budget.optimised:
            return []
        share = budget.sweeps / BUDGETS["paper"].sweeps
        settings = {name: max(_LEAST, round(value * share)) for name, value in self.growing.items()}
        trained = self.method in METHODS and METHODS[self.method].many_seeds
        known = METHODS[self.method].Config.field_names() if trained else ()
        for name, amount in (("sweeps", budget.sweeps), ("steps", budget.steps)):
            if name in known:
                settings.setdefault(name, amount)
        settings = {**settings, **self.settings}
        if self.method not in METHODS:
            return [Unit(self.domain, self.method, self.options, settings)]
        return [
            Unit(
                self.domain,
                self.method,
                self.options,
                settings,
                first,
                min(budget.seed_batch, budget.seeds - first),
                budget.episodes,
                budget.optimised,
                self.certified,
            )
            for first in range(0, budget.seeds, budget.seed_batch)
        ]


def vsmc(key: str, label: str, domain: str, rate: float, method: str = "vsmc", **row: Any) -> Row:
    """Return a row of VSMC with the paper's ten particles; wake has the same sweeps."""
    settings = {"particles": 10, "worlds": 1, "learning_rate": rate, "final_rate_share": 0.1}
    return Row(key, label, domain, method, settings={**settings, **row.pop("settings", {})}, **row)


def wake(key: str, label: str, domain: str, rate: float, **row: Any) -> Row:
    """Return the same row with our objective."""
    return vsmc(key, label, domain, rate, "wake", extra=True, **row)


def sac(key: str, label: str, domain: str, alpha: float, **row: Any) -> Row:
    """Return a row of soft actor-critic."""
    return Row(key, label, domain, "sac", settings={**sac_settings(alpha)}, **row)


def sac_settings(alpha: float) -> dict[str, Any]:
    """Return the settings of the paper's SAC."""
    return {"preset": SAC_PRESET.value, "gamma": SAC_GAMMA.value, "alpha": alpha}


def soft(key: str, label: str, domain: str, alpha: float, **row: Any) -> Row:
    """Return the row of what soft actor-critic aims at."""
    settings = {"alpha": alpha, "gamma": float(SAC_GAMMA.value)}
    return Row(key, label, domain, "soft", settings=settings, extra=True, **row)


@dataclass(frozen=True)
class Found:
    """A row with its outcome, seeds joined."""

    row: Row
    outcome: Outcome
    times: Times | None

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.outcome[name]

    def __contains__(self, name: object) -> bool:
        return name in self.outcome

    @property
    def seeds(self) -> int:
        """How many runs are behind it."""
        return len(self.outcome["mean"])

    def mean(self, name: str) -> float:
        """Return the mean over runs."""
        return float(np.mean(self.outcome[name]))

    def spread(self, name: str) -> float:
        """Return the standard deviation over runs, which the paper prints."""
        values = self.outcome[name]
        return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0

    def stderr(self, name: str) -> float:
        """Return the standard error of the mean over runs."""
        return float(self.spread(name) / np.sqrt(self.seeds))

    @property
    def policy(self) -> NDArray[np.float64]:
        """The policies of all runs, ``[seeds, S, A]``."""
        return np.asarray(self.outcome["policy"], np.float64)


Results = Mapping[str, Found]
"""What was found, by the keys of rows."""


class MissingRowError(KeyError):
    """A row that has not been run."""


class Rows(dict[str, Found]):
    """Results of which some may be missing."""

    def __missing__(self, key: str) -> Found:
        raise MissingRowError(key)


@dataclass(frozen=True)
class Experiment:
    """One table or figure of the paper."""

    name: str
    title: str
    place: str  # in the paper
    about: str  # what it is about, in a sentence
    rows: tuple[Row, ...]
    columns: tuple[Column, ...]
    claims: tuple[Callable[[Results], Claim], ...]
    figures: Mapping[str, Callable[[Results], Figure]]  # by file name

    def units(self, budget: Budget) -> list[Unit]:
        """Return everything to run."""
        return [unit for row in self.rows for unit in row.units(budget)]

    def results(self, store: Store, budget: Budget) -> Rows:
        """Return the rows of which every unit is finished."""
        found = Rows()
        for row in self.rows:
            units = row.units(budget)
            parts = [store.read(unit) for unit in units]
            whole = [part for part in parts if part is not None]
            if units and len(whole) == len(parts):
                times = _sum_times(store, units)
                found[row.key] = Found(row, _derive(row, _join(whole), times), times)
        return found


def _derive(row: Row, outcome: Outcome, times: Times | None) -> Outcome:
    """Add what follows from the outcome.

    The mean return in the rewards of the problem without a scale, of episodes and of the policy itself; the
    log evidence at the end of training; the seconds that a run took.
    """
    arrays = dict(outcome.arrays)
    scale = float(row.options.get("reward_scale", 1.0))
    arrays["base_mean"] = outcome["mean"] / scale
    if "exact.mean" in outcome:
        arrays["base_exact"] = outcome["exact.mean"] / scale
    if "trace.log_evidence" in outcome:
        trace = np.asarray(outcome["trace.log_evidence"], np.float64)
        arrays["log_evidence"] = trace[-max(1, round(_LAST * len(trace))) :].mean(axis=0)
    if times is not None and row.method in METHODS:
        arrays["seconds"] = np.array([times.seconds / len(outcome["mean"])])
    return Outcome(arrays)


def _join(parts: list[Outcome]) -> Outcome:
    """Put batches of seeds together."""
    if len(parts) == 1:
        return parts[0]
    arrays: dict[str, Any] = {}
    for name in parts[0].arrays:
        # Traces have the seeds in their second axis.
        axis = 1 if name.startswith("trace.") else 0
        arrays[name] = np.concatenate([part[name] for part in parts], axis=axis)
    weight = np.array([len(part["mean"]) for part in parts], np.float64)
    weight /= weight.sum()
    shares = np.concatenate([part["shares"] * share for part, share in zip(parts, weight, strict=True)])
    values, place = np.unique(arrays["values"], return_inverse=True)
    return Outcome({**arrays, "values": values, "shares": np.bincount(place, shares, len(values))})


def _sum_times(store: Store, units: list[Unit]) -> Times | None:
    times = [store.read_times(unit) for unit in units]
    known = [time for time in times if time is not None]
    if len(known) < len(times):
        return None
    return Times(sum(time.seconds for time in known), sum(time.cpu_seconds for time in known))
