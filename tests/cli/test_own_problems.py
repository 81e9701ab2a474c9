"""The problems of a new user: one command or three lines each, to an answer with a true verdict."""

from __future__ import annotations

import json
import textwrap

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

import polinfer
from polinfer.cli import main
from polinfer.core.protocol import Transition


class Fishing(gymnasium.Env):
    """Go out to the fish with little fuel; the sea may take the boat."""

    observation_space = spaces.MultiDiscrete([3, 2])  # place, fuel
    action_space = spaces.Discrete(3)  # fish, out, home

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.fuel = 0, 1
        return np.array([self.place, self.fuel]), {}

    def step(self, action):
        reward = float(action == 0 and self.np_random.random() < 0.6 * self.place) - 0.1
        if action == 1 and self.fuel:
            self.place, self.fuel = self.place + 1, self.fuel - 1
        elif action == 2:
            self.place = max(0, self.place - 1)
        wrecked = self.np_random.random() < 0.05 * self.place
        return np.array([self.place, self.fuel]), -4.0 if wrecked else reward, bool(wrecked), False, {}


class Drone:
    """A JAX problem that lists no outcomes: three places in a row, and gusts."""

    num_actions, horizon = 2, 6

    def init(self, key):
        return jnp.array([1], jnp.int32)

    def step(self, key, state, action):
        gust = jax.random.bernoulli(key, 0.2)
        place = jnp.clip(state[0] + jnp.where(gust, 0, 2 * action - 1), 0, 3)
        reward = jnp.where(place == 3, 3.0, jnp.where(place == 0, -2.0, -0.1))
        return Transition(place[None].astype(jnp.int32), reward, (place == 3) | (place == 0))

    def encode(self, state):
        return state.astype(jnp.float32) / 3

    def identity(self, state):
        return state

    def legal(self, state):
        return jnp.ones(2, bool)


def share_of(problem, posterior):
    table = polinfer.tabulate(problem)
    even = polinfer.exact.evaluate_policy(table, polinfer.exact.uniform_policy(table)).expected_return
    best = polinfer.exact.finite_horizon_optimum(table).objective
    return (polinfer.evaluate(problem, posterior, exactly=True).mean[0] - even) / (best - even)


def test_arrays_of_pymdptoolbox():
    rng = np.random.default_rng(3)
    P, R = rng.dirichlet(np.full(5, 0.3), size=(2, 5)), rng.normal(size=(5, 2))
    problem = polinfer.TabularMDP.from_arrays(P, 4 * R, horizon=9)
    posterior = polinfer.infer(problem)
    assert share_of(problem, posterior) > 0.5
    assert polinfer.certify(posterior).verdict is polinfer.Verdict.TRUST
    assert posterior.predict(3, deterministic=True)[0] in (0, 1)
    assert len(posterior.plot().axes) > 0


def test_a_gymnasium_class_with_several_numbers_and_a_time_limit():
    env = gymnasium.wrappers.TimeLimit(Fishing(), 8)
    problem = polinfer.from_gymnasium(env, reward_scale=6)
    posterior = polinfer.infer(problem)
    assert problem.horizon == 8
    assert share_of(problem, posterior) > 0.5
    assert "draws" in polinfer.certify(posterior).reason
    observation, _ = env.reset(seed=0)
    assert posterior.predict(observation, deterministic=True)[0] == 1  # out to the fish
    assert len(posterior.plot().axes) > 0


def test_a_jax_class_without_outcomes():
    problem = Drone()
    posterior = polinfer.infer(problem)
    assert share_of(problem, posterior) > 0.5
    assert "draws" in polinfer.certify(posterior).reason
    assert posterior.predict(jnp.array([1], jnp.int32), deterministic=True)[0] == 1
    assert len(posterior.plot().axes) > 0


MAP = """
S...................
.##.....RRR.........
.#......RRR...WW....
.#...........WW.....
.#....###...........
......#.....RRRR....
......#.....R..R....
..RR..#.....R..R....
..RR........RRRR....
..........W.........
.....W....W....###..
.....W....W......#..
..####..........#...
.....#..RRRR........
.....#..R...........
.....#..R.....WWW...
........R...........
..WW........####....
..................R.
..............R....G
"""
FULL_SIZE = {
    "lake": ["gym:FrozenLake8x8-v1"],
    "taxi": ["gym:Taxi-v4", "--horizon", "25"],
    "cliff": ["gym:CliffWalking-v1", "--horizon", "50"],
    "minigrid": ["gym:MiniGrid-Empty-5x5-v0"],
    "map": ["gridworld", "--map", "map.txt", "--horizon", "60"],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FULL_SIZE)
def test_at_full_size_one_command_is_enough(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "map.txt").write_text(textwrap.dedent(MAP).lstrip())
    assert main(["plan", *FULL_SIZE[name], "--reward-scale", "auto", "--json", "--out", "run"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["standing"]["share"] > 0.5
    assert record["certificate"]["verdict"] in ("trust", "use with care")
    assert (tmp_path / "run" / "policy.png").stat().st_size > 5_000


@pytest.mark.parametrize(
    ("parameter", "said"), [("", "Still takes no reward_scale"), ("reward_scale", "1 / 0")]
)
def test_a_class_that_takes_no_reward_scale_says_what_to_do(parameter, said, tmp_path):
    body = "raise TypeError('1 / 0')" if parameter else "pass"
    (tmp_path / "own.py").write_text(f"class Still:\n    def __init__(self, {parameter}):\n        {body}\n")
    with pytest.raises(polinfer.PolinferError, match=said):
        polinfer.make(f"{tmp_path / 'own.py'}:Still", reward_scale=2.0)
