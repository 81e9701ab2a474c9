"""Environments that publish their transition table."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.toy_text.frozen_lake import FrozenLakeEnv
from gymnasium.wrappers import TransformReward

import polinfer
from polinfer import exact
from polinfer.problems.adapters.snapshots import SnapshotSimulator

from .environments import PassedThrough

# Gymnasium 1.0 has Taxi-v3; later versions only Taxi-v4.
TAXI = "Taxi-v4" if "Taxi-v4" in gymnasium.registry else "Taxi-v3"

CASES = [
    ("FrozenLake-v1", {}),
    ("FrozenLake-v1", {"is_slippery": False}),
    ("FrozenLake-v1", {"desc": ["SFH", "FHF", "FFG"]}),
    ("FrozenLake8x8-v1", {}),
    ("CliffWalking-v1", {}),
    ("CliffWalking-v1", {"is_slippery": True}),
    (TAXI, {}),
    *([(TAXI, {"is_rainy": True})] if TAXI == "Taxi-v4" else []),
]


@pytest.mark.parametrize(("name", "options"), CASES)
def test_the_table_is_gymnasiums(name, options):
    table = polinfer.make(f"gym:{name}", horizon=30, **options)
    assert isinstance(table, polinfer.TabularMDP)
    core = gymnasium.make(name, **options).unwrapped
    np.testing.assert_allclose(table.initial, core.initial_state_distrib, atol=1e-15)
    assert (table.num_states, table.num_actions) == (len(core.P), len(core.P[0]))
    reached, queue = set(), np.nonzero(table.initial)[0].tolist()
    while queue:
        s = queue.pop()
        if s in reached:
            continue
        reached.add(s)
        for a in range(table.num_actions):
            theirs, ours = {}, {}
            for p, n, r, end in core.P[s][a]:
                theirs[int(n), float(r), bool(end)] = theirs.get((int(n), float(r), bool(end)), 0) + p
                if not end:
                    queue.append(int(n))
            for p, n, r in zip(
                table.probability[s, a], table.successor[s, a], table.reward[s, a], strict=True
            ):
                if p > 0:
                    key = int(n), float(r), bool(table.absorbing[n])
                    ours[key] = ours.get(key, 0) + p
            assert ours == pytest.approx(theirs), (s, a)
    assert not table.absorbing[sorted(reached)].any()


def test_frozen_lake_has_its_names_and_its_value():
    lake = polinfer.make("gym:FrozenLake-v1")
    assert lake.horizon == 100
    assert lake.action_names == ("left", "down", "right", "up")
    assert lake.state_names[6] == "row 1 column 2"
    solution = exact.stationary_value_iteration(lake)
    assert solution.objective == pytest.approx(14 / 17, abs=1e-7)
    crossed = exact.evaluate_policy(lake, solution.policy, horizon=3000)
    assert crossed.endings == pytest.approx({"goal": 14 / 17, "hole": 3 / 17}, abs=1e-7)


def test_taxi_and_cliff_have_names_and_endings():
    taxi, cliff = polinfer.make(f"gym:{TAXI}"), polinfer.make("gym:CliffWalking-v1", horizon=40)
    assert taxi.action_names == ("south", "north", "east", "west", "pickup", "dropoff")
    core = gymnasium.make(TAXI).unwrapped
    assert taxi.state_names[core.encode(3, 1, 4, 2)] == "row 3 column 1, passenger in taxi, to yellow"
    assert taxi.state_names[core.encode(0, 4, 1, 3)] == "row 0 column 4, passenger at green, to blue"
    assert [taxi.endings[i].name for i in taxi.ending_of[taxi.absorbing]] == ["delivered"] * 4
    assert cliff.action_names == ("up", "right", "down", "left")
    assert (np.nonzero(cliff.absorbing)[0].tolist(), cliff.ending_of[47]) == ([47], 0)
    ((goal, success),) = cliff.endings
    assert (goal, success, cliff.state_names[47]) == ("goal", True, "row 3 column 11")


@pytest.mark.parametrize(
    ("name", "options"), [("FrozenLake-v1", {}), ("CliffWalking-v1", {"is_slippery": True})]
)
def test_gymnasium_itself_earns_what_the_table_says(name, options):
    """Policies with a memo of their own: one drawn action for each state."""
    table = polinfer.make(f"gym:{name}", horizon=25, reward_scale=0.5, **options)
    actions = np.random.default_rng(3).integers(0, 4, table.num_states)
    truth = exact.evaluate_policy(table, exact.one_hot_policy(table, actions))
    env, episodes = gymnasium.make(name, max_episode_steps=25, **options), 400
    returns, lengths = np.zeros(episodes), np.zeros(episodes)
    for i in range(episodes):
        state, _ = env.reset(seed=7 if i == 0 else None)
        over = False
        while not over:
            state, reward, terminated, truncated, _ = env.step(int(actions[state]))
            returns[i] += 0.5 * reward
            lengths[i] += 1
            over = terminated or truncated
    error = np.maximum(truth.std, 1e-9) / np.sqrt(episodes)
    assert abs(returns.mean() - truth.expected_return) < 5 * error
    assert abs(lengths.mean() - truth.length) < 5 * lengths.std() / np.sqrt(episodes) + 1e-9


def test_a_state_that_ends_only_sometimes_is_two():
    table = polinfer.from_gymnasium(PassedThrough(), horizon=5, reward_scale=2.0)
    assert isinstance(table, polinfer.TabularMDP)
    assert (table.num_states, table.absorbing.tolist()) == (4, [False, False, True, True])
    assert table.endings == ()
    value = exact.evaluate_policy(table, exact.uniform_policy(table))
    assert value.expected_return == pytest.approx(2.0 * (0.25 * 1 + 0.75 * (2 + 5)))


def test_encode_gives_the_table_its_features():
    lake = polinfer.make("gym:FrozenLake-v1", encode=lambda s: [s // 4, s % 4, 1.0])
    assert isinstance(lake, polinfer.TabularMDP)
    np.testing.assert_array_equal(lake.encode(6), [1, 2, 1])
    ends = polinfer.from_gymnasium(PassedThrough(), horizon=5, encode=lambda s: [s, 1])
    np.testing.assert_array_equal(ends.features[:, 0], [0, 1, 2, 1])


class Detour(FrozenLakeEnv):
    """Inherits a table that its own step does not keep to."""

    def step(self, a):
        return super().step((a + 1) % 4)


@pytest.mark.parametrize(
    "env",
    [
        pytest.param(lambda: gymnasium.make(TAXI, fickle_passenger=True), id="fickle passenger"),
        pytest.param(lambda: TransformReward(gymnasium.make("FrozenLake-v1"), lambda r: r - 1), id="wrapped"),
        pytest.param(Detour, id="another step"),
    ],
)
def test_a_table_that_is_not_the_whole_truth_is_not_used(env):
    made = env() if TAXI == "Taxi-v4" or env is Detour else Detour()
    problem = polinfer.from_gymnasium(made, horizon=10)
    assert isinstance(problem, SnapshotSimulator)


def test_an_abstraction_merges_states_of_a_table_by_snapshots():
    rows = polinfer.make("gym:FrozenLake-v1", abstraction=lambda s: s // 4, is_slippery=False)
    start = rows.init(0)
    (right, _, _), (down, reward, over) = rows.step(1, start, 2), rows.step(1, start, 1)
    assert (start.key, right.key, down.key, reward, over) == (0, 0, 1, 0.0, False)
    assert (right == start, down == start) == (True, False)
