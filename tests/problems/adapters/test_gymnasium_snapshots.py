"""Environments as simulators: pure, coupled by seeds, and told apart by what is observed."""

from __future__ import annotations

import copy
import math
import random
import sys

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.wrappers import TimeLimit, TransformObservation, TransformReward

import polinfer
from polinfer.core.errors import DomainError, PolinferError
from polinfer.smc import SweepConfig, SweepRandomness, run_reference_sweep

from .environments import (
    ClonesState,
    EasilyPickled,
    GlobalNoise,
    Impatient,
    KeepsState,
    Masked,
    OwnGenerators,
    SampledNoise,
    Shown,
    TwoArguments,
    Walk,
    WalkFromOne,
)

POLE = [[], [-0.5, 0.5], [-0.1, 0.0, 0.1], [-1.0, 0.0, 1.0]]


def outcomes(simulator, state, action, seeds=range(40)):
    return [
        (moved.key, reward, over) for moved, reward, over in (simulator.step(s, state, action) for s in seeds)
    ]


@pytest.mark.parametrize(
    "make", [Walk, OwnGenerators, SampledNoise, KeepsState, ClonesState, TwoArguments, EasilyPickled]
)
def test_a_seed_determines_a_transition_and_states_stay_as_they_are(make):
    simulator = polinfer.from_gymnasium(make(), horizon=20)
    start = simulator.init(5)
    assert start == simulator.init(5)
    deeper, reward, over = simulator.step(1, start, 1)
    assert (reward, over) == (0.25, False)
    for state in (start, deeper):
        right = outcomes(simulator, state, 1)
        left = outcomes(simulator, state, 0)
        assert {key for key, _, _ in right} == {key for key, _, _ in left} == {state.key - 1, state.key + 1}
        # Stepping from it, elsewhere and back changed nothing.
        assert outcomes(simulator, state, 1) == right
        assert outcomes(simulator, state, 0) == left
    count = sum(key == 5 for key, _, _ in outcomes(simulator, start, 1, range(400)))
    share = 0.5 if make is SampledNoise else 0.7
    assert abs(count / 400 - share) < 5 * math.sqrt(share * (1 - share) / 400)


def test_the_users_environment_and_the_snapshots_are_left_alone():
    env = gymnasium.wrappers.TimeLimit(Walk(), 7)
    env.reset(seed=3)
    env.step(1)
    before = copy.deepcopy((env.unwrapped.place, env.unwrapped.np_random.bit_generator.state))
    simulator = polinfer.from_gymnasium(env)
    assert simulator.horizon == 7
    state = simulator.init(0)
    kept = copy.deepcopy((state._snapshot.place, state._snapshot.np_random.bit_generator.state))
    for seed in range(12):
        state_after, _, _ = simulator.step(seed, state, 0)
        assert state_after.key != state.key
    assert (state._snapshot.place, state._snapshot.np_random.bit_generator.state) == kept
    assert (env.unwrapped.place, env.unwrapped.np_random.bit_generator.state) == before
    assert env.step(1)[3] is False


def test_own_state_functions_spare_the_copies():
    KeepsState.copies = 0
    for make in (KeepsState, ClonesState):
        simulator = polinfer.from_gymnasium(make(), horizon=20)
        state = simulator.init(0)
        for seed in range(20):
            state, _, over = simulator.step(seed, state, 1)
            if over:
                break
        assert over
    assert KeepsState.copies == 0
    # Around a wrapper that may have a state of its own, they would restore only part.
    with pytest.raises(DomainError, match="cannot be copied"):
        polinfer.from_gymnasium(TransformReward(KeepsState(), float), horizon=20)


def test_seeds_reach_starts():
    simulator = polinfer.from_gymnasium(gymnasium.make("Blackjack-v1"), horizon=20)
    starts = [simulator.init(seed) for seed in [*range(30), 2**64 - 1]]
    assert len(set(starts)) > 15
    assert starts == [simulator.init(seed) for seed in [*range(30), 2**64 - 1]]


def test_noise_that_no_seed_reaches_is_refused():
    random.seed(0)  # Equal outcomes by chance would pass.
    with pytest.raises(DomainError, match=r"another outcome for an equal seed; .*self.np_random$"):
        polinfer.from_gymnasium(GlobalNoise(), horizon=20)


