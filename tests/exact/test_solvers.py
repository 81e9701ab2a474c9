"""The solvers with a backward induction, against recursions and enumerations in plain Python."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest

import polinfer
from polinfer import exact
from polinfer.core.errors import PolinferError

from .brute_force import (
    Plain,
    Rule,
    all_policies,
    expected_return,
    random_plain,
    trajectories,
    uniform,
)

SEEDS = range(8)
ALPHAS = (0.01, 0.2, 1.0, 5.0)
RISKS = (-2.0, -0.5, 0.7)


@cache
def draw(seed: int) -> Plain:
    return random_plain(seed, 4, start_on_terminal=seed % 2 == 0)


@cache
def tiny(seed: int) -> Plain:
    """Small enough to try every time-dependent policy: 6 choices at each of three steps."""
    return random_plain(seed, 3, radices=(3, 2), start_on_terminal=seed % 2 == 0, reward=2.0)


def induct(
    mdp: Plain, horizon: int, discount: float, over_actions: Callable[[list[float]], float]
) -> list[list[float]]:
    """Values by steps left, ``[H + 1][S]``: the mean over outcomes, then `over_actions`."""
    values = [[0.0] * mdp.num_states]
    for _ in range(horizon):
        last = values[-1]
        values.append([0.0] * mdp.num_states)
        for s in mdp.active:
            q = [sum(p * (r + discount * last[n]) for p, n, r in mdp.outcomes[s, a]) for a in mdp.legal(s)]
            values[-1][s] = over_actions(q)
    return values


def log_sum_exp(alpha: float) -> Callable[[list[float]], float]:
    return lambda q: max(q) + alpha * math.log(sum(math.exp((x - max(q)) / alpha) for x in q))


def rule_of(stages: np.ndarray, mdp: Plain) -> Rule:
    return lambda t, s: {a: float(stages[t, s, a]) for a in mdp.legal(s) if stages[t, s, a] > 0}


# ---- expected return ------------------------------------------------------------------------------


@pytest.mark.parametrize("discount", [1.0, 0.7])
@pytest.mark.parametrize("seed", SEEDS)
def test_finite_horizon_optimum_is_backward_induction(seed, discount):
    mdp = draw(seed)
    solution = exact.finite_horizon_optimum(mdp.table(), discount=discount)
    values = induct(mdp, mdp.horizon, discount, max)
    np.testing.assert_allclose(solution.value, values[-1], atol=1e-12)
    assert solution.objective == pytest.approx(np.dot(mdp.initial, values[-1]), abs=1e-12)
    assert solution.result is exact.Result.EXACT
    assert solution.residual == 0
    assert solution.settings == {"horizon": 4, "discount": discount}
    assert solution.executable is solution.stages
    tree = trajectories(mdp, rule_of(solution.stages, mdp), mdp.horizon)
    assert sum(t.probability * t.gained(discount) for t in tree) == pytest.approx(
        solution.objective, abs=1e-12
    )


# The last three are problems whose best policy is greedy at no stage, but one change away from one that is.
@pytest.mark.parametrize("seed", [*SEEDS, 17, 43, 81])
def test_optima_are_ordered(seed):
    """Time-dependent >= stationary >= each stationary policy, and the gap is what `residual` says."""
    mdp = draw(seed)
    best = exact.finite_horizon_optimum(mdp.table())
    stationary = exact.stationary_optimum(mdp.table())
    returns = [expected_return(mdp, policy, mdp.horizon) for policy in all_policies(mdp)]
    assert best.objective >= stationary.objective - 1e-12
    assert stationary.objective >= max(returns) - 1e-10
    assert stationary.objective <= max(returns) + 1e-10
    assert stationary.residual == pytest.approx(best.objective - stationary.objective, abs=1e-12)
    assert stationary.diagnostics["finite_horizon_optimum"] == best.objective
    assert (stationary.result is exact.Result.EXACT) == (stationary.residual <= 1e-9)
    assert stationary.result in (exact.Result.EXACT, exact.Result.BOUND)
    # The policy is deterministic, legal, and worth what is claimed.
    assert stationary.stages is None
    assert stationary.executable is stationary.policy
    chosen = {s: int(stationary.policy[s].argmax()) for s in mdp.active}
    assert all(stationary.policy[s, a] == 1 and (s, a) in mdp.outcomes for s, a in chosen.items())
    assert expected_return(mdp, chosen, mdp.horizon) == pytest.approx(stationary.objective, abs=1e-12)
    assert np.dot(mdp.initial, stationary.value) == pytest.approx(stationary.objective, abs=1e-12)


@pytest.mark.parametrize("seed", [110, 222, 271])
def test_residual_bounds_what_the_search_missed(seed):
    """Problems chosen because one-state changes do not lead to the best policy: the bound must hold."""
    mdp = random_plain(seed, 4, radices=(3, 3, 3, 3, 2))
    found = exact.stationary_optimum(mdp.table())
    best = max(expected_return(mdp, policy, mdp.horizon) for policy in all_policies(mdp))
    assert found.objective - 1e-10 <= best <= found.objective + found.residual + 1e-10
    assert found.result is exact.Result.BOUND


def test_ordering_seeds_have_both_kinds():
    results = {exact.stationary_optimum(draw(seed).table()).result for seed in SEEDS}
    assert results == {exact.Result.EXACT, exact.Result.BOUND}


SAVE_THEN_CASH = Plain(
    {(0, 0): [(1.0, 0, 0.5)], (0, 1): [(1.0, 1, 1.0)]}, 2, 2, frozenset({1}), [1.0, 0.0], 3
)


def test_time_dependence_can_pay():
    """Save, save, cash: 2.  A stationary policy saves for ever (1.5) or cashes at once (1)."""
    table = SAVE_THEN_CASH.table()
    best, stationary = exact.finite_horizon_optimum(table), exact.stationary_optimum(table)
    assert best.objective == pytest.approx(2.0, abs=1e-12)
    assert best.stages[:, 0].argmax(axis=-1).tolist() == [0, 0, 1]
    assert stationary.objective == pytest.approx(1.5, abs=1e-12)
    assert stationary.result is exact.Result.BOUND
    assert stationary.residual == pytest.approx(0.5, abs=1e-12)
    assert exact.policy_posterior(table).posterior.modal_policy[0] == 0
    # Two visits to save, one to cash.
    np.testing.assert_allclose(best.policy[0], [2 / 3, 1 / 3], atol=1e-12)


def test_stationary_optimum_of_another_horizon():
    assert exact.stationary_optimum(SAVE_THEN_CASH.table(), horizon=1).objective == 1.0
    assert exact.stationary_optimum(SAVE_THEN_CASH.table(), horizon=5).objective == pytest.approx(2.5)


@pytest.mark.parametrize("seed", SEEDS)
def test_policy_is_the_average_of_the_stages(seed):
    mdp = draw(seed)
    solution = exact.soft_value_iteration(mdp.table())
    count = np.zeros_like(solution.policy)
    for t in trajectories(mdp, rule_of(solution.stages, mdp), mdp.horizon):
        for s, a, _ in t.steps:
            count[s, a] += t.probability
    np.testing.assert_allclose(solution.policy.sum(axis=1), 1, atol=1e-12)
    np.testing.assert_allclose(solution.policy * count.sum(axis=1, keepdims=True), count, atol=1e-12)


@pytest.mark.parametrize("discount", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_discounted_value_iteration_is_the_best_of_all_policies(seed, discount):
    """Every stationary policy's endless value by a linear system; value iteration reaches the best."""
    mdp = draw(seed)
    solution = exact.stationary_value_iteration(mdp.table(), discount=discount)
    assert solution.result is exact.Result.CONVERGED
    assert solution.residual <= 1e-10
    assert solution.settings == {"horizon": None, "discount": discount}
    values = []
    for policy in all_policies(mdp):
        move, gain = np.zeros((mdp.num_states, mdp.num_states)), np.zeros(mdp.num_states)
        for s, a in policy.items():
            for p, n, r in mdp.outcomes[s, a]:
                move[s, n] += p
                gain[s] += p * r
        values.append(np.linalg.solve(np.eye(mdp.num_states) - discount * move, gain))
    np.testing.assert_allclose(solution.value, np.max(values, axis=0), atol=1e-8)
    chosen = {s: int(solution.policy[s].argmax()) for s in mdp.active}
    index = list(all_policies(mdp)).index(chosen)
    np.testing.assert_allclose(values[index], np.max(values, axis=0), atol=1e-8)


