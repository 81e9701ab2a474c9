"""`RddlMDP`: an RDDL problem behind polinfer's protocol, on the functions that JaxPlan compiles from it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from polinfer.core.errors import DomainError
from polinfer.core.protocol import Transition
from polinfer.problems.domains.bitsets import pack_flags

MAX_ACTIONS = 5_000
_MAX_ONE_HOT = 64  # a wider integer enters the features as a number

State = dict[str, Array]  # the state fluents by name, each in its own shape: bool or int32


class _Fluent(NamedTuple):
    """A fluent with all its groundings."""

    name: str
    values: NDArray[Any]  # its first values (of an action: its defaults) in its own shape, bool or int32
    labels: tuple[str, ...]  # one name per grounding, in order
    lower: NDArray[np.float64]  # one per grounding, infinite where unknown
    upper: NDArray[np.float64]
    objects: tuple[str, ...]  # the names of the values, where they are enumerated

    @property
    def is_bool(self) -> bool:
        return self.values.dtype == np.bool_

    def label(self, grounding: int, value: int) -> str:
        """Name one value of one grounding."""
        name = self.labels[grounding]
        if self.is_bool:
            return name if value else f"not {name}"
        return f"{name}={self.objects[value] if self.objects else value}"


class _Choice(NamedTuple):
    """One grounded action fluent at a value that is not its default."""

    place: int  # among all groundings of all action fluents
    value: int
    label: str


class RddlMDP:
    """An MDP written in RDDL; `polinfer.from_rddl` makes it.

    The state is a dictionary of the state fluents.  Problems are equal if their files and settings are.
    """

    def __init__(
        self,
        name: str,
        model: Any,
        compiler: Any,
        texts: tuple[bytes, bytes],
        horizon: int,
        reward_scale: float,
        max_actions: int,
    ) -> None:
        self.name = name
        self.horizon = horizon
        self.reward_scale = reward_scale
        self.discount = float(model.discount)
        self._key = (texts, horizon, reward_scale)
        self._state_fluents = [_read_fluent(model, compiler, fluent) for fluent in model.state_fluents]
        self._action_fluents = [_read_fluent(model, compiler, fluent) for fluent in model.action_fluents]
        self._sets = _enumerate(name, self._action_fluents, int(model.max_allowed_actions), max_actions)
        # Some of the compiled functions only work on traced values, so each is wrapped in a jit of its own.
        self._step = jax.jit(compiler.compile_transition(check_constraints=True))
        self._preconditions = [jax.jit(condition) for condition in compiler.preconditions]
        self._terminations = [jax.jit(condition) for condition in compiler.terminations]
        self._parameters = compiler.model_aux["params"]
        fluents, constants = compiler.split_fluent_nonfluent(compiler.init_values)
        # The compiled functions want JAX arrays; kept as NumPy, they belong to no one trace.
        self._fluents = {k: _in_single(v) for k, v in fluents.items()}
        self._constants = {k: _in_single(v) for k, v in constants.items()}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RddlMDP) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def num_actions(self) -> int:
        """The number of sets of grounded actions."""
        return len(self._sets)

    @cached_property
    def action_names(self) -> tuple[str, ...]:
        """The grounded actions that are taken together: ``move-car(la1a1,la1a2)``, or ``no-op``."""
        return tuple(" + ".join(choice.label for choice in chosen) or "no-op" for chosen in self._sets)

    @cached_property
    def _slots(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Place and value ``[A, k]`` of what each action sets; unused slots are at place -1."""
        width = max(1, *(len(chosen) for chosen in self._sets))
        place = np.full((len(self._sets), width), -1, np.int32)
        value = np.zeros((len(self._sets), width), np.int32)
        for action, chosen in enumerate(self._sets):
            for slot, choice in enumerate(chosen):
                place[action, slot], value[action, slot] = choice.place, choice.value
        return place, value

    def _ground(self, action: Array) -> dict[str, Array]:
        """Return the action fluents that `action` stands for."""
        place, value = (jnp.asarray(x)[action] for x in self._slots)
        flat = np.concatenate([f.values.ravel().astype(np.int32) for f in self._action_fluents])
        whole = jnp.asarray(flat)
        for slot in range(self._slots[0].shape[1]):
            whole = jnp.where(np.arange(len(flat)) == place[slot], value[slot], whole)
        fluents, start = {}, 0
        for fluent in self._action_fluents:
            part = whole[start : start + fluent.values.size].reshape(fluent.values.shape)
            fluents[fluent.name] = part.astype(fluent.values.dtype)
            start += fluent.values.size
        return fluents

    def _all_fluents(self, state: State) -> dict[str, Array]:
        return {**{k: jnp.asarray(v) for k, v in self._fluents.items()}, **state}

    def _constant_fluents(self) -> dict[str, Array]:
        return {k: jnp.asarray(v) for k, v in self._constants.items()}

    def _holds(self, condition: Any, fluents: dict[str, Array]) -> Array:
        key = jax.random.key(0)  # conditions are deterministic; their functions ask for a key all the same
        value, *_ = condition(fluents, self._constant_fluents(), self._parameters, key)
        return jnp.asarray(value, jnp.bool_).reshape(())

    def _is_over(self, state: State) -> Array:
        fluents = self._all_fluents(state)
        over = [self._holds(condition, fluents) for condition in self._terminations]
        return jnp.stack(over).any() if over else jnp.asarray(False)

    def init(self, key: Array) -> State:
        """Return the first state of the instance."""
        del key
        return {f.name: jnp.asarray(f.values) for f in self._state_fluents}

    def step(self, key: Array, state: State, action: Array) -> Transition:
        """Draw the next state from the domain's conditional probability functions."""
        over = self._is_over(state)
        fluents, log, _ = self._step(
            key, self._ground(action), self._all_fluents(state), self._constant_fluents(), self._parameters
        )
        reached = {
            name: jnp.where(over, before, jnp.asarray(fluents[name], before.dtype))
            for name, before in state.items()
        }
        pay = jnp.asarray(log["reward"], jnp.float32).reshape(()) * jnp.float32(self.reward_scale)
        terminated = over | jnp.asarray(log["termination"], jnp.bool_).reshape(())
        return Transition(reached, jnp.where(over, jnp.float32(0.0), pay), terminated)

    def encode(self, state: State) -> Array:
        """Return Boolean fluents as 0 and 1, values from a small known range one-hot, others as numbers."""
        parts = []
        for fluent in self._state_fluents:
            flat = state[fluent.name].reshape(-1)
            width = fluent.upper - fluent.lower + 1
            if not fluent.is_bool and width.size and width.max() <= _MAX_ONE_HOT:
                offset = flat - jnp.asarray(fluent.lower, jnp.int32)
                parts.append(jax.nn.one_hot(offset, int(width.max()), dtype=jnp.float32).reshape(-1))
            else:
                parts.append(flat.astype(jnp.float32))
        return jnp.concatenate(parts)

    def identity(self, state: State) -> Array:
        """Return the Boolean fluents as bits, then one word per other fluent."""
        flat = {f.name: state[f.name].reshape(-1) for f in self._state_fluents}
        flags = [flat[f.name] for f in self._state_fluents if f.is_bool]
        words = [flat[f.name].astype(jnp.int32) for f in self._state_fluents if not f.is_bool]
        return jnp.concatenate([*([pack_flags(jnp.concatenate(flags))] if flags else []), *words])

    def legal(self, state: State) -> Array:
        """The actions that break no precondition; ``no-op`` where all do."""
        if not self._preconditions:
            return jnp.ones(self.num_actions, jnp.bool_)
        fluents = self._all_fluents(state)

        def allowed(action: Array) -> Array:
            acting = {**fluents, **self._ground(action)}
            return jnp.stack([self._holds(condition, acting) for condition in self._preconditions]).all()

        legal = jax.vmap(allowed)(jnp.arange(self.num_actions, dtype=jnp.int32))
        # An engine needs one action to take, and a terminal state needs none.
        return jnp.where(legal.any(), legal, jnp.arange(self.num_actions) == 0)

    def state_name(self, state: Any) -> str:
        """Name a state by the fluents that are true, and by the values of the others."""
        parts = [
            fluent.label(i, int(value))
            for fluent in self._state_fluents
            for i, value in enumerate(np.asarray(state[fluent.name]).ravel())
            if value or not fluent.is_bool
        ]
        return ", ".join(parts) or "nothing true"


