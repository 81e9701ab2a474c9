"""Doing many units: on this machine's cores, or on a cluster."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence

from polinfer.core.workers import WorkerDiedError, spread, workers
from polinfer.reproduce.store import Store, lock_of
from polinfer.reproduce.unit import Unit
from polinfer.reproduce.worker import Done, Failed, do_unit

_ATTEMPTS = 2  # at a unit whose process was lost
_ALONE = 2  # jobs that put even a single unit into a process of its own
_KILLED = "its process was killed twice, perhaps for want of memory"

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
    process that dies takes its unit with it, which is run once more, alone; if that process dies, too, the
    unit is given up, and the others are finished.  A cluster hands on the work of a lost worker itself.

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
    lost: dict[str, int] = {}  # how often a unit's process was lost, or its memory not enough
    while todo := [unit for unit in missing(units, store) if unit.key not in failed]:
        # What may have brought its process down waits for the others, and then has a process to itself.
        fresh = [unit for unit in todo if unit.key not in lost]
        batch = fresh or todo[:1]
        try:
            for done in _each(batch, store, jobs if fresh else _ALONE, cluster):
                if isinstance(done, Failed):
                    key = done.unit.key
                    lost[key] = lost.get(key, 0) + 1
                    if not done.again or lost[key] >= _ATTEMPTS:
                        failed[key] = done
                    continue
                store.write(*done)
                if finished is not None:
                    finished(done)
        except WorkerDiedError:
            for unit in _begun(batch, store):
                lost[unit.key] = lost.get(unit.key, 0) + 1
                if not fresh and lost[unit.key] >= _ATTEMPTS:
                    failed[unit.key] = Failed(unit, _KILLED)
    return list(failed.values())


def _begun(units: Sequence[Unit], store: Store) -> list[Unit]:
    """Return the units that were at work when a process was lost; all unfinished ones where none was."""
    left = missing(units, store)
    return [unit for unit in left if lock_of(store.scratch(unit)).exists()] or left


def _each(units: Sequence[Unit], store: Store, jobs: int, cluster: str | None) -> Iterator[Done | Failed]:
    owner = None if cluster else os.getpid()
    tasks = [(unit, None if cluster else store.scratch(unit), owner) for unit in units]
    with workers(jobs if jobs == _ALONE else min(jobs, len(units)), cluster):
        yield from spread(do_unit, tasks)
