"""Gymnasium's functional environments in JAX, as MDPs that compile."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium.experimental.functional import FuncEnv
from jax import Array

from polinfer.core.errors import DomainError
from polinfer.core.protocol import Transition
from polinfer.problems.adapters.spaces import Factors, finite_factors, parts, read_actions
from polinfer.problems.adapters.views import Edges, Function, bins_of, check_features, name_bins


class FunctionalState(NamedTuple):
    """A state of a functional environment."""

    inner: Any  # the environment's own state
    seen: Array  # [K] int32, what planning sees of it
    over: Array  # [] bool


class FunctionalMDP:
    """A functional environment as a `polinfer.MDP`; made by `polinfer.from_gymnasium`.

    States are identified by their observation (after `edges` or an abstraction) and by whether the episode is
    over; states with equal observations count as one.
    """

    def __init__(
        self,
        name: str,
        env: FuncEnv[Any, Any, Any, Any, Any, Any, Any],
        *,
        horizon: int,
        reward_scale: float,
        abstraction: Function | None,
        edges: Edges | None,
        encode: Function | None,
    ) -> None:
        self.name, self.horizon = name, horizon
        actions = read_actions(name, env.action_space)
        self.num_actions = actions.size
        self.action_names = actions.names
        self._env, self._actions, self._scale = env, actions, reward_scale
        self._abstraction, self._edges, self._encode = abstraction, edges, encode
        self._factors = self._find_factors()
        self._kinds: Any = None
        self._kinds = self._settle_kinds()

    def init(self, key: Array) -> FunctionalState:
        """Draw the first state."""
        key_start, key_observe = jax.random.split(key)
        inner = self._settled(self._env.initial(key_start))
        return FunctionalState(inner, self._see(inner, key_observe), jnp.asarray(False))

    def step(self, key: Array, state: FunctionalState, action: Array) -> Transition:
        """Draw what `action` leads to."""
        key_move, key_reward, key_end, key_observe = jax.random.split(key, 4)
        inner, number = self._move(key_move, state.inner, action)
        reward = self._env.reward(state.inner, number, inner, key_reward)
        over = jnp.reshape(self._env.terminal(inner, key_end), ()).astype(jnp.bool_)
        moved = FunctionalState(inner, self._see(inner, key_observe), over)
        # The environment can be stepped after its end; here terminal states are absorbing.
        kept = jax.tree.map(lambda old, new: jnp.where(state.over, old, new), state, moved)
        paid = jnp.reshape(jnp.asarray(reward, jnp.float32), ()) * self._scale
        return Transition(kept, jnp.where(state.over, 0.0, paid), kept.over)

    def encode(self, state: FunctionalState) -> Array:
        """Return the features of what is seen."""
        if self._encode is not None:
            return jnp.asarray(self._encode(state.seen), jnp.float32)
        if self._factors is None:
            return state.seen.astype(jnp.float32)
        check_features(self.name, self._factors)
        hot = [
            jax.nn.one_hot(state.seen[i] - low, size, dtype=jnp.float32)
            for i, (low, size) in enumerate(zip(*self._factors, strict=True))
        ]
        return jnp.concatenate(hot)

    def identity(self, state: FunctionalState) -> Array:
        """Return what is seen, and whether the episode is over: an end may look like a state before it."""
        return jnp.concatenate([state.seen, state.over.astype(jnp.int32)[None]])

    def legal(self, state: FunctionalState) -> Array:
        """Return the actions that may be taken: all, or those of the environment's ``action_mask``."""
        mask = self._env.state_info(state.inner).get("action_mask")
        if mask is None:
            return jnp.ones(self.num_actions, jnp.bool_)
        return jnp.reshape(mask, (self.num_actions,)).astype(jnp.bool_) | state.over

    def state_name(self, state: FunctionalState) -> str:
        """Name what is seen of a concrete state."""
        seen = [int(number) for number in np.asarray(state.seen)]
        return str(tuple(seen)) if self._edges is None else name_bins(self._edges, seen)

    def _move(self, key: Array, inner: Any, action: Array) -> tuple[Any, Array]:
        """Return the environment's next state and its name for the action."""
        number = self._actions.native(action, jnp)
        return self._settled(self._env.transition(inner, number, key)), number

    def _find_factors(self) -> Factors | None:
        if self._edges is not None:
            return bins_of(self._edges)
        if self._abstraction is not None:
            return None
        factors = finite_factors(self._env.observation_space)
        if factors is None:
            raise DomainError(
                f"{self.name} observes {self._env.observation_space}, which is not discrete; pass edges=, "
                "lists of cut points, or abstraction=, a traceable function from an observation to integers"
            )
        return factors

    def _see(self, inner: Any, key: Array) -> Array:
        observation = self._env.observation(inner, key)
        if self._edges is not None:
            cut = zip(self._edges, jnp.ravel(observation), strict=True)
            bins = [jnp.sum(number >= jnp.asarray(cuts)) for cuts, number in cut if cuts]
            return jnp.stack(bins).astype(jnp.int32)
        if self._abstraction is not None:
            numbers = jax.tree.leaves(self._abstraction(observation))
            if not numbers or not all(_is_whole(number) for number in numbers):
                raise DomainError(f"abstraction must give integers for {self.name}, which is compiled")
        else:
            numbers = parts(self._env.observation_space, observation)
        return jnp.concatenate([jnp.ravel(jnp.asarray(number)).astype(jnp.int32) for number in numbers])

    def _settled(self, inner: Any) -> Any:
        """Return the environment's state as arrays of shapes and types that no step changes."""
        arrays = jax.tree.map(jnp.asarray, inner)
        if self._kinds is None:
            return arrays
        return jax.tree.map(
            lambda leaf, kind: jnp.reshape(leaf, kind.shape).astype(kind.dtype), arrays, self._kinds
        )

    def _settle_kinds(self) -> Any:
        """Return shapes and types that hold a first state as well as what follows it."""
        key, action = jax.random.key(0), jnp.zeros((), jnp.int32)
        kinds = _traced(self.name, self.init, key)
        for _ in range(3):
            reached = _traced(self.name, lambda s: self._move(key, s.inner, action)[0], kinds)
            leaves, structure = jax.tree.flatten(kinds.inner)
            others, other_structure = jax.tree.flatten(reached)
            # A lone number may start without the axis that it has after a step.
            if str(structure) != str(other_structure) or any(
                a.shape != b.shape and not a.size == b.size == 1 for a, b in zip(leaves, others, strict=True)
            ):
                raise DomainError(
                    f"the states of {self.name} change shape with a step; a compiled state keeps its shape"
                )
            wide = [
                jax.ShapeDtypeStruct(b.shape, jnp.promote_types(a.dtype, b.dtype))  # type: ignore[no-untyped-call]
                for a, b in zip(leaves, others, strict=True)
            ]
            kinds = kinds._replace(inner=jax.tree.unflatten(structure, wide))
        return kinds.inner


def _traced(name: str, function: Any, *arguments: Any) -> Any:
    try:
        return jax.eval_shape(function, *arguments)
    except DomainError:
        raise
    except Exception as error:
        raise DomainError(
            f"{name} cannot be traced by JAX ({' '.join(str(error).split())[:200]}); write it, and any "
            "abstraction, with jax.numpy"
        ) from error


def _is_whole(number: Any) -> bool:
    return np.issubdtype(jnp.asarray(number).dtype, np.integer) or jnp.asarray(number).dtype == jnp.bool_
