"""Policies that depend on the step: the problem whose states are pairs of step and state.

No state comes twice, so every posterior pass is one over layers, the finite-horizon optimum is among the
policies, and the bounds on the evidence are the tight ones.  Only pairs that can be reached are made.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from polinfer.core.errors import TooLargeError
from polinfer.core.protocol import (
    MDP,
    Ending,
    EnumerableMDP,
    HasEndings,
    HasNames,
    HasPrior,
    Outcomes,
    Starts,
    State,
    Transition,
    discount_of,
)
from polinfer.problems.tabular.rows import OutcomeRows
from polinfer.problems.tabular.table import TabularMDP
from polinfer.problems.tabular.tabulate import DEFAULT_LIMIT, tabulate


def with_steps(problem: Any) -> Any:
    """Return the problem whose states are ``(step, state)``; one that has them is returned as it is."""
    if isinstance(problem, TimedMDP | TimedSimulator):
        return problem
    if not isinstance(problem, MDP):
        timed: Any = TimedSimulator(problem)
        if hasattr(problem, "log_prior"):
            timed.log_prior = lambda state: problem.log_prior(state[1])
        return timed
    parts = (
        (EnumerableMDP, _TimedOutcomes),
        (HasEndings, _TimedEndings),
        (HasNames, _TimedNames),
        (HasPrior, _TimedPrior),
    )
    return _class_of(tuple(mixin for protocol, mixin in parts if isinstance(problem, protocol)))(problem)


def is_timed(problem: object) -> bool:
    """Return whether policies of `problem` depend on the step."""
    return isinstance(problem, TimedMDP | TimedSimulator)


@lru_cache(maxsize=32)
def _class_of(mixins: tuple[type, ...]) -> type:
    return type("TimedMDP", (*mixins, TimedMDP), {"__module__": __name__})


class TimedMDP:
    """A JAX MDP with the step in its state."""

    def __init__(self, base: MDP) -> None:
        self.base: Any = base

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TimedMDP) and bool(self.base == other.base)

    def __hash__(self) -> int:
        return hash((TimedMDP, self.base))

    def __reduce__(self) -> Any:
        return with_steps, (self.base,)

    @property
    def num_actions(self) -> int:
        """The number of actions."""
        return int(self.base.num_actions)

    @property
    def horizon(self) -> int:
        """The largest number of steps in an episode."""
        return int(self.base.horizon)

    @property
    def discount(self) -> float:
        """The discount of the problem inside."""
        return discount_of(self.base)

    def init(self, key: Array) -> State:
        """Draw the first state."""
        return jnp.zeros((), jnp.int32), self.base.init(key)

    def step(self, key: Array, state: State, action: Array) -> Transition:
        """Draw what `action` leads to, one step later."""
        return self._later(state[0], self.base.step(key, state[1], action))

    def _later(self, step: Array, moved: Transition) -> Transition:
        after = jnp.minimum(jnp.asarray(step, jnp.int32) + 1, self.horizon)
        over = moved.terminated | (after >= self.horizon)
        return Transition((after, moved.state), moved.reward, over)

    def encode(self, state: State) -> Array:
        """Return the features, and the share of the horizon that is over."""
        share = jnp.asarray(state[0], jnp.float32)[None] / self.horizon
        return jnp.concatenate([self.base.encode(state[1]), share])

    def identity(self, state: State) -> Array:
        """Return the step and the identity of the state."""
        return jnp.concatenate([jnp.asarray(state[0], jnp.int32)[None], self.base.identity(state[1])])

    def legal(self, state: State) -> Array:
        """Return the actions that may be taken."""
        legal: Array = self.base.legal(state[1])
        return legal


class _TimedOutcomes(TimedMDP):
    def starts(self) -> Starts:
        """List the first states."""
        first = self.base.starts()
        return Starts(first.probability, (jnp.zeros(first.probability.shape[0], jnp.int32), first.state))

    def outcomes(self, state: State, action: Array) -> Outcomes:
        """List what `action` can lead to, one step later."""
        listed = self.base.outcomes(state[1], action)
        count = listed.probability.shape[0]
        later = self._later(jnp.broadcast_to(jnp.asarray(state[0], jnp.int32), (count,)), listed.transition)
        # What has ended stays where it is, the step included.
        return Outcomes(listed.probability, later)

    def tabulated(self, limit: int | None) -> TabularMDP:
        """Write the layers out from a table of the problem inside."""
        return layered_table(tabulate(self.base, limit), DEFAULT_LIMIT if limit is None else limit)


class _TimedEndings(TimedMDP):
    @property
    def endings(self) -> tuple[Ending, ...]:
        """The ways in which an episode can end."""
        found: tuple[Ending, ...] = self.base.endings
        return found

    def ending(self, state: State) -> Array:
        """Return the index of the ending that the state is, or -1."""
        found: Array = self.base.ending(state[1])
        return found


class _TimedNames(TimedMDP):
    @property
    def action_names(self) -> tuple[str, ...]:
        """One name per action."""
        found: tuple[str, ...] = self.base.action_names
        return found

    def state_name(self, state: State) -> str:
        """Name a state and its step."""
        return _name(self.base.state_name(state[1]), int(state[0]))


class _TimedPrior(TimedMDP):
    @property
    def has_prior(self) -> bool:
        """Whether the reference measure is another than the uniform one."""
        return bool(getattr(self.base, "has_prior", True))

    def log_prior(self, state: State) -> Array:
        """Return the log of the reference measure, the same at every step."""
        found: Array = self.base.log_prior(state[1])
        return found


class TimedSimulator:
    """A simulator in plain Python with the step in its state, ``(step, state)``."""

    def __init__(self, base: Any) -> None:
        self.base = base
        self.num_actions, self.horizon = base.num_actions, base.horizon
        self.discount = discount_of(base)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TimedSimulator) and bool(self.base == other.base)

    def __hash__(self) -> int:
        return hash((TimedSimulator, self.base))

    def __reduce__(self) -> Any:
        return with_steps, (self.base,)

    def init(self, seed: int) -> tuple[int, Any]:
        """Draw the first state."""
        return 0, self.base.init(seed)

    def step(self, seed: int, state: tuple[int, Any], action: int) -> tuple[tuple[int, Any], float, bool]:
        """Draw the result of `action`, one step later."""
        step, here = state
        after, reward, terminated = self.base.step(seed, here, action)
        return (step + 1, after), reward, terminated or step + 1 >= self.horizon

    def legal(self, state: tuple[int, Any]) -> Any:
        """Return for each action whether it is legal."""
        return self.base.legal(state[1])

    def encode(self, state: tuple[int, Any]) -> NDArray[np.float32]:
        """Return the features, and the share of the horizon that is over."""
        features = np.asarray(self.base.encode(state[1]), np.float32)
        return np.append(features, np.float32(state[0] / self.horizon))


class Layers(NamedTuple):
    """Which pair of step and state each row of a layered table is."""

    table: TabularMDP  # of the problem without steps
    step: NDArray[np.int64]  # [n]
    state: NDArray[np.int64]  # [n], row of that table

    def lift(self, policy: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return a stationary policy ``[S, A]``, or one by stages ``[H, S, A]``, for all pairs ``[n, A]``."""
        if policy.ndim == 2:
            return policy[self.state]
        return policy[np.minimum(self.step, len(policy) - 1), self.state]


