"""Run folders: stopped anywhere, a run ends as if it had not been."""

import json
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import polinfer
from polinfer.core.errors import PolinferError
from polinfer.runs.folder import choose_folder, infer_in_folder

LOOP = polinfer.make("continuation", rho=0.5, horizon=4)
CONFIG = polinfer.VsmcConfig(sweeps=200, particles=3, learning_rate=1e-2)
FILES = ("config.json", "metrics.jsonl", "policy.safetensors")


class StoppedError(Exception):
    pass


def read(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in FILES}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("whole")
    infer_in_folder(LOOP, CONFIG, folder, seeds=2)
    assert not (folder / "checkpoint.safetensors").exists()
    return read(folder)


def test_a_stopped_run_resumes_bit_for_bit(undisturbed: dict[str, bytes], tmp_path: Path) -> None:
    def stop_at(sweeps: int) -> object:
        def report(now: polinfer.Report) -> None:
            if now.done >= sweeps:
                raise StoppedError

        return report

    for sweeps in (2, 66, 130):
        with pytest.raises(StoppedError):
            infer_in_folder(LOOP, CONFIG, tmp_path, seeds=2, resume=sweeps > 2, progress=stop_at(sweeps))
    done = []
    infer_in_folder(LOOP, CONFIG, tmp_path, seeds=2, resume=True, progress=lambda now: done.append(now.done))
    assert done[0] == 132  # it went on, it did not start again
    assert read(tmp_path) == undisturbed


def test_a_finished_run_is_not_run_again(undisturbed: dict[str, bytes], tmp_path: Path) -> None:
    for name, data in undisturbed.items():
        (tmp_path / name).write_bytes(data)
    calls: list[polinfer.Report] = []
    posterior = infer_in_folder(LOOP, CONFIG, tmp_path, seeds=2, resume=True, progress=calls.append)
    assert not calls
    assert posterior.seeds == 2


def test_other_settings_are_refused_by_name(undisturbed: dict[str, bytes], tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes(undisturbed["config.json"])
    other = replace(CONFIG, particles=4)
    with pytest.raises(PolinferError, match="started with particles 3, not 4"):
        infer_in_folder(LOOP, other, tmp_path, seeds=2, resume=True)


def test_a_folder_without_a_run_cannot_be_resumed(tmp_path: Path) -> None:
    with pytest.raises(PolinferError, match="no such file"):
        infer_in_folder(LOOP, CONFIG, tmp_path / "typo", seeds=2, resume=True)
    assert not (tmp_path / "typo").exists()


def test_another_problem_is_refused(undisturbed: dict[str, bytes], tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes(undisturbed["config.json"])
    other = polinfer.make("continuation", rho=0.25, horizon=4)
    with pytest.raises(PolinferError, match=r"started with rho 0\.5, not 0\.25"):
        infer_in_folder(other, CONFIG, tmp_path, seeds=2, resume=True)


def test_a_damaged_checkpoint_is_refused(undisturbed: dict[str, bytes], tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes(undisturbed["config.json"])
    (tmp_path / "checkpoint.safetensors").write_bytes(b"half a file")
    with pytest.raises(PolinferError, match="damaged"):
        infer_in_folder(LOOP, CONFIG, tmp_path, seeds=2, resume=True)


def stopped_at(sweeps: int, folder: Path, seed: int = 0, config: polinfer.VsmcConfig = CONFIG) -> Path:
    def report(now: polinfer.Report) -> None:
        if now.done >= sweeps:
            raise StoppedError

    with pytest.raises(StoppedError):
        infer_in_folder(LOOP, config, folder, seed=seed, seeds=2, progress=report)
    return folder / "checkpoint.safetensors"


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"seed": 3}, id="seed"),
        pytest.param({"config": replace(CONFIG, learning_rate=0.1)}, id="settings", marks=pytest.mark.slow),
    ],
)
def test_a_checkpoint_of_another_run_is_refused(other: dict[str, Any], tmp_path: Path) -> None:
    mine, foreign = (stopped_at(66, tmp_path / name, **keys) for name, keys in (("a", {}), ("b", other)))
    mine.write_bytes(foreign.read_bytes())
    with pytest.raises(PolinferError, match="written by another run; start the run again"):
        infer_in_folder(LOOP, CONFIG, tmp_path / "a", seeds=2, resume=True)


