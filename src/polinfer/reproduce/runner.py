"""Doing many units: on this machine's cores, or on a cluster."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence

from polinfer.core.errors import PolinferError
from polinfer.core.workers import WorkerDiedError, spread, workers
from polinfer.reproduce.store import Store
from polinfer.reproduce.unit import Unit
from polinfer.reproduce.worker import Done, Failed, do_unit

_ATTEMPTS = 3

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
        except WorkerDiedError:
            if attempt + 1 == _ATTEMPTS:
                raise PolinferError(
                    f"worker processes were killed {_ATTEMPTS} times, perhaps for want of memory; what is "
                    "finished is kept: run again with fewer --jobs"
                ) from None
    return list(failed.values())


def _each(units: Sequence[Unit], store: Store, jobs: int, cluster: str | None) -> Iterator[Done | Failed]:
    owner = None if cluster else os.getpid()
    tasks = [(unit, None if cluster else store.scratch(unit), owner) for unit in units]
    with workers(min(jobs, len(units)), cluster):
        yield from spread(do_unit, tasks)
