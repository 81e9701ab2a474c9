"""Single-state draws in order, against conditionals by brute force."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import polinfer
from polinfer import TabularMDP, exact
from polinfer.annealing import TemperedConfig, temper
from polinfer.annealing.moves import Population
from polinfer.annealing.ordered import order_of, ordered_scan
from polinfer.annealing.sampler import make_kernels
from polinfer.exact.returns import choices_of
from smc.engines import QUICK

SCALE = 0.9


def downhill(seed: int = 2, states: int = 6, horizon: int = 5, back: bool = False) -> TabularMDP:
    """Episodes stay or go down a hidden order of the states; two starts, illegal actions, a forced state.

    With `back`, one action of the lowest state may lead to the highest.
    """
    random = np.random.default_rng(seed)
    actions = 3
    name = random.permutation(states + 1)  # of the states, from the top down; the last is the end
    transitions = np.zeros((states + 1, actions, states + 1))
    legal = np.ones((states + 1, actions), np.bool_)
    for rank, state in enumerate(name[:-1]):
        for action in range(actions):
            lower = random.choice(name[rank + 1 :], min(2, states - rank), replace=False)
            to = [state, *lower] if (rank + action) % 3 else lower
            transitions[state, action, to] = random.dirichlet(np.full(len(to), 1.5))
        legal[state, random.integers(actions)] = rank % 2 == 0
    legal[name[2]] = [False, True, False]
    if back:
        transitions[name[-2], np.flatnonzero(legal[name[-2]])[0]] = np.eye(states + 1)[name[0]]
    return TabularMDP(
        transitions,
        random.normal(0, 1.2, (states + 1, actions, states + 1)),
        initial=np.where(np.arange(states + 1) == name[0], 0.7, 0.0)
        + np.where(np.arange(states + 1) == name[1], 0.3, 0.0),
        absorbing=np.arange(states + 1) == name[-1],
        horizon=horizon,
        legal=legal,
    )


def conditionals(table: TabularMDP, before: np.ndarray, after: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The conditionals ``[n, A, P]`` of a pass from the last state to the first, policy by policy, and J."""
    choices = choices_of(table)
    row = {int(state): i for i, state in enumerate(choices.state)}
    order = [int(state) for state in order_of(table) if int(state) in row]  # type: ignore[union-attr]
    whole = np.tile(table.legal_actions.argmax(axis=1), (before.shape[1], 1))
    whole[:, choices.state] = before.T
    found = np.zeros((len(order), table.num_actions, before.shape[1]))
    for state in reversed(order):
        mass = np.full((table.num_actions, len(whole)), -np.inf)
        for action in np.flatnonzero(table.legal_actions[state]):
            tried = whole.copy()
            tried[:, state] = action
            mass[action] = SCALE * exact.deterministic_returns(table, tried)
        share = np.exp(mass - mass.max(axis=0))
        found[row[state]] = share / share.sum(axis=0)
        whole[:, state] = after[row[state]]
    return found, exact.deterministic_returns(table, whole)


def random_population(table: TabularMDP, size: int, seed: int = 0) -> Population:
    random, legal = np.random.default_rng(seed), choices_of(table).legal
    actions = np.stack([random.choice(np.flatnonzero(row), size) for row in legal]).astype(np.int32)
    return Population(jnp.asarray(actions), jnp.zeros(size))


def one_pass(table: TabularMDP, population: Population, islands: int, seed: int = 0) -> Any:
    order = order_of(table)
    assert order is not None
    scan = jax.jit(ordered_scan(table, order, islands), compiler_options=QUICK)
    return scan(jax.random.key(seed), population, jnp.float32(SCALE))


@pytest.mark.parametrize("size", [5, 300])
def test_conditionals_are_those_of_brute_force(size: int) -> None:
    # More than one block of policies, and the last not full.
    table = downhill()
    before = random_population(table, size)
    passed = one_pass(table, before, islands=size)
    after = np.asarray(passed.population.actions)
    expected, returns = conditionals(table, np.asarray(before.actions), after)
    np.testing.assert_allclose(passed.shares, expected, atol=2e-5)
    np.testing.assert_allclose(passed.population.returns, returns, atol=2e-5)
    assert (np.take_along_axis(expected, after[:, None], axis=1) > 0).all(), "only legal actions"
    # Something is at stake everywhere, and policies differ.
    assert (np.ptp(expected.max(axis=1), axis=1) > 1e-3).all()
    assert np.asarray(passed.accepted) == 1


def test_actions_are_drawn_from_the_conditionals() -> None:
    table, size = downhill(), 6_000
    one = random_population(table, 1)
    before = Population(jnp.tile(one.actions, (1, size)), jnp.zeros(size))
    passed = one_pass(table, before, islands=size)
    drawn, shares = np.asarray(passed.population.actions), np.asarray(passed.shares)
    for i, row in enumerate(drawn):
        for action in range(table.num_actions):
            # Given what was drawn before, the draws of a state are independent.
            error = (row == action) - shares[i, action]
            variance = (shares[i, action] * (1 - shares[i, action])).mean()
            assert abs(error.mean()) <= 4.5 * np.sqrt(variance / size)


def test_islands_are_averaged_apart() -> None:
    table = downhill()
    population = random_population(table, 6)
    alone = np.asarray(one_pass(table, population, islands=6).shares)
    pairs = np.asarray(one_pass(table, population, islands=3).shares)
    np.testing.assert_allclose(pairs, alone.reshape(*alone.shape[:2], 3, 2).mean(axis=-1), atol=1e-6)


@pytest.mark.parametrize("seed", [2, 3, 4])
def test_every_state_comes_before_what_follows_it(seed: int) -> None:
    table = downhill(seed)
    order = order_of(table)
    assert order is not None
    rank = {int(state): i for i, state in enumerate(order)}
    for state, own in rank.items():
        for action in np.flatnonzero(table.legal_actions[state]):
            likely = table.successor[state, action][table.probability[state, action] > 0]
            assert all(own <= rank.get(int(following), 99) for following in likely)
    assert list(order) != sorted(order)


def test_what_can_come_back_has_no_order() -> None:
    for name in ("gridworld/ablation", "continuation"):
        found = order_of(polinfer.tabulate(polinfer.make(name)))
        assert (found is None) == (name != "continuation")
    assert order_of(downhill(back=True)) is None


def test_a_run_has_the_enumerated_posterior() -> None:
    table = downhill()
    truth = exact.policy_posterior(table)
    config = TemperedConfig(policies=100, islands=8)
    point = temper(table, config, seed=1).points[-1]
    assert truth.posterior is not None
    assert abs(point.log_evidence - truth.posterior.log_evidence) < 4 * point.log_evidence_stderr
    assert (abs(point.policy - truth.policy) < 5 * point.policy_stderr + 2e-3).all()
    assert point.policy_stderr.max() < 0.02


def test_blocks_are_moved_where_they_are_asked_for() -> None:
    table = downhill()
    population = random_population(table, 16)
    accepted = {
        moves: float(
            make_kernels(table, 2, moves).scan(jax.random.key(0), population, jnp.float32(1)).accepted
        )
        for moves in ("auto", "block")
    }
    assert accepted["auto"] == 1
    assert accepted["block"] < 1