def test_value_iteration_that_never_settles():
    """Saving pays for ever: the iteration says so, and where it stopped."""
    solution = exact.stationary_value_iteration(SAVE_THEN_CASH.table(), max_iterations=37)
    assert solution.result is exact.Result.NOT_CONVERGED
    assert solution.iterations == 37
    assert solution.residual == pytest.approx(0.5, abs=1e-12)
    settled = exact.stationary_value_iteration(SAVE_THEN_CASH.table(), discount=0.9)
    assert settled.result is exact.Result.CONVERGED
    assert settled.objective == pytest.approx(0.5 / (1 - 0.9), abs=1e-8)


def test_tolerance_is_kept():
    table = SAVE_THEN_CASH.table()
    rough = exact.stationary_value_iteration(table, discount=0.9, tolerance=1e-2)
    fine = exact.stationary_value_iteration(table, discount=0.9)
    assert rough.iterations < fine.iterations
    assert 1e-10 < rough.residual <= 1e-2


def test_undiscounted_policy_earns_its_value():
    """Waiting is free and `take` pays 1 once: both have Q = 1, but a policy that waits for ever earns 0."""
    mdp = Plain({(0, 0): [(1.0, 0, 0.0)], (0, 1): [(1.0, 1, 1.0)]}, 2, 2, frozenset({1}), [1.0, 0.0], 3)
    solution = exact.stationary_value_iteration(mdp.table())
    assert solution.result is exact.Result.CONVERGED
    assert solution.objective == pytest.approx(1.0, abs=1e-12)
    earned = exact.evaluate_policy(mdp.table(), solution.policy, horizon=1000).expected_return
    assert earned == pytest.approx(solution.objective, abs=1e-9)


