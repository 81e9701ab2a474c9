"""Runs of soft actor-critic in folders: stopped anywhere, also while the replay store wraps around."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import safetensors.numpy

import polinfer
from polinfer.actor_critic.config import SacConfig
from polinfer.core.errors import PolinferError
from polinfer.runs.folder import choose_folder, infer_in_folder

from .sac_cases import slippery

TABLE = slippery()
# Blocks of 6 steps; learning starts in the middle of one; the store wraps at 96, 192, 288, ...
CONFIG = SacConfig(
    alpha=0.3,
    gamma=0.9,
    steps=405,
    buffer=96,
    learning_starts=41,
    batch=8,
    steps_per_update=3,
    critic_rate=3e-3,
    actor_rate=3e-3,
    target_every=10,
    width=8,
    depth=1,
)
FILES = ("config.json", "metrics.jsonl", "policy.safetensors")


class StoppedError(Exception):
    pass


def run(folder: Path, stop: Callable[[int], bool] | None = None, resume: bool = False) -> polinfer.Posterior:
    def report(now: polinfer.Report) -> None:
        if stop is not None and stop(int(now.done)):
            raise StoppedError

    return infer_in_folder(TABLE, CONFIG, folder, seed=3, seeds=2, resume=resume, progress=report)


def stopped(folder: Path, at: int, resume: bool = False) -> None:
    with pytest.raises(StoppedError):
        run(folder, lambda done: done >= at, resume)
    assert (folder / "checkpoint.safetensors").exists()
    assert not (folder / "policy.safetensors").exists()


def read(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in FILES}


class Whole:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.posterior = run(folder)
        self.files = read(folder)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    return Whole(tmp_path_factory.mktemp("whole"))


def test_a_finished_run_leaves_its_answer_and_nothing_to_go_on_with(whole: Whole) -> None:
    left = {path.name for path in whole.folder.iterdir()}
    assert left == {*FILES, "problem.npz"}


def test_a_stopped_run_resumes_bit_for_bit(whole: Whole, tmp_path: Path) -> None:
    # Before learning starts, at its start, before the first wrap, at it, amid the second round, near the end.
    for at in (6, 42, 90, 96, 150, 396):
        stopped(tmp_path, at, resume=at > 6)
    assert (tmp_path / "blocks").is_dir()
    done = []
    infer_in_folder(
        TABLE, CONFIG, tmp_path, seed=3, seeds=2, resume=True, progress=lambda now: done.append(now.done)
    )
    assert done[0] > 396  # it went on, it did not start again
    assert read(tmp_path) == whole.files
    assert not (tmp_path / "blocks").exists()
    assert not (tmp_path / "checkpoint.safetensors").exists()


def test_load_gives_back_policy_and_trace(whole: Whole) -> None:
    found = polinfer.load(whole.folder)
    assert (found.method, found.seeds, found.mdp) == ("sac", 2, TABLE)
    np.testing.assert_array_equal(found.table_probs(), whole.posterior.table_probs())
    for one, other in zip(
        jax.tree.leaves(found.proposal), jax.tree.leaves(whole.posterior.proposal), strict=True
    ):
        np.testing.assert_array_equal(one, other)
    assert found.trace.unit == whole.posterior.trace.unit == "steps"
    np.testing.assert_array_equal(found.trace.done, whole.posterior.trace.done)
    assert found.trace.columns.keys() == whole.posterior.trace.columns.keys()
    for name, column in whole.posterior.trace.columns.items():
        np.testing.assert_array_equal(found.trace[name], column)
    assert (found.config, found.seed) == (CONFIG, 3)
    assert polinfer.diagnose(found) == polinfer.diagnose(whole.posterior)


@pytest.fixture(scope="module")
def stopped_at_150(tmp_path_factory: pytest.TempPathFactory, whole: Whole) -> Path:
    folder = tmp_path_factory.mktemp("half")
    stopped(folder, 150)
    return folder


@pytest.fixture
def half(tmp_path: Path, stopped_at_150: Path) -> Path:
    """A run that was stopped in the second round of its store."""
    return Path(shutil.copytree(stopped_at_150, tmp_path / "half"))


def test_a_block_without_its_checkpoint_is_made_again(whole: Whole, half: Path) -> None:
    """Killed between the two files, a block lies there that the checkpoint does not know."""
    older = {
        path: path.read_bytes() for path in [half / "checkpoint.safetensors", *(half / "blocks").iterdir()]
    }
    stopped(half, 156, resume=True)
    for path, content in older.items():
        path.write_bytes(content)
    run(half, resume=True)
    assert read(half) == whole.files


def test_a_damaged_replay_block_is_refused_with_a_sentence(half: Path) -> None:
    block = sorted((half / "blocks").iterdir())[-1]
    block.write_bytes(block.read_bytes()[:-9])
    with pytest.raises(PolinferError, match=f"{block.name}.*damaged"):
        run(half, resume=True)


def rewrite(half: Path, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    block = sorted((half / "blocks").iterdir())[-1]
    arrays = change(safetensors.numpy.load(block.read_bytes()))
    block.write_bytes(safetensors.numpy.save(arrays))


def test_a_replay_block_without_rows_is_refused_with_a_sentence(half: Path) -> None:
    rewrite(half, lambda arrays: {"position": arrays["position"]})
    with pytest.raises(PolinferError, match="replay"):
        run(half, lambda _: True, resume=True)


def test_a_replay_block_of_another_shape_is_refused_with_a_sentence(half: Path) -> None:
    rewrite(half, lambda arrays: arrays | {"rows": arrays["rows"][:, :, :-1].copy()})
    with pytest.raises(PolinferError, match="replay"):
        run(half, lambda _: True, resume=True)


def test_a_missing_replay_block_is_refused_with_a_sentence(half: Path) -> None:
    sorted((half / "blocks").iterdir())[-3].unlink()
    with pytest.raises(PolinferError, match="replay"):
        run(half, lambda _: True, resume=True)


def test_the_disk_holds_no_more_than_the_store(half: Path) -> None:
    kept = len(list((half / "blocks").iterdir())) * 6
    assert kept <= 96 + 2 * 6


def test_a_program_in_double_precision_can_resume(half: Path, whole: Whole) -> None:
    with jax.enable_x64(True):
        run(half, resume=True)
    assert read(half) == whole.files


def test_a_program_in_double_precision_can_load(whole: Whole) -> None:
    with jax.enable_x64(True):
        found = polinfer.load(whole.folder)
        np.testing.assert_array_equal(found.table_probs(), whole.posterior.table_probs())


def test_other_settings_are_refused_by_name(half: Path) -> None:
    other = replace(CONFIG, alpha=0.4)
    with pytest.raises(PolinferError, match=r"started with alpha 0\.3, not 0\.4"):
        infer_in_folder(TABLE, other, half, seed=3, seeds=2, resume=True)


def test_a_folder_that_is_overwritten_starts_without_old_replay(half: Path) -> None:
    choose_folder(half, "run", overwrite=True)
    assert list(half.iterdir()) == []
