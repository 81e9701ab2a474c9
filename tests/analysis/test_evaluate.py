"""Simulated episodes against exact values, in both execution modes."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

import polinfer
from polinfer.analysis.evaluation import _make_simulator
from polinfer.core.errors import PolinferError
from polinfer.exact import deterministic_returns, evaluate_policy, return_distribution
from polinfer.posterior.posterior import Posterior, _make_commit
from polinfer.smc.proposal import TableProposal

GRID = polinfer.tabulate(polinfer.make("gridworld/ablation", horizon=6))
RANDOM = np.random.default_rng(5)
ROWS = np.log(RANDOM.dirichlet(np.ones(4), size=(2, GRID.num_states))).astype(np.float32)
POSTERIOR = Posterior(GRID, GRID, polinfer.VsmcConfig(), TableProposal(np.asarray(ROWS)), 2)  # type: ignore[arg-type]
EPISODES = 20_000


@pytest.fixture(scope="module")
def stepwise() -> polinfer.Evaluation:
    return polinfer.evaluate(GRID, POSTERIOR, episodes=EPISODES)


def test_stepwise_execution_agrees_with_exact_evaluation(stepwise: polinfer.Evaluation) -> None:
    for seed in range(2):
        exact = evaluate_policy(GRID, np.exp(ROWS[seed].astype(np.float64)))
        assert abs(stepwise.mean[seed] - exact.expected_return) < 5 * stepwise.stderr[seed]
        assert abs(stepwise.std[seed] - exact.std) < 0.1 * exact.std
        for name, share in exact.endings.items():
            spread = np.sqrt(share * (1 - share) / EPISODES)
            assert abs(stepwise.endings[name][seed] - share) < 5 * spread
        assert stepwise.success is not None
        assert stepwise.success[seed] == stepwise.endings["goal"][seed]
        assert stepwise.occupancy is not None
        np.testing.assert_allclose(stepwise.occupancy[seed], exact.occupancy, atol=0.06)
        assert abs(stepwise.length[seed] - exact.length) < 0.1


def test_quantiles_and_tail_means_agree_with_the_exact_distribution(stepwise: polinfer.Evaluation) -> None:
    distribution = return_distribution(GRID, np.exp(ROWS[0].astype(np.float64)))
    assert distribution is not None
    exact = distribution.summary()
    for name in ("q05", "q95"):
        assert abs(getattr(stepwise, name)[0] - getattr(exact, name)) < 1e-3
    for name in ("cvar05", "cvar95"):
        assert abs(getattr(stepwise, name)[0] - getattr(exact, name)) < 0.05


def test_one_policy_per_episode_agrees_with_enumeration() -> None:
    simulated = polinfer.evaluate(GRID, POSTERIOR, episodes=EPISODES, mode="thompson")
    acting = np.nonzero(~GRID.absorbing)[0]
    policies = np.zeros((4 ** len(acting), GRID.num_states), np.int64)
    policies[:, acting] = list(itertools.product(range(4), repeat=len(acting)))
    returns = deterministic_returns(GRID, policies)
    for seed in range(2):
        probs = np.exp(ROWS[seed].astype(np.float64))
        weight = probs[acting[None, :], policies[:, acting]].prod(axis=1)
        assert abs(simulated.mean[seed] - weight @ returns) < 5 * simulated.stderr[seed]
    # The two modes differ where states are revisited, so the test above can fail.
    assert abs(weight @ returns - evaluate_policy(GRID, probs).expected_return) > 0.05


def test_posteriors_that_share_a_program_keep_their_own_policies(stepwise: polinfer.Evaluation) -> None:
    rows = np.log(RANDOM.dirichlet(np.full(4, 0.3), size=(1, GRID.num_states))).astype(np.float32)
    other = replace(POSTERIOR, proposal=TableProposal(np.asarray(rows)), seeds=1)  # type: ignore[arg-type]
    earned = evaluate_policy(GRID, np.exp(rows[0].astype(np.float64))).expected_return
    simulated = polinfer.evaluate(GRID, other, episodes=EPISODES)
    assert abs(simulated.mean[0] - earned) < 5 * simulated.stderr[0]
    assert (np.abs(stepwise.mean - earned) > 20 * simulated.stderr[0]).all()


def test_posteriors_of_one_problem_share_their_programs() -> None:
    for make in (_make_simulator, _make_commit):
        make.cache_clear()
    for rows in (ROWS, ROWS[:, :, ::-1]):
        one = replace(POSTERIOR, proposal=TableProposal(np.asarray(rows)))  # type: ignore[arg-type]
        polinfer.evaluate(GRID, one, episodes=10)
        one.action_probs(0)
        one.sample_policy(3)(0)
    for make in (_make_simulator, _make_commit):
        assert make.cache_info().misses == 1
    assert _make_simulator(GRID, "stepwise", 1, 10)._cache_size() == 1  # type: ignore[attr-defined]


def test_sampled_policies_are_the_posteriors_own() -> None:
    exact = polinfer.infer(GRID, method="exact")
    assert exact.policies is not None
    for action in (0, 2):
        always = np.full((3, GRID.num_states), action)
        one = replace(exact, policies=replace(exact.policies, sampled_policies=always))
        assert one.sample_policy(7)(0) == action
        earned = deterministic_returns(GRID, always[:1])[0]
        simulated = polinfer.evaluate(GRID, one, episodes=EPISODES, mode="thompson")
        assert abs(simulated.mean[0] - earned) < 5 * simulated.stderr[0] + 1e-6  # single precision


def test_policies_drawn_from_the_exact_posterior_earn_its_expected_return() -> None:
    # The choices of two states are dependent under the posterior: marginals would earn 1.16 here, not 1.46.
    fork = polinfer.make("probe/fork")
    posterior = polinfer.infer(fork, "exact")
    assert posterior.policies is not None
    simulated = polinfer.evaluate(fork, posterior, episodes=EPISODES, mode="thompson")
    assert abs(simulated.mean[0] - posterior.policies.expected_return) < 5 * simulated.stderr[0]
    drawn = [posterior.sample_policy(seed) for seed in range(200)]
    returns = deterministic_returns(fork, np.array([[policy(s) for s in range(5)] for policy in drawn]))
    assert abs(returns.mean() - posterior.policies.expected_return) < 5 * returns.std() / np.sqrt(200)


def test_small_rewards_are_not_rounded_away() -> None:
    faint = polinfer.make("continuation", rho=0.5, horizon=4, reward_scale=1e-5)
    posterior = polinfer.infer(faint, "exact")
    simulated = polinfer.evaluate(faint, posterior, episodes=2_000)
    exactly = polinfer.evaluate(faint, posterior, exactly=True)
    assert abs(simulated.mean[0] - exactly.mean[0]) < 5 * simulated.stderr[0]
    assert 0 < simulated.stderr[0] < 1e-6
    assert simulated.q95[0] == pytest.approx(1e-5)


def test_an_episode_that_starts_at_its_end_takes_no_step() -> None:
    table = polinfer.TabularMDP(np.eye(2)[np.array([[1], [1]])], [[2.0], [0.0]], [0.5, 0.5], [False, True], 3)
    posterior = polinfer.infer(table, "exact")
    simulated = polinfer.evaluate(table, posterior, episodes=2_000)
    assert abs(simulated.length[0] - 0.5) < 5 * 0.5 / np.sqrt(2_000)
    assert simulated.occupancy is not None
    np.testing.assert_allclose(simulated.occupancy[0], [simulated.length[0], 1.0], rtol=1e-5)


def test_exact_evaluation_of_a_posterior() -> None:
    result = polinfer.evaluate(GRID, POSTERIOR, exactly=True)
    exact = [evaluate_policy(GRID, np.exp(row.astype(np.float64))).expected_return for row in ROWS]
    np.testing.assert_allclose(result.mean, exact, rtol=1e-5)
    assert result.episodes == 0
    assert (result.stderr == 0).all()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"episodes": 0}, "episodes must be at least 1"),
        ({"mode": "greedy"}, "mode must be stepwise or thompson"),
        ({"mode": "thompson", "exactly": True}, "only mode 'stepwise'"),
    ],
)
def test_bad_options_are_named(options: dict[str, object], words: str) -> None:
    with pytest.raises(PolinferError, match=words):
        polinfer.evaluate(GRID, POSTERIOR, **options)  # type: ignore[arg-type]


def test_another_problem_is_refused() -> None:
    with pytest.raises(PolinferError, match="another problem"):
        polinfer.evaluate(polinfer.make("bandit"), POSTERIOR)
