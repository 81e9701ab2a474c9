"""The environments of gymnax, and the scheme ``gymnax:`` of `polinfer.make`, through their functions.

gymnax is written in JAX: `reset_env` and `step_env` are pure, so an environment is an MDP that compiles.  Its
state counts the steps of an episode.  Where nothing but the time limit looks at that count, it is no part of
what a state is; the limit is the horizon.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from polinfer.core.errors import DomainError, check_at_least, check_finite, suggest
from polinfer.core.protocol import Transition
from polinfer.problems.adapters.views import read_function

_TIME = "time"


class GymnaxState(NamedTuple):
    """A state of an environment of gymnax."""

    inner: Any  # the environment's own state
    over: Array  # [] bool


class GymnaxMDP:
    """An environment of gymnax as a `polinfer.MDP`; made by ``polinfer.make("gymnax:...")``."""

    def __init__(
        self,
        name: str,
        env: Any,
        params: Any,
        *,
        horizon: int,
        reward_scale: float,
        identity: Callable[[Any], Any] | None,
    ) -> None:
        self.name, self.horizon, self._env, self._params = name, horizon, env, params
        self._scale, self._identity = reward_scale, identity
        count = getattr(env.action_space(params), "n", None)
        if count is None:
            raise DomainError(f"{name} has actions {env.action_space(params)}, which are not discrete")
        self.num_actions = int(count)
        self.action_names = tuple(str(action) for action in range(self.num_actions))
        self._kinds: Any = None
        first = jax.eval_shape(self.init, jax.random.key(0))
        moved = jax.eval_shape(self.step, jax.random.key(0), first, jnp.zeros((), jnp.int32)).state
        # A number may begin as a Python one, and be an array of another type after a step.
        self._kinds = jax.tree.map(
            lambda a, b: jnp.promote_types(a.dtype, b.dtype),
            first.inner,
            moved.inner,
        )
        self._timeless = hasattr(first.inner, _TIME) and not self._uses_time()
        if identity is None:
            self._refuse_fractions(first.inner)

    def init(self, key: Array) -> GymnaxState:
        """Draw the first state."""
        _, inner = self._env.reset_env(key, self._params)
        return GymnaxState(self._settled(inner), jnp.asarray(False))

    def step(self, key: Array, state: GymnaxState, action: Array) -> Transition:
        """Draw what `action` leads to; the environment's own limit of time ends nothing."""
        _, inner, reward, over, *_ = self._env.step_env(key, state.inner, action, self._params)
        if getattr(self, "_timeless", False):
            inner = inner.replace(**{_TIME: state.inner.time})
        moved = GymnaxState(self._settled(inner), jnp.asarray(over, jnp.bool_))
        kept = jax.tree.map(lambda old, new: jnp.where(state.over, old, new), state, moved)
        paid = jnp.reshape(jnp.asarray(reward, jnp.float32), ()) * self._scale
        return Transition(kept, jnp.where(state.over, 0.0, paid), kept.over)

    def identity(self, state: GymnaxState) -> Array:
        """Return the numbers of the environment's state, and whether the episode is over."""
        if self._identity is not None:
            seen = jax.tree.leaves(self._identity(state.inner))
        else:
            seen = [leaf for _, leaf in self._parts(state.inner)]
        return jnp.concatenate([jnp.ravel(jnp.asarray(x)).astype(jnp.int32) for x in (*seen, state.over)])

    def encode(self, state: GymnaxState) -> Array:
        """Return what tells states apart, as numbers."""
        return self.identity(state).astype(jnp.float32)

    def legal(self, state: GymnaxState) -> Array:
        """Return that all actions may be taken."""
        del state
        return jnp.ones(self.num_actions, jnp.bool_)

    def state_name(self, state: GymnaxState) -> str:
        """Name a concrete state by the fields of the environment's own."""
        named = [
            f"{name} {' '.join(str(int(x)) for x in np.ravel(leaf))}"
            for name, leaf in self._parts(state.inner)
        ]
        return ", ".join(named) + (" (end)" if bool(state.over) else "")

    def _parts(self, inner: Any) -> list[tuple[str, Any]]:
        """Return the arrays of a state with their names, without the time where that tells nothing."""
        paths = jax.tree_util.tree_flatten_with_path(inner)[0]
        named = [(jax.tree_util.keystr(path, simple=True, separator=" "), leaf) for path, leaf in paths]
        return [(name, leaf) for name, leaf in named if not (self._timeless and name == _TIME)]

    def _settled(self, inner: Any) -> Any:
        arrays = jax.tree.map(jnp.asarray, inner)
        if self._kinds is None:
            return arrays
        return jax.tree.map(lambda leaf, kind: leaf.astype(kind), arrays, self._kinds)

    def _uses_time(self) -> bool:
        """Return whether anything but the next time depends on the time."""
        state = jax.eval_shape(self.init, jax.random.key(0)).inner

        def step(state: Any, key: Array, action: Array) -> Any:
            _, moved, reward, over, *_ = self._env.step_env(key, state, action, self._params)
            return moved.replace(**{_TIME: 0}), reward, over

        traced = jax.make_jaxpr(step)(state, jax.random.key(0), jnp.zeros((), jnp.int32)).jaxpr
        needed = {id(var) for var in traced.outvars}
        for equation in reversed(traced.eqns):
            if any(id(var) in needed for var in equation.outvars):
                needed |= {id(var) for var in equation.invars}
        names = [
            jax.tree_util.keystr(path, simple=True)
            for path, _ in jax.tree_util.tree_flatten_with_path(state)[0]
        ]
        return id(traced.invars[names.index(_TIME)]) in needed

    def _refuse_fractions(self, inner: Any) -> None:
        for name, leaf in self._parts(inner):
            if not (jnp.issubdtype(leaf.dtype, jnp.integer) or leaf.dtype == jnp.bool_):
                raise DomainError(
                    f"the state of {self.name} has {name!r}, which is no whole number; pass identity=, a "
                    "traceable function from the environment's state to whole numbers"
                )


