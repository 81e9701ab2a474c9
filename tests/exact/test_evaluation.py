"""Policy evaluation and return distributions against the tree of all trajectories."""

from __future__ import annotations

import math
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import polinfer
from polinfer import exact
from polinfer.core.errors import PolinferError

from .brute_force import Plain, Rule, Trajectory, all_policies, expected_return, random_plain, trajectories

SEEDS = range(4)
KINDS = ("deterministic", "stochastic", "time-dependent")
HORIZON = 4
ENDINGS = (polinfer.Ending("won", True), polinfer.Ending("lost", False), polinfer.Ending("drawn", True))


@cache
def draw(seed: int) -> Plain:
    mdp = random_plain(
        seed, HORIZON, radices=(3, 2, 2, 1), terminals=3, branches=2, start_on_terminal=seed % 2 == 0
    )
    if seed % 2 == 0:
        return mdp
    # Rewards on a coarse grid, so that different trajectories have one return.
    return mdp._replace(
        outcomes={k: [(p, n, round(r * 2) / 10) for p, n, r in row] for k, row in mdp.outcomes.items()}
    )


def with_endings(mdp: Plain) -> polinfer.TabularMDP:
    """Name the three terminal states."""
    ending_of = np.full(mdp.num_states, -1, np.int32)
    ending_of[sorted(mdp.absorbing)] = [0, 1, 2]
    return mdp.table(endings=ENDINGS, ending_of=ending_of)


def draw_policy(mdp: Plain, kind: str, seed: int) -> tuple[np.ndarray, Rule]:
    """A random policy, as the array that the package takes and as the rule that the oracle takes."""
    rng = np.random.default_rng(1000 + seed)
    if kind == "deterministic":
        actions = np.zeros(mdp.num_states, np.int64)
        for s in mdp.active:
            actions[s] = rng.choice(mdp.legal(s))
        return actions, lambda _, s: {int(actions[s]): 1.0}
    stages = np.zeros((mdp.horizon, mdp.num_states, mdp.num_actions))
    for t in range(mdp.horizon):
        for s in range(mdp.num_states):
            legal = mdp.legal(s) or [0]
            stages[t, s, legal] = rng.dirichlet(np.ones(len(legal)))
    if kind == "stochastic":
        stages[:] = stages[0]
    rule: Rule = lambda t, s: {a: float(stages[t, s, a]) for a in mdp.legal(s)}  # noqa: E731
    return (stages[0] if kind == "stochastic" else stages), rule


@cache
def tree_of(seed: int, kind: str) -> list[Trajectory]:
    mdp = draw(seed)
    return list(trajectories(mdp, draw_policy(mdp, kind, seed)[1], mdp.horizon))


@pytest.mark.parametrize("discount", [1.0, 0.8])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", SEEDS)
def test_mean_and_variance(seed, kind, discount):
    mdp, tree = draw(seed), tree_of(seed, kind)
    found = exact.evaluate_policy(mdp.table(), draw_policy(mdp, kind, seed)[0], discount=discount)
    mean = sum(t.probability * t.gained(discount) for t in tree)
    variance = sum(t.probability * (t.gained(discount) - mean) ** 2 for t in tree)
    assert found.expected_return == pytest.approx(mean, abs=1e-12)
    assert found.variance == pytest.approx(variance, abs=1e-12)
    assert found.std == pytest.approx(math.sqrt(variance), abs=1e-12)
    for s in range(mdp.num_states):
        alone = mdp._replace(initial=[float(x == s) for x in range(mdp.num_states)])
        walk = trajectories(alone, draw_policy(mdp, kind, seed)[1], mdp.horizon)
        assert found.value[s] == pytest.approx(
            sum(t.probability * t.gained(discount) for t in walk), abs=1e-12
        )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", SEEDS)
def test_occupancy_endings_and_length(seed, kind):
    mdp, tree = draw(seed), tree_of(seed, kind)
    found = exact.evaluate_policy(with_endings(mdp), draw_policy(mdp, kind, seed)[0])
    spent = [0.0] * mdp.num_states
    for t in tree:
        for s, _, _ in t.steps:
            spent[s] += t.probability
        if t.end in mdp.absorbing:
            spent[t.end] += t.probability
    np.testing.assert_allclose(found.occupancy, spent, atol=1e-12)
    assert found.length == pytest.approx(sum(t.probability * len(t.steps) for t in tree), abs=1e-12)
    won, lost, drawn = (sum(t.probability for t in tree if t.end == s) for s in sorted(mdp.absorbing))
    assert found.endings == pytest.approx({"won": won, "lost": lost, "drawn": drawn}, abs=1e-12)
    assert found.success == pytest.approx(won + drawn, abs=1e-12)


