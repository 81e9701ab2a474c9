"""The paper's section "Worked Tabular Examples", the three targets, and the probes: every number by hand."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest

import polinfer
from polinfer import exact
from polinfer.core.errors import PolinferError
from polinfer.problems.domains.probes import known_answer

TOL = 1e-6
E = math.e


def softmax(values):
    weights = [math.exp(v) for v in values]
    return [w / sum(weights) for w in weights]


def share(weights):
    return [w / sum(weights) for w in weights]


BANDITS = [(0.2, 0.7), (0.9, 0.35), (0.1, 0.65, 0.8), (0.05, 0.3, 0.5, 0.75, 0.95)]


@pytest.mark.parametrize("means", BANDITS, ids=len)
def test_bandit_posterior_and_soft_agree(means):
    """Both are softmax(means) in a one-step bandit, whatever the number of arms."""
    table = polinfer.make("bandit", means=means)
    posterior = exact.policy_posterior(table)
    truth = softmax(means)
    np.testing.assert_allclose(posterior.policy[0], truth, atol=TOL)
    np.testing.assert_allclose(posterior.posterior.reach_policy[0], truth, atol=TOL)
    assert posterior.objective == pytest.approx(
        math.log(sum(math.exp(m) for m in means) / len(means)), abs=TOL
    )
    soft = exact.soft_value_iteration(table, alpha=1.0)
    np.testing.assert_allclose(soft.policy[0], truth, atol=TOL)
    assert soft.objective == pytest.approx(math.log(sum(math.exp(m) for m in means)), abs=TOL)
    np.testing.assert_allclose(exact.soft_stationary(table).policy[0], truth, atol=TOL)


@pytest.mark.parametrize("means", BANDITS, ids=len)
def test_bandit_control_as_inference_differs(means):
    """It weighs arm i by r_i e + 1 - r_i, and so does the exponential target in one step."""
    table = polinfer.make("bandit", means=means)
    weights = [m * E + 1 - m for m in means]
    solution = exact.control_as_inference(table)
    np.testing.assert_allclose(solution.policy[0], share(weights), atol=TOL)
    assert solution.objective == pytest.approx(math.log(sum(weights) / len(weights)), abs=TOL)
    np.testing.assert_allclose(
        exact.policy_posterior(table, target="exponential").policy[0], share(weights), atol=TOL
    )
    assert np.abs(solution.policy[0] - softmax(means)).max() > 1e-3


@cache
def soft_leave(rho: float) -> float:
    """The probability e / x of leaving, with x = x^rho + e by bisection."""
    low, high = 1.0 + E, 1e6
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if middle < middle**rho + E else (low, middle)
    return E / low


@pytest.mark.parametrize("rho", [0.0, 0.1, 0.5, 0.7, 0.9])
def test_continuation(rho):
    table = polinfer.make("continuation", rho=rho)
    leave = E / (1 + E)
    assert round(leave, 4) == 0.7311
    np.testing.assert_allclose(exact.policy_posterior(table).policy[0], [1 - leave, leave], atol=TOL)
    soft = exact.soft_stationary(table)
    assert soft.result is exact.Result.CONVERGED
    np.testing.assert_allclose(soft.policy[0], [1 - soft_leave(rho), soft_leave(rho)], atol=TOL)
    assert soft.objective == pytest.approx(math.log(E / soft_leave(rho)), abs=TOL)
    if rho == 0:
        assert soft.policy[0, 1] == pytest.approx(leave, abs=TOL)
    else:
        assert soft.policy[0, 1] < leave - 0.01
    # With enough steps left, the first step of the finite problem is the stationary answer.
    first = exact.soft_value_iteration(table, horizon=400).stages[0, 0]
    np.testing.assert_allclose(first, soft.policy[0], atol=TOL)


def test_continuation_at_one_half_in_closed_form():
    x = ((1 + math.sqrt(1 + 4 * E)) / 2) ** 2
    assert round(E / x, 2) == 0.55
    assert soft_leave(0.5) == pytest.approx(E / x, abs=1e-12)
    soft = exact.soft_stationary(polinfer.make("continuation", rho=0.5))
    assert soft.policy[0, 1] == pytest.approx(E / x, abs=TOL)


def going_on(rho: float, alpha: float, discount: float) -> float:
    """P(leave) where the end pays entropy: e^(1/a) / 2y with 2y = y^(discount rho) + e^(1/a), by bisection.

    y = exp((V(s1) - V(s2)) / a); staying for ever in s2, with two actions, is worth a log 2 / (1 - discount).
    """
    top = math.exp(1 / alpha)
    low, high = 0.5, 10 * top
    for _ in range(200):
        y = (low + high) / 2
        low, high = (y, high) if 2 * y < y ** (discount * rho) + top else (low, y)
    return top / (2 * low)


@pytest.mark.parametrize(("rho", "alpha", "discount"), [(0.0, 1.0, 0.9), (0.7, 0.6, 0.8), (0.9, 1.3, 0.99)])
def test_continuation_where_absorbing_states_go_on(rho, alpha, discount):
    table = polinfer.make("continuation", rho=rho)
    soft = exact.soft_stationary(table, alpha, discount, absorbing="continue")
    leave = going_on(rho, alpha, discount)
    assert soft.result is exact.Result.CONVERGED
    assert soft.settings["absorbing"] == "continue"
    assert soft.policy[0, 1] == pytest.approx(leave, abs=TOL)
    assert soft.value[1] == pytest.approx(alpha * math.log(2) / (1 - discount), abs=TOL)
    ending = exact.soft_stationary(table, alpha, discount)
    assert "absorbing" not in ending.settings
    # Only with a way back does it matter that being alive is no longer what pays.
    gap = soft.policy[0, 1] - ending.policy[0, 1]
    assert gap > 0.02 if rho else abs(gap) < TOL


def test_both_readings_of_the_continuation_in_closed_form():
    """At discount times rho = 1/2: x = sqrt(x) + e where episodes end, 2 y = sqrt(y) + e where they go on."""
    table = polinfer.make("continuation", rho=0.625)
    x, y = ((1 + math.sqrt(1 + 4 * E)) / 2) ** 2, ((1 + math.sqrt(1 + 8 * E)) / 4) ** 2
    for absorbing, leave in (("end", E / x), ("continue", E / (2 * y))):
        found = exact.soft_stationary(table, 1.0, 0.8, absorbing=absorbing).policy[0, 1]
        assert found == pytest.approx(leave, abs=TOL)
    assert (round(E / x, 4), round(E / (2 * y), 4)) == (0.5501, 0.6533)


def test_going_on_over_a_horizon_is_the_recursion():
    first, second = 0.0, 0.0
    for _ in range(7):
        stay, leave = 0.7 * first + 0.3 * second, 1 + second
        first, second = math.log(math.exp(stay) + math.exp(leave)), math.log(2) + second
    soft = exact.soft_value_iteration(polinfer.make("continuation", rho=0.7), 1.0, 7, absorbing="continue")
    assert soft.objective == pytest.approx(first, abs=TOL)
    assert soft.value[1] == pytest.approx(7 * math.log(2), abs=TOL)
    assert soft.stages[0, 0, 1] == pytest.approx(math.exp(leave - first), abs=TOL)


def test_a_prior_leaves_nothing_to_earn_in_absorbing_states():
    """Held to a reference measure, an absorbing state has no divergence to pay: both readings are one."""
    table = polinfer.make("continuation", rho=0.7).with_problem(prior=[[0.4, 0.6], [0.5, 0.5]])
    ends, goes_on = (
        exact.soft_stationary(table, 0.8, 0.9, absorbing=word).policy for word in ("end", "continue")
    )
    np.testing.assert_allclose(ends, goes_on, atol=TOL)


def test_what_the_readings_make_of_the_papers_problems():
    """Returns of the soft policy at alpha 1 and discount 0.99: it ends / it goes on in absorbing states."""
    known = {
        "gridworld/multimodal": (-3.77, 1.13),
        "tireworld/4": (0.15, -0.88),
        "tireworld/7": (1.58, -0.41),
        "tireworld/10": (0.73, -4.16),
    }
    for name, returns in known.items():
        table = polinfer.tabulate(polinfer.make(name))
        for absorbing, expected in zip(("end", "continue"), returns, strict=True):
            policy = exact.soft_stationary(table, 1.0, 0.99, absorbing=absorbing).policy
            found = exact.evaluate_policy(table, policy).expected_return
            assert found == pytest.approx(expected, abs=0.006), (name, absorbing)


def test_an_unknown_reading_is_refused():
    table = polinfer.make("continuation")
    with pytest.raises(PolinferError, match="absorbing must be 'end' or 'continue', got 'stop'"):
        exact.soft_stationary(table, absorbing="stop")


def test_continuation_under_the_other_horizons():
    """The posterior does not depend on rho or on the horizon: staying earns nothing, however long."""
    for horizon in (1, 3, 50):
        table = polinfer.make("continuation", rho=0.8, horizon=horizon)
        assert exact.policy_posterior(table).policy[0, 1] == pytest.approx(E / (1 + E), abs=TOL)


def test_three_targets():
    """A pays 0; B pays +4 with probability 1/4 and -4/3 with 3/4: 0.500, 0.402 and 0.933."""
    table = polinfer.make("probe/three-targets")
    win, lose = math.exp(4), math.exp(-4 / 3)
    posterior = 0.5
    averaged = 0.25 * win / (1 + win) + 0.75 * lose / (1 + lose)
    lucky = (0.25 * win + 0.75 * lose) / (1 + 0.25 * win + 0.75 * lose)
    assert [round(x, 3) for x in (posterior, averaged, lucky)] == [0.5, 0.402, 0.933]
    assert exact.policy_posterior(table).policy[0, 1] == pytest.approx(posterior, abs=TOL)
    assert exact.world_averaged_policy(table)[0, 1] == pytest.approx(averaged, abs=TOL)
    assert exact.control_as_inference(table).policy[0, 1] == pytest.approx(lucky, abs=TOL)
    assert exact.policy_posterior(table, target="exponential").policy[0, 1] == pytest.approx(lucky, abs=TOL)


def test_control_as_inference_is_not_the_exponential_posterior_in_general():
    """They agree in one step; in a loop a policy commits, while the conditioned agent draws anew."""
    table = polinfer.make("continuation", rho=0.5)
    # E exp(return) is 1 for staying and e for leaving, so the exponential target is the posterior here.
    committed = exact.policy_posterior(table, target="exponential").policy[0, 1]
    assert committed == pytest.approx(E / (1 + E), abs=TOL)
    # b = evidence with k steps left: b_k = (rho b_{k-1} + 1 - rho + e) / 2.
    evidence = 1.0
    for _ in range(19):
        evidence = (0.5 * evidence + 0.5 + E) / 2
    stay = 0.5 * evidence + 0.5
    solution = exact.control_as_inference(table)
    np.testing.assert_allclose(solution.stages[0, 0], share([stay, E]), atol=TOL)
    assert solution.objective == pytest.approx(math.log((stay + E) / 2), abs=TOL)
    assert committed - solution.stages[0, 0, 1] > 0.05


PROBES = ("three-targets", "fork", "slippery-loop")


@pytest.mark.parametrize("scale", [-1.5, 0.0, 0.3, 1.0, 4.0, 30.0])
@pytest.mark.parametrize("name", PROBES)
def test_probes_have_their_known_answers(name, scale):
    table = polinfer.make(f"probe/{name}", reward_scale=scale)
    truth = known_answer(name, reward_scale=scale)
    solution = exact.policy_posterior(table)
    assert solution.objective == pytest.approx(truth.log_evidence, abs=TOL)
    for state, actions in truth.policy.items():
        row = solution.policy[table.state_names.index(state)]
        for action, probability in actions.items():
            assert row[table.action_names.index(action)] == pytest.approx(probability, abs=TOL)


def test_fork_by_hand():
    """Four policies: the two that go out leave the room's choice open, and that share counts in p*."""
    table = polinfer.make("probe/fork")
    win, lose, out = math.exp(2), math.exp(-1), math.exp(0.7)
    total = win + lose + 2 * out
    solution = exact.policy_posterior(table)
    gate, room = table.state_names.index("gate"), table.state_names.index("room")
    np.testing.assert_allclose(solution.policy[gate], share([win + lose, 2 * out]), atol=TOL)
    np.testing.assert_allclose(solution.policy[room], share([win + out, lose + out]), atol=TOL)
    posterior = solution.posterior
    np.testing.assert_allclose(posterior.reach_policy[room], share([win, lose]), atol=TOL)
    np.testing.assert_allclose(posterior.reach_policy[gate], solution.policy[gate], atol=TOL)
    assert posterior.expected_return == pytest.approx((2 * win - lose + 1.4 * out) / total, abs=TOL)
    np.testing.assert_allclose(
        posterior.top_probabilities, [win / total, out / total, out / total, lose / total], atol=TOL
    )
    shares = [win / total, out / total, out / total, lose / total]
    assert posterior.entropy == pytest.approx(-sum(p * math.log(p) for p in shares), abs=TOL)
    assert posterior.modal_policy[[gate, room]].tolist() == [0, 0]


