"""`policy_posterior` and `world_averaged_policy` against brute force over plain dictionaries."""

from __future__ import annotations

import itertools
import math
from functools import cache

import numpy as np
import pytest

import polinfer
from polinfer import exact
from polinfer.core.errors import PolinferError, TooLargeError
from polinfer.exact.enumeration import _written
from polinfer.problems.tabular import OutcomeRows

from .brute_force import (
    Plain,
    Posterior,
    acting_states,
    committed,
    expected_return,
    posterior,
    random_plain,
    trajectories,
    visit_probability,
)

SEEDS = range(12)
HORIZONS = (1, 2, 3, 6)


def draw(seed: int) -> Plain:
    """One MDP a seed: half with an unreachable state, a third with starts that have already ended."""
    return random_plain(
        seed,
        HORIZONS[seed % 4],
        radices=(3, 2, 3, 1),
        unreachable=seed % 2 == 0,
        start_on_terminal=seed % 3 == 0,
    )


@cache
def truth_of(seed: int, target: str = "expectation") -> Posterior:
    mdp = draw(seed)
    weigh = None if target == "expectation" else lambda policy: log_mean_exponential(mdp, policy)
    return posterior(mdp, mdp.horizon, weigh)


@cache
def solve(seed: int, target: str = "expectation") -> exact.Solution:
    return exact.policy_posterior(draw(seed).table(), target=target, top=5)


def log_mean_exponential(mdp: Plain, policy: dict[int, int]) -> float:
    """Return log E exp(R), over every trajectory."""
    terms = [(t.probability, t.gained()) for t in trajectories(mdp, committed(policy), mdp.horizon)]
    top = max(r for _, r in terms)
    return top + math.log(sum(p * math.exp(r - top) for p, r in terms))


def assert_same(solution: exact.Solution, truth, mdp: Plain, *, tol: float = 1e-10) -> None:
    found = solution.posterior
    assert found is not None
    assert solution.result is exact.Result.EXACT
    assert solution.objective == found.log_evidence
    assert found.log_evidence == pytest.approx(truth.log_evidence, abs=tol)
    assert found.num_policies == solution.iterations == truth.count
    assert found.entropy == pytest.approx(truth.entropy, abs=tol)
    assert found.effective_policies == pytest.approx(math.exp(truth.entropy), abs=1e-8)
    np.testing.assert_allclose(solution.policy.sum(axis=1), 1, atol=tol)
    for s in mdp.active:
        for a in range(mdp.num_actions):
            expected = truth.marginal.get((s, a), 0.0)
            assert solution.policy[s, a] == pytest.approx(expected, abs=tol), (s, a)


def assert_same_top(found: exact.PolicyPosterior, truth: Posterior, mdp: Plain, k: int) -> None:
    ranked = truth.ranked[:k]
    np.testing.assert_allclose(found.top_probabilities, [p for p, _, _ in ranked], atol=1e-10)
    assert found.top_policies.shape == (len(ranked), mdp.num_states)
    by_part = {tuple(sorted(part.items())): p for p, _, part in truth.ranked}
    acting = sorted(ranked[0][2])
    keys = [tuple((s, int(row[s])) for s in acting) for row in found.top_policies]
    assert len(set(keys)) == len(keys)
    # By their probabilities and not by their order: policies may tie.
    np.testing.assert_allclose([by_part[key] for key in keys], found.top_probabilities, atol=1e-10)
    for s, a in enumerate(found.modal_policy):
        assert s in mdp.absorbing or (s, int(a)) in mdp.outcomes


def returns_of(found: exact.PolicyPosterior, mdp: Plain) -> list[float]:
    """J of the top policies, by recursion."""
    return [expected_return(mdp, dict(enumerate(row.tolist())), mdp.horizon) for row in found.top_policies]


@pytest.mark.parametrize("seed", SEEDS)
def test_posterior_is_brute_force(seed):
    mdp, truth, solution = draw(seed), truth_of(seed), solve(seed)
    assert_same(solution, truth, mdp)
    found = solution.posterior
    assert found.expected_return == pytest.approx(truth.mean, abs=1e-10)
    assert found.return_variance == pytest.approx(truth.variance, abs=1e-10)
    assert_same_top(found, truth, mdp, 5)
    np.testing.assert_allclose(found.top_returns, returns_of(found, mdp), atol=1e-10)
    np.testing.assert_allclose(found.top_returns, [v for _, v, _ in truth.ranked[:5]], atol=1e-10)

    np.testing.assert_allclose(found.reach_policy.sum(axis=1), 1, atol=1e-10)
    for s in mdp.active:
        legal = mdp.legal(s)
        for a in range(mdp.num_actions):
            unvisited = 1 / len(legal) if a in legal else 0.0
            expected = truth.reach.get((s, a), unvisited)
            assert found.reach_policy[s, a] == pytest.approx(expected, abs=1e-10), (s, a)