def test_an_ending_may_be_several_states():
    mdp, tree = draw(1), tree_of(1, "stochastic")
    first, second, third = sorted(mdp.absorbing)
    found = exact.evaluate_policy(mdp.table(success=[first, third]), draw_policy(mdp, "stochastic", 1)[0])
    good = sum(t.probability for t in tree if t.end in (first, third))
    bad = sum(t.probability for t in tree if t.end == second)
    assert found.endings == pytest.approx({"failure": bad, "success": good}, abs=1e-12)
    assert found.success == pytest.approx(good, abs=1e-12)
    assert good + bad < 1 - 1e-6  # Some episodes are cut off, and count as neither.


def test_success_is_unknown_where_endings_are():
    mdp = draw(1)
    found = exact.evaluate_policy(mdp.table(), draw_policy(mdp, "stochastic", 1)[0])
    assert found.success is None
    assert found.endings == {}


def test_other_horizon():
    mdp = draw(2)
    policy, rule = draw_policy(mdp, "stochastic", 2)
    tree = list(trajectories(mdp, rule, 2))
    found = exact.evaluate_policy(mdp.table(), policy, horizon=2)
    assert found.expected_return == pytest.approx(sum(t.probability * t.gained() for t in tree), abs=1e-12)
    assert found.length == pytest.approx(sum(t.probability * len(t.steps) for t in tree), abs=1e-12)


def test_variance_does_not_cancel():
    """A large certain reward beside a small random one: the raw second moment would lose it."""
    mdp = Plain(
        {(0, 0): [(1.0, 1, 1e8)], (1, 0): [(0.3, 2, 1e-3), (0.7, 2, -2e-3)]},
        3,
        1,
        frozenset({2}),
        [1.0, 0.0, 0.0],
        2,
    )
    found = exact.evaluate_policy(mdp.table(), np.array([0, 0, 0]))
    # The values themselves are rounded at 1e8, the spread around them is not.
    assert found.variance == pytest.approx(0.3 * 0.7 * 3e-3**2, rel=1e-4)


def merged(tree: list[Trajectory]) -> list[tuple[float, float]]:
    """Return and probability, ascending; returns that agree to nine decimals are one."""
    total: dict[int, float] = {}
    for t in tree:
        key = round(t.gained() * 1e9)
        total[key] = total.get(key, 0.0) + t.probability
    return [(key / 1e9, p) for key, p in sorted(total.items())]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", SEEDS)
def test_return_distribution(seed, kind):
    mdp = draw(seed)
    truth = merged(tree_of(seed, kind))
    found = exact.return_distribution(mdp.table(), draw_policy(mdp, kind, seed)[0])
    assert found is not None
    np.testing.assert_allclose(found.returns, [r for r, _ in truth], atol=5e-9)
    np.testing.assert_allclose(found.probability, [p for _, p in truth], atol=1e-12)
    if seed % 2 == 1 and kind == "stochastic":
        assert len(truth) < len(tree_of(seed, kind)) / 2  # The merge has something to do.


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", SEEDS)
def test_quantiles_and_tail_means(seed, kind):
    mdp = draw(seed)
    truth = merged(tree_of(seed, kind))
    summary = exact.return_distribution(mdp.table(), draw_policy(mdp, kind, seed)[0]).summary()

    def quantile(level: float) -> float:
        return min(r for r, _ in truth if sum(p for x, p in truth if x <= r) >= level - 1e-12)

    def mean_of(part: list[tuple[float, float]]) -> float:
        return sum(r * p for r, p in part) / sum(p for _, p in part)

    low, high = quantile(0.05), quantile(0.95)
    assert summary.q05 == pytest.approx(low, abs=1e-8)
    assert summary.q95 == pytest.approx(high, abs=1e-8)
    assert summary.cvar05 == pytest.approx(mean_of([x for x in truth if x[0] <= low]), abs=1e-8)
    assert summary.cvar95 == pytest.approx(mean_of([x for x in truth if x[0] >= high]), abs=1e-8)
    assert summary.mean == pytest.approx(mean_of(truth), abs=1e-8)
    assert summary.std == pytest.approx(
        math.sqrt(sum(p * (r - mean_of(truth)) ** 2 for r, p in truth)), abs=1e-8
    )


