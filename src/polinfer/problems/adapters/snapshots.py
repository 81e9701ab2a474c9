"""Any Gymnasium environment as a simulator: a state carries a snapshot of the environment.

Stepping restores the snapshot, seeds everything random in it, steps, and takes the next snapshot, so that a
seed determines a transition and a state is never changed.  Particles need this to share noise.
"""

from __future__ import annotations

import copy
import inspect
import random
from collections.abc import Callable, Hashable, Iterator
from contextlib import suppress
from typing import Any

import jax
import numpy as np
from gymnasium.experimental.functional import FuncEnv
from gymnasium.utils import EzPickle
from numpy.typing import NDArray

from polinfer.core.errors import DomainError, PolinferError
from polinfer.problems.adapters.spaces import read_actions
from polinfer.problems.adapters.views import View
from polinfer.problems.adapters.wrappers import Env, is_plain, layers, without_passive

_PROBE_STEPS, _PROBE_TIMES = 8, 4
_SEEDED = "let it draw all noise from self.np_random"
_DESCRIPTIONS: tuple[str, ...] = tuple(
    before + name
    for name in ("spec", "metadata", "action_space", "observation_space")
    for before in ("", "_")
)
_ACTION_NAMES = {
    "Blackjack": ("stick", "hit"),
    "CartPole": ("left", "right"),
    "MountainCar": ("left", "none", "right"),
    "Acrobot": ("-1", "0", "+1"),
    "LunarLander": ("none", "left engine", "main engine", "right engine"),
}


class ObservedState:
    """A state of an environment, hashed and compared by what planning sees of it.

    Attributes
    ----------
    key
        What is seen: the abstract observation.
    legal
        For each action, whether it may be taken.
    """

    __slots__ = ("_snapshot", "key", "legal")

    def __init__(self, key: Hashable, legal: list[bool], snapshot: Any) -> None:
        self.key, self.legal, self._snapshot = key, legal, snapshot

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObservedState) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return repr(self.key)


