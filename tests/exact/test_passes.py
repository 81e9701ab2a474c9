"""Sparse passes over a table against the compiled ones, and policies that are made when they are read."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

from families import Rng, build
from polinfer import TabularMDP, exact
from polinfer.exact import passes
from polinfer.exact.evaluation import average_over_time
from polinfer.exact.induction import Objective, solve_finite
from truth import cases


def _random(seed: int, horizon: int) -> TabularMDP:
    rng: Rng = np.random.default_rng(seed)
    states, actions = 30, 3
    rows = []
    for state in range(states):
        for action in range(actions):
            share = rng.dirichlet(np.ones(2)) * 0.97
            to = rng.choice(states, 2, replace=False)
            rows += [
                (state, action, int(t), float(p), float(rng.normal())) for t, p in zip(to, share, strict=True)
            ]
            rows.append((state, action, states, 0.03, 1.0))
    legal = rng.random((states + 1, actions)) < 0.7
    legal[:, 1] = True
    return build(
        rows, states + 1, actions, np.append(rng.dirichlet(np.ones(states)), 0), [states], horizon, legal
    )


@pytest.mark.parametrize(("discount", "horizon"), [(1.0, 1), (1.0, 17), (0.9, 40), (0.5, 400)])
def test_values_and_stages_are_those_of_plain_loops(discount: float, horizon: int) -> None:
    table = _random(1, horizon)
    solution = exact.finite_horizon_optimum(table, discount=discount)
    value, stages = np.zeros(table.num_states), []
    for _ in range(horizon):
        worth = (table.probability * (table.reward + discount * value[table.successor])).sum(axis=-1)
        worth[~table.legal_actions] = -np.inf
        value = np.where(table.absorbing, 0.0, worth.max(axis=1))
        stages.append(worth.argmax(axis=1))
    np.testing.assert_allclose(solution.value, value, rtol=1e-12)
    assert solution.objective == pytest.approx(table.initial @ value, rel=1e-12)
    acting = ~table.absorbing
    assert solution.stages is not None
    np.testing.assert_array_equal(
        solution.stages.argmax(axis=-1)[:, acting], np.array(stages)[::-1][:, acting]
    )
    np.testing.assert_array_equal(solution.stages.sum(axis=-1), 1.0)


def test_the_average_over_time_is_that_of_the_compiled_pass() -> None:
    table = _random(2, 25)
    solution = exact.finite_horizon_optimum(table)
    assert solution.stages is not None
    np.testing.assert_allclose(solution.policy, average_over_time(table, solution.stages), atol=1e-12)


def test_a_risk_of_nearly_nothing_gives_the_same_value() -> None:
    table = _random(3, 25)  # entropic risk goes through the compiled induction
    compiled = solve_finite(table, "x", Objective("max", risk=1e-9), None, 1.0)
    np.testing.assert_allclose(exact.finite_horizon_optimum(table).value, compiled.value, atol=1e-6)


def test_returns_of_stationary_policies_agree_with_the_compiled_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passes, "_ROWS", 100)  # several batches
    rng = np.random.default_rng(0)
    for case in cases("masks", range(2)):
        chance = rng.random((20, *case.table.legal_actions.shape)) * case.table.legal_actions
        policies = chance.argmax(axis=-1)
        np.testing.assert_allclose(
            passes.stationary_returns(case.table, policies, case.table.horizon),
            exact.deterministic_returns(case.table, policies),
            rtol=1e-12,
        )
    assert passes.stationary_returns(case.table, policies[:0], 3).shape == (0,)


def test_policies_are_made_once_and_only_when_read(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    real = passes.greedy_actions
    monkeypatch.setattr(
        "polinfer.exact.induction.greedy_actions", lambda *given: calls.append(given) or real(*given)
    )
    solution = exact.finite_horizon_optimum(_random(4, 10))
    assert not calls
    first = solution.stages
    assert solution.stages is first
    assert solution.policy.shape == (31, 3)
    assert len(calls) == 1


def test_a_solution_can_be_pickled_and_replaced() -> None:
    solution = exact.finite_horizon_optimum(_random(5, 10))
    again = pickle.loads(pickle.dumps(solution))
    np.testing.assert_array_equal(again.stages, solution.stages)
    other = replace(solution, method="other")
    assert other.method == "other"
    np.testing.assert_array_equal(other.policy, solution.policy)