# ---- entropy --------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_soft_value_iteration_is_the_recursion(seed, alpha):
    mdp = draw(seed)
    for discount in (1.0, 0.8):
        solution = exact.soft_value_iteration(mdp.table(), alpha, discount=discount)
        values = induct(mdp, mdp.horizon, discount, log_sum_exp(alpha))
        np.testing.assert_allclose(solution.value, values[-1], atol=1e-10)
        assert solution.objective == pytest.approx(np.dot(mdp.initial, values[-1]), abs=1e-10)
        assert solution.settings == {"alpha": alpha, "horizon": 4, "discount": discount}
        for t, s in itertools.product(range(mdp.horizon), mdp.active):
            last = values[mdp.horizon - t - 1]
            for a in range(mdp.num_actions):
                chance = 0.0
                if a in mdp.legal(s):
                    q = sum(p * (r + discount * last[n]) for p, n, r in mdp.outcomes[s, a])
                    chance = math.exp((q - values[mdp.horizon - t][s]) / alpha)
                assert solution.stages[t, s, a] == pytest.approx(chance, abs=1e-9)


@pytest.mark.parametrize("alpha", [0.2, 1.0, 5.0])
@pytest.mark.parametrize("seed", [0, 1])
def test_soft_objective_is_return_plus_entropy(seed, alpha):
    """Over all trajectories; and changing the policy a little makes it smaller."""
    mdp = draw(seed)
    solution = exact.soft_value_iteration(mdp.table(), alpha)

    def worth(stages: np.ndarray) -> float:
        return sum(
            t.probability * sum(r - alpha * math.log(stages[i, s, a]) for i, (s, a, r) in enumerate(t.steps))
            for t in trajectories(mdp, rule_of(stages, mdp), mdp.horizon)
        )

    assert worth(solution.stages) == pytest.approx(solution.objective, abs=1e-9)
    rng = np.random.default_rng(seed)
    for _ in range(3):
        other = solution.stages * rng.uniform(0.7, 1.3, solution.stages.shape)
        other /= other.sum(axis=-1, keepdims=True)
        assert worth(other) < solution.objective - 1e-6


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_soft_tends_to_value_iteration(seed):
    """Between V and V + alpha H log A, for every alpha."""
    table = draw(seed).table()
    hard = exact.finite_horizon_optimum(table).objective
    gaps = [exact.soft_value_iteration(table, alpha).objective - hard for alpha in (1.0, 0.2, 0.01)]
    for gap, alpha in zip(gaps, (1.0, 0.2, 0.01), strict=True):
        assert -1e-12 <= gap <= alpha * 4 * math.log(3)
    assert gaps[0] > gaps[1] > gaps[2]
    assert gaps[0] > 0.05


