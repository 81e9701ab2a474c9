"""Files larger, deeper or more ambiguous than any run writes: one sentence, little time and memory."""

from __future__ import annotations

import io
import json
import os
import time
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polinfer
from polinfer.core import files
from polinfer.core.errors import PolinferError
from polinfer.core.files import read_arrays, read_regular, write_arrays
from polinfer.core.strict_json import parse_json
from polinfer.problems.domains.gridworld import parse_map
from polinfer.problems.tabular.files import load_table, table_from_mapping
from polinfer.problems.tabular.policy_files import read_policy
from polinfer.reproduce.store import lock_of, read_outcome
from polinfer.reproduce.worker import _alone
from polinfer.runs.lock import hold, release_all

TABLE: dict[str, Any] = {
    "transitions": [[[0.5, 0.5], [1.0, 0.0]], [[0.0, 1.0], [0.0, 1.0]]],
    "rewards": [[1.0, 2.0], [0.0, 0.0]],
    "initial": [1.0, 0.0],
    "horizon": 3,
}


def archive(path: Path, **more: Any) -> Path:
    with zipfile.ZipFile(path, "w") as written:
        for name, value in [*((f"{name}.npy", value) for name, value in TABLE.items()), *more.items()]:
            content = io.BytesIO()
            np.save(content, np.array(value))
            written.writestr(name, content.getvalue())
    return path


def test_a_name_that_comes_twice_is_found_in_one_pass() -> None:
    names = ", ".join(f'"k{i}": 1' for i in range(100_000))
    began = time.process_time()
    with pytest.raises(ValueError, match="'k99999' is there twice"):
        parse_json(f'{{{names}, "k99999": 2}}')
    assert time.process_time() - began < 5


def test_nesting_is_refused_before_anything_recurses_through_it() -> None:
    deepest = json.dumps({"a": [[1]]}).replace("[[1]]", "[" * 199 + "]" * 199)
    assert parse_json(deepest)
    for opened, closed in (("[", "]"), ('{"a": ', "}")):
        with pytest.raises(ValueError, match="nested too deeply"):
            parse_json(opened * 900 + "1" + closed * 900)


def test_a_file_that_claims_gigabytes_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    with path.open("wb") as file:
        file.truncate(60 << 30)  # no block of the disk
    with pytest.raises(PolinferError, match="60 GiB, and at most 1 GiB are read"):
        read_regular(path)
    path = tmp_path / "map.txt"
    with path.open("wb") as file:
        file.truncate(1 << 30)
    with pytest.raises(PolinferError, match=r"map\.txt: 1 GiB, and at most 4 MiB are read"):
        parse_map(path)


@pytest.mark.parametrize("name", ["horizon.npy", "horizon"])
def test_an_archive_with_a_name_twice_is_refused(name: str, tmp_path: Path) -> None:
    load_table(archive(tmp_path / "once.npz"))
    with pytest.warns() if name.endswith(".npy") else pytest.MonkeyPatch.context():
        path = archive(tmp_path / "twice.npz", **{name: 5})
    with pytest.raises(PolinferError, match="the name 'horizon' is there twice"):
        load_table(path)


def test_an_archive_of_few_bytes_and_very_many_numbers_is_not_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "bomb.npz"
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as written,
        written.open("transitions.npy", "w") as file,
    ):
        head = {"descr": "|i1", "fortran_order": False, "shape": (100, 10_000, 100)}
        np.lib.format.write_array_header_1_0(file, head)
        for _ in range(100):
            file.write(bytes(1_000_000))
    assert path.stat().st_size < 1_000_000
    for read in (load_table, lambda bomb: read_policy(bomb, polinfer.TabularMDP(**TABLE))):
        with pytest.raises(PolinferError, match=r"100,000,.* numbers would need about 9 GiB"):
            read(path)


@pytest.mark.parametrize("name", ["legal", "prior"])
def test_actions_that_nothing_names_are_not_numbered(name: str) -> None:
    said = {"outcomes": [[0, 0, 0, 1, 0]], "num_states": 1, "initial": 0, "horizon": 2, name: [[True]]}
    with pytest.raises(PolinferError, match="num_actions is 100,000,000, but outcomes name at most 1"):
        table_from_mapping({**said, "num_actions": 100_000_000})


