"""Environments of gymnax: against exact tables where it is installed, else with a stand-in for it."""

from __future__ import annotations

import dataclasses
import importlib
import types
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import polinfer
from polinfer.core.errors import DomainError


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Params:
    slip: float = 0.25
    max_steps_in_episode: int = 7

    def replace(self, **fields):
        return dataclasses.replace(self, **fields)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class State:
    place: jax.Array
    time: jax.Array

    def replace(self, **fields):
        return dataclasses.replace(self, **fields)


class Space(NamedTuple):
    n: int


class Walk:
    """Four places in a row; the last one ends, pays, and may pay for haste."""

    def __init__(self, hasty=False, fine=False):
        self.hasty, self.fine = hasty, fine

    def action_space(self, params):
        return Space(2)

    def reset_env(self, key, params):
        return 0, State(0.5 if self.fine else 0, 0)

    def step_env(self, key, state, action, params):
        stays = jax.random.bernoulli(key, params.slip)
        place = jnp.clip(state.place + jnp.where(stays, 0, 2 * action - 1), 0, 3)
        over = place == 3
        reward = jnp.where(over, 2.0, -0.1) - (0.01 * state.time if self.hasty else 0.0)
        return place, State(place, state.time + 1), reward, over, {}


@pytest.fixture
def stand_in(monkeypatch):
    made = types.SimpleNamespace(
        registered_envs=["Walk-v0"], make=lambda name, **options: (Walk(**options), Params())
    )
    real = importlib.import_module
    monkeypatch.setattr(importlib, "import_module", lambda name: made if name == "gymnax" else real(name))


def test_an_environment_becomes_its_table(stand_in):
    mdp = polinfer.make("gymnax:Walk-v0", slip=0.4, reward_scale=3.0)
    assert mdp.horizon == 7
    table = polinfer.tabulate(mdp, draws=2000)
    assert table.state_names == ("place 0", "place 1", "place 2", "place 3 (end)")
    np.testing.assert_allclose(table.reward[2][table.successor[2] == 3], 6.0)
    stays = table.probability[1, 1][table.successor[1, 1] == 1].sum()
    assert abs(stays - 0.4) < 5 * np.sqrt(0.24 / table.draws[1, 1])


def test_time_is_a_part_of_the_state_only_where_it_matters(stand_in):
    assert polinfer.tabulate(polinfer.make("gymnax:Walk-v0"), draws=64).num_states == 4
    hasty = polinfer.make("gymnax:Walk-v0", hasty=True)
    state = hasty.init(jax.random.key(0))
    moved = hasty.step(jax.random.key(1), state, jnp.int32(0)).state
    assert hasty.identity(moved).tolist() == [0, 1, 0]


def test_what_does_not_fit_is_told(stand_in):
    with pytest.raises(DomainError, match=r"unknown gymnax environment 'Wolk-v0'.*Walk-v0"):
        polinfer.make("gymnax:Wolk-v0")
    with pytest.raises(DomainError, match="has 'place', which is no whole number; pass identity="):
        polinfer.make("gymnax:Walk-v0", fine=True)
    with pytest.raises(DomainError, match=r"does not take these options .*wind.* slip"):
        polinfer.make("gymnax:Walk-v0", wind=1)


@pytest.mark.parametrize(
    ("missing", "words"),
    [
        ("gymnax", "needs gymnax, which is not installed; run pip install gymnax"),
        ("six", "needs gymnax, and that needs six, which is not installed; run pip install six"),
    ],
)
def test_what_is_missing_is_told(monkeypatch, missing, words):
    def refuse(name):
        raise ModuleNotFoundError(f"No module named {missing!r}", name=missing)

    monkeypatch.setattr(importlib, "import_module", refuse)
    with pytest.raises(DomainError, match=words):
        polinfer.make("gymnax:FourRooms-misc")


def test_frozen_lake_is_that_of_gymnasium():
    pytest.importorskip("gymnax")
    pytest.importorskip("gymnasium")
    exact = polinfer.make("gym:FrozenLake-v1")
    found = polinfer.tabulate(polinfer.make("gymnax:FrozenLake-misc"), draws=1000)
    place = found.identities[:, 0]
    assert found.horizon == exact.horizon
    for row, here in enumerate(place):
        for action in range(4) if not found.absorbing[row] else ():
            for there in range(16):
                wanted = exact.probability[here, action][exact.successor[here, action] == there].sum()
                reached = place[found.successor[row, action]] == there
                got = found.probability[row, action][reached].sum()
                assert abs(got - wanted) <= 5 * np.sqrt(wanted * (1 - wanted) / found.draws[row, action])