def layers_of(table: TabularMDP) -> Layers | None:
    """Return the layers of a table that `layered_table` made, None for another."""
    found: Layers | None = table.__dict__.get("_layers")
    return found


def layered_table(table: TabularMDP, limit: int = DEFAULT_LIMIT) -> TabularMDP:
    """Return the table whose states are the pairs of step and state that can be reached, by step.

    Examples
    --------
    >>> import polinfer
    >>> table = polinfer.tabulate(polinfer.make("continuation", rho=0.5, horizon=3))
    >>> layered_table(table).num_states, layered_table(table).state_names[1]
    (7, 's1 @ 1')
    """
    horizon, states = table.horizon, table.num_states
    here: NDArray[np.int64] = np.flatnonzero(table.initial)
    number = np.full(states, -1)
    number[here] = np.arange(len(here))
    layers, parts, total = [here], [], 0
    for _ in range(horizon):
        acting = here[~table.absorbing[here]]
        used = (table.probability[acting] > 0) & table.legal_actions[acting][:, :, None]
        row, action, slot = np.nonzero(used)
        source = acting[row]
        target = table.successor[source, action, slot]
        after: NDArray[np.int64] = np.unique(target).astype(np.int64)
        ahead = np.full(states, -1)
        ahead[after] = total + len(here) + np.arange(len(after))
        parts.append(
            OutcomeRows(
                number[source],
                action,
                ahead[target],
                table.probability[source, action, slot],
                table.reward[source, action, slot],
            )
        )
        total += len(here)
        here, number = after, ahead
        if total + len(here) > limit:
            raise TooLargeError(
                f"more than {limit:,} pairs of step and state; raise the limit, shorten the horizon, or keep "
                "to stationary policies"
            )
        if not len(here):
            break
        layers.append(here)
    state = np.concatenate(layers)
    step = np.repeat(np.arange(len(layers)), [len(layer) for layer in layers])
    absorbing = table.absorbing[state] | (step == horizon)
    initial = np.zeros(len(state))
    initial[: len(layers[0])] = table.initial[layers[0]]
    share = (step / horizon).astype(np.float32)[:, None]
    features = (
        np.concatenate([np.eye(states, dtype=np.float32)[state], share], axis=1)
        if table.features is None
        else np.concatenate([table.features[state], share], axis=1)
    )
    whole = TabularMDP.from_outcomes(
        OutcomeRows(*(np.concatenate(column) for column in zip(*parts, strict=True))),
        len(state),
        table.num_actions,
        initial,
        absorbing,
        horizon,
        legal=table.legal_actions[state],
        prior=table.prior[state] if table.has_prior else None,
        discount=table.discount,
        state_names=[_name(table.state_names[s], int(t)) for s, t in zip(state, step, strict=True)],
        action_names=table.action_names,
        endings=table.endings,
        ending_of=np.where(table.absorbing[state], table.ending_of[state], -1).astype(np.int32),
        features=features,
        identities=np.concatenate([step[:, None], table.identities[state]], axis=1).astype(np.int32),
    )
    object.__setattr__(whole, "_layers", Layers(table, step, state))
    sources = table.states
    return whole.with_sources(
        [
            (np.int32(t), jax.tree.map(np.asarray, sources[s]))
            for s, t in zip(state.tolist(), step.tolist(), strict=True)
        ]
    )


def _name(name: str, step: int) -> str:
    return f"{name} @ {step}"
