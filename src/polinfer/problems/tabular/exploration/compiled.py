"""Exploration of JAX problems: all draws of many states and actions in one compiled call."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from polinfer.core.errors import PolinferError
from polinfer.core.protocol import MDP, HasEndings, HasNames, HasPrior, State, discount_of
from polinfer.problems.tabular.exploration.counts import Drawn, joined
from polinfer.problems.tabular.exploration.source import Described
from polinfer.problems.tabular.labels import action_names_of, identity_names

_LANES, _SMALL, _DRAWS = 2048, 64, 64  # pairs in a call, and draws of each
_WAYS = 4  # representatives that are kept of a state
# Those that are averaged over.  They are the first that were met and no sample: more would only look surer.
MANY_WAYS = 32
_MIX = np.uint64(0x9E3779B97F4A7C15)


class CompiledSource:
    """A JAX problem and the states of it that were found."""

    compiled = True
    chunk = 512

    def __init__(self, mdp: MDP, seed: int, ways: int = _WAYS) -> None:
        self._ways = ways
        self.mdp, self.num_actions, self.horizon = mdp, mdp.num_actions, mdp.horizon
        self._key, self._calls = jax.random.key(seed), 0
        self._numbers: dict[bytes, int] = {}
        self._identities: list[NDArray[np.int32]] = []
        self._reps: list[list[list[NDArray[Any]]]] = []  # [state][way][leaf]
        self._legal: list[NDArray[np.bool_]] = []
        self._legal_way: dict[tuple[int, int], NDArray[np.bool_]] = {}
        self._terminal: dict[int, bool] = {}
        self._left: set[int] = set()
        self._structure: Any = None
        self._random = _uses_key(mdp)

        @jax.jit
        def draw(key: jax.Array, states: State, actions: jax.Array) -> Any:
            def one(own: jax.Array, state: State, action: jax.Array) -> Any:
                moved = jax.vmap(lambda k: mdp.step(k, state, action))(jax.random.split(own, _DRAWS))
                return moved, jax.vmap(mdp.identity)(moved.state)

            return jax.vmap(one)(jax.random.split(key, actions.shape[0]), states, actions)

        @jax.jit
        def begin(key: jax.Array) -> Any:
            states = jax.vmap(mdp.init)(jax.random.split(key, 1024))
            return states, jax.vmap(mdp.identity)(states)

        self._draw, self._begin = draw, begin
        self._legal_of = jax.jit(jax.vmap(mdp.legal))

    def __len__(self) -> int:
        return len(self._identities)

    def start(self, draws: int) -> dict[int, int]:
        """Draw first states."""
        found: dict[int, int] = {}
        for _ in range(-(-draws // 1024)):
            states, identities = jax.tree.map(np.asarray, self._begin(self._next_key()))
            hashed = _hash([*identities.T, *_columns(jax.tree.leaves(states))])
            _, first, counts = np.unique(hashed, return_index=True, return_counts=True)
            order = np.argsort(first)
            numbers = self._add(
                identities[first[order]], jax.tree.map(lambda x, at=first[order]: x[at], states)
            )
            for number, count in zip(numbers.tolist(), counts[order].tolist(), strict=True):
                found[number] = found.get(number, 0) + count
        return found

    def is_terminal(self, state: int) -> bool:
        """Return whether the state was reached by an end."""
        return self._terminal.get(state, False)

    def legal(self, state: int, way: int = 0) -> NDArray[np.bool_]:
        """Return the legal actions."""
        if way == 0:
            if state >= len(self._legal):
                first = len(self._legal)
                self._legal.extend(self._look(range(first, len(self)), 0))
            return self._legal[state]
        if (state, way) not in self._legal_way:
            self._legal_way[state, way] = self._look([state], way)[0]
        return self._legal_way[state, way]

    def _look(self, states: Any, way: int) -> NDArray[np.bool_]:
        picked = list(states)
        found = []
        for first in range(0, len(picked), _LANES):
            some = picked[first : first + _LANES]
            size = _LANES if len(some) > _SMALL else _SMALL
            padded = some + [some[0]] * (size - len(some))
            found.append(np.asarray(self._legal_of(self._stack(padded, [way] * size)))[: len(some)])
        return np.concatenate(found)

    def ways(self, state: int) -> int:
        """Return how many different states have this identity."""
        return len(self._reps[state])

    def action_names(self) -> tuple[str, ...]:
        """Return the names of the actions."""
        if isinstance(self.mdp, HasNames):
            return self.mdp.action_names
        return tuple(str(a) for a in range(self.num_actions))

    def name(self, state: int) -> str:
        """Name a state, or give its identity."""
        if hasattr(self.mdp, "state_name"):
            return repr(self.mdp.state_name(jax.tree.unflatten(self._structure, self._reps[state][0])))
        return str(self._identities[state].tolist())

    def advice(self) -> str:
        """Return what would make the states fewer."""
        return "let identity() leave out what does not matter"

    def sample(
        self, pairs: NDArray[np.int64], draws: NDArray[np.int64], way: NDArray[np.int64]
    ) -> tuple[Drawn, NDArray[np.bool_]]:
        """Draw in multiples of what one call draws; without chance, count one."""
        sure = np.full(len(pairs), not self._random)
        times = np.where(sure, 1, -(-draws // _DRAWS))
        lane = np.repeat(np.arange(len(pairs)), times)
        parts = []
        first = 0
        while first < len(lane):
            some = lane[first : first + _LANES]
            first += _LANES
            parts.append(self._sample_lanes(pairs[some], way[some]))
        whole = joined(parts)
        if not self._random:
            whole = whole._replace(number=np.ones_like(whole.number))
        return whole, sure

    def _sample_lanes(self, pairs: NDArray[np.int64], way: NDArray[np.int64]) -> Drawn:
        number = len(pairs)
        size = _LANES if number > _SMALL else _SMALL
        padded = np.concatenate([np.arange(number), np.zeros(size - number, np.int64)])
        states = self._stack(pairs[padded, 0].tolist(), way[padded].tolist())
        moved, identities = self._draw(self._next_key(), states, jnp.asarray(pairs[padded, 1], jnp.int32))
        reward = np.asarray(moved.reward, np.float32)[:number].ravel()
        over = np.asarray(moved.terminated)[:number].ravel()
        identity = np.asarray(identities)[:number].reshape(reward.size, -1)
        if not np.isfinite(reward).all():
            raise PolinferError(f"a reward is {reward[~np.isfinite(reward)][0]}; rewards must be finite")
        lane = np.repeat(np.arange(number), _DRAWS)
        # Equal rows have equal hashes; two different rows share one of 64 bits with a chance of 1e-7.
        leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(moved.state)]
        inner = _columns([leaf[:number].reshape(reward.size, -1) for leaf in leaves])
        hashed = _hash([lane, *identity.T, over, reward.view(np.int32), *inner])
        _, first, count = np.unique(hashed, return_index=True, return_counts=True)
        first, count = first[(order := np.argsort(first))], count[order]
        at = (first // _DRAWS, first % _DRAWS)
        chosen = jax.tree.unflatten(self._structure, [leaf[at] for leaf in leaves])
        successor = self._add(identity[first], chosen)
        state = pairs[lane[first], 0]
        self._note_ends(state, successor, over[first])
        return Drawn(
            state, pairs[lane[first], 1], way[lane[first]], successor, _decimal(reward[first]), count
        )

    def _note_ends(
        self, state: NDArray[np.int64], successor: NDArray[np.int64], over: NDArray[np.bool_]
    ) -> None:
        self._left.update(state[successor != state].tolist())
        ends = np.unique(np.stack([successor, over.astype(np.int64)], axis=1), axis=0)
        for number, flag in ends.tolist():
            before = self._terminal.setdefault(number, bool(flag))
            if before != bool(flag) or (flag and number in self._left):
                raise PolinferError(
                    f"state with identity {self._identities[number].tolist()} ends the episode on one way in "
                    "and not on another; make terminal states differ in identity"
                )

    def _add(self, identities: NDArray[np.int32], states: State) -> NDArray[np.int64]:
        """Return the number of each state, numbering new ones and keeping representatives that differ."""
        leaves, self._structure = jax.tree.flatten(states)
        rows = np.ascontiguousarray(identities, np.int32)
        numbers = np.empty(len(rows), np.int64)
        for i in range(len(rows)):
            number = numbers[i] = self._numbers.setdefault(rows[i].tobytes(), len(self._numbers))
            if number == len(self._identities):
                self._identities.append(rows[i])
                self._reps.append([[np.asarray(leaf[i]) for leaf in leaves]])
            elif len(self._reps[number]) < self._ways:
                own = [np.asarray(leaf[i]) for leaf in leaves]
                if not any(_equal(own, other) for other in self._reps[number]):
                    self._reps[number].append(own)
        return numbers

    def _stack(self, states: list[int], ways: list[int]) -> State:
        columns = zip(*(self._reps[s][w] for s, w in zip(states, ways, strict=True)), strict=True)
        return jax.tree.unflatten(self._structure, [jnp.asarray(np.stack(column)) for column in columns])

    def _next_key(self) -> jax.Array:
        self._calls += 1
        return jax.random.fold_in(self._key, self._calls)

    def describe(self) -> Described:
        """Return features, names, endings and identities, as `tabulate` keeps them."""
        mdp, count = self.mdp, len(self)
        states = self._stack(list(range(count)), [0] * count)

        @jax.jit
        def look(states: State) -> Any:
            ending = jax.vmap(mdp.ending)(states) if isinstance(mdp, HasEndings) else None
            prior = jnp.exp(jax.vmap(mdp.log_prior)(states)) if isinstance(mdp, HasPrior) else None
            return jax.vmap(mdp.encode)(states), ending, jax.vmap(mdp.legal)(states), prior

        features, ending, legal, prior = look(states)
        sources = [jax.tree.unflatten(self._structure, reps[0]) for reps in self._reps]
        identities = np.stack(self._identities)
        names = identity_names(identities)
        if isinstance(mdp, HasNames):
            names = [mdp.state_name(state) for state in sources]
        return Described(
            state_names=names,
            action_names=action_names_of(mdp),
            features=np.asarray(features, np.float32),
            identities=identities,
            endings=mdp.endings if isinstance(mdp, HasEndings) else (),
            ending_of=None if ending is None else np.asarray(ending, np.int32),
            prior=None if prior is None else np.where(np.asarray(legal), np.asarray(prior, np.float64), 0.0),
            discount=discount_of(mdp),
            sources=sources,
            keys=None,
            observed={},
        )


def _uses_key(mdp: MDP) -> bool:
    """Return whether `step` looks at its key at all."""
    words = jnp.zeros(2, jnp.uint32)
    state = jax.eval_shape(mdp.init, jax.random.key(0))

    def step(words: jax.Array, state: State, action: jax.Array) -> Any:
        return mdp.step(jax.random.wrap_key_data(words, impl="threefry2x32"), state, action)

    closed = jax.make_jaxpr(step)(words, state, jnp.zeros((), jnp.int32))
    # Wrapping the words is the only use that there may be.
    wrapped = {closed.jaxpr.invars[0]}
    for equation in closed.jaxpr.eqns:
        if any(not hasattr(v, "val") and v in wrapped for v in equation.invars):
            if equation.primitive.name != "random_wrap":
                return True
            wrapped.update(equation.outvars)
    return any(not hasattr(v, "val") and v in wrapped for v in closed.jaxpr.outvars)


def _equal(one: list[NDArray[Any]], other: list[NDArray[Any]]) -> bool:
    return all(a.tobytes() == b.tobytes() for a, b in zip(one, other, strict=True))


def _hash(columns: list[NDArray[Any]]) -> NDArray[np.uint64]:
    """Mix columns of integers into one number a row."""
    mixed = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        mixed ^= (
            column.astype(np.int64).view(np.uint64) + _MIX + (mixed << np.uint64(6)) + (mixed >> np.uint64(2))
        )
        mixed ^= mixed >> np.uint64(31)
        mixed *= np.uint64(0xBF58476D1CE4E5B9)
        mixed ^= mixed >> np.uint64(29)
    return mixed


def _columns(leaves: list[NDArray[Any]]) -> list[NDArray[Any]]:
    """Return arrays ``[n, ...]`` as columns of integers; floats by their bits."""
    found = []
    for leaf in leaves:
        flat = np.ascontiguousarray(leaf.reshape(len(leaf), -1))
        if flat.dtype.kind == "f":
            flat = flat.view(f"i{flat.dtype.itemsize}")
        found += list(flat.T)
    return found


def _decimal(reward: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the shortest decimals that are these numbers in single precision: -0.1, not -0.10000000149."""
    values, back = np.unique(reward, return_inverse=True)
    return np.array([float(str(value)) for value in values], np.float64)[back.ravel()]
