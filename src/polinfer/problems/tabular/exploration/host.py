"""Exploration of simulators in plain Python, one draw after the other."""

from __future__ import annotations

import ast
import hashlib
import random
from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polinfer.core.errors import PolinferError
from polinfer.core.protocol import Ending, HasEndings, discount_of
from polinfer.core.simulator import Simulator, prior_of
from polinfer.problems.tabular.exploration.counts import Drawn
from polinfer.problems.tabular.exploration.source import Described
from polinfer.problems.tabular.table import TabularMDP

_WAYS, _START_WAYS = 4, 8  # representatives that are kept of a state, and of one to start in
_FEATURES = 1 << 24  # numbers of all states together
_PLAIN = (int, float, str, bytes, bool, tuple, frozenset, type(None))  # hold nothing but what they compare


class HostSource:
    """A simulator in plain Python and the states of it that were found.

    A state that ends an episode is another than one in which it goes on, even if they are equal.
    """

    compiled = False
    chunk = 1

    def __init__(self, simulator: Simulator, seed: int, identity: Any = None) -> None:
        self.simulator, self.num_actions, self.horizon = simulator, simulator.num_actions, simulator.horizon
        self._identity = identity
        self._random = random.Random(f"{seed}/exploration")
        self._keep = random.Random(f"{seed}/representatives")
        self._numbers: dict[tuple[Any, bool], int] = {}
        self._reps: list[list[Any]] = []
        self._serials: list[list[int]] = []  # of the representatives
        self._episode_of: list[int] = []  # by serial number
        self._episodes = 0
        self._origins: list[list[Any]] = []
        self._arrivals: list[int] = []
        self._over: list[bool] = []
        self._starts: set[int] = set()
        self._legal: dict[tuple[int, int], NDArray[np.bool_]] = {}
        # Simulators that can tell whether a step drew a random number have this.
        self._watched = getattr(simulator, "step_watched", None)

    def __len__(self) -> int:
        return len(self._reps)

    def start(self, draws: int) -> dict[int, int]:
        """Draw first states."""
        found: Counter[int] = Counter()
        for _ in range(draws):
            seed = self._random.getrandbits(63)
            number = self._add(self.simulator.init(seed), False, object(), self._new_episode())
            self._starts.add(number)
            found[number] += 1
        return dict(found)

    def is_terminal(self, state: int) -> bool:
        """Return whether the episode is over there."""
        return self._over[state]

    def legal(self, state: int, way: int = 0) -> NDArray[np.bool_]:
        """Return the legal actions; all where the episode is over."""
        if self._over[state]:
            return np.ones(self.num_actions, np.bool_)
        if (state, way) not in self._legal:
            mask = np.asarray(self.simulator.legal(self._reps[state][way]), np.bool_)
            if mask.shape != (self.num_actions,) or not mask.any():
                raise PolinferError(
                    f"legal must give {self.num_actions} flags, one per action, and allow one of them; in "
                    f"state {self.name(state)} it gives {mask.tolist()}"
                )
            self._legal[state, way] = mask
        return self._legal[state, way]

    def ways(self, state: int) -> int:
        """Return how many representatives were kept."""
        return len(self._reps[state])

    def action_names(self) -> tuple[str, ...]:
        """Return the names of the actions."""
        named = getattr(self.simulator, "action_names", None)
        return tuple(named) if named else tuple(str(a) for a in range(self.num_actions))

    def name(self, state: int) -> str:
        """Name a state."""
        return repr(self._reps[state][0])[:200]

    def advice(self) -> str:
        """Return what would make the states fewer."""
        told: str | None = getattr(self.simulator, "fewer_states", None)
        if told:
            return told
        return "merge states that need no telling apart (tabulate(..., identity=), a function of the state)"

    def sample(
        self, pairs: NDArray[np.int64], draws: NDArray[np.int64], way: NDArray[np.int64]
    ) -> tuple[Drawn, NDArray[np.bool_]]:
        """Draw; a step that drew no random number is not drawn again."""
        counted: Counter[tuple[int, int, int, int, float]] = Counter()
        sure = np.zeros(len(pairs), np.bool_)
        for index, ((state, action), number, which) in enumerate(
            zip(pairs.tolist(), draws.tolist(), way.tolist(), strict=True)
        ):
            for _ in range(number):
                successor, reward, drew, serial = self._step(state, action, which)
                counted[state, action, serial, successor, reward] += 1
                if not drew:
                    sure[index] = True
                    break
        return _as_arrays(counted), sure

    def play(self, steps: int) -> tuple[Drawn, dict[int, int]]:
        """Play episodes of random actions, without going back to any state."""
        counted: Counter[tuple[int, int, int, int, float]] = Counter()
        starts: Counter[int] = Counter()
        make: Any = getattr(self.simulator, "player", None)
        player = _Player(self.simulator) if make is None else make()
        while steps > 0:
            state, episode = player.start(self._random.getrandbits(63)), self._new_episode()
            here = self._met(player, state, False, episode)
            starts[here] += 1
            for _ in range(self.horizon):
                mask = self.simulator.legal(state)
                action = self._random.choice([a for a in range(self.num_actions) if mask[a]])
                state, gained, over = player.step(self._random.getrandbits(63), action)
                there = self._met(player, state, bool(over), episode)
                counted[here, action, episode, there, self._checked(gained, here, action)] += 1
                here, steps = there, steps - 1
                if over:
                    break
        return _as_arrays(counted), dict(starts)

    def witness(self, episodes: int, steps: int, policies: NDArray[np.float32]) -> Drawn:
        """Play episodes, half by random actions and half by `policies` ``[H, S, A]``, and find no new states.

        The successor of what leads to a state that is not known is -1.
        """
        counted: Counter[tuple[int, int, int, int, float]] = Counter()
        make: Any = getattr(self.simulator, "player", None)
        player = _Player(self.simulator) if make is None else make()
        for episode in range(episodes):
            state = player.start(self._random.getrandbits(63))
            here = self._known(state, False)
            for step in range(self.horizon):
                if here < 0 or steps <= 0:
                    break
                mask = np.asarray(self.simulator.legal(state), np.bool_)
                odds = np.where(mask, policies[step, here] if episode % 2 else 1.0, 0.0)
                odds = odds if odds.any() else mask.astype(np.float64)
                action = self._random.choices(range(self.num_actions), odds.tolist())[0]
                state, gained, over = player.step(self._random.getrandbits(63), action)
                there = self._known(state, bool(over))
                counted[here, action, 0, there, self._checked(gained, here, action)] += 1
                here, steps = -1 if over else there, steps - 1
        return _as_arrays(counted)

    def _known(self, state: Any, over: bool) -> int:
        """Return the number of a state, -1 if it was not found."""
        key = state if self._identity is None else self._identity(state)
        return self._numbers.get((key, over), -1)

    @property
    def hiding(self) -> bool:
        """Whether states may hold more than they are compared by."""
        return self._identity is not None or any(not isinstance(reps[0], _PLAIN) for reps in self._reps)

    def origins(self, way: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the episodes that representatives go back to."""
        return np.array(self._episode_of, np.int64)[way]

    def _met(self, player: Any, state: Any, over: bool, episode: int) -> int:
        """Return the number of a state in an episode; one that is new is kept, to be stepped from."""
        key = state if self._identity is None else self._identity(state)
        known = self._numbers.get((key, over))
        return self._add(player.keep(state), over, object(), episode) if known is None else known

    def _new_episode(self) -> int:
        self._episodes += 1
        return self._episodes - 1

    def _checked(self, gained: Any, state: int, action: int) -> float:
        reward = float(gained)
        if not np.isfinite(reward):
            raise PolinferError(
                f"the reward of action {self.action_names()[action]!r} in state {self.name(state)} is "
                f"{reward}; rewards must be finite"
            )
        return reward

    def _step(self, state: int, action: int, way: int) -> tuple[int, float, bool, int]:
        seed, place = self._random.getrandbits(63), way % len(self._reps[state])
        own, serial = self._reps[state][place], self._serials[state][place]
        if self._watched is None:
            reached, gained, over = self.simulator.step(seed, own, action)
            drew = True
        else:
            reached, gained, over, drew = self._watched(seed, own, action)
        reward = self._checked(gained, state, action)
        # Two draws may differ in what is hidden; without chance, one way is always the same.
        origin: Any = object() if drew else (state, action, way)
        return self._add(reached, bool(over), origin, self._episode_of[serial]), reward, drew, serial

    def _add(self, state: Any, over: bool, origin: Any, episode: int) -> int:
        key = state if self._identity is None else self._identity(state)
        try:
            number = self._numbers.setdefault((key, over), len(self._reps))
        except TypeError:
            raise PolinferError(
                f"a state of {type(self.simulator).__name__} is a {type(key).__name__}, which cannot be "
                "hashed; make states tuples of numbers, or pass identity=, a function from a state to one"
            ) from None
        if number == len(self._reps):
            self._reps.append([state])
            self._origins.append([origin])
            self._serials.append([self._new_serial(episode)])
            self._arrivals.append(1)
            self._over.append(over)
        elif not over and (self._identity is not None or not isinstance(state, _PLAIN)):
            self._keep_way(number, state, origin, episode)
        return number

    def _new_serial(self, episode: int) -> int:
        self._episode_of.append(episode)
        return len(self._episode_of) - 1

    def _keep_way(self, number: int, state: Any, origin: Any, episode: int) -> None:
        """Keep some of the states that look like this one: the first, and others at random."""
        self._arrivals[number] += 1
        if origin in self._origins[number]:
            return
        reps, origins = self._reps[number], self._origins[number]
        if len(reps) < (_START_WAYS if number in self._starts else _WAYS):
            reps.append(state)
            origins.append(origin)
            self._serials[number].append(self._new_serial(episode))
        elif (place := self._keep.randrange(self._arrivals[number])) and place < len(reps):
            reps[place], origins[place] = state, origin
            self._serials[number][place] = self._new_serial(episode)

    def describe(self) -> Described:
        """Return names, features where they are few, and identities that only depend on the states."""
        simulator, count = self.simulator, len(self)
        keys = [key for key, _ in self._numbers]
        name: Any = getattr(simulator, "state_name", None)
        names = (
            [str(rep) for (rep, *_) in self._reps] if name is None else [name(rep) for rep, *_ in self._reps]
        )
        names = [
            text.replace("\0", "") + " (end)" * over for text, over in zip(names, self._over, strict=True)
        ]
        seen = Counter(names)
        names = [text if seen[text] == 1 else f"{text} #{i}" for i, text in enumerate(names)]
        told = getattr(simulator, "action_names", None)
        endings: tuple[Ending, ...] = ()
        ending_of = None
        if isinstance(simulator, HasEndings):
            endings = simulator.endings
            ending_of = np.array(
                [
                    int(simulator.ending(rep)) if over else -1
                    for (rep, *_), over in zip(self._reps, self._over, strict=True)
                ],
                np.int32,
            )
        return Described(
            state_names=names,
            action_names=tuple(told) if told else None,
            features=self._features(count),
            identities=np.stack([identity_of(key, over) for key, over in zip(keys, self._over, strict=True)]),
            endings=endings,
            ending_of=ending_of,
            prior=self._prior(),
            discount=discount_of(simulator),
            sources=[rep for rep, *_ in self._reps] if self._identity is None else keys,
            keys=_literals([getattr(key, "key", key) for key in keys]),
            observed=self._observed(),
        )

    def _observed(self) -> dict[bytes, list[int]]:
        tell: Any = getattr(self.simulator, "observations", None)
        if tell is None:
            return {}
        rows = {getattr(key, "key", key): row for (key, over), row in self._numbers.items() if not over}
        return {digest: [rows[key] for key in keys if key in rows] for digest, keys in tell().items()}

    def _prior(self) -> NDArray[np.float64] | None:
        if not hasattr(self.simulator, "log_prior"):
            return None
        uniform = np.full(self.num_actions, 1 / self.num_actions)
        return np.stack(
            [
                uniform if over else prior_of(self.simulator, rep)
                for (rep, *_), over in zip(self._reps, self._over, strict=True)
            ]
        )

    def _features(self, count: int) -> NDArray[np.float32] | None:
        if not hasattr(self.simulator, "encode"):
            return None
        rows: list[NDArray[np.float32] | None] = []
        for (rep, *_), over in zip(self._reps, self._over, strict=True):
            # A simulator is not asked about states in which nothing is done any more.
            try:
                rows.append(None if over else np.asarray(self.simulator.encode(rep), np.float32))
            except PolinferError:  # such as too many numbers: the table does without
                return None
        shapes = {row.shape for row in rows if row is not None}
        if len(shapes) != 1 or len(shape := shapes.pop()) != 1 or shape[0] * count > _FEATURES:
            return None
        return np.stack([np.zeros(shape, np.float32) if row is None else row for row in rows])


class _Player:
    """Episodes of a simulator whose states can be stepped from at any time."""

    def __init__(self, simulator: Simulator) -> None:
        self._simulator = simulator
        self._state: Any = None

    def start(self, seed: int) -> Any:
        self._state = self._simulator.init(seed)
        return self._state

    def step(self, seed: int, action: int) -> tuple[Any, Any, Any]:
        moved = self._simulator.step(seed, self._state, action)
        self._state = moved[0]
        return moved

    def keep(self, state: Any) -> Any:
        return state


def _as_arrays(counted: Counter[tuple[int, int, int, int, float]]) -> Drawn:
    rows = list(counted)
    columns = list(zip(*rows, strict=True)) if rows else [()] * 5
    state, action, way, successor = (np.array(column, np.int64) for column in columns[:4])
    number = np.array(list(counted.values()), np.int64)
    return Drawn(state, action, way, successor, np.array(columns[4], np.float64), number)


def _literals(keys: list[Any]) -> tuple[str, ...] | None:
    """Write hashable states as Python literals, where that can be read back as the same."""
    written = tuple(repr(key) for key in keys)
    try:
        same = all(ast.literal_eval(text) == key for text, key in zip(written, keys, strict=True))
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    return written if same and not any("\0" in text for text in written) else None


def with_known_states(problem: Any, table: TabularMDP) -> TabularMDP:
    """Give a table that was read back the states of `problem`."""
    if table.state_keys is None:
        return table
    try:
        keys = [ast.literal_eval(text) for text in table.state_keys]
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        raise PolinferError("the states of the table cannot be read; it is damaged") from None
    from_key: Any = getattr(problem, "from_key", None)
    return table.with_sources(keys if from_key is None else [from_key(key) for key in keys])


def identity_of(key: Any, over: bool) -> NDArray[np.int32]:
    """Return whole numbers that stand for a hashable state: a hash of what it looks like."""
    shown = getattr(key, "key", key)
    digest = hashlib.blake2b(repr(shown).encode(), digest_size=16).digest()
    return np.append(np.frombuffer(digest, np.int32), np.int32(over))
