"""How a running computation reports how far it is: the same for every method and command."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Report(NamedTuple):
    """How far a computation is."""

    done: float
    total: float
    unit: str  # what is counted: sweeps, steps, policies, ...
    note: str = ""  # how it goes, for people


Progress = Callable[[Report], None]
"""Called now and then with the latest report; an exception that it raises stops the computation."""
