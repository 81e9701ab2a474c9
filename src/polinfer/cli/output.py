"""What commands print: people read standard error and tables, programs read JSON on standard output."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rich.console import Console

from polinfer.core.files import plain
from polinfer.core.progress import Progress as ReportProgress
from polinfer.core.progress_bar import progress_bar as bar_on


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
    """Show progress on standard error."""
    with bar_on(seeds, remarks()) as report:
        yield report