def test_a_link_in_a_run_folder_loses_nothing_elsewhere(tmp_path: Path) -> None:
    elsewhere, run = tmp_path / "elsewhere", tmp_path / "run"
    elsewhere.mkdir()
    run.mkdir()
    (elsewhere / ".mine.part").write_text("precious")
    (run / "blocks").symlink_to(elsewhere)
    try:
        with pytest.raises(PolinferError, match="blocks: a link"):
            hold(run, "blocks")
    finally:
        release_all()
    assert (elsewhere / ".mine.part").exists()


def test_what_stands_for_the_lock_of_a_unit_is_neither_emptied_nor_waited_for(tmp_path: Path) -> None:
    linked, piped = tmp_path / "linked", tmp_path / "piped"
    (tmp_path / "mine").write_text("precious")
    lock_of(linked).symlink_to(tmp_path / "mine")
    with pytest.raises(OSError, match="symbolic links"), _alone(linked):
        pass
    assert (tmp_path / "mine").read_text() == "precious"
    os.mkfifo(lock_of(piped))
    with _alone(piped):
        assert piped.is_dir()


def test_an_explored_table_that_is_a_link_is_refused(tmp_path: Path) -> None:
    polinfer.infer(polinfer.TabularMDP(**TABLE), "exact").save(tmp_path / "run")
    archive(tmp_path / "other.npz")
    (tmp_path / "run" / "table.npz").symlink_to(tmp_path / "other.npz")
    with pytest.raises(PolinferError, match="leads out of its folder"):
        polinfer.load(tmp_path / "run")


def test_a_unit_that_is_no_plain_file_is_no_outcome(tmp_path: Path) -> None:
    (tmp_path / "unit").symlink_to("/dev/zero")
    assert read_outcome(tmp_path / "unit", {}) is None
    header = b'{"__metadata__": ' + b"[" * 20_000 + b"}"
    (tmp_path / "deep").write_bytes(len(header).to_bytes(8, "little") + header)
    assert read_outcome(tmp_path / "deep", {}) is None


def test_a_prior_from_a_run_on_another_problem_is_refused(tmp_path: Path) -> None:
    three = polinfer.TabularMDP(
        [[[0.0, 0.5, 0.5]] * 3, [[0.0, 0.0, 1.0]] * 3, [[0.0, 0.0, 1.0]] * 3],
        np.ones((3, 3)),
        [1.0, 0.0, 0.0],
        None,
        3,
    )
    polinfer.infer(three, "exact").save(tmp_path / "three")
    polinfer.infer(polinfer.make("gridworld/ablation", horizon=2), "exact").save(tmp_path / "grid")
    two = polinfer.TabularMDP(**TABLE)
    with pytest.raises(PolinferError, match="run on another problem: 3 states, not 2"):
        polinfer.with_terms(two, prior=str(tmp_path / "three"))
    with pytest.raises(PolinferError, match="run on another problem"):
        polinfer.with_terms(polinfer.make("blackjack"), prior=str(tmp_path / "grid"))


@pytest.mark.parametrize("damage", ["longer", "empty", "wild"])
def test_gigabytes_of_nothing_behind_arrays_are_not_read(
    damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "policy.safetensors"
    write_arrays(path, {"policy": np.ones(3)})
    if damage == "empty":
        path.write_bytes(b"")
    if damage == "wild":
        path.write_bytes((2**62).to_bytes(8, "little"))
    os.truncate(path, 1 << 32)
    monkeypatch.setattr(files, "read_regular", lambda *_, **__: pytest.fail("it was read"))
    with pytest.raises(PolinferError, match="its header tells of another length"):
        read_arrays(path)


def test_arrays_of_any_length_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "policy.safetensors"
    write_arrays(path, {"policy": np.ones(3), "none": np.ones(0)})
    monkeypatch.setattr(files, "_LARGE", path.stat().st_size)
    assert set(read_arrays(path)) == {"policy", "none"}