@pytest.mark.parametrize("discount", [1.0, 0.9])
@pytest.mark.parametrize("alpha", [0.3, 1.0])
def test_soft_stationary_is_a_fixed_point(alpha, discount):
    """Where every action ends with some probability and staying costs, the fixed point exists."""
    mdp = Plain(
        {
            (0, 0): [(0.6, 1, -1.1), (0.4, 2, 0.7)],
            (0, 1): [(0.5, 0, -1.6), (0.5, 2, 2.0)],
            (1, 0): [(0.3, 0, -0.4), (0.7, 2, -2.0)],
            (1, 2): [(1.0, 2, -0.9)],
        },
        3,
        3,
        frozenset({2}),
        [0.3, 0.7, 0.0],
        3,
    )
    solution = exact.soft_stationary(mdp.table(), alpha, discount)
    assert solution.result is exact.Result.CONVERGED
    assert solution.settings == {"alpha": alpha, "horizon": None, "discount": discount}
    far = induct(mdp, 500, discount, log_sum_exp(alpha))[-1]
    np.testing.assert_allclose(solution.value, far, atol=1e-9)
    assert solution.objective == pytest.approx(0.3 * far[0] + 0.7 * far[1], abs=1e-9)
    for s in mdp.active:
        for a in mdp.legal(s):
            q = sum(p * (r + discount * far[n]) for p, n, r in mdp.outcomes[s, a])
            assert solution.policy[s, a] == pytest.approx(math.exp((q - far[s]) / alpha), abs=1e-8)
    assert solution.policy[0, 2] == 0
    assert solution.policy[1, 1] == 0


@pytest.mark.parametrize("alpha", [0.5, 1.0])
def test_soft_stationary_where_staying_alive_pays(alpha):
    """Two free ways to stay: each step earns alpha log 2 or more for its entropy, without end."""
    mdp = Plain(
        {(0, 0): [(1.0, 0, 0.0)], (0, 1): [(1.0, 0, 0.0)], (0, 2): [(1.0, 1, 1.0)]},
        2,
        3,
        frozenset({1}),
        [1.0, 0.0],
        3,
    )
    solution = exact.soft_stationary(mdp.table(), alpha, max_iterations=2000)
    assert solution.result is exact.Result.NOT_CONVERGED
    assert solution.iterations == 2000
    assert solution.residual == pytest.approx(alpha * math.log(2), abs=1e-6)
    assert exact.soft_stationary(mdp.table(), alpha, discount=0.9).result is exact.Result.CONVERGED