def test_summary_by_hand():
    found = exact.ReturnDistribution(np.array([-3.0, 1.0, 2.0, 7.0]), np.array([0.02, 0.03, 0.9, 0.05]))
    summary = found.summary()
    # Exactly 5% lie at or below 1, exactly 95% at or below 2.
    assert (summary.q05, summary.q95) == (1.0, 2.0)
    assert summary.cvar05 == pytest.approx((-3 * 0.02 + 1 * 0.03) / 0.05, abs=1e-12)
    assert summary.cvar95 == pytest.approx((2 * 0.9 + 7 * 0.05) / 0.95, abs=1e-12)
    assert summary.mean == pytest.approx(-0.06 + 0.03 + 1.8 + 0.35, abs=1e-12)


def test_return_distribution_gives_up_over_its_limit():
    mdp = draw(0)
    policy = draw_policy(mdp, "stochastic", 0)[0]
    combinations: list[set[tuple[int, float]]] = [set() for _ in range(HORIZON)]
    for t in tree_of(0, "stochastic"):
        gained = 0.0
        for i, (_, _, reward) in enumerate(t.steps):
            gained += reward
            after = t.steps[i + 1][0] if i + 1 < len(t.steps) else t.end
            combinations[i].add((after, round(gained, 9)))
    most = max(map(len, combinations))
    assert exact.return_distribution(mdp.table(), policy, limit=most) is not None
    assert exact.return_distribution(mdp.table(), policy, limit=most - 1) is None


def test_return_distribution_of_an_episode_that_is_over():
    mdp = draw(0)._replace(initial=[float(s == min(draw(0).absorbing)) for s in range(draw(0).num_states)])
    found = exact.return_distribution(mdp.table(), draw_policy(mdp, "stochastic", 0)[0])
    assert (found.returns.tolist(), found.probability.tolist()) == ([0.0], [1.0])


@pytest.mark.parametrize("seed", SEEDS)
def test_deterministic_returns(seed):
    mdp = draw(seed)
    policies = list(all_policies(mdp))
    rows = np.zeros((len(policies), mdp.num_states), np.int64)
    for row, policy in zip(rows, policies, strict=True):
        row[list(policy)] = list(policy.values())
    for horizon in (None, 2):
        truth = [expected_return(mdp, policy, horizon or mdp.horizon) for policy in policies]
        found = exact.deterministic_returns(mdp.table(), rows, horizon)
        np.testing.assert_allclose(found, truth, atol=1e-12)
    assert max(truth) - min(truth) > 0.1


