"""Run folders from elsewhere: nothing in them runs, nothing outside of them is read."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

import polinfer
from polinfer.core.errors import PolinferError
from polinfer.core.files import write_arrays


@pytest.fixture
def run(tmp_path: Path) -> Path:
    table = polinfer.TabularMDP(
        [[[0.5, 0.5], [0.1, 0.9]], [[0, 0], [0, 0]]],
        [[1.0, -2.0], [0, 0]],
        0,
        [1],
        5,
        action_names=["a", "b"],
    )
    polinfer.infer(table, "exact").save(tmp_path / "run")
    return tmp_path / "run"


def change(run: Path, **fields: object) -> None:
    path = run / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


@pytest.mark.parametrize(
    "problem",
    [
        {"domain": "gym:evil_module:Env-v0", "options": {}},
        {"domain": "gym:evil_module.py:Env", "options": {}},
        {"domain": "evil_module.py:Env", "options": {}},
        {"domain": "gym:FrozenLake-v1", "options": {"abstraction": "evil_module:Env"}},
        {"domain": "gym:FrozenLake-v1", "options": {"wrappers": [{"deep": "evil_module:Env"}]}},
    ],
)
def test_code_that_a_folder_names_is_not_run(
    run: Path, tmp_path: Path, problem: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "evil_module.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    change(run, problem=problem)
    with pytest.raises(PolinferError, match=r"which a file cannot start.*--code"):
        polinfer.load(run)
    assert not (tmp_path / "ran").exists()


def test_a_pipe_a_device_and_a_link_outside_are_refused(run: Path, tmp_path: Path) -> None:
    for name in ("config.json", "policy.safetensors", "problem.npz"):
        kept = (run / name).read_bytes()
        (run / name).unlink()
        (tmp_path / "elsewhere").write_bytes(kept)
        (run / name).symlink_to(tmp_path / "elsewhere")
        with pytest.raises(PolinferError, match="a link that leads out of its folder"):
            polinfer.load(run)
        (run / name).unlink()
        os.mkfifo(run / name)
        with pytest.raises(PolinferError, match="a pipe or a device"):
            polinfer.load(run)
        (run / name).unlink()
        (run / name).write_bytes(kept)
    assert polinfer.load(run).policies is not None


def test_a_flipped_bit_of_an_array_is_noticed(run: Path) -> None:
    path = run / "policy.safetensors"
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(PolinferError, match=r"policy\.safetensors: damaged"):
        polinfer.load(run)


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("proposal.rows", np.zeros((1, 3, 2), np.float32), r"'proposal.rows' is float32\[1, 3, 2\]"),
        (
            "proposal.rows",
            np.full((1, 2, 2), np.nan, np.float32),
            "holds a number that is not finite",
        ),
        ("policies.top_policies", np.full((2, 2), 7, np.int32), "action that is not legal in its state"),
        ("policies.reach_policy", np.full((2, 2), 0.9), "'policies.reach_policy' holds no probabilities"),
        (
            "policies.log_evidence",
            np.array(np.inf),
            "log_evidence' holds a number that is not",
        ),
        ("policies.top_returns", np.zeros(1), "another length than"),
    ],
)
def test_arrays_are_checked_against_the_problem(run: Path, name: str, value: np.ndarray, says: str) -> None:
    path = run / "policy.safetensors"
    write_arrays(path, {**load_file(path), name: value})
    with pytest.raises(PolinferError, match=says):
        polinfer.load(run)


def test_another_table_than_the_one_that_was_planned_on_is_refused(run: Path) -> None:
    table = polinfer.load_table(run / "problem.npz")
    polinfer.save_table(table.with_problem(reward_scale=2.0), run / "problem.npz")
    with pytest.raises(PolinferError, match="not the table that this posterior was inferred for"):
        polinfer.load(run)
