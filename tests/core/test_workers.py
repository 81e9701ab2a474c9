"""Processes that cannot be used."""

from __future__ import annotations

import errno
import multiprocessing
import pickle
import subprocess
import sys

import joblib
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


def test_a_worker_watches_its_owner_before_it_loads_the_package() -> None:
    with workers(2):
        backend, _ = joblib.parallel.get_active_backend()
        first = backend.backend_kwargs["initializer"]
    code = "import pickle, sys; pickle.loads(sys.stdin.buffer.read()); print('polinfer' in sys.modules)"
    found = subprocess.run(
        [sys.executable, "-c", code], input=pickle.dumps(first), capture_output=True, check=False
    )
    assert found.stdout.strip() == b"False", found.stderr