def test_deterministic_returns_of_more_than_one_batch():
    mdp = draw(1)
    policies = list(all_policies(mdp)) * 11
    rows = np.zeros((len(policies), mdp.num_states), np.int64)
    for row, policy in zip(rows, policies, strict=True):
        row[list(policy)] = list(policy.values())
    truth = [expected_return(mdp, policy, mdp.horizon) for policy in all_policies(mdp)] * 11
    np.testing.assert_allclose(exact.deterministic_returns(mdp.table(), rows), truth, atol=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_average_over_time_keeps_action_shares(seed):
    """Visits to a state times the average are the visits to state and action under the stages themselves."""
    mdp = draw(seed)
    stages = draw_policy(mdp, "time-dependent", seed)[0]
    averaged = exact.average_over_time(mdp.table(), stages)
    np.testing.assert_allclose(averaged.sum(axis=1), 1, atol=1e-12)
    count = np.zeros((mdp.num_states, mdp.num_actions))
    for t in tree_of(seed, "time-dependent"):
        for s, a, _ in t.steps:
            count[s, a] += t.probability
    np.testing.assert_allclose(averaged * count.sum(axis=1, keepdims=True), count, atol=1e-12)
    for s in mdp.active:
        if count[s].sum() == 0:
            np.testing.assert_allclose(averaged[s], stages[:, s].mean(axis=0), atol=1e-12)
    assert np.abs(averaged - stages.mean(axis=0)).max() > 1e-3  # Weights matter here.


def test_average_over_time_keeps_visit_counts_where_every_episode_ends():
    """The average, run until it ends, visits every state and action as often as the stages did."""
    mdp = Plain(
        {
            (0, 0): [(0.6, 0, 0.0), (0.4, 1, 1.0)],
            (0, 1): [(1.0, 2, -1.0)],
            (1, 0): [(0.5, 0, 0.2), (0.5, 2, 2.0)],
            (1, 1): [(1.0, 2, -0.3)],
        },
        num_states=3,
        num_actions=2,
        absorbing=frozenset({2}),
        initial=[0.8, 0.2, 0.0],
        horizon=3,
    )
    end = [1.0, 0.0]
    stages = np.array(
        [
            [[0.7, 0.3], [0.9, 0.1], end],
            [[0.2, 0.8], [0.35, 0.65], end],
            [[0.0, 1.0], [0.0, 1.0], end],  # Whatever still goes on is sent to the end.
        ]
    )
    table = mdp.table()
    averaged = exact.average_over_time(table, stages)
    before = exact.evaluate_policy(table, stages)
    after = exact.evaluate_policy(table, averaged, horizon=400)
    assert before.occupancy[2] == pytest.approx(1, abs=1e-12)
    np.testing.assert_allclose(after.occupancy, before.occupancy, atol=1e-9)
    assert after.expected_return == pytest.approx(before.expected_return, abs=1e-9)


def test_one_hot_and_uniform_policies():
    mdp = draw(3)
    actions = draw_policy(mdp, "deterministic", 3)[0]
    hot = exact.one_hot_policy(mdp.table(), actions)
    assert hot.shape == (mdp.num_states, mdp.num_actions)
    assert all(hot[s, actions[s]] == 1 and hot[s].sum() == 1 for s in range(mdp.num_states))
    uniform = exact.uniform_policy(mdp.table())
    for s in mdp.active:
        for a in range(mdp.num_actions):
            assert uniform[s, a] == ((1 / len(mdp.legal(s))) if a in mdp.legal(s) else 0)


def test_double_precision_after_simulation_in_single():
    """A table that a compiled simulator has used first still gives answers right to rounding."""
    mdp = draw(2)
    table = mdp.table()
    state = jnp.asarray(mdp.active[0], jnp.int32)
    jax.jit(table.step)(jax.random.key(0), state, jnp.asarray(mdp.legal(mdp.active[0])[0], jnp.int32))
    jax.jit(table.init)(jax.random.key(1))
    policy = draw_policy(mdp, "deterministic", 2)[0]
    truth = sum(t.probability * t.gained() for t in tree_of(2, "deterministic"))
    assert exact.evaluate_policy(table, policy).expected_return == pytest.approx(truth, abs=1e-13)
    assert exact.deterministic_returns(table, policy[None])[0] == pytest.approx(truth, abs=1e-13)
    assert exact.evaluate_policy(table, policy).value.dtype == np.float64


def illegal_pair(mdp: Plain) -> tuple[int, int]:
    return next((s, a) for s in mdp.active for a in range(mdp.num_actions) if (s, a) not in mdp.outcomes)


class TestRefusals:
    mdp = draw(0)
    table = mdp.table(
        state_names=[f"room {s}" for s in range(mdp.num_states)], action_names=["left", "right", "wait"]
    )
    uniform = exact.uniform_policy(table)

    @pytest.mark.parametrize("evaluate", [exact.evaluate_policy, exact.return_distribution])
    @pytest.mark.parametrize("shape", [(7,), (7, 2), (6, 3), (3, 7, 3), (5, 7, 3), (4, 7, 2), ()])
    def test_shape(self, evaluate, shape):
        with pytest.raises(PolinferError, match=r"policy must be .*\[7, 3\].*\[4, 7, 3\]") as error:
            evaluate(self.table, np.full(shape, 1 / 3))
        assert str(list(shape)) in str(error.value)

    def test_stages_of_another_horizon(self):
        stages = np.broadcast_to(self.uniform, (4, 7, 3))
        with pytest.raises(PolinferError, match=r"\[2, 7, 3\]"):
            exact.evaluate_policy(self.table, stages, horizon=2)

    def test_illegal_action_of_a_deterministic_policy(self):
        s, a = illegal_pair(self.mdp)
        actions = draw_policy(self.mdp, "deterministic", 0)[0]
        actions[s] = a
        name = self.table.action_names[a]
        for refuse in (exact.evaluate_policy, exact.return_distribution, exact.one_hot_policy):
            with pytest.raises(PolinferError, match=f"'{name}' is not legal in state 'room {s}'"):
                refuse(self.table, actions)

    @pytest.mark.parametrize("action", [-1, 3, 17])
    def test_action_out_of_range(self, action):
        actions = draw_policy(self.mdp, "deterministic", 0)[0]
        # In a state where action 2 is legal, so that -1 would do as an index from the end.
        actions[next(s for s in self.mdp.active if (s, 2) in self.mdp.outcomes)] = action
        with pytest.raises(PolinferError, match=str(action)):
            exact.evaluate_policy(self.table, actions)

    def test_illegal_action_of_a_stochastic_policy(self):
        s, a = illegal_pair(self.mdp)
        policy = self.uniform.copy()
        policy[s] = 0
        policy[s, a] = 1
        for array in (policy, np.broadcast_to(policy, (4, 7, 3))):
            with pytest.raises(PolinferError, match="illegal action"):
                exact.evaluate_policy(self.table, array)

    @pytest.mark.parametrize("bad", [math.nan, math.inf, -0.2, 0.9])
    def test_no_probabilities(self, bad):
        policy = self.uniform.copy()
        policy[self.mdp.active[0], self.mdp.legal(self.mdp.active[0])[0]] = bad
        for array in (policy, np.broadcast_to(policy, (4, 7, 3))):
            with pytest.raises(PolinferError, match="policy must hold probabilities that sum to one"):
                exact.evaluate_policy(self.table, array)

    def test_negative_probabilities_that_sum_to_one(self):
        s = next(s for s in self.mdp.active if len(self.mdp.legal(s)) == 2)
        policy = self.uniform.copy()
        policy[s, self.mdp.legal(s)] = [1.5, -0.5]
        with pytest.raises(PolinferError, match="policy must hold probabilities"):
            exact.evaluate_policy(self.table, policy)

    @pytest.mark.parametrize(("horizon", "message"), [(0, "at least 1, got 0"), (1.5, "whole number")])
    def test_horizon(self, horizon, message):
        for evaluate in (exact.evaluate_policy, exact.return_distribution):
            with pytest.raises(PolinferError, match=f"horizon must be .*{message}"):
                evaluate(self.table, self.uniform, horizon=horizon)
        with pytest.raises(PolinferError, match=f"horizon must be .*{message}"):
            exact.deterministic_returns(self.table, np.zeros((1, 7), int), horizon)

    @pytest.mark.parametrize("discount", [-0.1, 1.5, math.nan])
    def test_discount(self, discount):
        with pytest.raises(PolinferError, match="discount"):
            exact.evaluate_policy(self.table, self.uniform, discount=discount)

    def test_deterministic_returns_refuses_the_same(self):
        s, a = illegal_pair(self.mdp)
        good = draw_policy(self.mdp, "deterministic", 0)[0]
        bad = good.copy()
        bad[s] = a
        with pytest.raises(PolinferError, match="legal"):
            exact.deterministic_returns(self.table, np.stack([good, bad]))
        with pytest.raises(PolinferError, match="polic"):
            exact.deterministic_returns(self.table, good)

    @pytest.mark.parametrize("nothing", [0.0, math.nan])
    def test_what_a_policy_says_of_terminal_states_is_ignored(self, nothing):
        truth = exact.evaluate_policy(self.table, self.uniform)
        policy = self.uniform.copy()
        policy[sorted(self.mdp.absorbing)] = nothing
        found = exact.evaluate_policy(self.table, policy)
        np.testing.assert_array_equal(found.occupancy, truth.occupancy)
        assert found.expected_return == truth.expected_return

    @pytest.mark.parametrize("nothing", [0.0, math.nan])
    def test_average_ignores_terminal_states_too(self, nothing):
        policy = self.uniform.copy()
        policy[sorted(self.mdp.absorbing)] = nothing
        averaged = exact.average_over_time(self.table, np.broadcast_to(policy, (4, 7, 3)))
        np.testing.assert_allclose(averaged[self.mdp.active], self.uniform[self.mdp.active], atol=1e-12)