class SnapshotSimulator:
    """A Gymnasium environment as a `polinfer.Simulator`; made by `polinfer.from_gymnasium`."""

    def __init__(self, name: str, env: Env, view: View, *, horizon: int, reward_scale: float) -> None:
        actions = read_actions(name, env.action_space)
        self.name, self.num_actions, self.horizon = name, actions.size, horizon
        self.action_names = _action_names(env, actions.start, actions.size)
        self._first_action, self._action_shape = actions.start, actions.shape
        self._view, self._scale = view, reward_scale
        own = _own_state(env.unwrapped) if is_plain(env) else None
        self._store = _Copies(name, env) if own is None else _OwnState(env.unwrapped, *own)
        self._try_out()

    def init(self, seed: int) -> ObservedState:
        """Reset the environment."""
        return self._start(self._store.blank(), seed)

    def step(self, seed: int, state: ObservedState, action: int) -> tuple[ObservedState, float, bool]:
        """Take `action` in the environment as it was in `state`."""
        if state._snapshot is None:
            raise PolinferError(f"the episode of {self.name} is over in state {state!r}; start another")
        return self._advance(self._store.restore(state._snapshot), seed, action)

    def legal(self, state: ObservedState) -> list[bool]:
        """Return the actions that may be taken: all, or those of ``info["action_mask"]``."""
        return state.legal

    def encode(self, state: ObservedState) -> NDArray[np.float32]:
        """Return the features of what is seen of the state."""
        return self._view.encode(state.key)

    def state_name(self, state: ObservedState) -> str:
        """Name what is seen of the state."""
        return self._view.state_name(state.key)

    def _start(self, env: Env, seed: int) -> ObservedState:
        reseed(env, seed)
        # Some environments keep their seeds in 32 bits with a sign.
        small = int(np.random.SeedSequence(seed).generate_state(1)[0] >> 1)
        observation, info = env.reset(seed=small)
        return self._observe(env, observation, info)

    def _advance(self, env: Env, seed: int, action: int) -> tuple[ObservedState, float, bool]:
        reseed(env, seed)
        number: Any = self._first_action + int(action)
        if self._action_shape:
            number = np.full(self._action_shape, number, env.action_space.dtype)
        observation, reward, terminated, truncated, info = env.step(number)
        over = bool(terminated) or bool(truncated)
        return self._observe(env, observation, info, over=over), float(reward) * self._scale, over

    def _observe(
        self, env: Env, observation: Any, info: dict[str, Any], *, over: bool = False
    ) -> ObservedState:
        key = self._view.identify(observation)
        try:
            hash(key)
        except TypeError:
            raise DomainError(
                f"a state of {self.name} is a {type(key).__name__}, which cannot be hashed; "
                "pass abstraction=, a function from an observation to a tuple of numbers"
            ) from None
        # Nothing follows the end: its snapshot would only take memory.
        return ObservedState(key, self._legal(info), None if over else self._store.snapshot(env))

    def _legal(self, info: dict[str, Any]) -> list[bool]:
        if "action_mask" not in info:
            return [True] * self.num_actions
        mask = np.ravel(info["action_mask"])
        if mask.shape != (self.num_actions,):
            raise DomainError(
                f"the action_mask of {self.name} has {mask.size} entries, its action space {self.num_actions}"
            )
        return [bool(flag) for flag in mask]

    def _try_out(self) -> None:
        """Compare runs without and with snapshots: seeds must determine all noise, snapshots all state."""
        env = self._store.blank()
        straight = [(self._start(env, 0), 0.0, False)]
        choose = random.Random(0)
        actions: list[int] = []
        while len(actions) < _PROBE_STEPS and not straight[-1][2]:
            allowed = [a for a, flag in enumerate(straight[-1][0].legal) if flag] or [0]
            actions.append(choose.choice(allowed))
            straight.append(self._advance(env, len(actions), actions[-1]))
        state = self.init(0)
        if state != straight[0][0] or state != self.init(0):
            raise DomainError(f"{self.name} starts otherwise for an equal seed; {_SEEDED}")
        for seed, (action, expected) in enumerate(zip(actions, straight[1:], strict=True), start=1):
            try:
                first, *again = (self.step(seed, state, action) for _ in range(_PROBE_TIMES))
            except PolinferError:
                raise
            except Exception as error:  # Without snapshots there was none.
                why = f"({type(error).__name__}: {error})"
                raise DomainError(f"{self.name} breaks {why} {self._store.after}") from error
            if not all(_same(first, other) for other in again):
                raise DomainError(
                    f"{self.name} gives another outcome for an equal seed{self._store.or_else}; {_SEEDED}"
                )
            if not _same(first, expected):
                raise DomainError(f"{self.name} goes on otherwise {self._store.after}")
            state = first[0]


def _same(one: tuple[ObservedState, float, bool], other: tuple[ObservedState, float, bool]) -> bool:
    # As text: a reward that is not a number is not equal to itself, and is refused elsewhere.
    return one[0] == other[0] and repr(one[1:]) == repr(other[1:])


class _Copies:
    """Snapshots are deep copies of the whole environment."""

    or_else = ""
    after = "after it was copied; give the environment get_state() and set_state(state)"

    def __init__(self, name: str, env: Env) -> None:
        self._name = name
        # The user's environment is not changed.
        self._pristine = without_passive(self.restore(env))

    def blank(self) -> Env:
        return self.restore(self._pristine)

    def snapshot(self, env: Env) -> Env:
        return env

    def restore(self, snapshot: Env) -> Env:
        try:
            return _deep_copy(snapshot)
        except Exception as error:
            raise DomainError(
                f"{self._name} cannot be copied ({type(error).__name__}: {error}); give the environment "
                "get_state() and set_state(state)"
            ) from error


