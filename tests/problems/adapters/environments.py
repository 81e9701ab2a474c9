"""Environments of our own, each with one peculiarity."""

from __future__ import annotations

import random
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.utils import EzPickle


class Walk(gymnasium.Env):
    """A drifting walk on 0..8 from 4: right pays 0.25, both ends end, the upper one pays 3."""

    observation_space: spaces.Space = spaces.Discrete(9)
    action_space: spaces.Space = spaces.Discrete(2)

    def __init__(self) -> None:
        self.place = [4]  # a list, and changed in place: a shallow copy would share it

    def reset(self, *, seed: int | None = None, options: Any = None):
        super().reset(seed=seed)
        self.place[0] = 4
        return self.observe(), {}

    def uniform(self) -> float:
        return float(self.np_random.random())

    def observe(self) -> Any:
        return self.place[0]

    def step(self, action: Any):
        assert action in (0, 1)
        intended = self.uniform() < 0.7
        self.place[0] += (1 if action == 1 else -1) * (1 if intended else -1)
        here = self.place[0]
        reward = 0.25 * (action == 1) + 3.0 * (here == 8)
        return self.observe(), reward, here in (0, 8), False, {}


class WalkFromOne(Walk):
    """Both spaces count from another number than 0."""

    observation_space = spaces.Discrete(9, start=-4)
    action_space = spaces.Discrete(2, start=5)

    def observe(self) -> Any:
        return np.int64(self.place[0] - 4)

    def step(self, action: Any):
        assert isinstance(action, int)
        return super().step(action - 5)


class OwnGenerators(Walk):
    """Noise from generators other than Gymnasium's, one in three."""

    def __init__(self) -> None:
        super().__init__()
        self.rng = np.random.default_rng()
        self.old = np.random.RandomState()
        self.python = random.Random()
        self.count = 0

    def uniform(self) -> float:
        self.count += 1
        return [self.rng.random, self.old.random_sample, self.python.random][self.count % 3]()


class SampledNoise(Walk):
    """Noise from a sample of the action space."""

    def uniform(self) -> float:
        return float(self.action_space.sample())


class GlobalNoise(Walk):
    """Noise that no seed of ours reaches."""

    def uniform(self) -> float:
        return random.random()


class KeepsState(Walk):
    """Hands out its own list and keeps the one it is given; never wants to be copied."""

    copies = 0

    def get_state(self, *, deep: bool = False) -> list[int]:
        return self.place

    def set_state(self, place: list[int]) -> None:
        self.place = place

    def __deepcopy__(self, memo: Any) -> Any:
        KeepsState.copies += 1
        raise TypeError("copies are not for sale")


class ClonesState(KeepsState):
    """Has both pairs of functions; the second one is of no use."""

    def clone_state(self) -> tuple[int, ...]:
        return tuple(self.place)

    def restore_state(self, place: tuple[int, ...]) -> None:
        self.place = list(place)

    def set_state(self, place: list[int]) -> None:
        raise AssertionError


class ForgetsState(KeepsState):
    """Restores nothing."""

    def set_state(self, place: list[int]) -> None:
        pass

    def uniform(self) -> float:
        return 0.0


class ForgetsWind(KeepsState):
    """Keeps its place, and not that it has moved: its first step is another."""

    def __init__(self) -> None:
        super().__init__()
        self.moved = False

    def reset(self, **options: Any):
        self.moved = False
        return super().reset(**options)

    def set_state(self, place: list[int]) -> None:
        self.place, self.moved = place, False

    def uniform(self) -> float:
        self.moved, before = True, self.moved
        return float(before)


class EasilyPickled(Walk, EzPickle):
    """Would be copied by being made anew."""

    def __init__(self) -> None:
        EzPickle.__init__(self)
        Walk.__init__(self)


class StartsOver(Walk):
    """Is copied by being made anew, in a way that cannot be seen."""

    def __deepcopy__(self, memo: Any) -> Any:
        return type(self)()


class Unprepared(StartsOver):
    """The same, and of no use before it is reset."""

    def __init__(self) -> None:
        pass

    def reset(self, **options: Any):
        self.place = [4]
        return super().reset(**options)


class GlobalStart(Walk):
    """Starts where no seed of ours reaches."""

    def reset(self, **options: Any):
        super().reset(**options)
        self.place[0] = int(1 + random.random() * 1e9)
        return self.observe(), {}


class TwoArguments(Walk):
    """What MuJoCo's environments have: not a pair of functions to use."""

    def get_state(self) -> Any:
        raise AssertionError

    def set_state(self, position: Any, velocity: Any) -> None:
        raise AssertionError


class RefusesCopy(Walk):
    def __deepcopy__(self, memo: Any) -> Any:
        raise RuntimeError("holds a socket")


class Impatient(Walk):
    """Truncates by itself where it steps back to the start."""

    def step(self, action: Any):
        observation, reward, terminated, _, info = super().step(action)
        return observation, reward, terminated, self.place[0] == 4, info


class Masked(Walk):
    """Allows only one action at 5, and says so."""

    def mask(self) -> np.ndarray:
        return np.array([1, self.place[0] != 5], np.int8)

    def reset(self, **options: Any):
        observation, _ = super().reset(**options)
        return observation, {"action_mask": self.mask()}

    def step(self, action: Any):
        *rest, _ = super().step(action)
        return (*rest, {"action_mask": self.mask()})


class Shown(Walk):
    """Shows its place in a form of choice."""

    def __init__(self, space: spaces.Space, show: Any) -> None:
        super().__init__()
        self.observation_space, self.show = space, show

    def observe(self) -> Any:
        return self.show(self.place[0])


class PassedThrough(gymnasium.Env):
    """A published table in which state 1 may end the episode or not: 0 -> 1 (half ends), 1 -> 2 ends."""

    observation_space = spaces.Discrete(3)
    action_space = spaces.Discrete(1)
    initial_state_distrib = np.array([1.0, 0.0, 0.0])
    P: ClassVar = {
        0: {0: [(0.25, 1, 1.0, True), (0.75, 1, 2.0, False)]},
        1: {0: [(1.0, 2, 5.0, True)]},
        2: {0: [(1.0, 2, 0.0, True)]},
    }
