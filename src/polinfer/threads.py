"""How many threads of a process compute."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

_VARIABLE = "NPROC"  # read by XLA when a process first computes


def thread_limit() -> int:
    """Return the number of threads that XLA starts in this process."""
    told = os.environ.get(_VARIABLE, "")
    return int(told) if told.isdecimal() and int(told) > 0 else os.cpu_count() or 1


@contextmanager
def cores_shared_by(processes: int) -> Iterator[None]:
    """Let XLA start as many threads as are one's share of the cores, in processes that begin meanwhile.

    Threads of one process that wait for those of another cost more than they bring: with two processes on two
    cores, one thread each is faster by a third (`benchmarks/threads.py`).  Results are the same to the last
    bit.
    """
    if processes == 1 or _VARIABLE in os.environ:
        yield
        return
    os.environ[_VARIABLE] = str(max(1, thread_limit() // processes))
    try:
        yield
    finally:
        del os.environ[_VARIABLE]
