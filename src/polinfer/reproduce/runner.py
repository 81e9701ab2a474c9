"""Doing many units: on this machine's cores, or on a cluster."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import joblib  # type: ignore[import-untyped]
from joblib.externals.loky import process_executor  # type: ignore[import-untyped]

from polinfer.core.errors import PolinferError
from polinfer.core.threads import cores_shared_by
from polinfer.reproduce.store import Store
from polinfer.reproduce.unit import Unit
from polinfer.reproduce.worker import Done, Failed, do_unit

_ATTEMPTS = 3
_GROWTH = int(2e9)  # bytes of compiled programs that a worker may gather

Finished = Callable[[Done], None]
"""Called after a unit is stored."""


def missing(units: Iterable[Unit], store: Store) -> list[Unit]:
    """Return the units without a whole outcome in `store`, each once."""
    wanted = {unit.key: unit for unit in units}
    return [unit for unit in wanted.values() if store.read(unit) is None]


def run_units(
    units: Sequence[Unit],
    store: Store,
    *,
    jobs: int = 1,
    cluster: str | None = None,
    finished: Finished | None = None,
) -> list[Failed]:
    """Run what is missing in `store`; return what could not be done.

    Every outcome is stored as soon as it is there, so whatever ends this loses no finished unit.  A worker
    process that dies takes its unit with it, which is run again; so does a worker of a cluster.

    Parameters
    ----------
    units
        What is wanted.
    store
        Where outcomes are kept.
    jobs
        Units at a time, each in a process of its own.
    cluster
        The address of a Dask scheduler; its workers then do the work.
    finished
        Called after each unit.
    """
    failed: dict[str, Failed] = {}
    for attempt in range(_ATTEMPTS):
        todo = [unit for unit in missing(units, store) if unit.key not in failed]
        if not todo:
            break
        try:
            for done in _each(todo, store, jobs, cluster):
                if isinstance(done, Failed):
                    failed[done.unit.key] = done
                    continue
                store.write(*done)
                if finished is not None:
                    finished(done)
        except process_executor.TerminatedWorkerError:
            if attempt + 1 == _ATTEMPTS:
                raise PolinferError(
                    f"worker processes were killed {_ATTEMPTS} times, perhaps for want of memory; what is "
                    "finished is kept: run again with fewer --jobs"
                ) from None
    return list(failed.values())


def _each(units: Sequence[Unit], store: Store, jobs: int, cluster: str | None) -> Iterator[Done | Failed]:
    processes = 1 if cluster else min(jobs, len(units))
    with _backend(cluster), cores_shared_by(processes), warnings.catch_warnings():
        # A worker that has grown too much is replaced by a fresh one.
        warnings.filterwarnings("ignore", "A worker stopped", UserWarning)
        # One unit after another is handed out, so that the last ones do not wait behind a long one.
        run = joblib.Parallel(
            n_jobs=-1 if cluster else jobs, return_as="generator_unordered", batch_size=1, pre_dispatch="all"
        )
        owner = None if cluster else os.getpid()
        tasks = (
            joblib.delayed(_do_unit)(unit, None if cluster else store.scratch(unit), owner) for unit in units
        )
        yield from run(tasks)


def _do_unit(unit: Unit, scratch: Path | None, owner: int | None) -> Done | Failed:
    """Do a unit in a worker, which need not be replaced for the sake of 300 MB.

    That is where joblib suspects a leak.  Compiled programs are none, and a fresh worker compiles them again.
    """
    process_executor._MAX_MEMORY_LEAK_SIZE = _GROWTH
    return do_unit(unit, scratch, owner)


def _backend(cluster: str | None) -> AbstractContextManager[Any]:
    if cluster is None:
        return nullcontext()
    if find_spec("distributed") is None:
        raise PolinferError("--cluster needs Dask: pip install 'polinfer[cluster]'")
    try:
        found: AbstractContextManager[Any] = joblib.parallel_config(backend="dask", scheduler_host=cluster)
    except (OSError, ValueError) as error:
        raise PolinferError(f"--cluster {cluster}: no Dask scheduler answers there ({error})") from None
    return found
