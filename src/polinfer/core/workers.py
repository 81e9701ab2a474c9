"""Where work is done: in this process, in processes of this machine, or on a Dask cluster, by joblib."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

import joblib  # type: ignore[import-untyped]
from joblib.externals.loky import process_executor  # type: ignore[import-untyped]

from polinfer.core.errors import PolinferError
from polinfer.core.threads import cores_shared_by

_GROWTH = int(2e9)  # bytes of compiled programs that a worker may gather

WorkerDiedError: type[Exception] = process_executor.TerminatedWorkerError
"""Raised when a process of this machine was killed; a cluster hands its work to another worker by itself."""


@contextmanager
def workers(jobs: int = 1, cluster: str | None = None) -> Iterator[None]:
    """Let `spread` use so many processes, or the workers of the Dask scheduler at `cluster`."""
    if cluster is None:
        with joblib.parallel_config(n_jobs=jobs), cores_shared_by(jobs):
            yield
        return
    if find_spec("distributed") is None:
        raise PolinferError("--cluster needs Dask: pip install 'polinfer[cluster]'")
    try:
        backend = joblib.parallel_config(backend="dask", scheduler_host=cluster, n_jobs=-1)
    except (OSError, ValueError) as error:
        raise PolinferError(f"--cluster {cluster}: no Dask scheduler answers there ({error})") from None
    with backend:
        yield


def spread(task: Callable[..., Any], arguments: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
    """Call `task` with each of some arguments, wherever `workers` says; yield results as they come.

    One after another is handed out, so that the last ones do not wait behind a long one.
    """
    with warnings.catch_warnings():
        # A worker that has grown too much is replaced by a fresh one.
        warnings.filterwarnings("ignore", "A worker stopped", UserWarning)
        run = joblib.Parallel(return_as="generator_unordered", batch_size=1, pre_dispatch="all")
        yield from run(joblib.delayed(_in_worker)(task, given) for given in arguments)


def _in_worker(task: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """Do a task in a worker, which need not be replaced for the sake of 300 MB.

    That is where joblib suspects a leak.  Compiled programs are none, and a fresh worker compiles them again.
    """
    process_executor._MAX_MEMORY_LEAK_SIZE = _GROWTH
    return task(*arguments)
