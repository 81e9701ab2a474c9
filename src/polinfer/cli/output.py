"""What commands print: people read standard error and tables, programs read JSON on standard output."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from polinfer.core.files import plain
from polinfer.core.progress import Progress as ReportProgress
from polinfer.core.progress import Report


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


@contextmanager
def progress_bar(seeds: int = 1) -> Iterator[ReportProgress]:
    """Show how far a computation is, how fast, and how long it will take; nothing if it is over at once."""
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[state]}"),
        TimeRemainingColumn(),
        console=remarks(),
    )
    task = bar.add_task("starting", total=None, state="compiling ...")
    marks: list[tuple[float, float]] = []

    def report(now: Report) -> None:
        marks.append((time.perf_counter(), now.done))
        if now.done < now.total and not bar.live.is_started:
            bar.start()
        bar.update(
            task,
            completed=now.done,
            total=now.total,
            description=now.unit,
            state=f"{_amount(now.done)} of {_amount(now.total)}{_speed(marks, seeds)}  {now.note}".rstrip(),
        )

    try:
        yield report
    finally:
        if bar.live.is_started:
            bar.stop()


def _amount(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:.3g}"


def _speed(marks: list[tuple[float, float]], seeds: int) -> str:
    (then, first), (now, last) = marks[0], marks[-1]
    # A share, such as the reward scale on its way to 1, has no speed worth showing.
    if now <= then or last - first < 10:
        return ""
    return f"  {(last - first) * seeds / (now - then):,.0f}/s"
