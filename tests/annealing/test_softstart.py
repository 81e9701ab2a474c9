import numpy as np
import pytest

from polinfer.annealing.problem import arrange, reduce_table
from polinfer.annealing.softstart import soft_policy, stays_of, visit_weights
from polinfer.exact.enumeration import policy_posterior
from polinfer.exact.evaluation import evaluate_policy

from .cases import every_policy, lattice, lock, loop, tree


def soft(table, committed=False):
    """The soft policy, from every policy's visits; by steps and, where there are any, by levels."""
    problem = reduce_table(table)
    stays = stays_of(problem, committed)
    policy = every_policy(problem.legal)[:, :: max(1, 2 ** (problem.size - 10))]
    whole = np.tile(table.legal_actions.argmax(axis=1), (policy.shape[1], 1))
    whole[:, problem.state] = policy.T
    visits = np.array([evaluate_policy(table, row).occupancy[problem.state] for row in whole]).T
    weight = visit_weights(problem, stays, policy, visits, committed)
    return problem, soft_policy(problem, 1.0, weight, problem.prior, stays)


def given_reach(table, problem):
    """The posterior's choices among the policies that come to a state."""
    policy = every_policy(problem.legal)
    whole = np.tile(table.legal_actions.argmax(axis=1), (policy.shape[1], 1))
    whole[:, problem.state] = policy.T
    values = [evaluate_policy(table, row) for row in whole]
    weight = np.exp([value.expected_return for value in values])
    come = np.array([value.occupancy[problem.state] > 0 for value in values]).T
    mass = np.stack([(come * (policy == a)) @ weight for a in range(table.num_actions)], axis=1)
    return mass / mass.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("table", [tree(), lattice(3)], ids=["tree", "deterministic lattice"])
def test_the_soft_start_is_exact(table):
    problem, found = soft(table)
    np.testing.assert_allclose(found.policy, given_reach(table, problem), atol=1e-9)
    assert found.value == pytest.approx(policy_posterior(table).posterior.log_evidence, abs=1e-9)


@pytest.mark.parametrize("table", [tree(), lattice(4, 0.3)], ids=["tree", "lattice"])
def test_levels_and_steps_give_the_same_start(table):
    found = []
    for problem in (reduce_table(table), arrange(reduce_table(table))):
        stays = stays_of(problem, committed=False)
        policy = np.tile(problem.legal.argmax(axis=1)[:, None], (1, 3)).astype(np.int16)
        come = np.isin(problem.state, [0, 1])[:, None] * np.array([1.0, 0.4, 0.0])
        weight = visit_weights(problem, stays, policy, come, committed=True)
        soft = soft_policy(problem, 1.0, weight, problem.prior, stays)
        held = np.argsort(problem.state)[(problem.state < 0).sum() :]
        found.append((weight[held], soft.policy[held], soft.value))
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-9)


def test_weights_of_states_that_nobody_came_to_follow_the_likeliest_way():
    table = tree()
    problem = reduce_table(table)
    stays = stays_of(problem, committed=False)
    policy = np.zeros((problem.size, 1), np.int16)
    visits = evaluate_policy(table, np.zeros(table.num_states, np.int64)).occupancy[problem.state][:, None]
    weight = visit_weights(problem, stays, policy, visits, committed=False)
    # States below the other action of the root: the probability of the way there, as if it had been taken.
    np.testing.assert_allclose(weight[3:5], table.probability[0, 1], atol=1e-12)


def test_staying_meets_the_same_action_again():
    # Plain value iteration would stay at no cost and try again: half and half.
    _, found = soft(lock(8))
    code = np.random.default_rng(8).integers(2, size=8)
    assert found.policy[np.arange(8), code].min() > 0.8


def test_committed_values_see_ways_back_as_loops():
    problem = reduce_table(loop())
    plain, committed = stays_of(problem, committed=False), stays_of(problem, committed=True)
    # Self-loops alone, and all that leads not further from the starts (states 0 and 1 are starts).
    np.testing.assert_allclose(plain.back, [[0, 0.4, 0], [0, 0, 0], [0, 1, 0]])
    np.testing.assert_allclose(committed.back, [[0.7, 0.4, 0], [0.5, 0, 0], [0.2, 1, 0.9]])
