"""Units whose processes are lost: run once more, alone, then reported; all others are finished."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from polinfer.core.workers import WorkerDiedError
from polinfer.reproduce import runner
from polinfer.reproduce.store import Outcome, Store, Times, lock_of
from polinfer.reproduce.unit import Unit
from polinfer.reproduce.worker import Done, Failed, do_unit

UNITS = [Unit("gridworld/ablation", "optimal", {"reward_scale": scale}) for scale in (1.0, 2.0, 3.0, 4.0)]
CULPRIT = UNITS[1]


def done(unit: Unit) -> Done:
    return Done(unit, Outcome({"mean": np.zeros(1)}), Times(0.0, 0.0))


@pytest.mark.parametrize("deaths", [1, 2, 9])
def test_a_lost_unit_is_tried_once_more_alone(
    deaths: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches: list[list[Unit]] = []

    def each(units: Sequence[Unit], store: Store, jobs: int, cluster: object) -> Iterator[Done | Failed]:
        batches.append(list(units))
        for unit in units:
            lock = lock_of(store.scratch(unit))
            lock.parent.mkdir(parents=True, exist_ok=True)
            lock.touch()
            if unit == CULPRIT and sum(CULPRIT in batch for batch in batches) <= deaths:
                raise WorkerDiedError
            yield done(unit)

    monkeypatch.setattr(runner, "_each", each)
    store = Store(tmp_path)
    failed = runner.run_units(UNITS, store, jobs=2)
    finished = [unit for unit in UNITS if store.read(unit) is not None]
    assert batches[0] == UNITS
    assert [CULPRIT] in batches
    if deaths == 1:
        assert not failed
        assert finished == UNITS
    else:
        assert [one.unit for one in failed] == [CULPRIT]
        assert finished == [unit for unit in UNITS if unit != CULPRIT]
        assert sum(CULPRIT in batch for batch in batches) == 2


def test_want_of_memory_is_a_reason_to_try_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def starve(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("polinfer.reproduce.worker._timed", starve)
    found = do_unit(CULPRIT, tmp_path / "scratch", None)
    assert isinstance(found, Failed)
    assert found.again
    # In this process there is none again; in a process of its own there is.
    store = Store(tmp_path)
    assert runner.run_units([CULPRIT], store, jobs=1) == []
    assert store.read(CULPRIT) is not None


def go_hungry(unit: Unit, scratch: Path, owner: int) -> Done | Failed:
    """Run the culprit in a process that the system gives no more memory."""
    if unit != CULPRIT:
        return do_unit(unit, scratch, owner)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 20), before[1]))
    try:
        return do_unit(unit, scratch, owner)
    finally:  # the same process may take the next unit
        resource.setrlimit(resource.RLIMIT_AS, before)


def die(unit: Unit, scratch: Path, owner: int) -> Done | Failed:
    if unit == CULPRIT:
        os.kill(os.getpid(), signal.SIGKILL)
    return do_unit(unit, scratch, owner)


@pytest.mark.slow
def test_real_processes_that_are_killed_cost_only_their_own_unit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "do_unit", die)
    store = Store(tmp_path)
    failed = runner.run_units(UNITS, store, jobs=2)
    assert [one.unit for one in failed] == [CULPRIT]
    assert [unit for unit in UNITS if store.read(unit) is not None] == [u for u in UNITS if u != CULPRIT]


@pytest.mark.slow
def test_a_unit_that_is_given_no_memory_costs_only_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "do_unit", go_hungry)
    store = Store(tmp_path)
    failed = runner.run_units(UNITS, store, jobs=2)
    assert [one.unit for one in failed] == [CULPRIT]
    assert [unit for unit in UNITS if store.read(unit) is not None] == [u for u in UNITS if u != CULPRIT]
