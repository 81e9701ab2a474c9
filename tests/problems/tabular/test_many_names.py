"""Tables with very many names, or very long ones, in little time and memory."""

from __future__ import annotations

import json
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polinfer import load_table
from polinfer.core.errors import TableError, suggest
from polinfer.problems.tabular.rows import resolve_names

COUNT = 30_000


def named(names: list[str]) -> dict[str, Any]:
    """A corridor from the first state to the last, all by name."""
    moves = [[here, "on", after, 1, 0] for here, after in pairwise(names)]
    ends = {"absorbing": names[-1:], "state_names": names, "action_names": ["on"]}
    return {"outcomes": moves, "initial": names[0], "horizon": 2, **ends}


def test_names_are_found_at_once(tmp_path: Path) -> None:
    path = tmp_path / "table.json"
    path.write_text(json.dumps(named([f"place {number}" for number in range(COUNT)])))
    began = time.process_time()
    assert load_table(path).num_states == COUNT
    assert time.process_time() - began < 10  # a minute where a list is looked through for each


def test_a_name_that_is_there_twice_is_found_at_once() -> None:
    names = [f"place {number}" for number in range(COUNT)]
    began = time.process_time()
    with pytest.raises(TableError, match="'place 29998' twice"):
        resolve_names("state_names", [*names[:-1], names[-2]], COUNT)
    assert time.process_time() - began < 1


def test_a_name_that_would_make_all_others_long_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "table.json"
    names = ["x" * 20_000, *(str(number) for number in range(1, COUNT))]
    path.write_text(json.dumps(named(names)))
    with pytest.raises(TableError, match="30,000 names, one of 20,000 letters; give shorter ones"):
        load_table(path)


def test_a_very_long_word_is_compared_with_nothing() -> None:
    began = time.process_time()
    alphabet = np.random.default_rng(0).permutation(np.arange(1000, 21_000))
    long = "".join(map(chr, alphabet))
    assert suggest(long, [long[::-1], long[1:]]) == ""
    assert time.process_time() - began < 1
