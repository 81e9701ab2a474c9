"""Horizons of up to a million steps on tables without an end, against followed steps and a closed form."""

import math
import time

import numpy as np
import pytest

import polinfer
from polinfer import exact
from polinfer.core.errors import CostError
from polinfer.core.limits import limits_lifted
from polinfer.exact import enumeration, passes, squared
from polinfer.exact.bounds import evidence_bounds
from polinfer.problems.tables import shared_table
from polinfer.problems.tabular.settling import settle


def endless(horizon: int, seed: int = 3, states: int = 4, size: float = 1e-2) -> polinfer.TabularMDP:
    random = np.random.default_rng(seed)
    moves = random.dirichlet(np.full(states, 0.5), size=(states, 2))
    start = random.dirichlet(np.ones(states))
    return polinfer.TabularMDP(
        moves, size * random.normal(size=(states, 2)), start, [False] * states, horizon
    )


def with_an_end(horizon: int) -> polinfer.TabularMDP:
    """Two states may be swapped for ever; a third leads there or to the end."""
    moves = np.zeros((4, 2, 4))
    moves[0, 0, 1] = moves[1, 0, 0] = moves[0, 1, 2] = 1.0
    moves[1, 1] = [0.0, 0.25, 0.5, 0.25]
    moves[2, 0], moves[2, 1] = [0.5, 0, 0, 0.5], [0, 0.125, 0.125, 0.75]
    pay = [[0.004, -0.5], [-0.001, 0.25], [0.125, -0.25], [0, 0]]
    return polinfer.TabularMDP(moves, pay, [0.125, 0.25, 0.625, 0], [3], horizon)


POLICIES = np.array(list(np.ndindex(2, 2, 2, 2)))


@pytest.fixture
def followed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Follow every step."""
    for module in (squared, enumeration):
        monkeypatch.setattr(module, "pays", lambda *_: False)


@pytest.mark.parametrize("make", [endless, with_an_end])
def test_squaring_is_following_every_step(make, request: pytest.FixtureRequest) -> None:
    table = make(4_999)
    policy = np.random.default_rng(0).dirichlet([1.0, 2.0], size=4)
    value, every = exact.evaluate_policy(table, policy), exact.deterministic_returns(table, POLICIES)
    mixed = exact.evaluation.stochastic_returns(table, policy[None])
    both = [exact.policy_posterior(table, target=t) for t in ("expectation", "exponential")]
    best, optimum = passes.greedy_actions(table, 4_999, 1.0), passes.optimal_value(table, 4_999, 1.0)
    request.getfixturevalue("followed")
    truth = exact.evaluate_policy(table, policy)
    for name in ("expected_return", "variance", "value", "occupancy", "length", "entropy"):
        np.testing.assert_allclose(getattr(value, name), getattr(truth, name), rtol=1e-9, err_msg=name)
    np.testing.assert_allclose(every, exact.deterministic_returns(table, POLICIES), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(mixed, truth.expected_return, rtol=1e-9)
    for found, target in zip(both, ("expectation", "exponential"), strict=True):
        known = exact.policy_posterior(table, target=target)
        assert found.objective == pytest.approx(known.objective, abs=1e-8)
        np.testing.assert_allclose(found.policy, known.policy, atol=1e-8)
        np.testing.assert_allclose(found.posterior.reach_policy, known.posterior.reach_policy, atol=1e-8)
    np.testing.assert_allclose(optimum, passes.optimal_value(table, 4_999, 1.0), rtol=1e-9)
    assert (best == passes.greedy_actions(table, 4_999, 1.0)).all()


@pytest.mark.parametrize("horizon", [10, 1_000, 100_000, 1_000_000])
def test_returns_are_those_of_the_closed_form(horizon: int) -> None:
    p, q, pay = 0.3, 0.05, (1e-3, -2e-3)
    table = polinfer.TabularMDP(
        [[[1 - p, p], [p, 1 - p]], [[q, 1 - q], [q, 1 - q]]],
        [[pay[0], pay[0]], [pay[1], pay[1]]],
        0,
        [False] * 2,
        horizon,
    )
    found = exact.deterministic_returns(table, np.array([[0, 0], [1, 1]]))
    for move, value in zip((p, 1 - p), found, strict=True):
        # Being in the first state at step t: stationary share plus a geometric rest.
        rate, share = 1 - move - q, q / (move + q)
        first = horizon * share + (1 - share) * (1 - rate**horizon) / (1 - rate)
        assert value == pytest.approx(pay[0] * first + pay[1] * (horizon - first), rel=1e-10)


def test_a_million_steps_are_cheap_and_inside_their_bounds() -> None:
    table = endless(1_000_000, size=1e-4)
    began = time.perf_counter()
    with limits_lifted():
        assert shared_table(table) is table
    posterior = exact.policy_posterior(table).posterior
    bounds = evidence_bounds(table)
    assert time.perf_counter() - began < 30
    returns = exact.deterministic_returns(table, POLICIES)
    truth = np.logaddexp.reduce(returns) - 4 * math.log(2)
    assert posterior.log_evidence == pytest.approx(truth, abs=1e-9)
    assert bounds.lower - 1e-9 <= truth <= bounds.upper + 1e-9
    assert exact.finite_horizon_optimum(table).objective >= returns.max() - 1e-9


def test_what_does_not_settle_is_refused() -> None:
    slow = polinfer.TabularMDP(
        [[[1 - 1e-9, 1e-9], [1, 0]], [[1e-9, 1 - 1e-9], [0, 1]]],
        [[1.0, 0.5], [-1.0, 2.0]],
        0,
        [False] * 2,
        10_000_000,
    )
    assert settle(slow, 10_000_000) is None
    with pytest.raises(CostError, match=r"10,000,000 .* over the limit of 60 seconds"):
        shared_table(slow)
