"""`posterior.given` against enumeration: likely, improbable and hardly reached choices."""

import numpy as np
import pytest

import polinfer
from polinfer.core.errors import PolinferError

from .cases import acting_states, random_table, truth


@pytest.mark.parametrize("method", ["exact", "tempered"])
@pytest.mark.parametrize("seed", [0, 2])
def test_every_choice_is_the_restricted_posterior(method, seed):
    table = random_table(seed)
    posterior = polinfer.infer(table, method=method)
    _, marginal, _ = truth(table)
    for state in acting_states(table):
        action = int(np.flatnonzero(table.prior[state])[-1])
        found = posterior.given({state: action}, source="inference")
        _, wanted, _ = truth(table, {state: action})
        np.testing.assert_allclose(found.table_probs()[0], wanted, atol=2e-6)
        chance = np.exp(found.condition.log_probability)
        assert chance == pytest.approx(marginal[state, action], rel=1e-5)


def needle(odds=1e-3):
    """Return a table whose second state is reached with `odds`, and where one action is far worse."""
    transitions = np.zeros((3, 2, 3))
    transitions[0, 0] = [0, odds, 1 - odds]
    transitions[0, 1] = [0, 0, 1]
    transitions[1, :, 2] = 1
    rewards = np.array([[0.0, -14.0], [0.3, 2.0], [0.0, 0.0]])
    return polinfer.TabularMDP(transitions, rewards, 0, [2], 3)


@pytest.mark.parametrize("method", ["exact", "tempered"])
def test_an_improbable_choice_and_one_that_is_hardly_reached(method):
    table = needle()
    posterior = polinfer.infer(table, method=method)
    _, marginal, _ = truth(table)
    assert marginal[0, 1] < 1e-6
    rare = posterior.given({0: 1})
    assert rare.condition.source == "inference"
    assert rare.condition.log_probability == pytest.approx(np.log(marginal[0, 1]), abs=1e-6)
    np.testing.assert_allclose(rare.table_probs()[0], truth(table, {0: 1})[1], atol=1e-6)
    late = posterior.given({"1": 0})
    assert late.condition.log_probability == pytest.approx(np.log(marginal[1, 0]), abs=1e-6)
    both = posterior.given({0: 1, 1: 0})
    _, _, (policies, weight, _) = truth(table)
    joint = weight[(policies[:, 0] == 1) & (policies[:, 1] == 0)].sum()
    assert both.condition.log_probability == pytest.approx(np.log(joint), abs=1e-6)


@pytest.mark.usefixtures("compile_fully")
def test_a_sample_that_agrees_is_used_and_has_its_error():
    table = random_table(3, states=5)
    config = polinfer.TemperedConfig(enumerate_up_to=0, policies=128, tolerance=0.02)
    posterior = polinfer.infer(table, config)
    state = 0
    action = int(posterior.table_probs()[0, state].argmax())
    found = posterior.given({state: action})
    assert found.condition.source == "sample"
    _, marginal, _ = truth(table)
    gap = abs(found.condition.log_probability - np.log(marginal[state, action]))
    assert gap < 5 * found.condition.stderr + 1e-3
    _, wanted, _ = truth(table, {state: action})
    assert (abs(found.table_probs()[0] - wanted) < 6 * found.policies.policy_stderr + 5e-3).all()
    again = posterior.given({state: action}, source="inference")
    assert again.condition.source == "inference"
    assert abs(again.condition.log_probability - np.log(marginal[state, action])) < 0.05
    # Conditions add up, and the answer can be conditioned again.
    assert polinfer.evaluate(again.mdp, again, exactly=True).mean[0] == pytest.approx(
        polinfer.exact.evaluate_policy(table, wanted).expected_return, abs=0.05
    )


def test_a_domain_stays_itself_and_conditions_twice():
    posterior = polinfer.infer(polinfer.make("gridworld/ablation"), method="exact")
    once = posterior.given({"(1,2)": "left"})
    twice = once.given({"(1,1)": "right"})
    both = posterior.given({"(1,2)": "left", "(1,1)": "right"})
    total = once.condition.log_probability + twice.condition.log_probability
    assert total == pytest.approx(both.condition.log_probability, abs=1e-9)
    np.testing.assert_allclose(twice.table_probs(), both.table_probs(), atol=1e-6)
    assert type(once.mdp).__name__ == "GridWorld"


@pytest.mark.parametrize(
    ("choices", "sentence"),
    [
        ({}, "at least one choice"),
        ({"(9,9)": "left"}, "there is no state '\\(9,9\\)'"),
        ({"(1,2)": "lef"}, "there is no action 'lef' \\(did you mean 'left'\\?\\)"),
        ({"(1,2)": 7}, "action 7 is outside 0..3"),
    ],
)
def test_bad_choices_are_refused(choices, sentence):
    posterior = polinfer.infer(polinfer.make("gridworld/ablation"), method="exact")
    with pytest.raises(PolinferError, match=sentence):
        posterior.given(choices)


def test_a_few_draws_of_an_enumeration_are_not_certified_as_enumerated():
    posterior = polinfer.infer(polinfer.make("gridworld/ablation"), method="exact")
    few = posterior.given({"(1,2)": "left"}, source="sample")  # 8 of 1,000
    certificate = polinfer.certify(few)
    assert certificate.verdict is not polinfer.Verdict.TRUST
    assert certificate.distance > 0.05
