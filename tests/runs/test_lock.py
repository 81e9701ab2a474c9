"""One process at a time in a run folder; a kill lets go of it, and what it left half written is removed."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import polinfer
from polinfer.core.errors import PolinferError
from polinfer.runs.folder import other_circumstances
from polinfer.runs.lock import hold, release_all

HOLDER = (
    "import sys, time\n"
    "from pathlib import Path\n"
    "from polinfer.runs.lock import hold\n"
    "hold(Path(sys.argv[1]))\n"
    "print('held', flush=True)\n"
    "time.sleep(60)\n"
)


def test_a_second_process_is_refused_until_the_first_is_killed(tmp_path: Path) -> None:
    run = tmp_path / "run"
    first = subprocess.Popen([sys.executable, "-c", HOLDER, str(run)], stdout=subprocess.PIPE, text=True)
    assert first.stdout is not None
    assert first.stdout.readline() == "held\n"
    part = run / ".policy.safetensors.1-2.part"
    part.write_bytes(b"half")
    (run / "blocks").mkdir()
    inner = run / "blocks" / ".0001.safetensors.1-2.part"
    inner.write_bytes(b"half")
    try:
        with pytest.raises(PolinferError, match="another process is at work in"):
            hold(run, "blocks")
        assert part.exists()  # what somebody else may be writing is left alone
    finally:
        os.kill(first.pid, signal.SIGKILL)
        first.wait()
        first.stdout.close()
    hold(run, "blocks")
    assert sorted(path.name for path in run.rglob("*")) == ["blocks"]
    hold(run)  # once more in the same process
    release_all()


def test_a_folder_that_was_made_anew_meanwhile_is_locked_anew(tmp_path: Path) -> None:
    run = tmp_path / "run"
    hold(run)
    run.rename(tmp_path / "moved")  # gone, and its number with it
    other = subprocess.Popen([sys.executable, "-c", HOLDER, str(run)], stdout=subprocess.PIPE, text=True)
    assert other.stdout is not None
    assert other.stdout.readline() == "held\n"
    try:
        with pytest.raises(PolinferError, match="another process is at work in"):
            hold(run)
    finally:
        other.kill()
        other.wait()
        other.stdout.close()
    hold(run)
    release_all()


ORPHAN = (
    "import os, sys, time\n"
    "from polinfer.core.workers import spread, workers\n"
    "def task(folder):\n"
    "    open(os.path.join(folder, str(os.getpid())), 'w').close()\n"
    "    time.sleep(60)\n"
    "if __name__ == '__main__':\n"
    "    with workers(2):\n"
    "        list(spread(task, [(sys.argv[1],), (sys.argv[1],)]))\n"
)


@pytest.mark.slow
def test_workers_end_soon_after_a_killed_parent(tmp_path: Path) -> None:
    script, marks = tmp_path / "script.py", tmp_path / "marks"
    marks.mkdir()
    script.write_text(ORPHAN)
    parent = subprocess.Popen([sys.executable, str(script), str(marks)])
    try:
        wait_until(lambda: len(list(marks.iterdir())) == 2, seconds=300)
    finally:
        os.kill(parent.pid, signal.SIGKILL)
        parent.wait()
    children = [int(path.name) for path in marks.iterdir()]
    wait_until(lambda: not any(alive(child) for child in children), seconds=10)


def alive(process: int) -> bool:
    try:
        # A zombie that nobody has waited for is gone all the same.
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until(done, seconds: float) -> None:
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end
        time.sleep(0.1)


def test_a_run_from_other_circumstances_says_that_digits_may_differ(tmp_path: Path) -> None:
    polinfer.infer(polinfer.make("bandit", means=[0.2, 0.9]), "exact").save(tmp_path)
    assert other_circumstances(tmp_path) is None
    path = tmp_path / "config.json"
    config = json.loads(path.read_text())
    config["made_by"]["jax"] = "0.1.2"
    path.write_text(json.dumps(config))
    note = other_circumstances(tmp_path)
    assert note is not None
    assert "jax 0.1.2, now " in note
    assert "digits may differ" in note