def make_gymnax(
    address: str,
    *,
    horizon: int | None = None,
    reward_scale: float = 1.0,
    identity: Callable[[Any], Any] | str | None = None,
    **options: Any,
) -> GymnaxMDP:
    """Make an environment of gymnax; options are fields of its parameters, or of its constructor."""
    if not address:
        raise DomainError("gymnax: needs the id of an environment behind it: gymnax:FourRooms-misc")
    gymnax = _import_gymnax(address)
    known = list(getattr(gymnax, "registered_envs", ()))
    if known and address not in known:
        raise DomainError(f"unknown gymnax environment {address!r}{suggest(address, known)}")
    try:
        plain = gymnax.make(address)[1]
        fields = {name: value for name, value in options.items() if hasattr(plain, name)}
        others = {name: value for name, value in options.items() if name not in fields}
        env, params = gymnax.make(address, **others)
    except TypeError as error:
        fit = ", ".join(["horizon", "reward_scale", "identity", *vars(plain)])
        raise DomainError(f"gymnax:{address} does not take these options ({error}); it has {fit}") from error
    params = params.replace(**fields)
    limit = getattr(params, "max_steps_in_episode", None) if horizon is None else horizon
    if limit is None:
        raise DomainError(f"{address} has no limit on the steps of an episode; pass horizon= (--horizon)")
    return GymnaxMDP(
        address,
        env,
        params,
        horizon=check_at_least("horizon", int(limit), 1),
        reward_scale=check_finite("reward_scale", reward_scale),
        identity=read_function("identity", identity),
    )


def _import_gymnax(address: str) -> Any:
    try:
        return importlib.import_module("gymnax")
    except ImportError as error:
        missing = error.name or "gymnax"
        needs = "gymnax" if missing == "gymnax" else f"gymnax, and that needs {missing}"
        raise DomainError(
            f"gymnax:{address} needs {needs}, which is not installed; run pip install {missing}"
        ) from None
