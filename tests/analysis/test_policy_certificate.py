"""Policies from elsewhere beside the posterior: read from files and objects, compared by exact numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polinfer
from polinfer import PolicyCertificate, Verdict, certify_policy, exact
from polinfer.core.errors import TableError
from polinfer.problems.tabular.policy_files import read_policy

# Two arms worth 0.2 and 0.9; the second state of the table is the end.
ARMS = polinfer.TabularMDP([[[0.0, 1.0]] * 2, [[0.0, 0.0]] * 2], [[0.2, 0.9], [0.0, 0.0]], 0, [1], 1)
P_SECOND = float(np.exp(0.9) / (np.exp(0.2) + np.exp(0.9)))


class Model:
    """What Stable-Baselines3 hands over."""

    def predict(self, observation: Any, state: Any = None, deterministic: bool = False) -> tuple[Any, Any]:
        assert deterministic
        return np.array([1]), state


@pytest.mark.parametrize(
    "policy",
    [
        [1, 0],
        [[0.0, 1.0], [0.5, 0.5]],
        {0: 1},
        {"0": "1"},
        {0: {1: 1.0}},
        lambda state: 1,
        lambda state: [0.0, 1.0],
        Model(),
    ],
)
def test_every_form_of_the_same_policy_is_judged_alike(policy: Any) -> None:
    found = certify_policy(ARMS, policy)
    assert found.distance == pytest.approx(1 - P_SECOND, abs=1e-6)
    assert found.expected_return == pytest.approx(0.9)
    assert found.uniform_return == pytest.approx(0.55)
    assert found.optimal_return == pytest.approx(0.9)
    assert found.posterior_return == pytest.approx(0.2 + 0.7 * P_SECOND, abs=1e-6)
    assert found.log_probability == pytest.approx(np.log(P_SECOND), abs=1e-6)
    assert found.log_probability == found.mode_log_probability
    assert found.posterior_verdict is Verdict.TRUST
    assert "no policy known is more probable" in str(found)


def test_what_is_worse_says_what_it_loses_and_where() -> None:
    found = certify_policy(ARMS, [0, 0])
    assert found.log_probability == pytest.approx(np.log(1 - P_SECOND), abs=1e-6)
    assert "exp(0.7) times as probable" in str(found)
    assert "0.7 less than the optimum" in str(found)
    (where,) = found.differences
    assert (where.action, where.posterior_action) == (ARMS.action_names[0], ARMS.action_names[1])
    assert where.posterior_probability == pytest.approx(1 - P_SECOND, abs=1e-6)
    assert where.share == pytest.approx(1.0)


def test_time_dependent_policies_are_averaged_over_their_own_visits() -> None:
    mdp = polinfer.make("gridworld/ablation")
    table = polinfer.tabulate(mdp)
    best = exact.finite_horizon_optimum(table)
    found: PolicyCertificate = certify_policy(mdp, best.stages)
    assert found.expected_return == pytest.approx(found.optimal_return)
    assert found.log_probability is None


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("p.csv", "state,action\n0,1\n"),
        ("p.csv", "state,action,probability\n0,0,0.25\n0,1,0.75\n"),
        ("p.csv", "\ufeffstate,action,probability\r\n0,0,0.25\r\n0,1,0.75\r\n"),
        ("p.json", json.dumps([1, 0])),
        ("p.json", json.dumps({"policy": [[0.25, 0.75], [1, 0]]})),
        ("p.json", json.dumps({"0": {"1": 1.0}})),
    ],
)
def test_text_files_are_read(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content, newline="")
    read = read_policy(tmp_path / name, ARMS)
    assert read[0].tolist() == ([0.25, 0.75] if "75" in content else [0.0, 1.0])


def test_array_files_are_read(tmp_path: Path) -> None:
    np.save(tmp_path / "p.npy", np.array([1, 0]))
    np.savez(tmp_path / "p.npz", policy=np.array([[0.25, 0.75], [0.5, 0.5]]), other=np.zeros(3))
    assert read_policy(tmp_path / "p.npy", ARMS)[0].tolist() == [0.0, 1.0]
    assert read_policy(tmp_path / "p.npz", ARMS)[0].tolist() == [0.25, 0.75]


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("p.txt", "", "a policy file ends in"),
        ("gone.csv", None, "no such file"),
        ("p.csv", "a,b\n1,2\n", "needs the columns state and action"),
        ("p.csv", "state,action\n0,0\n0,0\n", "given twice"),
        ("p.csv", "state,action,state\n0,0,1\n", "the column state is there twice"),
        ("p.csv", "state,action,probability\n0,0,1,0\n", "line 2 has more cells than there are columns, 3"),
        ("p.csv", "state,action,probability\n0,0,x\n", "'x' is not a probability"),
        ("p.csv", "state,action\n0,7\n", "action 7 is outside 0..1"),
        ("p.csv", "state,action,probability\n0,0,0.4\n", "must sum to one"),
        ("p.json", "[1", "not a readable .json file"),
        ("p.json", "[0.5, 0.5, 0.5]", "a policy is 2 whole numbers"),
        ("p.json", "{}", "state '0' is missing"),
        ("p.json", '{"0": "x"}', "unknown action name 'x'"),
        ("p.json", "[[2, -1], [1, 0]]", "must be probabilities, 0 to 1"),
        ("p.npy", "junk", "not a readable .npy file"),
    ],
)
def test_bad_files_get_one_sentence(tmp_path: Path, name: str, content: str | None, sentence: str) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_text(content)
    with pytest.raises(TableError, match=sentence) as error:
        read_policy(path, ARMS)
    assert "\n" not in str(error.value)


def test_a_policy_handed_to_certify_is_sent_to_the_right_door() -> None:
    with pytest.raises(polinfer.PolinferError, match="certify_policy"):
        polinfer.certify(np.zeros((2, 2)))  # type: ignore[arg-type]