# ---- luck -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_control_as_inference_is_conditioning(seed):
    """Weigh every trajectory of the uniform agent by exp(return); count actions by time and state."""
    mdp = draw(seed)
    weight = np.zeros((mdp.horizon, mdp.num_states, mdp.num_actions))
    evidence = 0.0
    for t in trajectories(mdp, uniform(mdp), mdp.horizon):
        mass = t.probability * math.exp(t.gained())
        evidence += mass
        for i, (s, a, _) in enumerate(t.steps):
            weight[i, s, a] += mass
    solution = exact.control_as_inference(mdp.table())
    assert solution.objective == pytest.approx(math.log(evidence), abs=1e-10)
    visited = weight.sum(axis=-1) > 0
    truth = weight[visited] / weight[visited].sum(axis=-1, keepdims=True)
    np.testing.assert_allclose(solution.stages[visited], truth, atol=1e-10)
    assert visited.sum() > mdp.horizon


@cache
def every_plan(seed: int) -> list[list[tuple[float, float]]]:
    """Probability and return of every trajectory, for every time-dependent policy of a tiny MDP."""
    mdp = tiny(seed)
    steps = list(all_policies(mdp))
    return [
        [
            (t.probability, t.gained())
            for t in trajectories(mdp, lambda i, s, plan=plan: {plan[i][s]: 1.0}, mdp.horizon)
        ]
        for plan in itertools.product(steps, repeat=mdp.horizon)
    ]


def certainty(returns: list[tuple[float, float]], risk: float) -> float:
    return math.log(sum(p * math.exp(risk * r) for p, r in returns)) / risk


@pytest.mark.parametrize("risk", RISKS)
@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_entropic_risk_is_the_best_plan(seed, risk):
    mdp = tiny(seed)
    solution = exact.entropic_risk(mdp.table(), risk)
    plans = every_plan(seed)
    assert len(plans) == 216
    assert solution.objective == pytest.approx(max(certainty(plan, risk) for plan in plans), abs=1e-10)
    own = [(t.probability, t.gained()) for t in trajectories(mdp, rule_of(solution.stages, mdp), mdp.horizon)]
    assert certainty(own, risk) == pytest.approx(solution.objective, abs=1e-10)
    assert solution.settings["risk"] == risk


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_no_risk_is_the_expected_return(seed):
    """At zero it is value iteration; near zero it differs by at most risk * range^2 / 8."""
    table, plans = tiny(seed).table(), every_plan(seed)
    hard = exact.finite_horizon_optimum(table).objective
    assert hard == pytest.approx(max(sum(p * r for p, r in plan) for plan in plans), abs=1e-10)
    assert exact.entropic_risk(table, 0.0).objective == hard
    spread = max(r for plan in plans for _, r in plan) - min(r for plan in plans for _, r in plan)
    low, high = (exact.entropic_risk(table, risk).objective for risk in (-1e-5, 1e-5))
    assert 0 < hard - low < 1e-5 * spread**2 / 8
    assert 0 < high - hard < 1e-5 * spread**2 / 8
    far = [exact.entropic_risk(table, risk).objective for risk in RISKS]
    assert far[0] < far[1] < hard < far[2]


def test_risk_changes_the_choice():
    """The gamble of the three targets has mean 0: avoid it, or seek it."""
    table = polinfer.make("probe/three-targets", reward_scale=1.0)
    assert exact.entropic_risk(table, -0.5).policy[0].tolist() == [1.0, 0.0]
    assert exact.entropic_risk(table, 0.7).policy[0].tolist() == [0.0, 1.0]


