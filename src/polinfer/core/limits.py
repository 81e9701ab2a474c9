"""What is computed without being asked twice: limits on time and memory, stated, and lifted by ``--force``.

The estimates are rough, by a factor of a few: they tell a minute from a day and a gigabyte from a thousand.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from polinfer.core.errors import CostError

MINUTE = 60.0
"""Seconds that exact computations on a table may take."""
DAY = 86_400.0
"""Seconds that sampling and training may take."""
MOST_BYTES = 8 << 30
"""Memory that the arrays of one computation may take."""

_lifted: ContextVar[bool] = ContextVar("lifted", default=False)


@contextmanager
def limits_lifted(lifted: bool = True) -> Iterator[None]:
    """Compute whatever is asked in this context, however long it takes.

    Examples
    --------
    >>> with limits_lifted():
    ...     check_seconds("a horizon of 1,000,000,000", 1e30, "choose a shorter one", MINUTE)
    """
    token = _lifted.set(lifted)
    try:
        yield
    finally:
        _lifted.reset(token)


def check_seconds(what: str, seconds: float, remedy: str, most: float) -> None:
    """Refuse what would take much longer than `most`, unless the limits are lifted."""
    if seconds > most and not _lifted.get():
        raise CostError(
            f"{what} would take about {_duration(seconds)}, over the limit of {_duration(most)}; {remedy}, "
            "or add --force"
        )


def check_bytes(what: str, size: float, remedy: str) -> None:
    """Refuse what would need more memory than an array may take, unless the limits are lifted."""
    if size > MOST_BYTES and not _lifted.get():
        raise CostError(
            f"{what} would need about {_amount(size / 2**30)} GiB, over the limit of {MOST_BYTES >> 30}; "
            f"{remedy}, or add --force"
        )


_SECONDS = {"years": 3.2e7, "days": 86_400.0, "hours": 3600.0}


def _duration(seconds: float) -> str:
    for unit, size in (("years", 3.2e7), ("days", 2 * 86_400.0), ("hours", 2 * 3600.0)):
        if seconds >= size:
            return f"{_amount(seconds / _SECONDS[unit])} {unit}"
    return f"{seconds / 60:.0f} minutes" if seconds > 60 else f"{seconds:.0f} seconds"


def _amount(value: float) -> str:
    return f"{value:,.0f}" if value < 1e6 else f"{value:.0e}"
