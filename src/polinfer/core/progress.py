"""Progress reports: one record for every method and command."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple


class Report(NamedTuple):
    """The progress of a computation."""

    done: float
    total: float
    unit: str  # what is counted: sweeps, steps, policies, ...
    note: str = ""  # free text for the progress bar


Progress = Callable[[Report], None]
"""Called repeatedly with the latest report; an exception that it raises stops the computation."""

_WATCHER: ContextVar[Progress | None] = ContextVar("progress", default=None)


@contextmanager
def watching(progress: Progress | None) -> Iterator[None]:
    """Let `progress` hear of what is computed on the way, such as a table that a method wants."""
    token = _WATCHER.set(progress if progress is not None else _WATCHER.get())
    try:
        yield
    finally:
        _WATCHER.reset(token)


def current_progress() -> Progress | None:
    """Return who watches now, None if nobody does."""
    return _WATCHER.get()
