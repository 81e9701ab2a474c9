"""Progress reports: one record for every method and command."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Report(NamedTuple):
    """The progress of a computation."""

    done: float
    total: float
    unit: str  # what is counted: sweeps, steps, policies, ...
    note: str = ""  # free text for the progress bar


Progress = Callable[[Report], None]
"""Called repeatedly with the latest report; an exception that it raises stops the computation."""
