import jax
import jax.numpy as jnp
import numpy as np
import pytest

from polinfer.annealing import passes
from polinfer.annealing.passes import make_evaluate
from polinfer.annealing.problem import arrange, reduce_table
from polinfer.annealing.rows import make_rows
from polinfer.exact.evaluation import deterministic_returns, evaluate_policy
from polinfer.problems.tabular.table import TabularMDP

from .cases import every_policy, lattice, loop, shortcut, tree, two_blocks


def evaluated(problem, policy):
    with jax.enable_x64(True):
        evaluate = make_evaluate(
            *problem.gain.shape, problem.width, problem.horizon, policy.shape[1], itemsize=8
        )
        found = jax.jit(evaluate)(make_rows(problem, np.float64), jnp.asarray(policy))
        return jax.tree.map(np.asarray, found)


def whole(table, problem, policy):
    every = np.tile(table.legal_actions.argmax(axis=1), (policy.shape[1], 1))
    every[:, problem.state[problem.occupied]] = policy[problem.occupied].T
    return every


CASES = {
    "loops": (loop(), False, 1 << 28),
    "loops, checkpoints, chunks": (loop(), False, 2048),
    "horizon cuts": (loop(horizon=2), True, 1 << 28),
    "values converge": (loop(horizon=200), False, 1 << 28),
    "forced states": (two_blocks(), True, 1 << 28),
    "tree by level": (tree(), True, 1 << 28),
    "lattice by level, chunks": (lattice(3, 0.2), True, 2048),
    "lattice by step": (lattice(3, 0.2), False, 1 << 28),
    "shortcut": (shortcut(), True, 1 << 28),
}


@pytest.mark.parametrize("name", CASES)
def test_returns_visits_and_adjoint_of_every_policy(name, monkeypatch):
    table, levels, chunk = CASES[name]
    monkeypatch.setattr(passes, "CHUNK_BYTES", chunk)
    problem = reduce_table(table)
    if levels:
        problem = arrange(problem)
    policy = every_policy(problem.legal)[:, ::7][:, :16]
    found = evaluated(problem, policy)
    every = whole(table, problem, policy)
    held = problem.occupied
    np.testing.assert_allclose(found.returns, deterministic_returns(table, every), atol=1e-12)
    for number in range(0, policy.shape[1], 5):
        value = evaluate_policy(table, every[number])
        np.testing.assert_allclose(
            found.visits[held, number], value.occupancy[problem.state[held]], atol=1e-12
        )
        # The derivative of J in the probability of another action, by central differences.
        slot = int(np.argmax(found.visits[:, number] * (problem.legal.sum(axis=1) > 1)))
        base = np.eye(table.num_actions)[every[number]]
        for action in np.flatnonzero(problem.legal[slot]):
            step = np.zeros_like(base)
            state = problem.state[slot]
            step[state] = np.eye(table.num_actions)[action] - base[state]
            ahead = evaluate_policy(table, base + 1e-4 * step).expected_return
            slope = (ahead - found.returns[number]) / 1e-4
            gap = found.adjoint[slot, action, number] - found.adjoint[slot, policy[slot, number], number]
            assert gap == pytest.approx(slope, abs=5e-3 * (1 + abs(gap)))


def test_without_loops_differences_of_the_adjoint_are_those_of_the_return():
    problem = arrange(reduce_table(lattice(3, 0.2)))
    assert problem.width
    policy = every_policy(problem.legal)[:, 5:6]
    found = evaluated(problem, policy)
    for slot in np.flatnonzero(problem.occupied & (problem.legal.sum(axis=1) > 1)):
        other = policy.copy()
        other[slot] = 1 - other[slot]
        change = evaluated(problem, other).returns - found.returns
        gap = found.adjoint[slot, other[slot, 0], 0] - found.adjoint[slot, policy[slot, 0], 0]
        assert gap == pytest.approx(change[0], abs=1e-12)


def test_levels_are_used_only_where_the_horizon_cuts_nothing():
    assert arrange(reduce_table(lattice(3, 0.2))).width > 0
    assert arrange(reduce_table(shortcut())).width == 0
    assert arrange(reduce_table(loop())).width == 0


def test_hubs_beyond_the_rows_are_added_by_segments(monkeypatch):
    table = loop()
    policy = every_policy(reduce_table(table).legal)
    full = evaluated(reduce_table(table), policy)
    monkeypatch.setattr("polinfer.annealing.problem._MOST_PREDECESSORS", 2)
    monkeypatch.setattr("polinfer.annealing.problem._ANY_PREDECESSORS", 1)
    monkeypatch.setattr("polinfer.annealing.problem._DENSE_SHARE", 2.0)
    problem = reduce_table(table)
    assert len(problem.hub_origin)
    for one, other in zip(full, evaluated(problem, policy), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)


@pytest.mark.parametrize(("kind", "tolerance"), [(np.float32, 3e-6), (np.float64, 1e-12)])
@pytest.mark.parametrize("far", [1e8, -1e18])
def test_a_value_that_dwarfs_the_others_does_not_end_their_passes(kind, tolerance, far):
    # A loop that pays a little in each of 300 steps, with a leak of 1e-9 or an action as good as forbidden.
    leak = 1e-9 if far > 0 else 0.0
    move, pay = np.zeros((4, 3, 4)), np.zeros((4, 3))
    move[0, :2, [0, 1]] = [[0.3, 0.6], [0.7 - leak, 0.4 - leak]]
    move[1, :2, [0, 1]] = [[0.55 - leak, 0.2 - leak], [0.45, 0.8]]
    move[:2, :2, 2] += leak
    move[:2, 2, 3] = move[2, :, 3] = 1.0
    pay[:2, :2] = [[0.11, -0.07], [0.05, 0.13]]
    pay[2], pay[:2, 2] = max(far, 0.0), min(far, 0.0)
    legal = np.array([[1, 1, far < 0], [1, 1, far < 0], [1, 0, 0], [1, 1, 1]], bool)
    table = TabularMDP(move, pay, 0, [3], 300, legal=legal)
    problem = reduce_table(table)
    policy = every_policy(problem.legal)
    with jax.enable_x64(True):
        evaluate = make_evaluate(*problem.gain.shape, 0, 300, policy.shape[1], np.dtype(kind).itemsize)
        found = jax.jit(evaluate)(make_rows(problem, kind), jnp.asarray(policy))
    exact = deterministic_returns(table, whole(table, problem, policy))
    small = np.abs(exact) < 1e6
    assert small.sum() >= 4
    np.testing.assert_allclose(np.asarray(found.returns)[small], exact[small], atol=300 * tolerance)
