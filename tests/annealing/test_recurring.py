import jax
import jax.numpy as jnp
import numpy as np
import pytest

from polinfer import TabularMDP
from polinfer.annealing.passes import make_evaluate
from polinfer.annealing.problem import reduce_table
from polinfer.annealing.recurring import by_cycle
from polinfer.annealing.rows import make_rows

POLICIES = 12
CORRIDOR = 7
SINGLE = 60 * float(np.finfo(np.float32).eps) / 2  # as many additions come before a look


def whole(random, size):
    return random.integers(-4, 5, (size, 3)).astype(float)


def fine(random, size):
    return random.normal(0, 1, (size, 3))


def rings(lengths, draw, horizon=200, end=False):
    """A corridor with ways back that leads into circles of the given lengths, and perhaps to an end."""
    random = np.random.default_rng(3)
    size = CORRIDOR + sum(lengths)
    successor = np.zeros((size, 3), int)
    for state in range(CORRIDOR):
        successor[state] = state + 1, max(state - 1, 0), state
    first, doors = CORRIDOR, []
    for length in lengths:
        doors.append(first)
        for state in range(first, first + length):
            successor[state] = first + (state + 1 - first) % length, state, 0
        first += length
    successor[CORRIDOR - 1, 0], successor[2, 1] = doors[0], doors[-1]
    if end:
        successor[-1] = size - 1
    transition = np.zeros((size, 3, size))
    transition[np.arange(size)[:, None], np.arange(3), successor] = 1.0
    start = np.zeros(size)
    start[0], start[3] = 0.7, 0.3
    absorbing = np.arange(size) == (size - 1 if end else -1)
    reward = np.where(absorbing[:, None], 0.0, draw(random, size))
    return TabularMDP(transition, reward, start, absorbing, horizon)


def step_by_step(problem, policy):
    """Return, visits and adjoint of one policy ``[N]``, as they are defined."""
    slots = np.arange(problem.size)
    successor = problem.successor[:, :, 0]
    chance = problem.probability[:, :, 0]
    here, trail = problem.initial.copy(), []
    for _ in range(problem.horizon):
        trail.append(here)
        onward = np.zeros(problem.size + 1)
        np.add.at(onward, successor[slots, policy], here * chance[slots, policy])
        here = onward[:-1]
    value, adjoint = np.zeros(problem.size), np.zeros(problem.gain.shape)
    for here in trail[::-1]:
        worth = problem.gain + chance * np.append(value, 0.0)[successor]
        adjoint += here[:, None] * worth
        value = worth[slots, policy]
    return problem.initial @ value, np.sum(trail, axis=0), adjoint


CASES = {
    "short circles": (rings((2, 3, 4), whole), np.float64, 1e-12),
    "one circle ends": (rings((3, 4), whole, end=True), np.float64, 1e-12),
    "circles that do not divide the cycle": (rings((5, 7), whole), np.float64, 1e-12),
    "rewards that are rounded": (rings((2, 3, 6), fine), np.float64, 1e-12),
    "single precision": (rings((2, 3, 6), fine), np.float32, SINGLE),
    "single precision, whole rewards": (rings((2, 3, 6), whole), np.float32, SINGLE),
    "a horizon that the cycle does not divide": (rings((2, 3, 4), whole, horizon=53), np.float64, 1e-12),
    "a long horizon": (rings((2, 3, 4), fine, horizon=3_001), np.float64, 1e-12),
}


@pytest.mark.parametrize("name", CASES)
def test_what_repeats_itself_counts_as_often_as_it_does(name, monkeypatch):
    monkeypatch.setattr("polinfer.annealing.problem._DENSE_SIZE", 0)
    table, kind, tolerance = CASES[name]
    problem = reduce_table(table)
    random = np.random.default_rng(5)
    policy = np.where(
        random.random((problem.size, POLICIES)) < 0.5, 0, random.integers(0, 3, (problem.size, POLICIES))
    )
    policy[:, 0] = 0
    if "do not divide" not in name:
        policy[problem.state >= CORRIDOR] %= 2  # on in the circle or stay: the way back makes longer ones
    policy = np.where(problem.legal[np.arange(problem.size)[:, None], policy], policy, 0).astype(np.int16)
    with jax.enable_x64(True):
        found = jax.jit(by_cycle(problem.horizon))(make_rows(problem, kind), jnp.asarray(policy))
        found = jax.tree.map(np.asarray, found)
    for number in range(POLICIES):
        exact = step_by_step(problem, policy[:, number])
        for one, other in zip(found, exact, strict=True):
            size = max(np.abs(other).max(), problem.horizon)
            np.testing.assert_allclose(one[..., number], other, atol=tolerance * size)


def test_it_is_used_where_every_action_has_one_outcome(monkeypatch):
    monkeypatch.setattr("polinfer.annealing.problem._DENSE_SIZE", 0)
    problem = reduce_table(rings((2, 3, 4), whole))
    policy = jnp.zeros((problem.size, 4), jnp.int16)

    def text(evaluate):
        return jax.jit(evaluate).lower(make_rows(problem), policy).as_text()

    shape = (*problem.gain.shape, 0, problem.horizon, 4)
    assert text(make_evaluate(*shape)) == text(by_cycle(problem.horizon)).replace(
        "jit_by_cycle", "jit_evaluate"
    )
