"""The way from the uniform policy to the optimum, and the reward scale for a share of it."""

import math

import numpy as np
import pytest

import polinfer
from polinfer.analysis import reward_scale
from polinfer.analysis.account import account, advice_sentence, how_sure, standing_sentence
from polinfer.analysis.enumerated import EnumeratedReturns
from polinfer.analysis.reward_scale import Standing, scale_record, suggest_scale


def test_the_scale_of_a_bandit_is_the_one_of_the_closed_form():
    # Two arms a gap apart: the better one has probability sigma(scale * gap), so the share is 2 sigma - 1.
    gap = 0.7
    found = suggest_scale(polinfer.make("bandit", means=[0.1, 0.1 + gap]), 0.8)
    assert found.scale == pytest.approx(math.log(0.9 / 0.1) / gap, rel=0.01)
    assert found.share == pytest.approx(2 / (1 + math.exp(-gap * found.scale)) - 1, abs=1e-9)
    assert (found.reached, found.exact, found.wanted) == (True, True, 0.8)


@pytest.fixture
def sampled(compile_fully, monkeypatch):
    """Let few policies of a small grid be sampled, though they could be enumerated."""
    monkeypatch.setattr(reward_scale, "ENUMERATED", 0)
    config = polinfer.TemperedConfig(policies=64, rounds=2, enumerate_up_to=0)
    monkeypatch.setattr(reward_scale, "_CONFIG", config)
    return polinfer.make("gridworld/ablation")


def test_annealing_finds_a_scale_whose_exact_share_is_the_one_asked_for(sampled):
    mdp, reports = sampled, []
    table = polinfer.tabulate(mdp)
    found = suggest_scale(mdp, 0.6, progress=reports.append)
    exact = EnumeratedReturns(table).at(found.scale)
    executed = polinfer.exact.evaluate_policy(table, exact.policy).expected_return
    share = Standing(found.uniform_return, executed, found.optimal_return).share
    assert not found.exact
    assert share == pytest.approx(0.6, abs=0.05)
    assert found.committed_share == pytest.approx(
        Standing(found.uniform_return, exact.expected_return, found.optimal_return).share, abs=0.05
    )
    assert len({report.unit for report in reports}) == len(found.tried)


def test_the_search_stops_when_time_is_up_and_when_only_mixing_loses(sampled):
    found = suggest_scale(sampled, 0.9, time_limit=0.0)
    assert len(found.tried) == 1
    lost_by_mixing = reward_scale._Trial(5.0, 0.7, 0.98)
    assert lost_by_mixing.enough(0.9)
    assert not reward_scale._Trial(5.0, 0.7, 0.9).enough(0.9)


@pytest.mark.parametrize("share", [0, 1, -0.1, math.nan, "half"])
def test_a_share_outside_the_way_is_refused(share):
    with pytest.raises(polinfer.PolinferError, match="share must lie between 0 and 1"):
        suggest_scale(polinfer.make("bandit"), share)


def test_where_all_policies_are_worth_the_same_no_scale_matters():
    with pytest.raises(polinfer.PolinferError, match="no reward scale matters"):
        suggest_scale(polinfer.make("bandit", means=[0.4, 0.4]))
    assert Standing(0.4, 0.4, 0.4).share is None


def test_a_path_interpolates_the_scale_of_a_share():
    path = polinfer.scale_path(polinfer.make("bandit", means=[0.0, 1.0]), np.geomspace(0.1, 10, 41))
    assert path.scale_at(0.8) == pytest.approx(math.log(9), rel=0.01)
    assert path.scale_at(0.9999999) is None


