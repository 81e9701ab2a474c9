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
from polinfer.core.progress import Report, watching
from polinfer.core.protocol import Transition
from polinfer.core.stopping import stopping


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


class Shoal(gymnasium.Env):
    """Thirty-six places and charges; out at sea there is more to catch, and to lose."""

    observation_space = spaces.MultiDiscrete([6, 6])  # place, fuel
    action_space = spaces.Discrete(3)  # fish, out, home
    max_episode_steps = 20

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.fuel = 0, 5
        return np.array([self.place, self.fuel]), {}

    def step(self, action):
        caught = action == 0 and self.np_random.random() < 0.15 * self.place
        if action == 1 and self.fuel and self.place < 5:
            self.place, self.fuel = self.place + 1, self.fuel - 1
        elif action == 2:
            self.place = max(0, self.place - 1)
        wrecked = self.np_random.random() < 0.01 * self.place
        return np.array([self.place, self.fuel]), -1.0 if wrecked else caught - 0.1, bool(wrecked), False, {}


class Gusts:
    """A JAX problem without outcomes and without a reward scale: a field of 6 x 6 and gusts from the west."""

    num_actions, horizon = 4, 24

    def init(self, key):
        return jnp.array([0, 0], jnp.int32)

    def step(self, key, state, action):
        moves = jnp.array([[1, 0], [0, 1], [-1, 0], [0, -1]])
        gust = jnp.where(jax.random.bernoulli(key, 0.2), 1, 0) * jnp.array([1, 0])
        place = jnp.clip(state + moves[action] + gust, 0, 5).astype(jnp.int32)
        there, lost = (place == jnp.array([2, 5])).all(), place[0] == 5
        return Transition(place, jnp.where(there, 5.0, jnp.where(lost, -3.0, -0.1)), there | lost)

    def encode(self, state):
        return state.astype(jnp.float32) / 5

    def identity(self, state):
        return state

    def legal(self, state):
        return jnp.ones(4, bool)


def first_observation(name):
    """Return what the problem's own environment shows first."""
    if name in ("arrays", "map"):
        return 0
    if name == "jax":
        return jnp.array([0, 0], jnp.int32)
    env = Shoal() if name == "class" else gymnasium.make(FULL_SIZE[name][0].removeprefix("gym:"))
    return env.reset(seed=3)[0]


FULL_SIZE = {
    "arrays": ["arrays.npz"],
    "lake": ["gym:FrozenLake8x8-v1"],
    "taxi": ["gym:Taxi-v4", "--horizon", "25"],
    "cliff": ["gym:CliffWalking-v1", "--horizon", "50"],
    "class": [f"{__file__}:Shoal"],
    "minigrid": ["gym:MiniGrid-Empty-5x5-v0"],
    "map": ["gridworld", "--map", "map.txt", "--horizon", "60"],
    "jax": [f"{__file__}:Gusts"],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FULL_SIZE)
