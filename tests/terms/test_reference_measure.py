"""A reference measure and a discount, in every exact solver, bound and sampler, against plain enumeration."""

import jax
import numpy as np
import pytest
import scipy.special

import polinfer
from polinfer import TabularMDP, exact
from polinfer.annealing import TemperedConfig, anneal
from polinfer.core.errors import PolinferError
from polinfer.exact import bounds

from .cases import acting_states, random_table, truth

SEEDS = range(6)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("loops", [True, False])
def test_enumeration_agrees_with_plain_recursion(seed, loops):
    table = random_table(seed, loops=loops)
    log_evidence, marginal, (policies, weight, returns) = truth(table)
    found = exact.policy_posterior(table)
    assert found.posterior.log_evidence == pytest.approx(log_evidence, abs=1e-10)
    np.testing.assert_allclose(found.policy, marginal, atol=1e-10)
    assert found.posterior.expected_return == pytest.approx(weight @ returns, abs=1e-10)
    assert found.posterior.entropy == pytest.approx(-scipy.special.xlogy(weight, weight).sum(), abs=1e-9)
    top = found.posterior.top_policies[0]
    best = policies[weight.argmax()]
    acting = acting_states(table)
    assert (top[acting] == best[acting]).all()
    assert found.posterior.top_probabilities[0] == pytest.approx(weight.max(), abs=1e-10)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("loops", [True, False])
def test_bounds_hold(seed, loops):
    table = random_table(seed, loops=loops)
    log_evidence, marginal, (policies, _, _) = truth(table)
    found = bounds.evidence_bounds(table)
    assert found.lower - 1e-9 <= log_evidence <= found.upper + 1e-9
    assert bounds.class_mass(table, policies) == pytest.approx(log_evidence, abs=1e-9)
    np.testing.assert_allclose(bounds.class_marginals(table, policies), marginal, atol=1e-9)
    whole = bounds.evidence_bounds(table, policies, leaves=10_000, tolerance=1e-7)
    assert whole.upper == pytest.approx(log_evidence, abs=1e-6)


