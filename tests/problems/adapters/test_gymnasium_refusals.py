"""What cannot be planned in is refused in one sentence that names it and the way out."""

from __future__ import annotations

import sys

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import polinfer
from polinfer.core.errors import DomainError, PolinferError

from .environments import (
    ForgetsState,
    ForgetsWind,
    GlobalStart,
    Masked,
    RefusesCopy,
    Shown,
    StartsOver,
    Unprepared,
    Walk,
)

POLE = "gym:CartPole-v1"


@pytest.mark.parametrize(
    ("name", "options", "complaint"),
    [
        (
            "gym:FrozenLak-v1",
            {},
            r"unknown Gymnasium environment 'FrozenLak-v1' \(did you mean 'FrozenLake-v1'",
        ),
        ("gym:Nothing/Alike-v5", {}, "unknown Gymnasium environment 'Nothing/Alike-v5': Namespace"),
        ("gym:", {}, "gym: needs the id"),
        ("gym:a b", {}, "gym:a b cannot be made .*check its id"),
        ("gym:no_such_module:Env-v0", {}, "needs a module that is not installed: .*no_such_module"),
        (
            "gym:FrozenLake-v1",
            {"is_slipery": 1},
            r"has no option 'is_slipery' \(did you mean 'is_slippery'\?\)",
        ),
        ("gym:FrozenLake-v1", {"horzion": 1}, r"has no option 'horzion' \(did you mean 'horizon'\?\)"),
        (
            "gym:FrozenLake-v1",
            {"is_slippery": "no"},
            "is_slippery of gym:FrozenLake-v1 takes true or false, got 'no'",
        ),
        ("gym:FrozenLake-v1", {"gym_kwargs": {"is_slippery": 2}}, "is_slippery .*takes true or false, got 2"),
        ("gym:Blackjack-v1", {"horizon": 5, "natural": [1]}, r"natural .*takes true or false, got \[1\]"),
        ("gym:Blackjack-v1", {"horizon": 5, "sab": 1e39}, r"sab .*takes true or false, got 1e\+39"),
        ("gym:FrozenLake-v1", {"map_name": "5x5"}, r"cannot be made \(KeyError: '5x5'\)"),
        ("gym:Pendulum-v1", {}, "Pendulum-v1 has the action space Box.* not finitely many; .*a Discrete"),
        (POLE, {}, "CartPole-v1 observes Box.*--bins .*edges=.*abstraction="),
        (POLE, {"edges": [[1]]}, "edges must be 4 lists .* CartPole-v1 observes, got 1"),
        (POLE, {"edges": 3}, "edges must be 4 lists .* got 3"),
        (POLE, {"edges": "abcd"}, "edges must be 4 lists .* got 'abcd'"),
        (POLE, {"edges": [[], [], 1, []]}, r"edges\[2\] must be a list of cut points, got 1"),
        (POLE, {"edges": [[], [], "0", []]}, r"edges\[2\] must be a list of cut points, got '0'"),
        (POLE, {"edges": [[], [], [], [1, 1]]}, r"edges\[3\] must increase, got \[1.0, 1.0\]"),
        (POLE, {"edges": [[], [], [0, float("inf")], []]}, r"edges\[2\] holds inf; cut points are finite"),
        (POLE, {"edges": [["a"], [], [], []]}, r"edges\[0\] holds 'a'"),
        (POLE, {"edges": [[]] * 4}, "edges ignores every number"),
        (POLE, {"edges": [[0]] * 4, "abstraction": str}, "pass one of them"),
        (
            POLE,
            {"abstraction": np.round},
            "CartPole-v1 is a ndarray, which cannot be hashed; pass abstraction=",
        ),
        (POLE, {"abstraction": "math"}, "'package.module:function', got 'math'"),
        (POLE, {"abstraction": 4}, "'package.module:function', got 4"),
        (POLE, {"abstraction": "no_such_module:f"}, "abstraction 'no_such_module:f' cannot be imported"),
        (POLE, {"abstraction": "math:floo"}, "abstraction 'math:floo' cannot be imported"),
        (POLE, {"encode": "math:pi", "edges": [[0]] * 4}, "encode 'math:pi' is a float, not a function"),
        ("gym:Blackjack-v1", {}, "Blackjack-v1 has no limit on the steps of an episode; pass horizon="),
        (
            "gym:Blackjack-v1",
            {"horizon": 5, "edges": [[1]]},
            "edges cut a Box, and Blackjack-v1 observes Tuple",
        ),
    ],
)
def test_refused_by_name(name, options, complaint):
    with pytest.raises(DomainError, match=complaint) as caught:
        polinfer.make(name, **options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("options", [{"horizon": 0}, {"horizon": 2.5}, {"reward_scale": float("nan")}])
def test_numbers_that_are_none_are_named(options):
    with pytest.raises(PolinferError, match=next(iter(options))):
        polinfer.make("gym:FrozenLake-v1", **options)


def needs_a_package(**options):
    raise gymnasium.error.DependencyNotInstalled("torchbox is not installed, run `pip install torchbox`")


def needs_a_module(**options):
    import a_module_that_nobody_has  # noqa: F401


@pytest.mark.parametrize("entry", [needs_a_package, needs_a_module])
def test_missing_dependencies_are_named(entry, monkeypatch):
    monkeypatch.setattr(gymnasium.envs.registration, "registry", dict(gymnasium.registry))
    gymnasium.register("Needy-v0", entry)
    with pytest.raises(
        DomainError, match=r"gym:Needy-v0 needs a (package|module) .*(torchbox|that_nobody_has)"
    ):
        polinfer.make("gym:Needy-v0", horizon=3)


class Several(Walk):
    action_space = spaces.MultiDiscrete([100, 100])


class ShortMask(Masked):
    def mask(self):
        return np.ones(3, np.int8)


@pytest.mark.parametrize(
    ("env", "complaint"),
    [
        (Several, "Several has the action space MultiDiscrete.* 10,000 actions; at most 4,096"),
        (
            RefusesCopy,
            r"RefusesCopy cannot be copied \(RuntimeError: holds a socket\); give .* get_state\(\)",
        ),
        (ForgetsState, "ForgetsState gives another outcome for an equal seed, or its own functions do not"),
        (ForgetsWind, "ForgetsWind goes on otherwise after its own functions restored it"),
        (StartsOver, "StartsOver goes on otherwise after it was copied; give"),
        (Unprepared, r"Unprepared breaks \(AttributeError: .*place'\) after it was copied; give"),
        (GlobalStart, "GlobalStart starts otherwise for an equal seed; let it draw"),
        (ShortMask, "action_mask of ShortMask has 3 entries, its action space 2"),
        (
            lambda: Shown(spaces.Sequence(spaces.Discrete(9)), lambda x: [x]),
            "Shown is a list, which cannot be hashed",
        ),
        (lambda: gymnasium.make_vec("CartPole-v1", 2), "takes one environment, .* got CartPoleVectorEnv"),
        (lambda: "CartPole-v1", "takes one environment, .* got str"),
    ],
)
def test_refused_environments(env, complaint):
    with pytest.raises(DomainError, match=complaint):
        polinfer.from_gymnasium(env(), horizon=9)


@pytest.mark.parametrize("what", ["action_space", "observation_space"])
def test_an_environment_without_a_space_is_refused_by_its_name(what):
    class Bare(gymnasium.Env):
        """Sets one space and forgets the other."""

    bare = Bare()
    for space in {"action_space", "observation_space"} - {what}:
        setattr(bare, space, spaces.Discrete(2))
    with pytest.raises(DomainError, match=f"Bare has no {what}"):
        polinfer.from_gymnasium(bare, horizon=2)


@pytest.mark.filterwarnings("ignore:.*The environment is being initialised with render_mode")
def test_a_mode_that_an_environment_does_not_have_is_refused():
    with pytest.raises(
        DomainError, match=r"render_mode of gym:FrozenLake-v1 takes one of human, .*, got 'x'"
    ):
        polinfer.make("gym:FrozenLake-v1", render_mode="x")
    for switch in (True, 0, 1, np.True_):
        polinfer.make("gym:FrozenLake-v1", is_slippery=switch)


def test_without_gymnasium_there_is_a_sentence(monkeypatch):
    env = Walk()
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    for attempt in (
        lambda: polinfer.from_gymnasium(env, horizon=9),
        lambda: polinfer.make("gym:FrozenLake-v1"),
        lambda: polinfer.to_gymnasium(polinfer.make("bandit")),
    ):
        with pytest.raises(DomainError, match=r"^Gymnasium is not installed; run pip install gymnasium$"):
            attempt()
    polinfer.problems.adapters.register_environments()