def _record(share, verdict="trust", severity="fact", **more):
    return {
        "return": {"mean": 1.0 + share},
        "standing": {"uniform": 1.0, "policy": 1.0 + share, "optimum": 2.0, "share": share},
        "mode": "stepwise",
        "method": "wake",
        "run": "runs/x",
        "choices": None,
        "diagnostics": [{"code": "low-ess", "severity": severity, "sentence": "The ESS is 4%."}],
        "certificate": {
            "verdict": verdict,
            "reason": "it is 0.003 from the enumeration",
            "remedy": "use more policies",
            "known_from": "enumeration",
        },
        **more,
    }


def test_the_account_says_how_far_the_answer_is_and_which_scale_would_be_half_way():
    flat = _record(0.02, scale_advice={"scale": 16.25, "share": 0.48})
    assert standing_sentence(flat) == "return 1.020 (uniform 1.000, optimum 2.000): 2% of the way."
    assert "--reward-scale 16 it would be 48%" in advice_sentence(flat)
    assert advice_sentence(_record(0.5)) == ""
    assert "nearly the optimum" in advice_sentence(_record(0.995))
    chosen = suggest_scale(polinfer.make("bandit", means=[0.1, 0.8]), 0.8)
    told = advice_sentence(_record(0.8, reward_scale=scale_record(chosen)))
    assert "3.14 was chosen" in told
    assert "changes the preferences" in told


def test_where_mixing_good_policies_costs_the_way_the_account_says_so():
    found = suggest_scale(polinfer.make("bandit", means=[0.1, 0.8]), 0.8)._replace(share=0.6, wanted=0.9)
    mixed = scale_record(found._replace(committed_share=0.97))
    told = advice_sentence(_record(0.6, reward_scale=mixed))
    assert "90% of the way; the nearest found is 60%. One policy drawn per episode is 97% of the way" in told
    alike = scale_record(found._replace(committed_share=0.61))
    assert "drawn per episode" not in advice_sentence(_record(0.6, reward_scale=alike))


def test_a_search_on_other_draws_that_came_elsewhere_is_explained():
    chosen = scale_record(suggest_scale(polinfer.make("bandit", means=[0.1, 0.8]), 0.8))
    made = _record(0.1, reward_scale=chosen)
    assert "on draws of its own" not in advice_sentence(made)
    made["certificate"]["table_error"] = {"return_stderr": 0.5}
    assert "The search came 80%, on draws of its own" in advice_sentence(made)
    near = _record(0.75, reward_scale=chosen)
    near["certificate"]["table_error"] = {"return_stderr": 0.5}
    assert "on draws of its own" not in advice_sentence(near)


def test_a_return_on_a_table_of_draws_has_their_error():
    assert standing_sentence(_record(-1e-4)).endswith(": 0% of the way.")
    made = _record(0.5, episodes=0)
    made["certificate"]["table_error"] = {"return_stderr": 0.25}
    assert standing_sentence(made).startswith("return 1.500 ± 0.250 for the draws of the table (uniform")


def test_what_to_type_next_names_code_that_a_folder_does_not_start_by_itself():
    made = _record(
        0.5, choices={"examined": 0, "toss-up": 0}, domain="my env.py:Ferry", options={"horizon": 4}
    )
    assert account(made)[-1].sentence == (
        "polinfer explain runs/x --code 'my env.py:Ferry'  or  "
        "polinfer report runs/x --code 'my env.py:Ferry'"
    )
    builtin = _record(0.5, choices={"examined": 0, "toss-up": 0}, domain="gym:Taxi-v4", options={})
    assert account(builtin)[-1].sentence == "polinfer explain runs/x  or  polinfer report runs/x"


def test_trust_beside_a_poor_sample_size_is_explained():
    both = how_sure(_record(0.5, severity="warning"))
    assert both.startswith("trust: it is 0.003 from the enumeration.")
    assert "(low-ess)" in both
    assert "rests on the enumeration" in both
    assert "low-ess" not in how_sure(_record(0.5))
    assert "What would help: use more policies." in how_sure(_record(0.5, verdict="care"))
    assert [line.about for line in account(_record(0.5))] == ["policy", "how good", "how sure", "next"]
