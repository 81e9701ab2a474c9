"""Whether annealing is judged rightly by what other runs say."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import polinfer
from polinfer import Verdict
from polinfer.analysis import another_run
from polinfer.analysis.another_run import by_another_start
from polinfer.analysis.convergence import Convergence
from polinfer.core.progress import Report, watching
from polinfer.core.stopping import stopping
from polinfer.posterior.posterior import Posterior

TABLE = polinfer.tabulate(polinfer.make("gridworld/ablation"))
SETTINGS = {"policies": 64, "islands": 4}


@pytest.fixture(scope="module")
def answer() -> Posterior:
    return polinfer.infer(TABLE, "tempered", **SETTINGS)


@pytest.fixture(scope="module")
def elsewhere() -> Posterior:
    """An answer to larger rewards: what a run would be that got stuck at one policy."""
    return polinfer.infer(polinfer.make("gridworld/ablation", reward_scale=8.0), "tempered", **SETTINGS)


def judged(posterior: Posterior) -> Any:
    return by_another_start(posterior, TABLE, polinfer.diagnose(posterior), 0, "default")


def stuck(posterior: Posterior, less: float) -> Posterior:
    assert posterior.policies is not None
    whole = replace(posterior.policies, log_evidence=posterior.policies.log_evidence - less)
    return replace(posterior, policies=whole)


def test_a_run_from_another_start_that_agrees_is_trusted(answer: Posterior) -> None:
    found = judged(answer)
    assert found.verdict is Verdict.TRUST
    assert found.known_from == "run from another start"
    assert found.distance < 0.03


def test_where_the_other_start_got_stuck_one_from_larger_rewards_decides(
    answer: Posterior, elsewhere: Posterior, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(another_run, "infer", lambda *_, **__: stuck(elsewhere, 50))
    found = judged(answer)
    assert found.verdict is Verdict.TRUST
    assert found.known_from == "run from a larger reward scale"
    assert found.distance < 0.03


def test_an_answer_that_missed_a_mode_is_refuted_from_larger_rewards(
    answer: Posterior, elsewhere: Posterior, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even though the other start found still less, and the same start again would agree."""
    monkeypatch.setattr(another_run, "infer", lambda *_, **__: stuck(answer, 50))
    missed = replace(elsewhere, mdp=TABLE, view=TABLE, policies=stuck(answer, 5).policies)
    found = judged(missed)
    assert found.verdict is Verdict.DISTRUST
    assert "nats more" in found.reason


def test_more_evidence_from_another_start_refutes(answer: Posterior, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(another_run, "infer", lambda *_, **__: stuck(answer, -2))
    found = judged(answer)
    assert found.verdict is Verdict.DISTRUST
    assert "2.00 nats more" in found.reason


@pytest.mark.parametrize(("agrees", "verdict"), [(True, Verdict.TRUST), (False, Verdict.CARE)])
def test_populations_that_differ_need_a_run_with_twice_the_moves(
    agrees: bool,
    verdict: Verdict,
    answer: Posterior,
    elsewhere: Posterior,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []

    def run(_: object, config: Any, seed: int, progress: object) -> Posterior:
        assert progress is None  # nobody watches
        asked.append(config.moves)
        return answer if agrees or len(asked) <= 2 else elsewhere

    monkeypatch.setattr(another_run, "infer", run)
    apart = Convergence(r_hat=1.3, worst_r_hat=1.8, worst=(0, 1), ess=12.0)
    monkeypatch.setattr(another_run, "convergence", lambda *_: apart)
    found = judged(answer)
    assert asked[0] == asked[1]  # two other starts
    assert asked[2] == 2 * asked[0]
    assert found.verdict is verdict
    assert "R-hat 1.30" in found.reason
    assert TABLE.action_names[1] in found.reason
    assert found.remedy == ("" if agrees else "use more policies and moves, or a smaller reward scale")


def test_another_mode_around_the_best_policies_known_is_no_trust(
    answer: Posterior, elsewhere: Posterior, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Draws leaned to one of two ways, and so did the run from the uniform start: both found as much."""

    def run(_: object, config: Any, **__: object) -> Posterior:
        return stuck(elsewhere, -answer_below) if config.start == "known" else answer

    assert answer.policies is not None
    assert elsewhere.policies is not None
    answer_below = answer.policies.log_evidence - elsewhere.policies.log_evidence
    monkeypatch.setattr(another_run, "infer", run)
    found = judged(answer)
    assert found.verdict is Verdict.CARE
    assert "the best policies known" in found.reason
    # A run that found far less did not arrive there, and says nothing.
    answer_below -= 5
    assert judged(answer).verdict is Verdict.TRUST


@pytest.mark.parametrize(
    ("parts", "short", "verdict"),
    [(True, 0, Verdict.TRUST), (False, 0, Verdict.CARE), (True, 3, Verdict.CARE)],
)
def test_a_start_that_leans_to_one_of_two_ways_is_asked_for_each_of_them(
    answer: Posterior,
    elsewhere: Posterior,
    monkeypatch: pytest.MonkeyPatch,
    parts: bool,
    short: float,
    verdict: Verdict,
) -> None:
    """Where they are what the two runs disagree about; one that fell short says nothing against the first."""
    assert answer.policies is not None
    assert elsewhere.policies is not None
    below = answer.policies.log_evidence - elsewhere.policies.log_evidence

    def run(_: object, config: Any, **__: object) -> Posterior:
        if config.start == "known" and config.split == "auto":
            return stuck(elsewhere, -below)
        return stuck(answer, short if config.start == "known" else 0)

    monkeypatch.setattr(another_run, "infer", run)
    states = np.flatnonzero(TABLE.initial) if parts else np.zeros(0, int)
    monkeypatch.setattr(another_run, "states_where_ways_part", lambda *_: states)
    assert judged(answer).verdict is verdict


def test_distances_are_by_the_occupancy_of_the_answer(answer: Posterior) -> None:
    occupancy = another_run.occupancy_of(answer)
    assert np.all(occupancy[TABLE.absorbing] == 0)


def test_a_check_that_was_cut_short_decides_nothing(answer: Posterior) -> None:
    with stopping(1e-9, told=3.0):
        found = judged(answer)
    assert found.verdict is Verdict.CARE
    assert "cut short by the time limit of 3 s" in found.reason


def test_who_watches_hears_of_the_run_that_is_compared_with(
    answer: Posterior, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(*_: object, progress: Any, **__: object) -> Posterior:
        progress(Report(0.5, 1.0, "annealed"))
        return answer

    monkeypatch.setattr(another_run, "infer", run)
    heard: list[Report] = []
    with watching(heard.append):
        judged(answer)
    assert heard == [Report(0.5, 1.0, "checking by another run")] * 2
