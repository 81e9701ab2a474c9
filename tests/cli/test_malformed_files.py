"""Random damage to maps and tables: never a traceback at the command line, never a silent wrong answer."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import polinfer
from odd_text import odd_text
from polinfer.cli import main

QUICK = settings(
    derandomize=True,
    deadline=None,
    max_examples=12,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> bool:
    """Run a command; return whether it was refused, with exactly one sentence."""
    try:
        code = main(list(words))
    except SystemExit as stop:
        code = stop.code
    captured = capsys.readouterr()
    assert code in (0, 2)
    assert "Traceback" not in captured.err
    if code == 2:
        assert captured.out == ""
        assert captured.err.startswith("polinfer: ")
        assert len(captured.err.strip().splitlines()) == 1
    return code == 2


@QUICK
@given(st.text(alphabet=".RGWS#x \n\t", max_size=12))
def test_malformed_maps(capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str) -> None:
    path = tmp_path / "map.txt"
    path.write_text(text)
    lines = [line.rstrip() for line in text.strip("\n").split("\n")]
    good = (
        len({len(line) for line in lines}) == 1
        and set("".join(lines)) <= set(".RGWS#")
        and "S" in text
        and lines[0] != ""
    )
    # Comparing with a limit of one policy skips the enumeration and solves by everything else.
    words = [
        "compare",
        "gridworld",
        "--no-learned",
        "--map",
        str(path),
        "--horizon",
        "2",
        "--limit",
        "1",
        "--json",
    ]
    assert refused(capsys, *words) == (not good)


VALID = {
    "transitions": [[[0.5, 0.5], [0.0, 1.0]], [[0.0, 0.0], [0.0, 0.0]]],
    "rewards": [[1.0, -2.0], [0.0, 0.0]],
    "initial": [1.0, 0.0],
    "absorbing": [False, True],
    "horizon": 3,
    "state_names": ["here", "there"],
}
junk = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.floats(),
    odd_text(3),
    st.lists(st.floats(-1, 2), max_size=3),
    st.lists(st.lists(st.floats(-1, 2), max_size=3), max_size=3),
)


@QUICK
@given(st.sampled_from(sorted(VALID)), junk)
def test_malformed_tables(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str, value: object
) -> None:
    contents = {**VALID, name: value}
    path = tmp_path / "table.json"
    path.write_text(json.dumps(contents))
    words = ["compare", str(path), "--no-learned", "--json"]
    if not refused(capsys, *words):
        # What is accepted is a proper MDP.
        table = polinfer.load_table(path)
        np.testing.assert_allclose(table.probability.sum(axis=-1), 1)
        assert math.isclose(table.initial.sum(), 1)


@QUICK
@given(st.binary(max_size=40), st.sampled_from([".npz", ".json"]))
def test_files_of_random_bytes(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, data: bytes, suffix: str
) -> None:
    path = tmp_path / f"table{suffix}"
    path.write_bytes(data)
    assert refused(capsys, "plan", str(path), "--method", "exact", "--json")


@pytest.mark.parametrize("code", [0x110000, 0xFFFFFFFF, 0xD800], ids=["beyond letters", "all bits", "half"])
@pytest.mark.parametrize("where", ["success", "state_names", "policy"])
def test_a_text_in_an_array_that_is_no_text(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, code: int, where: str
) -> None:
    def spoil(names: list[str]) -> np.ndarray:
        texts = np.array(names)
        letters = texts.view(np.uint32)
        letters[0] = code
        return texts

    arrays = {
        "transitions": [[[0, 1], [0.5, 0.5]], [[0, 1], [0, 1]]],
        "rewards": [[1, 2], [0, 0]],
        "initial": [1, 0],
        "absorbing": [False, True],
        "horizon": 3,
        "state_names": np.array(["near", "home"]),
        "action_names": np.array(["walk", "run"]),
    }
    words = ["compare", str(tmp_path / "table.npz"), "--no-learned"]
    if where == "policy":
        np.save(tmp_path / "policy.npy", spoil(["walk", "walk"]))
        words = ["certify", words[1], "--policy", str(tmp_path / "policy.npy")]
    else:
        arrays[where] = spoil(["near", "home"])
    np.savez(tmp_path / "table.npz", **arrays)
    assert refused(capsys, *words)
