"""Running units: finished work is kept, whatever happens to the processes that do it."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from joblib.externals.loky import process_executor

from polinfer.reproduce.runner import missing, run_units
from polinfer.reproduce.store import Store
from polinfer.reproduce.unit import Unit
from polinfer.reproduce.worker import do_unit

QUICK = {"sweeps": 200, "particles": 3, "learning_rate": 1e-2}
# The trained ones share a program.
UNITS = [
    Unit("continuation", "vsmc", {"rho": 0.5, "horizon": 4}, QUICK, seed, 2, 50, optimised=False)
    for seed in (0, 2)
] + [Unit("continuation", "posterior", {"rho": 0.5, "horizon": 4})]


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((folder / "units").iterdir())}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("whole")
    run_units(UNITS, Store(folder))
    return contents(folder)


def test_finished_units_are_not_run_again_and_damaged_ones_are(
    undisturbed: dict[str, bytes], tmp_path: Path
) -> None:
    store = Store(tmp_path)
    (tmp_path / "units").mkdir()
    for name, data in undisturbed.items():
        (tmp_path / "units" / name).write_bytes(data)
    assert missing(UNITS, store) == []
    damaged = tmp_path / "units" / f"{UNITS[1].key}.safetensors"
    damaged.write_bytes(damaged.read_bytes()[:-3])
    assert missing([*UNITS, *UNITS], store) == [UNITS[1]]
    done: list[Unit] = []
    run_units(UNITS, store, finished=lambda one: done.append(one.unit))
    assert done == [UNITS[1]]
    assert contents(tmp_path) == undisturbed


@pytest.mark.usefixtures("undisturbed")
def test_joblib_still_reads_the_limit_that_workers_raise() -> None:
    # It is not part of joblib's interface; without it workers are replaced early, which only takes longer.
    assert process_executor._MAX_MEMORY_LEAK_SIZE > 1e9
    assert "_MAX_MEMORY_LEAK_SIZE" in process_executor._process_worker.__code__.co_names


def test_a_unit_goes_on_from_its_checkpoint_or_starts_again_if_that_is_damaged(
    undisturbed: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, unit = Store(tmp_path), UNITS[0]

    class StoppedError(Exception):
        pass

    def stop(path: Path, value: dict[str, float]) -> None:
        if value["done"] >= 100:
            raise StoppedError

    with monkeypatch.context() as patched:
        patched.setattr("polinfer.reproduce.worker.write_json", stop)
        with pytest.raises(StoppedError):
            do_unit(unit, store.scratch(unit), os.getpid())
    checkpoint = store.scratch(unit) / "run-0" / "checkpoint.safetensors"
    assert checkpoint.exists()
    checkpoint.write_bytes(checkpoint.read_bytes()[:-5])
    run_units([unit], store)
    assert contents(tmp_path)[f"{unit.key}.safetensors"] == undisturbed[f"{unit.key}.safetensors"]


PROGRAM = """
import sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from test_running_units import UNITS
from polinfer.reproduce.runner import run_units
from polinfer.reproduce.store import Store

if __name__ == "__main__":
    run_units(UNITS, Store(Path(sys.argv[1])), jobs=2)
"""


def start(folder: Path, program: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, str(program), str(folder)], start_new_session=True)


def wait_until(happens: object, seconds: float = 120.0) -> None:
    until = time.monotonic() + seconds
    while not happens():  # type: ignore[operator]
        assert time.monotonic() < until, "waited too long"
        time.sleep(0.02)


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["owner", "all"])
def test_killed_at_any_moment_it_ends_as_if_it_had_not_been(
    victim: str, undisturbed: dict[str, bytes], tmp_path: Path
) -> None:
    program, folder = tmp_path / "program.py", tmp_path / "results"
    program.write_text(PROGRAM.format(tests=str(Path(__file__).parent)))
    first = start(folder, program)
    wait_until(lambda: list(folder.glob("scratch/*/progress.json")))
    if victim == "owner":
        first.kill()
    else:
        os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    assert len(list(folder.glob("units/*"))) < len(UNITS)
    # A worker that outlived the owner lets go of its unit, and this one takes it over.
    assert start(folder, program).wait(timeout=180) == 0
    assert contents(folder) == undisturbed


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """Start a Dask scheduler and two workers, each a process."""
    pytest.importorskip("distributed")
    where = tmp_path / "scheduler.json"
    run = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--port", "0", "--no-dashboard"]
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    scheduler = subprocess.Popen([*run, "--scheduler-file", str(where)], **quiet)
    work = [sys.executable, "-m", "distributed.cli.dask_worker", "--scheduler-file", str(where)]
    own = ["--nthreads", "1", "--no-nanny", "--no-dashboard", "--local-directory", str(tmp_path)]
    wait_until(where.exists)
    workers = [subprocess.Popen([*work, *own], **quiet) for _ in range(2)]
    try:
        yield json.loads(where.read_text())["address"], workers
    finally:
        for process in (*workers, scheduler):
            process.kill()
            process.wait()


@pytest.mark.slow
def test_a_cluster_that_loses_a_worker_runs_its_unit_again(
    cluster: tuple[str, list[subprocess.Popen[bytes]]], undisturbed: dict[str, bytes], tmp_path: Path
) -> None:
    address, workers = cluster
    store = Store(tmp_path / "results")
    done: list[str] = []

    def finished(one: object) -> None:
        if not done:
            # The first unit is back, and both workers have had one: the other is at work on its own.
            workers[0].kill()
        done.append(one.unit.key)  # type: ignore[attr-defined]

    run_units(UNITS, store, cluster=address, finished=finished)
    assert sorted(done) == sorted(unit.key for unit in UNITS)
    assert contents(tmp_path / "results") == undisturbed