def test_at_full_size_one_command_is_enough(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "map.txt").write_text(textwrap.dedent(MAP).lstrip())
    rng = np.random.default_rng(7)
    P, R = rng.dirichlet(np.full(30, 0.1), size=(3, 30)), rng.normal(size=(30, 3))
    polinfer.save_table(polinfer.TabularMDP.from_arrays(P, R, horizon=20), "arrays.npz")
    assert main(["plan", *FULL_SIZE[name], "--reward-scale", "auto", "--json", "--out", "run"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["standing"]["share"] > 0.5
    certificate = record["certificate"]
    # A class is explored by few draws, which may leave too much open: that is then said, with the remedy.
    assert certificate["verdict"] in ("trust", "use with care") or "--draws" in certificate["remedy"]
    assert (tmp_path / "run" / "policy.png").stat().st_size > 5_000
    own = FULL_SIZE[name][:1] if name in ("class", "jax") else ()
    posterior = polinfer.load("run", code=own)
    action, _ = posterior.predict(first_observation(name), deterministic=True)
    assert 0 <= int(action) < len(record["actions"])


STILL = """
class Still:
    num_actions, horizon = 2, 3

    def __init__(self{parameter}):
        {body}

    def init(self, seed):
        return 0

    def step(self, seed, state, action):
        return state + 1, 1.5 * action - 1, state == 2

    def legal(self, state):
        return [True, True]
"""


def own_class(folder, parameter="", body="pass"):
    (folder / "own.py").write_text(STILL.format(parameter=parameter, body=body))
    return f"{folder / 'own.py'}:Still"


def test_a_class_that_takes_no_reward_scale_is_scaled_for_it(tmp_path):
    problem = polinfer.make(own_class(tmp_path), reward_scale=2.0, horizon=2)
    assert [problem.step(0, 0, action).reward for action in (0, 1)] == [-2.0, 1.0]
    table = polinfer.tabulate(problem)
    assert table.horizon == 2
    assert sorted(set(table.reward[table.probability > 0])) == [-2.0, 0.0, 1.0]


def test_a_request_to_stop_shortens_the_episodes_of_a_simulator(tmp_path):
    problem = polinfer.make(own_class(tmp_path))
    posterior = polinfer.infer(problem)
    heard = []
    with stopping() as stopper, watching(heard.append):
        stopper.request("Ctrl-C")
        cut = polinfer.evaluate(problem, posterior, episodes=400)
    assert cut.episodes == cut.returns.shape[1] == 100
    assert heard[-1] == Report(100, 400, "episodes")
    whole = polinfer.evaluate(problem, posterior, episodes=400)
    assert (whole.returns[:, :100] == cut.returns).all()


def test_an_error_inside_of_a_class_is_shown_and_not_mended(tmp_path):
    address = own_class(tmp_path, ", reward_scale", "raise TypeError('1 / 0')")
    with pytest.raises(polinfer.PolinferError, match="1 / 0"):
        polinfer.make(address, reward_scale=2.0)


def test_a_jax_problem_is_rescaled_in_simulation_and_in_its_list_of_outcomes():
    bandit = polinfer.make("bandit", means=[0.1, 0.9])
    twice = polinfer.rescaled(bandit, reward_scale=2)
    assert isinstance(twice, polinfer.EnumerableMDP)
    before, after = polinfer.tabulate(bandit), polinfer.tabulate(twice)
    assert np.array_equal(after.reward, 2 * before.reward)
    drone = polinfer.rescaled(Drone(), reward_scale=2, horizon=3)
    moved = drone.step(jax.random.key(0), jnp.array([2], jnp.int32), jnp.int32(1))
    assert moved.reward == 2 * Drone().step(jax.random.key(0), jnp.array([2], jnp.int32), jnp.int32(1)).reward
    assert drone.horizon == 3


def test_equal_problems_that_are_rescaled_alike_are_equal():
    drone = Drone()
    assert polinfer.rescaled(drone, reward_scale=2) == polinfer.rescaled(drone, reward_scale=2)
    assert polinfer.rescaled(drone, reward_scale=2) != polinfer.rescaled(drone, reward_scale=3)
    again = polinfer.rescaled(polinfer.rescaled(drone, reward_scale=2), reward_scale=3)
    state = jnp.array([2], jnp.int32)
    plain = drone.step(jax.random.key(0), state, jnp.int32(1)).reward
    assert again.step(jax.random.key(0), state, jnp.int32(1)).reward == 6 * plain


def test_what_rescales_itself_says_so():
    with pytest.raises(polinfer.PolinferError, match="from_gymnasium"):
        polinfer.rescaled(Fishing(), reward_scale=2)


def test_states_without_names_are_named_by_what_tells_them_apart():
    table = polinfer.tabulate(Drone(), draws=4)
    assert table.state_names[0] == "1"
    assert table.action_names == ("0", "1")


def test_actions_have_their_names_even_where_states_have_none():
    class Named(Drone):
        action_names = ("left", "right")

    assert polinfer.tabulate(Named(), draws=4).action_names == ("left", "right")


def test_a_table_knows_its_states_by_the_names_that_it_was_given():
    table = polinfer.TabularMDP.from_arrays(
        np.eye(2)[[[1, 0], [0, 1]]],
        [[0, 1], [2, 0]],
        layout="SAS",
        horizon=3,
        state_names=["home", "office"],
    )
    posterior = polinfer.infer(table, "exact")
    assert (posterior.action_probs("office") == posterior.action_probs(1)).all()
    assert posterior.predict(["home", "office"], deterministic=True)[0].tolist() == [
        posterior.predict(place, deterministic=True)[0] for place in (0, 1)
    ]
    with pytest.raises(polinfer.PolinferError, match="did you mean 'office'"):
        posterior.predict("offise")