def test_random_problems_have_what_they_promise():
    """The seeds above would prove little if every state were always visited, or the two policies equal."""
    mdps = [draw(seed) for seed in SEEDS]
    assert any(len(acting_states(m, m.horizon)) < len(m.active) for m in mdps if m.horizon > 1)
    assert any(m.initial[s] > 0 for m in mdps for s in m.absorbing)
    truths = [truth_of(seed) for seed in SEEDS]
    differ = [max(abs(t.marginal[k] - share) for k, share in t.reach.items()) for t in truths]
    assert sum(d > 1e-3 for d in differ) >= 5
    assert min(t.log_evidence for t in truths) < 0
    assert any(0.1 < p < 0.9 for t in truths for p, _, _ in t.ranked)
    policy = {s: mdps[3].legal(s)[0] for s in mdps[3].active}
    chances = [visit_probability(mdps[3], policy, s, 6) for s in mdps[3].active]
    assert any(0.01 < c < 0.99 for c in chances)


@pytest.mark.parametrize("seed", SEEDS)
def test_exponential_target_is_brute_force(seed):
    mdp, truth, solution = draw(seed), truth_of(seed, "exponential"), solve(seed, "exponential")
    assert solution.settings["target"] == "exponential"
    assert_same(solution, truth, mdp)
    assert_same_top(solution.posterior, truth, mdp, 5)


@pytest.mark.parametrize("seed", [1, 2, 5, 7, 11])
def test_exponential_target_reach_counts_probability_of_visiting(seed):
    """The reach policy weighs by the chance of a visit, whatever the target: not by rewards on the way."""
    truth, reach = truth_of(seed, "exponential"), solve(seed, "exponential").posterior.reach_policy
    for (s, a), share in truth.reach.items():
        assert reach[s, a] == pytest.approx(share, abs=1e-10), (s, a)


@pytest.mark.parametrize("seed", [1, 2, 7])
def test_exponential_target_reports_expected_returns(seed):
    """`expected_return` is what is earned when one policy is drawn per episode: E[J], under either target."""
    mdp, truth = draw(seed), truth_of(seed, "exponential")
    parts = [(p, expected_return(mdp, policy_of(mdp, part), mdp.horizon)) for p, _, part in truth.ranked]
    mean = sum(p * j for p, j in parts)
    found = solve(seed, "exponential").posterior
    assert found.expected_return == pytest.approx(mean, abs=1e-10)
    assert found.return_variance == pytest.approx(sum(p * (j - mean) ** 2 for p, j in parts), abs=1e-10)
    np.testing.assert_allclose(found.top_returns, returns_of(found, mdp), atol=1e-10)


def policy_of(mdp: Plain, part: dict[int, int]) -> dict[int, int]:
    return {s: part.get(s, mdp.legal(s)[0]) for s in mdp.active}


@pytest.mark.parametrize("seed", [2, 3, 7])
def test_horizon_argument_replaces_the_tables(seed):
    mdp = draw(seed)
    for horizon in (1, 4):
        solution = exact.policy_posterior(mdp.table(), horizon=horizon, top=5)
        assert solution.settings["horizon"] == horizon
        assert_same(solution, posterior(mdp, horizon), mdp)


@pytest.mark.parametrize("seed", [2, 6, 10])
def test_without_reach_the_rest_is_the_same(seed):
    mdp = draw(seed)
    solution = exact.policy_posterior(mdp.table(), reach=False, top=5)
    assert solution.posterior.reach_policy is None
    assert_same(solution, posterior(mdp, mdp.horizon), mdp)


def test_value_is_that_of_the_marginal_policy():
    mdp, truth = draw(6), truth_of(6)

    def rule(_: int, s: int) -> dict[int, float]:
        return {a: truth.marginal[s, a] for a in mdp.legal(s)}

    earned = sum(t.probability * t.gained() for t in trajectories(mdp, rule, mdp.horizon))
    assert mdp.initial @ solve(6).value == pytest.approx(earned, abs=1e-10)


