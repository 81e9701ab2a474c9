"""What commands print: people read standard error and tables, programs read JSON on standard output."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from polinfer.actor_critic.config import SacConfig
from polinfer.core.files import plain
from polinfer.learning.fit import Config
from polinfer.posterior.trace import AnyTrace, SacTrace


@dataclass(frozen=True, kw_only=True)
class OutputFlags:
    """The flags that every command has."""

    json: bool = False
    """Print one JSON object on standard output, and nothing else."""
    debug: bool = False
    """Show the traceback of an error."""


def tables() -> Console:
    """Where tables go: standard output."""
    return Console(file=sys.stdout, highlight=False)


def remarks() -> Console:
    """Where progress and remarks go: standard error, so that standard output stays clean."""
    return Console(file=sys.stderr, highlight=False)


def print_json(value: Any) -> None:
    """Print one JSON object on standard output; NaN has no place in JSON and becomes null."""
    sys.stdout.write(json.dumps(plain(value), allow_nan=False) + "\n")


def number(value: float | None, digits: int = 3) -> str:
    """Format a number for a table; a dash where there is none."""
    return "–" if value is None or math.isnan(value) else f"{value:.{digits}f}"


@contextmanager
def enumeration_progress() -> Iterator[Callable[[int, int], None]]:
    """Show progress while policies are enumerated, if that takes more than a moment."""
    bar = Progress(
        TextColumn("enumerating policies"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=remarks(),
        transient=True,
    )
    task = bar.add_task("", total=None)

    def report(done: int, total: int) -> None:
        if done < total:
            bar.start()
        bar.update(task, completed=done, total=total)

    try:
        yield report
    finally:
        if bar.live.is_started:
            bar.stop()


@contextmanager
def sampling_progress(method: str) -> Iterator[Callable[[float, float], None]]:
    """Show how far the reward scale, or the number of sweeps, has come."""
    name = "reward scale" if method == "tempered" else "sweeps"
    bar = Progress(
        TextColumn(name),
        BarColumn(),
        TextColumn("{task.fields[state]}"),
        TimeRemainingColumn(),
        console=remarks(),
    )
    task = bar.add_task("", total=None, state="compiling ...")

    def report(done: float, total: float) -> None:
        bar.update(task, completed=done, total=total, state=f"{done:.3g} of {total:g}")

    with bar:
        yield report


@contextmanager
def training_progress(config: Config, seeds: int) -> Iterator[Callable[[int, AnyTrace], None]]:
    """Show speed, time left, and how training goes: log Z-hat and effective sample size, or returns."""
    sac = isinstance(config, SacConfig)
    bar = Progress(
        TextColumn("steps" if sac else "sweeps"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[state]}"),
        TimeRemainingColumn(),
        console=remarks(),
    )
    total = config.steps if isinstance(config, SacConfig) else config.updates * config.sweeps_per_update
    task = bar.add_task("", total=total, state="compiling ...")
    marks: list[tuple[float, int]] = []

    def report(done: int, trace: AnyTrace) -> None:
        marks.append((time.perf_counter(), done))
        (then, first), (now, last) = marks[0], marks[-1]
        speed = f"{(last - first) * seeds / (now - then):,.0f}/s  " if now > then else ""
        bar.update(task, completed=min(done, total), state=speed + _last_of(trace))

    with bar:
        yield report


def _last_of(trace: AnyTrace) -> str:
    if isinstance(trace, SacTrace):
        gained, entropy = float(trace.episode_return[-1].mean()), float(trace.entropy[-1].mean())
        return f"return {gained:.3f}  entropy {entropy:.3f}"
    evidence, ess = float(trace.log_evidence[-1].mean()), float(trace.ess[-1].mean())
    return f"log Z-hat {evidence:.3f}  ESS {100 * ess:.0f}%"