def test_bounds_hold_on_hundreds_of_problems():
    violated = []
    for seed in range(144):  # every combination of the settings, four times
        table = random_table(
            1000 + seed,
            states=3 + seed % 2,
            actions=2,
            discount=[1.0, 0.9, 0.3][seed % 3],
            loops=seed % 4 > 0,
            sharp=[0.2, 1.0, 5.0][seed // 3 % 3],
        )
        log_evidence = truth(table)[0]
        upper, lower = bounds.upper_bound(table)[0], bounds.lower_bound(table)
        if not lower - 1e-9 <= log_evidence <= upper + 1e-9:
            violated.append(seed)
    assert not violated


@pytest.mark.parametrize("seed", [0, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("loops", [True, False])
def test_annealing_lists_and_samples_the_same_posterior(seed, loops):
    table = random_table(seed, loops=loops)
    log_evidence, marginal, (_, weight, returns) = truth(table)
    listed = anneal(table).at(1.0)
    assert listed.exact
    assert listed.log_evidence == pytest.approx(log_evidence, abs=1e-9)
    np.testing.assert_allclose(listed.policy, marginal, atol=1e-9)
    assert listed.entropy == pytest.approx(-scipy.special.xlogy(weight, weight).sum(), abs=1e-8)
    sampled = anneal(table, TemperedConfig(enumerate_up_to=0, policies=64, rounds=2)).at(1.0)
    assert not sampled.exact
    assert abs(sampled.log_evidence - log_evidence) < 5 * sampled.log_evidence_stderr + 2e-3
    assert abs(sampled.policy - marginal).max() < 0.02
    assert sampled.lower_bound <= log_evidence + 1e-9
    assert abs(sampled.expected_return - weight @ returns) < 0.02


@pytest.mark.parametrize("loops", [True, False])
def test_the_reach_policy_counts_visits_without_the_discount(loops):
    table = random_table(2, loops=loops)
    by_enumeration = exact.policy_posterior(table).posterior.reach_policy
    np.testing.assert_allclose(anneal(table).at(1.0).reach_policy, by_enumeration, atol=1e-9)


def test_the_statewise_posterior_is_the_posterior_where_the_episode_starts():
    table = random_table(4, loops=False)
    np.testing.assert_allclose(exact.statewise_posterior(table).policy[0], truth(table)[1][0], atol=1e-10)


def test_one_step_in_closed_form():
    means, prior = np.array([0.2, -1.0, 1.5]), np.array([0.7, 0.1, 0.2])
    paid = np.stack([means, np.zeros(3)])
    moves = np.zeros((2, 3, 2))
    moves[0, :, 1] = 1
    table = TabularMDP(moves, paid, 0, [1], 1, prior=np.stack([prior, prior]))
    expected = prior * np.exp(means) / (prior @ np.exp(means))
    np.testing.assert_allclose(exact.policy_posterior(table).policy[0], expected, atol=1e-12)
    assert exact.control_as_inference(table).objective == pytest.approx(np.log(prior @ np.exp(means)))
    soft = exact.soft_value_iteration(table, alpha=0.5)
    tilted = prior * np.exp(means / 0.5)
    np.testing.assert_allclose(soft.policy[0], tilted / tilted.sum(), atol=1e-12)
    assert soft.objective == pytest.approx(0.5 * np.log(tilted.sum()))
    np.testing.assert_allclose(exact.gibbs_policy(table).policy[0], expected, atol=1e-12)


def test_a_sharp_prior_is_the_posterior():
    table = random_table(1)
    weak, sharp = (truth(polinfer.with_terms(table, prior_strength=k)) for k in (1.0, 60.0))
    limit = polinfer.with_terms(table, prior_strength=60.0).prior
    assert abs(sharp[1] - limit)[:-1].max() < 1e-3 < abs(weak[1] - table.prior)[:-1].max()


def test_control_as_inference_by_enumerating_trajectories():
    table = random_table(7, states=3, actions=2, horizon=3)

    def evidence(state, step):
        """Return E exp(sum of discounted rewards) of an agent that acts by the prior."""
        if step == table.horizon or table.absorbing[state]:
            return 1.0
        total = 0.0
        for a in range(table.num_actions):
            for p, r, t in zip(
                table.probability[state, a], table.reward[state, a], table.successor[state, a], strict=True
            ):
                total += table.prior[state, a] * p * np.exp(table.discount**step * r) * evidence(t, step + 1)
        return total

    assert exact.control_as_inference(table).objective == pytest.approx(np.log(evidence(0, 0)), abs=1e-10)


def test_uniform_tables_are_what_they_were():
    plain = polinfer.tabulate(polinfer.make("gridworld/ablation"))
    even = plain.with_problem(prior=exact.uniform_policy(plain), discount=1.0)
    assert even == plain
    assert not even.has_prior


def table_of(**options):
    return TabularMDP([[[0, 1], [0, 1]], [[0, 0], [0, 0]]], [[0.0, 1.0], [0, 0]], 0, [1], 3, **options)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"prior": [[0.5, 0.6], [1, 0]]}, "prior in state '0' sums to 1.1, not to one"),
        ({"prior": [[0, 0], [1, 0]]}, "prior forbids all actions in state '0'"),
        ({"prior": [[1.5, -0.5], [1, 0]]}, "prior of action '1' in state '0' is -0.5"),
        ({"prior": [0.5, 0.5]}, r"prior must have shape \[S, A\] = \[2, 2\]"),
        ({"prior": [[0.5, 0.5], [1, 0]], "legal": [[True, False], [True, True]]}, "not legal there"),
        ({"discount": 0}, "discount must be above 0 and at most 1, got 0"),
        ({"discount": 1.01}, "discount must be above 0 and at most 1"),
        ({"discount": float("nan")}, "discount must be above 0"),
    ],
)
def test_bad_terms_are_refused_in_one_sentence(options, sentence):
    with pytest.raises(PolinferError, match=sentence) as caught:
        table_of(**options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("suffix", ["npz", "json"])
def test_files_keep_the_terms(tmp_path, suffix):
    table = random_table(3)
    polinfer.save_table(table, tmp_path / f"table.{suffix}")
    assert polinfer.load_table(tmp_path / f"table.{suffix}") == table


@pytest.mark.parametrize("worlds", [1, 3])
def test_both_engines_weigh_by_prior_and_discount(worlds):
    from polinfer.core.noise import seed_words
    from polinfer.smc import SweepConfig, run_sweep

    table = random_table(5, loops=True)
    config = SweepConfig(particles=4, worlds=worlds, resample_below=0.0)
    log_q = np.log(np.maximum(exact.uniform_policy(table), 1e-30))

    @jax.jit
    def sweep(words):
        return run_sweep(words, table, lambda state: jax.numpy.asarray(log_q, "float32")[state], config)

    with jax.enable_x64(False):
        record = sweep(seed_words(np.uint32(3)))
    state, action = np.asarray(record.state), np.asarray(record.action)
    drawn = np.asarray(record.drawn)
    assert drawn.any()
    np.testing.assert_allclose(
        np.asarray(record.log_prior)[drawn], np.log(table.prior[state, action][drawn]), rtol=1e-5
    )
    reward, active = np.asarray(record.reward), np.asarray(record.active)
    for t in range(table.horizon):
        possible = table.discount**t * table.reward[state[t], action[t]]
        gap = np.abs(possible - reward[t][..., None]).min(axis=-1)
        assert gap[active[t]].max(initial=0) < 1e-6