@pytest.mark.parametrize("scale", [200.0, -200.0])
@pytest.mark.parametrize("target", ["expectation", "exponential"])
@pytest.mark.parametrize("seed", [2, 11, 19])
def test_large_rewards_stay_finite(seed, target, scale):
    mdp = draw(seed)
    large = mdp._replace(
        outcomes={k: [(p, n, scale * r) for p, n, r in row] for k, row in mdp.outcomes.items()}
    )
    weigh = None if target == "expectation" else lambda policy: log_mean_exponential(large, policy)
    truth = posterior(large, large.horizon, weigh)
    solution = exact.policy_posterior(mdp.table().with_problem(reward_scale=scale), target=target, top=5)
    assert np.isfinite(solution.policy).all()
    assert np.isfinite(solution.posterior.reach_policy).all()
    assert solution.objective == pytest.approx(truth.log_evidence, rel=1e-10)
    assert_same(solution, truth, mdp, tol=1e-6)


@pytest.mark.parametrize("scale", [39.0, 700.0])
def test_exponential_target_where_the_best_policy_ends_early(scale):
    """`leave` pays once and ends at the first of 20 steps, so its weight is exp(scale), not exp(20 scale)."""
    solution = exact.policy_posterior(polinfer.make("continuation", reward_scale=scale), target="exponential")
    np.testing.assert_allclose(solution.policy[0], [0.0, 1.0], atol=1e-12)
    assert solution.objective == pytest.approx(scale - math.log(2), rel=1e-12)


def wide(horizon: int) -> Plain:
    """234,375 policies: more than one chunk, and no multiple of a batch."""
    return random_plain(5, horizon, radices=(5, 5, 5, 5, 5, 5, 5, 3), num_actions=5, branches=2, reward=1.5)


@pytest.fixture(scope="module", params=[False, True], ids=["as drawn", "mirrored"])
def many(request):
    """The wide problem with J of all its policies ``[n]`` and their actions ``[n, S]``, by NumPy.

    Actions in reverse order put the best policies at the other end of the list, in another chunk.
    """
    mdp = wide(3)
    if request.param:
        mdp = mdp._replace(outcomes={(s, 4 - a): row for (s, a), row in mdp.outcomes.items()})
    grids = np.meshgrid(*(np.array(mdp.legal(s)) for s in mdp.active), indexing="ij")
    actions = np.zeros((grids[0].size, mdp.num_states), np.int64)
    actions[:, mdp.active] = np.stack([g.ravel() for g in grids], axis=1)
    value = np.zeros(actions.shape)
    rows = np.arange(len(actions))
    for _ in range(mdp.horizon):
        new = np.zeros_like(value)
        for s in mdp.active:
            for a in mdp.legal(s):
                here = rows[actions[:, s] == a]
                for p, n, r in mdp.outcomes[s, a]:
                    new[here, s] += p * (r + value[here, n])
        value = new
    return mdp, value @ np.array(mdp.initial), actions


def test_more_policies_than_one_chunk(many):
    mdp, returns, actions = many
    assert len(returns) == 234_375
    assert acting_states(mdp, mdp.horizon) == set(mdp.active)
    calls = []
    solution = exact.policy_posterior(
        mdp.table(), reach=False, top=7, progress=lambda done, total: calls.append((done, total))
    )
    assert calls == [(131_072, 234_375), (234_375, 234_375)]
    found = solution.posterior
    assert found.num_policies == len(returns)
    peak = returns.max()
    weight = np.exp(returns - peak)
    share = weight / weight.sum()
    assert found.log_evidence == pytest.approx(peak + np.log(weight.mean()), abs=1e-9)
    assert found.expected_return == pytest.approx(share @ returns, abs=1e-9)
    assert found.return_variance == pytest.approx(share @ (returns - share @ returns) ** 2, abs=1e-9)
    assert found.entropy == pytest.approx(-share @ np.log(share), abs=1e-9)
    for s, a in mdp.outcomes:
        assert solution.policy[s, a] == pytest.approx(share[actions[:, s] == a].sum(), abs=1e-9)
    order = np.sort(returns)[::-1]
    np.testing.assert_allclose(found.top_returns, order[:7], atol=1e-9)
    np.testing.assert_allclose(found.top_probabilities, np.sort(share)[::-1][:7], atol=1e-12)
    for row, expected in zip(found.top_policies, found.top_returns, strict=True):
        alike = (actions[:, mdp.active] == row[mdp.active]).all(axis=1)
        np.testing.assert_allclose(returns[alike], [expected], atol=1e-9)


