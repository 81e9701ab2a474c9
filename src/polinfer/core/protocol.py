"""The MDP protocol: a pure simulator of discrete episodes.

Everything in this module is unbatched and traceable by JAX.  Engines add batch axes with `vmap`, the horizon
with `scan`, and shared noise with keys; an MDP depends on none of these.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

_UNROLLED = 16  # outcomes up to which a cumulative sum is written out

State = Any
"""A pytree of arrays of fixed shape."""


class Transition(NamedTuple):
    """The result of one action."""

    state: State
    reward: Array  # [] float
    terminated: Array  # [] bool; the state is absorbing and all later rewards are zero


class Outcomes(NamedTuple):
    """All possible results of one action, with probabilities."""

    probability: Array  # [B] float, sums to one; zero marks an unused slot
    transition: Transition  # every field with a leading axis [B]


class Starts(NamedTuple):
    """The distribution of the first state."""

    probability: Array  # [B] float, sums to one
    state: State  # every leaf with a leading axis [B]


class Ending(NamedTuple):
    """One way in which an episode can end, for reports: *goal*, *swamp*, *win*, *draw*."""

    name: str
    success: bool


@runtime_checkable
class MDP(Protocol):
    """A discrete episodic Markov decision process.

    The methods are pure: the same key and state give the same result.  Terminal states are absorbing: from
    one, every action leads back to it with reward zero and ``terminated`` true.  The horizon is part of the
    problem, but engines count the steps, not the MDP.  An MDP is hashable, as plain classes and frozen
    dataclasses are; equal problems share compiled programs.

    `polinfer.testing.check_mdp` checks an implementation.
    """

    def __hash__(self) -> int: ...

    @property
    def num_actions(self) -> int:
        """The number of actions `A`, the same in all states."""
        ...

    @property
    def horizon(self) -> int:
        """The largest number of steps in an episode."""
        ...

    def init(self, key: Array) -> State:
        """Draw the first state."""
        ...

    def step(self, key: Array, state: State, action: Array) -> Transition:
        """Draw what `action` leads to."""
        ...

    def encode(self, state: State) -> Array:
        """Return the features ``[F] float32`` that a proposal network sees."""
        ...

    def identity(self, state: State) -> Array:
        """Return integers ``[K] int32`` that are equal iff the states are equal."""
        ...

    def legal(self, state: State) -> Array:
        """Return the actions that may be taken, ``[A] bool``, at least one of them true."""
        ...


@runtime_checkable
class EnumerableMDP(MDP, Protocol):
    """An MDP that lists its outcomes, so that `polinfer.tabulate` can make an exact table of it.

    Write probabilities as Python or NumPy numbers: they are then single precision in simulation and double
    precision in a table.
    """

    def starts(self) -> Starts:
        """List the first states."""
        ...

    def outcomes(self, state: State, action: Array) -> Outcomes:
        """List what `action` can lead to."""
        ...


@runtime_checkable
class HasEndings(Protocol):
    """An MDP that distinguishes its endings.  Without this, reports have no success probability."""

    @property
    def endings(self) -> tuple[Ending, ...]:
        """The ways in which an episode can end."""
        ...

    def ending(self, state: State) -> Array:
        """Return the index of the ending that `state` is, ``[] int32``; -1 if it is not terminal."""
        ...


@runtime_checkable
class HasNames(Protocol):
    """An MDP whose states and actions have names."""

    @property
    def action_names(self) -> tuple[str, ...]:
        """One name per action."""
        ...

    def state_name(self, state: State) -> str:
        """Name a concrete (not traced) state."""
        ...


@runtime_checkable
class HasPrior(Protocol):
    """An MDP with a reference measure of its own.  Without this, it is uniform over the legal actions."""

    def log_prior(self, state: State) -> Array:
        """Return the log probabilities ``[A] float`` of the actions; -inf exactly where one is illegal."""
        ...


@runtime_checkable
class HasDiscount(Protocol):
    """A problem whose later rewards count less.  Without this, all of them count alike."""

    @property
    def discount(self) -> float:
        """The factor in ``(0, 1]`` on what comes one step later."""
        ...


def has_prior(problem: object) -> bool:
    """Return whether an MDP or a simulator has a reference measure other than the uniform one."""
    return bool(getattr(problem, "has_prior", hasattr(problem, "log_prior")))


def log_prior_of(mdp: MDP, state: State) -> Array:
    """Return the log of the reference measure ``[A]``: uniform over the legal actions unless `mdp` has one.

    Examples
    --------
    >>> import polinfer
    >>> mdp = polinfer.make("gridworld/ablation")
    >>> jnp.exp(log_prior_of(mdp, mdp.init(jax.random.key(0)))).tolist()
    [0.25, 0.25, 0.25, 0.25]
    """
    if isinstance(mdp, HasPrior) and has_prior(mdp):
        return mdp.log_prior(state)
    legal = mdp.legal(state)
    return jnp.where(legal, -jnp.log(legal.sum().astype(jax.dtypes.canonicalize_dtype(float))), -jnp.inf)


def discount_of(problem: object) -> float:
    """Return the discount of an MDP or a simulator, 1 unless it has one."""
    return float(getattr(problem, "discount", 1.0))


def discounted(mdp: MDP, reward: Array, step: Array) -> Array:
    """Return what a reward at a step of the episode counts for; itself without a discount."""
    discount = discount_of(mdp)
    if discount == 1:
        return reward
    return reward * constant(discount ** np.arange(mdp.horizon))[step].astype(reward.dtype)


def constant(values: Any) -> Array:
    """Return NumPy floats as a JAX array in the precision in force: single, or double under `enable_x64`.

    The dtype is given explicitly: on jax 0.10.2 ``jnp.asarray`` caches the precision with which an array
    object was first traced, and can return single precision in double mode.
    """
    return jnp.asarray(values, jax.dtypes.canonicalize_dtype(float))


def sample_outcome(key: Array, outcomes: Outcomes) -> Transition:
    """Draw one of `outcomes` by inverting its cumulative distribution at one uniform number.

    Comparison and sum instead of a binary search: XLA on CPU turns the latter into a loop.
    """
    index = sample_index(key, outcomes.probability)
    chosen: Transition = jax.tree.map(lambda leaf: leaf[index], outcomes.transition)
    return chosen


def sample_start(key: Array, starts: Starts) -> State:
    """Draw one of `starts`."""
    index = sample_index(key, starts.probability)
    return jax.tree.map(lambda leaf: leaf[index], starts.state)


def sample_index(key: Array, probability: Array) -> Array:
    """Draw an index of `probability` ``[B]``; a slot of probability zero is never drawn.

    Examples
    --------
    >>> import jax
    >>> int(sample_index(jax.random.key(0), jnp.array([0.0, 1.0, 0.0])))
    1
    """
    return invert_cumulative(jax.random.uniform(key, dtype=probability.dtype), probability)


def invert_cumulative(uniform: Array, probability: Array) -> Array:
    """Return the index of `probability` ``[B]`` that `uniform` in ``[0, 1)`` falls on, ``[] int32``."""
    # Rounding may leave the last sum below one; scaling the draw by it keeps the index in range.
    if probability.shape[0] <= _UNROLLED:
        # The same sums in the same order; XLA on CPU makes a slow loop of a cumulative sum.
        sums = list(accumulate(probability[i] for i in range(probability.shape[0])))
        passed = [(uniform * sums[-1] >= one).astype(jnp.int32) for one in sums[:-1]]
        return sum(passed, start=jnp.zeros((), jnp.int32))
    cumulative = jnp.cumsum(probability)
    return jnp.sum(uniform * cumulative[-1] >= cumulative[:-1]).astype(jnp.int32)
