"""Any Gymnasium environment as a simulator: a state carries a snapshot of the environment.

Stepping restores the snapshot, seeds everything random in it, steps, and takes the next snapshot, so that a
seed determines a transition and a state is never changed.  Particles need this to share noise.
"""

from __future__ import annotations

import copy
import inspect
import random
from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import Any

import numpy as np
from gymnasium.utils import EzPickle
from numpy.typing import NDArray

from polinfer.core.errors import DomainError, PolinferError
from polinfer.problems.adapters import minigrid
from polinfer.problems.adapters.minigrid import is_minigrid
from polinfer.problems.adapters.noise import find_inner, marks, reseed
from polinfer.problems.adapters.observations import SeenOnly, digest_of, split_batch
from polinfer.problems.adapters.spaces import Actions, read_actions
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

    fewer_states = (
        "say what a state is with fewer of them (identity= or abstraction=, a function; --bins for numbers; "
        "reset_seed=0 for one layout of many)"
    )

    def __init__(
        self,
        name: str,
        env: Env,
        view: View,
        *,
        horizon: int,
        reward_scale: float,
        identity: Callable[[Any], Any] | None = None,
        reset_seed: int | None = None,
    ) -> None:
        actions = read_actions(name, env.action_space)
        self.name, self.num_actions, self.horizon = name, actions.size, horizon
        self.action_names = _action_names(env, actions)
        self.observation_space, self._actions = env.observation_space, actions
        self.environment = env  # as it was given; not changed
        self._view, self._scale, self._identity, self._reset_seed = view, reward_scale, identity, reset_seed
        self._timeless = is_minigrid(env.unwrapped)
        self._inner: tuple[Any, ...] = ()
        self._seen: dict[
            bytes, dict[Hashable, None]
        ] = {}  # what states looked like, where that does not tell
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

    def step_watched(
        self, seed: int, state: ObservedState, action: int
    ) -> tuple[ObservedState, float, bool, bool]:
        """Take `action` as `step` does, and tell whether a random number may have been drawn."""
        if state._snapshot is None:
            raise PolinferError(f"the episode of {self.name} is over in state {state!r}; start another")
        env = self._store.restore(state._snapshot)
        generators = reseed(env, seed, self._inner)
        before = marks(env, generators)
        moved = self._advance(env, None, action)
        return *moved, before is None or marks(env, generators) != before

    def key_of(self, seen: Any) -> Any:
        """Return the state that an observation, or a state of this simulator, stands for.

        Where states are told apart by more than is observed, it is only known what was seen: `SeenOnly`.
        """
        if isinstance(seen, ObservedState):
            return seen.key
        if self._identity is not None:
            return SeenOnly(digest_of(seen))
        return self._view.identify(seen)

    def as_state(self, seen: Any) -> ObservedState:
        """Return an observation as a state that can be encoded, not stepped from."""
        if isinstance(seen, ObservedState):
            return seen
        key = self.key_of(seen)
        if isinstance(key, SeenOnly):
            raise PolinferError(
                f"the state of {self.name} cannot be told from an observation alone; plan with a method that "
                "uses a table"
            )
        return ObservedState(key, [True] * self.num_actions, None)

    def from_key(self, key: Hashable) -> ObservedState:
        """Return what is seen as a state that can be asked about, not stepped from."""
        return ObservedState(key, [True] * self.num_actions, None)

    def observations(self) -> dict[bytes, list[Hashable]]:
        """Return the states of each observation, by its hash; empty where observations are the states."""
        return {digest: list(keys) for digest, keys in self._seen.items()}

    def native_action(self, action: int) -> Any:
        """Return what ``env.step`` takes for action number `action`."""
        if self._actions.factors is None and not self._actions.shape:
            return self._actions.start + int(action)
        return self._actions.native(int(action))

    def split(self, observation: Any) -> list[Any] | None:
        """Return the observations of a batch, None for a single one."""
        return (
            None
            if isinstance(observation, ObservedState)
            else split_batch(self.observation_space, observation)
        )

    def player(self) -> Player:
        """Return what plays whole episodes, without a snapshot at every step."""
        return Player(self)

    def _start(self, env: Env, seed: int) -> ObservedState:
        if self._reset_seed is not None:
            seed = self._reset_seed
        reseed(env, seed, self._inner)
        # Some environments keep their seeds in 32 bits with a sign.
        small = int(np.random.SeedSequence(seed).generate_state(1)[0] >> 1)
        if self._reset_seed is not None:
            small = self._reset_seed
        observation, info = env.reset(seed=small)
        return self._observe(env, observation, info)

    def _advance(self, env: Env, seed: int | None, action: int) -> tuple[ObservedState, float, bool]:
        if seed is not None:
            reseed(env, seed, self._inner)
        if self._timeless:
            minigrid.forget_time(env.unwrapped)
        number = self.native_action(action)
        if isinstance(number, np.ndarray):
            number = number.astype(env.action_space.dtype)
        observation, reward, terminated, truncated, info = env.step(number)
        over = bool(terminated) or bool(truncated)
        return self._observe(env, observation, info, over=over), float(reward) * self._scale, over

    def _observe(
        self, env: Env, observation: Any, info: dict[str, Any], *, over: bool = False
    ) -> ObservedState:
        key = self._view.identify(observation) if self._identity is None else self._identity(env)
        try:
            hash(key)
        except TypeError:
            raise DomainError(
                f"a state of {self.name} is a {type(key).__name__}, which cannot be hashed; "
                "pass abstraction=, a function from an observation to a tuple of numbers, or identity=, one "
                "from the environment"
            ) from None
        if self._identity is not None and not over:
            self._seen.setdefault(digest_of(observation), {})[key] = None
        # Nothing follows the end: its snapshot would only take memory.
        return ObservedState(key, self._legal(env, info, over), None if over else self._store.snapshot(env))

    def _legal(self, env: Env, info: dict[str, Any], over: bool) -> list[bool]:
        given = info.get("action_mask")
        if given is None and not over:
            given = _masks(env)
        if given is None:
            return [True] * self.num_actions
        mask = np.ravel(given)
        if mask.shape != (self.num_actions,):
            raise DomainError(
                f"the action_mask of {self.name} has {mask.size} entries, its action space {self.num_actions}"
            )
        return [bool(flag) for flag in mask]

    def _try_out(self) -> None:
        """Compare runs without and with snapshots: seeds must determine all noise, snapshots all state."""
        env = self._store.blank()
        self._start(env, 0)
        # Looked for after a reset, which is when many environments make theirs.
        self._inner = find_inner(env)
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