@pytest.mark.slow
def test_reach_over_more_policies_than_one_batch():
    """243 policies are two batches of 128, the second not full."""
    mdp = random_plain(9, 3, radices=(3, 3, 3, 3, 3))
    truth = posterior(mdp, mdp.horizon)
    assert truth.count == 243
    solution = exact.policy_posterior(mdp.table(), top=5)
    assert_same(solution, truth, mdp)
    for (s, a), share in truth.reach.items():
        assert solution.posterior.reach_policy[s, a] == pytest.approx(share, abs=1e-10)


def test_too_many_policies_are_counted():
    table = wide(3).table()
    with pytest.raises(TooLargeError, match=r"234,375 deterministic policies .* limit of 234,374"):
        exact.policy_posterior(table, limit=234_374)
    small = draw(3).table()
    assert exact.policy_posterior(small, limit=18, top=5).posterior.num_policies == 18
    with pytest.raises(TooLargeError, match=r"^18 deterministic policies are more than the limit of 17"):
        exact.policy_posterior(small, limit=17)
    chain = random_plain(4, 40, radices=(3,) * 20, branches=2).table()
    with pytest.raises(TooLargeError, match=r"^3,486,784,401 deterministic .* limit of 20,000,000"):
        exact.policy_posterior(chain)


@pytest.mark.parametrize("seed", SEEDS)
def test_decision_states_and_their_policies_are_counted(seed):
    mdp = draw(seed)
    for horizon in (1, 2, 3, 6):
        decision = exact.decision_states(mdp.table(), horizon)
        acting = sorted(acting_states(mdp, horizon))
        assert decision.tolist() == acting
        assert exact.count_policies(mdp.table(), decision) == math.prod(len(mdp.legal(s)) for s in acting)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": "mean"}, "target must be 'expectation' or 'exponential', got 'mean'"),
        ({"horizon": 0}, "horizon must be at least 1, got 0"),
        ({"horizon": 2.5}, "horizon must be a whole number, got 2.5"),
        ({"top": 0}, "top must be at least 1, got 0"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(PolinferError, match=message):
        exact.policy_posterior(draw(3).table(), **options)


def test_nothing_to_decide():
    """A start that has ended, and a state without a choice: one policy, and no information about any."""
    over = Plain({(0, 0): [(1.0, 1, 2.5)], (0, 1): [(1.0, 0, -1.0)]}, 2, 2, frozenset({1}), [0.0, 1.0], 3)
    solution = exact.policy_posterior(over.table())
    assert solution.objective == 0.0
    assert solution.posterior.num_policies == 1
    np.testing.assert_array_equal(solution.policy[0], [0.5, 0.5])

    forced = Plain({(0, 1): [(0.5, 1, 2.5), (0.5, 0, -1.0)]}, 2, 2, frozenset({1}), [1.0, 0.0], 3)
    solution = exact.policy_posterior(forced.table())
    assert solution.posterior.num_policies == 1
    assert solution.objective == pytest.approx(0.75 * (1 + 0.5 + 0.25), abs=1e-12)
    np.testing.assert_array_equal(solution.policy[0], [0.0, 1.0])
    assert solution.posterior.modal_policy[0] == 1


TWO_STEP = Plain(
    {
        (0, 0): [(0.35, 0, 0.8), (0.4, 1, -0.5), (0.25, 2, 1.7)],
        (0, 1): [(0.6, 1, 0.3), (0.4, 2, -0.9)],
        (1, 0): [(0.3, 2, 2.2), (0.7, 2, -1.1)],
        (1, 1): [(1.0, 2, 0.15)],
    },
    num_states=3,
    num_actions=2,
    absorbing=frozenset({2}),
    initial=[1.0, 0.0, 0.0],
    horizon=2,
)


@pytest.mark.slow
def test_world_average_is_a_mean_over_sampled_worlds():
    """Draw worlds, weigh every policy in each, average: the exact answer lies within the standard error."""
    mdp, worlds = TWO_STEP, 200_000
    rng = np.random.default_rng(20)
    each = np.arange(worlds)
    # A world is the outcome of the k-th time that a is taken in s, for every s, a and k.
    noise = {
        (s, a): rng.choice(len(row), (mdp.horizon, worlds), p=[p for p, _, _ in row])
        for (s, a), row in mdp.outcomes.items()
    }
    policies = list(itertools.product((0, 1), repeat=2))
    gained = np.zeros((len(policies), worlds))
    for i, policy in enumerate(policies):
        state = np.zeros(worlds, int)
        taken = np.zeros((worlds, 2), int)
        for _ in range(mdp.horizon):
            state_then = state.copy()
            for s in (0, 1):
                here = each[state_then == s]
                row = mdp.outcomes[s, policy[s]]
                slot = noise[s, policy[s]][taken[here, s], here]
                taken[here, s] += 1
                gained[i, here] += np.array([r for _, _, r in row])[slot]
                state[here] = np.array([n for _, n, _ in row])[slot]
    weight = np.exp(gained) / np.exp(gained).sum(axis=0)
    shares = np.zeros((worlds, 2, 2))
    for policy, share in zip(policies, weight, strict=True):
        for s, a in enumerate(policy):
            shares[:, s, a] += share
    found = exact.world_averaged_policy(mdp.table())[:2]
    error = shares.std(axis=0) / math.sqrt(worlds)
    assert (error < 0.002).all()
    assert (np.abs(shares.mean(axis=0) - found) < 5 * error).all()
    # The other two targets are many standard errors away: this test can tell them apart.
    for target in ("expectation", "exponential"):
        other = exact.policy_posterior(mdp.table(), target=target).policy[:2]
        assert (np.abs(other - found) > 20 * error).any(axis=1).all(), target


def test_worlds_do_not_matter_without_noise():
    plain = Plain(
        {
            (0, 0): [(1.0, 1, 0.4)],
            (0, 1): [(1.0, 0, -0.7)],
            (1, 0): [(1.0, 2, 1.3)],
            (1, 1): [(1.0, 0, 0.9)],
        },
        3,
        2,
        frozenset({2}),
        [1.0, 0.0, 0.0],
        4,
    )
    found = exact.world_averaged_policy(plain.table())
    for target in ("expectation", "exponential"):
        solution = exact.policy_posterior(plain.table(), target=target)
        np.testing.assert_allclose(found[:2], solution.policy[:2], atol=1e-12)


@pytest.mark.parametrize(("scale", "chance"), [(200.0, 0.25), (-200.0, 0.75), (-1000.0, 0.75)])
def test_world_average_of_large_rewards(scale, chance):
    """A world in which B pays more makes it certain, so P(B) is the chance of such a world."""
    found = exact.world_averaged_policy(polinfer.make("probe/three-targets", reward_scale=scale))
    np.testing.assert_allclose(found[0], [1 - chance, chance], atol=1e-12)


def test_world_average_refuses_what_it_cannot_do():
    with pytest.raises(TooLargeError, match="worlds times 4 policies are more than the limit of 10"):
        exact.world_averaged_policy(TWO_STEP.table(), limit=10)
    spread = TWO_STEP._replace(initial=[0.5, 0.5, 0.0])
    with pytest.raises(PolinferError, match="certain initial state"):
        exact.world_averaged_policy(spread.table())


def test_outcome_rows_with_one_successor_stay_apart():
    """Two rewards on one transition: the exponential target must see both, not their mean."""
    rows = OutcomeRows(
        np.array([0, 0, 0]),
        np.array([0, 1, 1]),
        np.ones(3, int),
        np.array([1, 0.3, 0.7]),
        np.array([0.4, 3, -2]),
    )
    table = polinfer.TabularMDP.from_outcomes(rows, 2, 2, 0, [1], 1)
    solution = exact.policy_posterior(table, target="exponential")
    lucky = 0.3 * math.exp(3) + 0.7 * math.exp(-2)
    assert solution.policy[0, 1] == pytest.approx(lucky / (lucky + math.exp(0.4)), abs=1e-12)


@pytest.mark.parametrize(
    ("count", "written"), [(2**20, "1,048,576"), (4**30, "about 1.2e18"), (3**9000, "e4294")]
)
def test_any_number_of_policies_can_be_written(count: int, written: str) -> None:
    assert _written(count).endswith(written)
