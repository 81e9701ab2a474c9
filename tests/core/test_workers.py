"""Processes that cannot be used."""

from __future__ import annotations

import errno
import multiprocessing

import pytest

from polinfer.core.errors import PolinferError
from polinfer.core.workers import workers


def test_a_machine_without_shared_memory_is_said_where_processes_are_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full() -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(multiprocessing, "Semaphore", full)
    with pytest.raises(PolinferError, match=r"/dev/shm: No space left on device.*--jobs 1"), workers(2):
        pass
    with workers(1):
        pass