def test_a_checkpoint_that_was_written_by_another_program_is_refused(tmp_path: Path) -> None:
    path = stopped_at(66, tmp_path)
    save_file({**load_file(path), "run:more": np.zeros(3)}, path)  # arrays without our digest
    with pytest.raises(PolinferError, match="not what was written"):
        infer_in_folder(LOOP, CONFIG, tmp_path, seeds=2, resume=True)


def test_the_answer_of_another_run_is_refused(tmp_path: Path) -> None:
    mine, other = tmp_path / "mine", tmp_path / "other"
    infer_in_folder(LOOP, "exact", mine)
    infer_in_folder(polinfer.make("continuation", rho=0.6, horizon=4), "exact", other)
    (other / "policy.safetensors").write_bytes((mine / "policy.safetensors").read_bytes())
    with pytest.raises(PolinferError, match=r"policy\.safetensors.*written by another run"):
        polinfer.load(other)


def test_blocks_that_changed_places_are_refused(tmp_path: Path) -> None:
    config = polinfer.ParticlesConfig(particles=8, sweeps=4)

    def stop(now: polinfer.Report) -> None:
        if now.done == 3:
            raise StoppedError

    with pytest.raises(StoppedError):
        infer_in_folder(LOOP, config, tmp_path, progress=stop)
    first, second, *_ = sorted((tmp_path / "blocks").iterdir())
    second.write_bytes(first.read_bytes())
    with pytest.raises(PolinferError, match=r"000001\.safetensors.*not what was written"):
        infer_in_folder(LOOP, config, tmp_path, resume=True)


def test_a_full_folder_is_never_overwritten_silently(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(PolinferError, match="holds files already"):
        choose_folder(tmp_path, "run", overwrite=False)
    (tmp_path / "policy.safetensors").write_text("old")
    assert choose_folder(tmp_path, "run", overwrite=True) == tmp_path
    assert (tmp_path / "thesis.tex").read_text() == "mine"
    assert not (tmp_path / "policy.safetensors").exists()


def test_new_folders_are_numbered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("runs/grid-vsmc", "runs/grid-vsmc-2", "runs/grid-vsmc-3"):
        folder = choose_folder(None, "grid-vsmc", overwrite=False)
        assert folder.as_posix() == name
        assert not folder.exists()  # a run that is refused leaves nothing behind
        folder.mkdir(parents=True)


@pytest.mark.slow
def test_kill_and_resume_on_the_command_line(tmp_path: Path) -> None:
    """A real `kill -9` in the middle, then `--resume`: the files of an undisturbed run in this process."""
    command = [sys.executable, "-m", "polinfer", "plan", "continuation", "--horizon", "4", "--seeds", "2"]
    command += ["--method", "vsmc", "--sweeps", "20000", "--particles", "3", "--episodes", "10", "--json"]
    command += ["--out", str(tmp_path / "killed")]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while not (tmp_path / "killed" / "checkpoint.safetensors").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert (tmp_path / "killed" / "checkpoint.safetensors").exists()
    assert not (tmp_path / "killed" / "policy.safetensors").exists()
    subprocess.run([*command, "--resume"], check=True, capture_output=True)
    config = polinfer.VsmcConfig(sweeps=20_000, particles=3)
    infer_in_folder(LOOP, config, tmp_path / "whole", seeds=2)
    killed, whole = read(tmp_path / "killed"), read(tmp_path / "whole")
    for name in ("metrics.jsonl", "policy.safetensors"):
        assert killed[name] == whole[name]


def test_a_run_from_before_a_setting_goes_on(undisturbed: dict[str, bytes], tmp_path: Path) -> None:
    """What it was started with lacks settings that came later: they had their defaults."""
    for name, data in undisturbed.items():
        (tmp_path / name).write_bytes(data)
    config = json.loads((tmp_path / "config.json").read_text())
    del config["config"]["memo_refresh"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    found = infer_in_folder(LOOP, CONFIG, tmp_path, seeds=2, resume=True)
    assert found.seeds == 2
    with pytest.raises(PolinferError, match="started with seed 0, not 1"):
        infer_in_folder(LOOP, CONFIG, tmp_path, seed=1, seeds=2, resume=True)