def test_slippery_loop_by_hand():
    """Six steps of pushing, written out."""
    push = sum(0.7**t * (0.3 * 2.0 - 0.7 * 0.4) for t in range(6))
    solution = exact.policy_posterior(polinfer.make("probe/slippery-loop"))
    np.testing.assert_allclose(solution.policy[0], softmax([push, -0.6]), atol=TOL)
    # Target 3: the return of a push policy that succeeds at try t is 2 - 0.4 (t - 1).
    lucky = sum(0.7**t * 0.3 * math.exp(2 - 0.4 * t) for t in range(6)) + 0.7**6 * math.exp(-2.4)
    exponential = exact.policy_posterior(polinfer.make("probe/slippery-loop"), target="exponential")
    np.testing.assert_allclose(exponential.policy[0], share([lucky, math.exp(-0.6)]), atol=TOL)
    assert exponential.objective == pytest.approx(math.log((lucky + math.exp(-0.6)) / 2), abs=TOL)


@pytest.mark.parametrize(
    ("domain", "options", "message"),
    [
        ("continuation", {"rho": 1.0}, "rho"),
        ("continuation", {"rho": -0.1}, "rho"),
        ("bandit", {"means": (0.5, 1.2)}, "means"),
        ("bandit", {"means": ()}, "means"),
    ],
)
def test_impossible_examples_are_refused(domain, options, message):
    with pytest.raises(PolinferError, match=message):
        polinfer.make(domain, **options)


def test_unknown_probe_is_refused():
    with pytest.raises(PolinferError, match="no probe is called 'spoon'"):
        known_answer("spoon")
