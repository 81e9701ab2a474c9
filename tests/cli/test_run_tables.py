"""The tables of a run are made from its record: from its codes and numbers, not from its sentences."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import polinfer
from polinfer.analysis.account import choices_of
from polinfer.analysis.evaluation import evaluate
from polinfer.analysis.facts import policy_rows
from polinfer.analysis.summary import summarise
from polinfer.cli.run_tables import run_tables


@pytest.fixture(scope="module")
def record() -> dict[str, Any]:
    mdp = polinfer.make("probe/fork")
    posterior = polinfer.infer(mdp, "exact")
    made = summarise(posterior, evaluate(mdp, posterior, exactly=True), 1.0)
    made["certificate"] |= {"log_evidence_stderr": 0.1, "log_evidence_upper_stderr": 0.1}
    return {"domain": "probe/fork", "options": {}, **made}


def text_of(record: dict[str, Any]) -> str:
    console = Console(file=io.StringIO(), width=140)
    console.print(*run_tables(record))
    return console.file.getvalue()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("target", "limit", "itself"),
    [
        ("exp_expected_return", False, True),
        ("exp_expected_return", True, False),
        ("expected_softmax", False, False),
    ],
)
def test_what_is_bounded_goes_by_the_target(
    record: dict[str, Any], target: str, limit: bool, itself: bool
) -> None:
    for sentence in ("1: exp(E[R]), the paper's definition", "in other words"):
        estimand = {"target": target, "in_the_limit": limit, "sentence": sentence}
        text = text_of(record | {"certificate": record["certificate"] | {"estimand": estimand}})
        assert sentence in text
        assert ("log Z, its mean over worlds, from below" not in text) == itself


def test_of_many_actions_the_likeliest_two_are_shown(record: dict[str, Any]) -> None:
    names = [f"course {number}" for number in range(8)]
    probs = [0.05, 0.05, 0.05, 0.2, 0.05, 0.45, 0.1, 0.05]
    row = {"state": "first term", "probs": probs, "occupancy": 1.25}
    (line,) = policy_rows(record | {"actions": names, "policy": [row]}).rows
    assert line == ("first term", "course 5", "0.450", "course 3", "0.200", "1.25")
    few = policy_rows(record | {"actions": names[:2], "policy": [row | {"probs": [0.3, 0.7]}]})
    assert few.rows == [("first term", "0.300", "0.700", "1.25")]


def test_choices_that_are_hardly_ever_met_are_no_toss_ups() -> None:
    table = polinfer.TabularMDP.from_arrays(
        np.array([[[0.0, 1 - 1e-5, 1e-5]] * 2, [[0.0, 1.0, 0.0]] * 2, [[0.0, 1.0, 0.0]] * 2]),
        [[0.0, 2.0], [0.0, 0.0], [0.0, 0.0]],
        horizon=3,
    )
    found = choices_of(polinfer.infer(table, "exact"))
    assert (found["examined"], found["left_out"], found["toss-up"]) == (1, 1, 0)
