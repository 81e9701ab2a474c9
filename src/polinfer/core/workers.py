"""Where work is done: in this process, in processes of this machine, or on a Dask cluster, by joblib."""

from __future__ import annotations

import multiprocessing
import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.util import find_spec
from typing import Any

import joblib  # type: ignore[import-untyped]
from joblib.externals.loky import process_executor  # type: ignore[import-untyped]

from polinfer.core.errors import PolinferError
from polinfer.core.threads import cores_shared_by
from polinfer_command import end_with

_GROWTH = int(2e9)  # bytes of compiled programs that a worker may gather
_elsewhere: ContextVar[bool] = ContextVar("elsewhere", default=False)  # the workers are those of a cluster

WorkerDiedError: type[Exception] = process_executor.TerminatedWorkerError
"""Raised when a process of this machine was killed; a cluster hands its work to another worker by itself."""


@contextmanager
def workers(jobs: int = 1, cluster: str | None = None) -> Iterator[None]:
    """Let `spread` use so many processes, or the workers of the Dask scheduler at `cluster`."""
    if cluster is None:
        if jobs > 1:
            _check_processes()
        # A worker watches its owner from its first moment on: it may never come to a task.  What does that
        # is no part of the package, which takes seconds to load, and longer on a busy machine.
        own: dict[str, Any] = {"backend": "loky", "initializer": end_with, "initargs": (os.getpid(),)}
        with joblib.parallel_config(n_jobs=jobs, **(own if jobs > 1 else {})), cores_shared_by(jobs):
            yield
        return
    if find_spec("distributed") is None:
        raise PolinferError("--cluster needs Dask: pip install 'polinfer[cluster]'")
    try:
        backend = joblib.parallel_config(backend="dask", scheduler_host=cluster, n_jobs=-1)
    except (OSError, ValueError) as error:
        raise PolinferError(f"--cluster {cluster}: no Dask scheduler answers there ({error})") from None
    token = _elsewhere.set(True)
    try:
        with backend:
            yield
    finally:
        _elsewhere.reset(token)


def _check_processes() -> None:
    """Refuse processes where they cannot wait for each other: joblib would go on in one, with a warning."""
    try:
        multiprocessing.Semaphore()
    except OSError as error:
        raise PolinferError(
            f"no more processes can be used here (/dev/shm: {error.strerror}); make room there, or use one "
            "(--jobs 1)"
        ) from None


def spread(task: Callable[..., Any], arguments: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
    """Call `task` with each of some arguments, wherever `workers` says; yield results as they come.

    One after another is handed out, so that the last ones do not wait behind a long one.
    """
    with warnings.catch_warnings():
        # A worker that has grown too much is replaced by a fresh one.
        warnings.filterwarnings("ignore", "A worker stopped", UserWarning)
        run = joblib.Parallel(return_as="generator_unordered", batch_size=1, pre_dispatch="all")
        owner = None if _elsewhere.get() else os.getpid()
        yield from run(joblib.delayed(_in_worker)(task, given, owner) for given in arguments)


def _in_worker(task: Callable[..., Any], arguments: tuple[Any, ...], owner: int | None) -> Any:
    """Do a task in a worker, which need not be replaced for the sake of 300 MB.

    That is where joblib suspects a leak.  Compiled programs are none, and a fresh worker compiles them again.
    """
    process_executor._MAX_MEMORY_LEAK_SIZE = _GROWTH
    if owner is not None:
        end_with(owner)
    return task(*arguments)
