"""Discounted problems against QuantEcon and pymdptoolbox, on their own examples."""

import mdptoolbox.example
import mdptoolbox.mdp
import numpy as np
import pytest

import polinfer
from polinfer import exact

PUTERMAN_P = np.array([[[0.5, 0.5], [0.0, 1.0]], [[0.0, 1.0], [0.0, 1.0]]])
PUTERMAN_R = np.array([[5.0, 10.0], [-1.0, -np.inf]])


def from_toolbox(p, r, discount):
    """Return an infinite-horizon table of what a toolbox example gives, ``[A, S, S]`` and ``[S, A]``."""
    transitions = np.asarray(p).transpose(1, 0, 2)
    start = np.full(len(transitions), 1 / len(transitions))
    return polinfer.TabularMDP(transitions, np.asarray(r), start, None, None, discount=discount)


def examples():
    yield "forest", *mdptoolbox.example.forest(), 0.96
    yield "small forest", *mdptoolbox.example.forest(S=6, r1=7.0, r2=3.0, p=0.2), 0.8
    yield "small", *mdptoolbox.example.small(), 0.9


@pytest.mark.parametrize(("name", "p", "r", "discount"), list(examples()))
def test_optimal_values_are_the_toolbox_s(name, p, r, discount):
    solver = mdptoolbox.mdp.PolicyIteration(p, r, discount)
    solver.run()
    table = from_toolbox(p, r, discount)
    wanted = np.array(solver.V)
    found = exact.stationary_value_iteration(table)
    np.testing.assert_allclose(found.value, wanted, rtol=1e-6)
    assert found.policy.argmax(axis=1).tolist() == list(solver.policy)
    cut = exact.finite_horizon_optimum(table)
    np.testing.assert_allclose(cut.value, wanted, rtol=3e-6)
    assert exact.stationary_optimum(table).objective == pytest.approx(wanted.mean(), rel=3e-6)
    # The best policy of the posterior is the same one.
    modal = exact.policy_posterior(table).posterior.modal_policy
    assert modal.tolist() == list(solver.policy)
    evaluated = exact.evaluate_policy(table, np.array(solver.policy))
    np.testing.assert_allclose(evaluated.value, wanted, rtol=3e-6)
    assert evaluated.occupancy.sum() == pytest.approx(1 / (1 - discount), rel=3e-6)


def test_puterman_s_example_as_quantecon_has_it():
    from quantecon.markov import DiscreteDP  # compiles with numba, for seconds

    problem = DiscreteDP(PUTERMAN_R, PUTERMAN_P, 0.95)
    wanted = problem.solve(method="policy_iteration")
    legal = np.isfinite(PUTERMAN_R)
    table = polinfer.TabularMDP(
        PUTERMAN_P, np.where(legal, PUTERMAN_R, 0), 0, None, None, legal=legal, discount=0.95
    )
    found = exact.stationary_value_iteration(table)
    np.testing.assert_allclose(found.value, wanted.v, rtol=1e-6)
    np.testing.assert_allclose(found.value, [-8.5714286, -20.0], rtol=1e-6)
    policies = np.array([[0, 0], [1, 0]])
    returns = exact.deterministic_returns(table, policies)
    exactly = [problem.evaluate_policy(policy)[0] for policy in policies]
    np.testing.assert_allclose(returns, exactly, atol=1e-6 * 10 / 0.05)  # of the largest return
    share = np.exp(exactly[0]) / np.exp(exactly).sum()
    assert exact.policy_posterior(table).policy[0, 0] == pytest.approx(share, abs=1e-4)


def test_soft_values_solve_their_own_equation():
    p, r = mdptoolbox.example.forest()
    table = from_toolbox(p, r, 0.9).with_problem(prior=np.array([[0.7, 0.3], [0.4, 0.6], [0.9, 0.1]]))
    alpha = 0.5
    found = exact.soft_stationary(table, alpha)
    worth = np.asarray(r) + 0.9 * np.einsum("ast,t->sa", np.asarray(p), found.value)
    backed = alpha * np.log((table.prior * np.exp(worth / alpha)).sum(axis=1))
    np.testing.assert_allclose(found.value, backed, rtol=1e-8)
    tilted = table.prior * np.exp((worth - backed[:, None]) / alpha)
    np.testing.assert_allclose(found.policy, tilted, atol=1e-8)


def test_soft_actor_critic_tends_to_the_soft_policy_with_prior_and_discount():
    prior = np.array([[0.9, 0.1], [0.15, 0.85], [0.5, 0.5]])
    table = polinfer.TabularMDP(
        [[[0.6, 0.2, 0.2], [0, 0.5, 0.5]], [[0.3, 0, 0.7], [0, 0, 1]], [[0, 0, 0], [0, 0, 0]]],
        [[0.4, 1.0], [1.2, -0.3], [0, 0]],
        0,
        [2],
        8,
        prior=prior,
        discount=0.8,
    )
    posterior = polinfer.infer(
        table, method="sac", steps=6000, alpha=0.7, gamma=0.9, learning_starts=500, seed=1
    )
    found = polinfer.METHODS["sac"].oracle(posterior)
    assert "discount=0.8" in found.name
    assert "gamma=0.9" in found.name
    wanted = exact.soft_stationary(table, 0.7, 0.9 * 0.8)
    np.testing.assert_allclose(found.solution.policy, wanted.policy)
    assert float(found.distances.mean()) < 0.08
    # With entropy instead of the divergence it would be clearly elsewhere.
    plain = exact.soft_stationary(table.with_problem(prior=exact.uniform_policy(table)), 0.7, 0.72)
    assert 0.5 * abs(plain.policy - wanted.policy)[:2].sum(axis=1).mean() > 0.12
    sentences = " ".join(found.sentence for found in polinfer.diagnose(posterior))
    assert "divergence from the prior" in sentences
    assert "0.9 (sac's gamma) times 0.8 (the problem's own)" in sentences