def _in_single(value: Any) -> NDArray[Any]:
    """Return a value in the types of JAX's single precision."""
    array = np.asarray(value)
    kinds = {"b": np.bool_, "i": np.int32, "u": np.int32, "f": np.float32}
    return array.astype(kinds[array.dtype.kind])


def _read_fluent(model: Any, compiler: Any, name: str) -> _Fluent:
    values = _in_single(compiler.init_values[name])
    what = model.variable_ranges[name]
    objects = tuple(model.type_to_objects.get(what, ()))
    lower, upper = (np.asarray(bound, np.float64).ravel() for bound in compiler.constraints.bounds[name])
    if objects:
        lower, upper = np.zeros(values.size), np.full(values.size, len(objects) - 1.0)
    if what == "int":
        # Bounds may come from strict inequalities, a little inside the next whole number.
        lower, upper = np.ceil(lower), np.floor(upper)
    labels = itertools.product(*(model.type_to_objects[kind] for kind in model.variable_params[name]))
    named = tuple(f"{name}({','.join(label)})" if label else name for label in labels)
    return _Fluent(name, values if what == "bool" else values.astype(np.int32), named, lower, upper, objects)


def _enumerate(
    name: str, fluents: list[_Fluent], at_most: int, max_actions: int
) -> tuple[tuple[_Choice, ...], ...]:
    """Return every set of at most `at_most` choices of different groundings, the empty one first."""
    groundings = list(_groundings(name, fluents))
    at_most = min(at_most, len(groundings))
    # The number of sets of n choices is the elementary symmetric polynomial of the numbers of values.
    counts = [1] + [0] * at_most
    for choices in groundings:
        for n in range(at_most, 0, -1):
            counts[n] += counts[n - 1] * len(choices)
    if sum(counts) > max_actions:
        raise DomainError(
            f"RDDL problem {name} has {sum(counts):,} actions (sets of at most {at_most} of "
            f"{len(groundings):,} grounded action fluents); raise max_actions, which is {max_actions:,}"
        )
    return tuple(
        chosen
        for n in range(at_most + 1)
        for places in itertools.combinations(groundings, n)
        for chosen in itertools.product(*places)
    )


def _groundings(name: str, fluents: list[_Fluent]) -> Iterator[list[_Choice]]:
    """Return the choices of each grounded action fluent."""
    place = itertools.count()
    for fluent in fluents:
        for i, default in enumerate(fluent.values.ravel()):
            if fluent.is_bool:
                values = range(2)
            elif math.isfinite(fluent.lower[i]) and math.isfinite(fluent.upper[i]):
                values = range(int(fluent.lower[i]), int(fluent.upper[i]) + 1)
            else:
                raise DomainError(
                    f"RDDL problem {name} has the integer action fluent {fluent.name!r} without bounds; "
                    "bound it by action-preconditions such as 0 <= a and a <= 9"
                )
            here = next(place)
            yield [_Choice(here, v, fluent.label(i, v)) for v in values if v != int(default)]
