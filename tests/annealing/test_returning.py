import jax
import jax.numpy as jnp
import numpy as np
import pytest

import polinfer
from polinfer.annealing.passes import make_evaluate, with_returns
from polinfer.annealing.problem import reduce_table
from polinfer.annealing.returning import (
    dense_chances,
    dense_returns,
    expected_visits,
    return_chances,
    two_step_returns,
)
from polinfer.annealing.rows import make_rows

from .cases import every_policy, lattice, loop


def test_return_chances_are_those_of_two_steps():
    problem = reduce_table(loop())
    policy = every_policy(problem.legal)[:, ::5]
    size, actions, outcomes = problem.successor.shape
    move = np.zeros((size, actions, size + 1))
    for state, action, slot in np.ndindex(size, actions, outcomes):
        move[state, action, problem.successor[state, action, slot]] += problem.probability[
            state, action, slot
        ]
    stays, back = two_step_returns(problem)
    successor = problem.successor.reshape(size * actions, outcomes).T
    found = return_chances(jnp.asarray(stays), jnp.asarray(back), jnp.asarray(successor), jnp.asarray(policy))
    dense = dense_chances(*(jnp.asarray(part) for part in dense_returns(problem)), jnp.asarray(policy))
    np.testing.assert_allclose(np.asarray(dense), np.asarray(found), atol=1e-6)
    for number, own in enumerate(policy.T):
        for state in range(size):
            onward = move[np.arange(size), own][:, state].copy()
            onward[state] = 1.0  # who stays has returned already
            want = move[state, :, :size] @ onward
            np.testing.assert_allclose(np.asarray(found)[state, :, number], want, atol=1e-6)


def test_visits_are_a_geometric_sum_up_to_half_of_the_horizon():
    chance = jnp.asarray([0.0, 0.3, 0.95, 1.0])
    want = [sum(r**k for k in range(20)) for r in (0.0, 0.3, 0.95, 1.0)]
    np.testing.assert_allclose(np.asarray(expected_visits(chance, 40)), want, rtol=1e-4)


def test_problems_without_ways_back_are_left_alone():
    assert not two_step_returns(reduce_table(lattice(3)))[1].size


@pytest.mark.parametrize("scale", [1.0, 5.0])
def test_conditionals_come_nearer_to_the_exact_ones_on_a_slippery_grid(scale):
    table = polinfer.tabulate(polinfer.make("gridworld", map="..G\n.R.\nS..", horizon=15))
    problem = reduce_table(table)
    size, actions = problem.gain.shape
    policy = np.random.default_rng(1).integers(0, actions, (size, 4)).astype(np.int16)
    with jax.enable_x64(True):
        rows = make_rows(problem, np.float64)
        plain = make_evaluate(size, actions, 0, problem.horizon, 4, 8)
        single = jax.jit(make_evaluate(size, actions, 0, problem.horizon, size * actions, 8))
        adjoints = [
            np.asarray(jax.jit(each)(rows, jnp.asarray(policy)).adjoint)
            for each in (plain, with_returns(plain))
        ]
        exact = []
        for own in policy.T:
            changed = np.repeat(own[:, None], size * actions, axis=1)
            state, action = np.divmod(np.arange(size * actions), actions)
            changed[state, np.arange(size * actions)] = action
            exact.append(np.asarray(single(rows, jnp.asarray(changed)).returns).reshape(size, actions))

    def softmax(logits):
        mass = np.exp(scale * (logits - logits.max(axis=1, keepdims=True)))
        return mass / mass.sum(axis=1, keepdims=True)

    truth = softmax(np.stack(exact, axis=-1))
    first, second = (0.5 * abs(softmax(adjoint) - truth).sum(axis=1).mean() for adjoint in adjoints)
    assert first > 0.02
    assert second < first / 2
