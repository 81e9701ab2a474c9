"""Asking a computation to end with what it has: a time limit, or a first Ctrl-C.

Long computations ask `stop_requested` between two steps, and end with the best answer so far.  Who wants them
to end opens a `stopping` context; contexts nest, and the first request counts.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from polinfer.core.errors import PolinferError, check_finite


class Stopper:
    """A request to stop that may come, and its deadline."""

    def __init__(self, time_limit: float | None, outer: Stopper | None, told: float | None = None) -> None:
        self.began = time.monotonic()
        self.time_limit, self.outer = time_limit, outer
        self.told = time_limit if told is None else told  # the limit that the user knows of
        self.answered = ""  # the request that a computation has followed
        self._asked = ""

    def request(self, reason: str) -> None:
        """Ask the computation to end."""
        self._asked = self._asked or reason

    @property
    def elapsed(self) -> float:
        """Seconds since the context was opened."""
        return time.monotonic() - self.began

    @property
    def requested(self) -> str:
        """Why to stop; empty where nobody asks for it."""
        if not self._asked and self.time_limit is not None and self.elapsed >= self.time_limit:
            self._asked = f"the time limit of {self.told:g} s"
        return self._asked or ("" if self.outer is None else self.outer.requested)


_CURRENT: ContextVar[Stopper | None] = ContextVar("stopper", default=None)


@contextmanager
def stopping(time_limit: float | None = None, told: float | None = None) -> Iterator[Stopper]:
    """Let computations in this context be stopped: after `time_limit` seconds, or by `Stopper.request`.

    Where that is a part of a longer limit, `told` is the one to name.

    Examples
    --------
    >>> with stopping() as stopper:
    ...     before = stop_requested()
    ...     stopper.request("Ctrl-C")
    ...     after = stop_requested()
    >>> before, after, stopper.answered, stop_requested()
    ('', 'Ctrl-C', 'Ctrl-C', '')
    """
    if time_limit is not None and not check_finite("time_limit", time_limit) > 0:
        raise PolinferError(f"time_limit must be above zero seconds, got {time_limit}")
    stopper = Stopper(time_limit, _CURRENT.get(), told)
    token = _CURRENT.set(stopper)
    try:
        yield stopper
    finally:
        _CURRENT.reset(token)


def stop_requested() -> str:
    """Return why the computation should end now with what it has; empty where it may go on."""
    stopper = _CURRENT.get()
    if stopper is None or not stopper.requested:
        return ""
    reason = stopper.requested
    asked: Stopper | None = stopper
    while asked is not None:
        asked.answered, asked = asked.answered or reason, asked.outer
    return reason
