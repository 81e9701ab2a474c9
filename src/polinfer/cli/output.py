"""What commands print: people read standard error and tables, programs read JSON on standard output."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from polinfer.learning.train import TrainConfig
from polinfer.posterior import Trace
from polinfer.storage import plain


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
def training_progress(config: TrainConfig, seeds: int) -> Iterator[Callable[[int, Trace], None]]:
    """Show sweeps per second, log Z-hat, effective sample size and time left while training."""
    bar = Progress(
        TextColumn("sweeps"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[state]}"),
        TimeRemainingColumn(),
        console=remarks(),
    )
    task = bar.add_task("", total=config.updates * config.sweeps_per_update, state="compiling ...")
    marks: list[tuple[float, int]] = []

    def report(done: int, trace: Trace) -> None:
        marks.append((time.perf_counter(), done))
        (then, first), (now, last) = marks[0], marks[-1]
        speed = f"{(last - first) * seeds / (now - then):,.0f}/s  " if now > then else ""
        evidence, ess = float(trace.log_evidence[-1].mean()), float(trace.ess[-1].mean())
        bar.update(task, completed=done, state=f"{speed}log Z-hat {evidence:.3f}  ESS {100 * ess:.0f}%")

    with bar:
        yield report