def _deep_copy(env: Env) -> Env:
    done: dict[int, Any] = {}
    copied = env
    for layer in reversed(layers(env)):
        names = _DESCRIPTIONS
        if type(layer).__module__.startswith("gymnasium.envs.toy_text"):
            names += ("P", "initial_state_distrib", "desc")
        # These describe an environment and do not change; copying them would be most of the work.
        done |= {id(value): value for value in map(vars(layer).get, names) if value is not None}
        if isinstance(layer, EzPickle) and not hasattr(layer, "__deepcopy__"):
            # It would be made anew from the arguments of its constructor, and lose its state.
            copied = object.__new__(type(layer))
            done[id(layer)] = copied
            vars(copied).update(copy.deepcopy(vars(layer), done))
        else:
            copied = copy.deepcopy(layer, done)
    return copied


class _OwnState:
    """Snapshots are what the environment's own functions give and take."""

    or_else = ", or its own functions do not restore all that step depends on"
    after = "after its own functions restored it; let them keep all that step depends on"

    def __init__(self, env: Env, get: Callable[[], Any], put: Callable[[Any], Any]) -> None:
        self._env, self._get, self._put = env, get, put

    def blank(self) -> Env:
        return self._env

    def snapshot(self, env: Env) -> Any:
        return (_copied(self._get()),)

    def restore(self, snapshot: Any) -> Env:
        self._put(_copied(snapshot[0]))
        return self._env


def _copied(value: Any) -> Any:
    # Out and in: what an environment hands out or is handed may be changed by its next step.
    # What refuses to be copied is a handle of the environment's own making.
    with suppress(Exception):
        return copy.deepcopy(value)
    return value


def _own_state(core: Any) -> tuple[Callable[[], Any], Callable[[Any], Any]] | None:
    for get, put in (("clone_state", "restore_state"), ("get_state", "set_state")):
        functions = getattr(core, get, None), getattr(core, put, None)
        if _required(functions[0]) == 0 and _required(functions[1]) == 1:
            return functions  # type: ignore[return-value]
    return None


def _required(function: Any) -> int | None:
    """Return the number of arguments that a function cannot do without."""
    if not callable(function):
        return None
    with suppress(ValueError, TypeError):
        needed = inspect.signature(function).parameters.values()
        variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        return sum(p.default is p.empty and p.kind not in variable for p in needed)
    return None


def reseed(env: Env, seed: int) -> None:
    """Seed every generator of random numbers that `env` and its wrappers hold."""
    for index, generator in enumerate(_generators(env)):
        sequence = np.random.SeedSequence([seed, index])
        # In place: another part of the environment may hold the same generator.
        if isinstance(generator, np.random.Generator):
            bits = generator.bit_generator
            bits.state = type(bits)(sequence).state
        elif isinstance(generator, np.random.RandomState):
            generator.seed(sequence.generate_state(4))
        else:
            generator.seed(int(sequence.generate_state(1, np.uint64)[0]))
    core: Any = env.unwrapped
    if isinstance(getattr(core, "func_env", None), FuncEnv):
        core.rng = jax.random.PRNGKey(int(np.random.SeedSequence(seed).generate_state(1)[0]))


def _generators(env: Env) -> Iterator[np.random.Generator | np.random.RandomState | random.Random]:
    # Asked for, so that they exist: otherwise they are made from the computer's entropy when first used.
    found: list[Any] = [env.unwrapped.np_random, env.action_space.np_random, env.observation_space.np_random]
    found += [value for layer in layers(env) for value in vars(layer).values()]
    seen: set[int] = set()
    for value in found:
        kinds = (np.random.Generator, np.random.RandomState, random.Random)
        if isinstance(value, kinds) and id(value) not in seen:
            seen.add(id(value))
            yield value


def _action_names(env: Env, start: int, count: int) -> tuple[str, ...]:
    core: Any = env.unwrapped
    named: Any = ()
    if is_plain(env):
        named = _ACTION_NAMES.get(type(core).__name__.removesuffix("Env"), ())
        if callable(getattr(core, "get_action_meanings", None)):
            named = [str(word).lower() for word in core.get_action_meanings()]
    names = tuple(named)
    return names if len(set(names)) == count else tuple(str(start + a) for a in range(count))