def test_limits_of_time_are_taken_out_and_other_wrappers_kept():
    inner = TransformReward(TimeLimit(Walk(), 3), lambda reward: 10 * reward)
    outer = TransformObservation(inner, lambda place: 8 - place, spaces.Discrete(9))
    simulator = polinfer.from_gymnasium(outer, reward_scale=2.0)
    assert simulator.horizon == 3
    state, steps, over = simulator.init(0), 0, False
    while not over:
        state, reward, over = simulator.step(steps, state, 1)
        steps += 1
    assert steps > 3
    assert (state.key, reward) in [(0, 65.0), (8, 5.0)]
    with pytest.raises(PolinferError, match="is over in state"):
        simulator.step(0, state, 1)
    assert outer.env.env.env is outer.unwrapped


def test_truncation_by_the_environment_itself_ends_the_episode():
    simulator = polinfer.from_gymnasium(Impatient(), horizon=20)
    away, _, over = simulator.step(0, simulator.init(0), 1)
    assert not over
    assert {(key, over) for key, _, over in outcomes(simulator, away, 1)} >= {(4, True)}


def test_spaces_that_count_from_elsewhere():
    simulator = polinfer.from_gymnasium(WalkFromOne(), horizon=20)
    start = simulator.init(0)
    assert (start.key, simulator.num_actions, simulator.action_names) == (0, 2, ("5", "6"))
    assert {key for key, reward, _ in outcomes(simulator, start, 1) if reward == 0.25} == {-1, 1}
    np.testing.assert_array_equal(simulator.encode(start), np.eye(9)[4])


NESTED = spaces.Dict(
    {
        "b": spaces.Tuple([spaces.Discrete(9), spaces.MultiDiscrete([3, 9], start=[0, 1])]),
        "a": spaces.MultiBinary(2),
    }
)