class Player:
    """Episodes one after the other in one environment, as an agent plays them."""

    def __init__(self, simulator: SnapshotSimulator) -> None:
        self._simulator, self._env = simulator, simulator._store.blank()
        self._begun = False

    def start(self, seed: int) -> ObservedState:
        """Reset the environment; its generators are seeded once, or each time where its reset is."""
        simulator = self._simulator
        if self._begun and simulator._reset_seed is None:
            return simulator._observe(self._env, *self._env.reset())
        self._begun = True
        state = simulator._start(self._env, seed)
        if simulator._reset_seed is not None:
            reseed(self._env, seed, simulator._inner)
        return state

    def step(self, seed: int, action: int) -> tuple[ObservedState, float, bool]:
        """Take an action."""
        del seed
        return self._simulator._advance(self._env, None, action)

    def keep(self, state: ObservedState) -> ObservedState:
        """Return the state that was reached last as one that can be stepped from later."""
        if state._snapshot is None:
            return state
        store = self._simulator._store
        return ObservedState(state.key, state.legal, store.snapshot(store.restore(state._snapshot)))


def _masks(env: Env) -> Any:
    """Return what the method ``action_masks()`` says, which agents of sb3-contrib ask; None without one."""
    for layer in layers(env):
        function = getattr(layer, "action_masks", None) if "action_masks" in dir(type(layer)) else None
        if callable(function):
            return function()
    return None


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
        if is_minigrid(layer) and getattr(layer, "grid", None) is not None:
            done |= {id(cell): cell for cell in minigrid.constants(layer)}
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


def _action_names(env: Env, actions: Actions) -> tuple[str, ...]:
    core: Any = env.unwrapped
    named: Any = ()
    if is_minigrid(core):
        named = minigrid.action_names(core)
    elif is_plain(env):
        named = _ACTION_NAMES.get(type(core).__name__.removesuffix("Env"), ())
        if callable(getattr(core, "get_action_meanings", None)):
            named = [str(word).lower() for word in core.get_action_meanings()]
    names = tuple(named)
    return names if len(set(names)) == actions.size else actions.names
