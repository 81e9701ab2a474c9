"""The number of threads that XLA uses in a process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import joblib  # type: ignore[import-untyped]

_VARIABLES = ("PJRT_NPROC", "NPROC")  # read by XLA in this order, when a process first computes


def thread_limit() -> int:
    """Return the number of threads that XLA starts in this process."""
    for name in _VARIABLES:
        if _is_number(os.environ.get(name, "")):
            return max(1, int(os.environ[name]))
    return int(joblib.cpu_count())


@contextmanager
def cores_shared_by(processes: int) -> Iterator[None]:
    """Limit XLA to an equal share of the cores in processes that are started in this context.

    With more threads than cores, processes wait for one another (`benchmarks/threads.py`).
    """
    if processes == 1 or any(_is_number(os.environ.get(name, "")) for name in _VARIABLES):
        yield
        return
    before, share = os.environ.get("NPROC"), max(1, thread_limit() // processes)
    os.environ["NPROC"] = str(share)
    try:
        yield
    finally:
        if before is None:
            del os.environ["NPROC"]
        else:
            os.environ["NPROC"] = before


def _is_number(text: str) -> bool:
    return text.strip().lstrip("-").isdecimal()