@pytest.mark.parametrize("scale", [200.0, -200.0])
def test_large_rewards_stay_finite(scale):
    table = draw(1).table().with_problem(reward_scale=scale)
    solutions = [
        exact.finite_horizon_optimum(table),
        exact.stationary_optimum(table),
        exact.soft_value_iteration(table, 0.2),
        exact.control_as_inference(table),
        exact.entropic_risk(table, -2.0),
        exact.entropic_risk(table, 0.7),
    ]
    for solution in solutions:
        assert np.isfinite(solution.objective), solution.method
        assert np.isfinite(solution.value).all(), solution.method
        assert np.isfinite(solution.policy).all(), solution.method
    # Soft and certain values differ from the optimum by a few nats only, whatever the scale.
    assert solutions[0].objective <= solutions[2].objective <= solutions[0].objective + 0.2 * 4 * math.log(3)
    mdp = draw(1)
    large = mdp._replace(
        outcomes={k: [(p, n, scale * r) for p, n, r in row] for k, row in mdp.outcomes.items()}
    )
    best = np.dot(mdp.initial, induct(large, 4, 1.0, max)[-1])
    assert solutions[0].objective == pytest.approx(best, rel=1e-12)


# ---- what is refused ------------------------------------------------------------------------------

FINITE = {
    "finite_horizon_optimum": exact.finite_horizon_optimum,
    "stationary_optimum": exact.stationary_optimum,
    "soft_value_iteration": exact.soft_value_iteration,
    "control_as_inference": exact.control_as_inference,
    "entropic_risk": lambda table, **options: exact.entropic_risk(table, 0.7, **options),
}
DISCOUNTED = {
    name: getattr(exact, name)
    for name in (
        "finite_horizon_optimum",
        "stationary_value_iteration",
        "soft_value_iteration",
        "soft_stationary",
    )
}


@pytest.mark.parametrize("solver", FINITE.values(), ids=FINITE)
@pytest.mark.parametrize(
    ("horizon", "message"),
    [(0, "at least 1, got 0"), (-3, "at least 1, got -3"), (2.5, "whole number, got 2.5")],
)
def test_bad_horizon(solver, horizon, message):
    with pytest.raises(PolinferError, match=f"horizon must be .*{message}"):
        solver(SAVE_THEN_CASH.table(), horizon=horizon)


@pytest.mark.parametrize("horizon", [math.nan, math.inf])
def test_horizon_that_is_no_number(horizon):
    with pytest.raises(PolinferError, match="horizon must be a whole number"):
        exact.finite_horizon_optimum(SAVE_THEN_CASH.table(), horizon=horizon)


@pytest.mark.parametrize("solver", DISCOUNTED.values(), ids=DISCOUNTED)
@pytest.mark.parametrize("discount", [-0.1, 1.0001, math.nan, math.inf])
def test_bad_discount(solver, discount):
    with pytest.raises(PolinferError, match=r"discount must lie in 0\.\.1, got"):
        solver(SAVE_THEN_CASH.table(), discount=discount)


@pytest.mark.parametrize("solver", [exact.soft_value_iteration, exact.soft_stationary])
@pytest.mark.parametrize("alpha", [0.0, -1.0, math.nan, math.inf])
def test_bad_alpha(solver, alpha):
    with pytest.raises(PolinferError, match="alpha must be above zero, got"):
        solver(SAVE_THEN_CASH.table(), alpha)


@pytest.mark.parametrize("risk", [math.nan, math.inf, -math.inf])
def test_bad_risk(risk):
    with pytest.raises(PolinferError, match="risk must be a finite number, got"):
        exact.entropic_risk(SAVE_THEN_CASH.table(), risk)


@pytest.mark.parametrize("solver", [exact.stationary_value_iteration, exact.soft_stationary])
def test_bad_iterations(solver):
    with pytest.raises(PolinferError, match="max_iterations must be at least 1, got 0"):
        solver(SAVE_THEN_CASH.table(), max_iterations=0)


@pytest.mark.parametrize("solve", [exact.policy_posterior, exact.finite_horizon_optimum])
def test_what_is_no_table_is_refused(solve: Callable[..., object]) -> None:
    with pytest.raises(
        PolinferError, match=r"GridWorld is not a table; write it out with polinfer\.tabulate"
    ):
        solve(polinfer.make("gridworld/ablation"))