@pytest.mark.parametrize(
    ("space", "show", "key", "features"),
    [
        (spaces.MultiDiscrete([3, 3]), lambda x: np.array([x // 3, x % 3]), (1, 1), "010 010"),
        (
            spaces.MultiBinary(4),
            lambda x: np.array([x >> i & 1 for i in range(4)]),
            (0, 0, 1, 0),
            "10 10 01 10",
        ),
        (
            NESTED,
            lambda x: {"a": np.array([x > 3, x > 5], np.int8), "b": (x, np.array([2, x + 1]))},
            (1, 0, 4, 2, 5),
            "01 10 000010000 001 000010000",
        ),
        (spaces.Box(2, 12, (1, 1), np.int64), lambda x: np.array([[x + 2]]), (6,), "00001000000"),
        (spaces.Box(0, 1, (9,), bool), lambda x: np.eye(9, dtype=bool)[x], (0,) * 4 + (1,) + (0,) * 4, None),
    ],
)
def test_finite_observations_become_tuples_and_one_hot_features(space, show, key, features):
    simulator = polinfer.from_gymnasium(Shown(space, show), horizon=20)
    start = simulator.init(0)
    assert (start.key, hash(start), repr(start)) == (key, hash(key), repr(key))
    assert simulator.state_name(start) == str(key)
    if features is not None:
        assert simulator.encode(start).tolist() == [float(bit) for bit in features.replace(" ", "")]
        assert simulator.encode(start).dtype == np.float32
    assert simulator.step(0, start, 1)[0].key != key


def test_bins_include_their_lower_cut_points():
    space = spaces.Box(-10, 10, (2,), np.float32)
    for place, key, name in [
        (-1.0, (0,), "x1 < 0"),
        (0.0, (1,), "x1 in 0..2.5"),
        (2.5, (2,), "x1 >= 2.5"),
    ]:
        env = Shown(space, lambda _, place=place: np.array([7.0, place], np.float32))
        simulator = polinfer.from_gymnasium(env, horizon=20, edges=[[], [0, 2.5]])
        start = simulator.init(0)
        assert (start.key, simulator.state_name(start)) == (key, name)
        assert simulator.encode(start).tolist() == np.eye(3)[key].ravel().tolist()


@pytest.mark.parametrize(
    ("abstraction", "features"), [(float, [4.0]), (lambda x: (x > 3, x / 2), [1.0, 2.0]), (np.int16, [4.0])]
)
def test_numbers_of_an_abstraction_are_features(abstraction, features):
    simulator = polinfer.from_gymnasium(Walk(), horizon=20, abstraction=abstraction)
    assert simulator.encode(simulator.init(0)).tolist() == features


def test_words_of_an_abstraction_need_encode():
    words = polinfer.from_gymnasium(Walk(), horizon=20, abstraction=_word)
    with pytest.raises(DomainError, match=r"'high' of Walk is neither a number .* pass encode="):
        words.encode(words.init(0))
    words = polinfer.from_gymnasium(Walk(), horizon=20, abstraction=_word, encode=lambda word: [len(word), 1])
    assert words.encode(words.init(0)).tolist() == [4.0, 1.0]
    bad = polinfer.from_gymnasium(Walk(), horizon=20, encode=lambda place: [[place]])
    with pytest.raises(DomainError, match=r"encode must give a list of finite numbers, got \[\[4\]\] for 4"):
        bad.encode(bad.init(0))


def _word(place: int) -> str:
    return "high" if place > 3 else "low"


def test_functions_are_found_by_name_beside_the_user(tmp_path, monkeypatch):
    (tmp_path / "my_views.py").write_text(
        "def halves(x):\n    return x // 2\n\ndef pair(x):\n    return x, 1\n"
    )
    monkeypatch.chdir(tmp_path)
    before = list(sys.path)
    simulator = polinfer.from_gymnasium(
        Walk(), horizon=20, abstraction="my_views:halves", encode="my_views:pair"
    )
    assert sys.path == before
    start = simulator.init(0)
    assert (start.key, simulator.encode(start).tolist()) == (2, [2.0, 1.0])


def test_masks_of_actions_are_kept_in_states():
    simulator = polinfer.from_gymnasium(Masked(), horizon=20)
    start = simulator.init(0)
    assert simulator.legal(start) == [True, True]
    moved = {
        state.key: simulator.legal(state) for state, _, _ in (simulator.step(s, start, 1) for s in range(20))
    }
    assert moved == {3: [True, True], 5: [True, False]}


def test_cart_poles_follow_gymnasium():
    """From the same start and by the same actions, step by step."""
    simulator = polinfer.make("gym:CartPole-v1", edges=POLE, reward_scale=0.5)
    assert (simulator.horizon, simulator.num_actions, simulator.action_names) == (500, 2, ("left", "right"))
    env = gymnasium.make("CartPole-v1")
    env.reset(seed=0)
    state = simulator.init(11)
    env.unwrapped.state = np.array(state._snapshot.state)
    choose, over = np.random.default_rng(0), False
    while not over:
        action = int(choose.integers(2))
        observation, reward, terminated, truncated, _ = env.step(action)
        state, ours, over = simulator.step(int(choose.integers(2**63)), state, action)
        bins = [
            np.searchsorted(cuts, x, side="right") for cuts, x in zip(POLE, observation, strict=True) if cuts
        ]
        assert (list(state.key), ours, over) == (bins, 0.5 * reward, terminated or truncated)


def uniform_over_legal(simulator):
    def log_proposal(state):
        legal = np.array(simulator.legal(state))
        return np.where(legal, -np.log(legal.sum()), -np.inf)

    return log_proposal


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("gym:Blackjack-v1", {"horizon": 12}),
        ("gym:CartPole-v1", {"edges": POLE, "horizon": 25, "reward_scale": 0.1}),
    ],
)
def test_reference_sweeps_run_and_share_their_noise(name, options):
    simulator = polinfer.make(name, **options)
    shared = set()
    for seed in range(6):
        sweep = run_reference_sweep(
            simulator, uniform_over_legal(simulator), SweepConfig(particles=8), SweepRandomness(seed)
        )
        assert np.isfinite(sweep.log_weight).all()
        after: dict = {}
        for i in range(8):
            if sweep.active[0, i] and sweep.active[1, i] and not sweep.resampled[0]:
                after.setdefault(int(sweep.action[0, i]), set()).add(sweep.state[1, i])
        assert all(len(states) == 1 for states in after.values())
        shared |= {(seed, action) for action in after}
    assert len(shared) >= 3


def test_always_sticking_loses_what_it_loses():
    """Each deal ends at once; the exact mean is -0.184 (Sutton and Barto's rules, as in our design page)."""
    simulator = polinfer.make("gym:Blackjack-v1", horizon=5)
    assert simulator.action_names == ("stick", "hit")
    rewards = []
    for seed in range(1500):
        _, reward, over = simulator.step(10_000 + seed, simulator.init(seed), 0)
        assert over
        rewards.append(reward)
    assert abs(np.mean(rewards) + 0.184) < 5 * np.std(rewards) / math.sqrt(1500)


def test_an_observation_outside_its_space_has_no_features():
    simulator = polinfer.from_gymnasium(Shown(spaces.Discrete(4), int), horizon=9)
    with pytest.raises(DomainError, match="gave the observation 4, outside its own"):
        simulator.encode(simulator.init(0))


def test_too_many_features_are_refused():
    image = spaces.Box(0, 255, (20, 20), np.uint8)
    simulator = polinfer.from_gymnasium(Shown(image, lambda x: np.full((20, 20), x, np.uint8)), horizon=9)
    with pytest.raises(DomainError, match=r"102,400 one-hot features; pass encode="):
        simulator.encode(simulator.init(0))
