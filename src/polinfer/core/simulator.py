"""The protocol of simulators in plain Python, for the reference engine."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Protocol

import jax
import numpy as np
from numpy.typing import NDArray

from polinfer.core.protocol import MDP, discount_of, log_prior_of


class Simulator(Protocol):
    """An MDP in plain Python: an integer seed takes the place of the key, and states are hashable.

    The methods are pure, as those of `polinfer.MDP`; none is called after ``terminated``.  A state may hold
    more than equality compares, such as a snapshot with a hashable abstraction.  Memos and shared noise then
    depend on the abstraction, and every particle moves from its own snapshot.
    """

    def __hash__(self) -> int: ...

    @property
    def num_actions(self) -> int:
        """The number of actions, the same in all states."""

    @property
    def horizon(self) -> int:
        """The largest number of steps in an episode."""

    def init(self, seed: int) -> Hashable:
        """Draw the first state."""

    def step(self, seed: int, state: Any, action: int) -> tuple[Any, Any, Any]:
        """Draw the result of `action`: state, reward, terminated, as a tuple or a `polinfer.Transition`."""

    def legal(self, state: Any) -> Sequence[bool]:
        """Return for each action whether it is legal."""

    def encode(self, state: Any) -> Sequence[float] | NDArray[np.float32]:
        """Return the features that a network sees; sweeps do not use them."""


def prior_of(simulator: Simulator, state: Any) -> NDArray[np.float64]:
    """Return the reference measure ``[A]`` in `state`: uniform over legal actions unless there is another.

    A simulator has another if it has a method ``log_prior(state)`` that returns log probabilities.
    """
    legal = np.asarray(simulator.legal(state), np.bool_)
    log_prior = getattr(simulator, "log_prior", None)
    if log_prior is None:
        return np.asarray(legal / legal.sum())
    return np.asarray(np.where(legal, np.exp(np.asarray(log_prior(state), np.float64)), 0.0))


class IdentifiedState(tuple[int, ...]):
    """A JAX state, hashed and compared by its identity, with its legal actions and features."""

    state: Any
    legal: list[bool]
    features: NDArray[np.float32]
    log_prior: NDArray[np.float32]


def as_simulator(mdp: MDP) -> Simulator:
    """Return a JAX MDP as a simulator; states are `IdentifiedState`, a seed is the 64 bits of a key.

    Examples
    --------
    >>> import polinfer
    >>> fork = as_simulator(polinfer.make("probe/fork"))
    >>> gate = fork.init(seed=0)
    >>> room, reward, terminated = fork.step(0, gate, 0)
    >>> gate, room, reward, terminated, fork.legal(room)
    ((0,), (1,), 0.0, False, [True, True])
    """
    return _JaxSimulator(mdp)


class _JaxSimulator:
    def __init__(self, mdp: MDP) -> None:
        self.num_actions, self.horizon = mdp.num_actions, mdp.horizon
        self.discount = discount_of(mdp)

        @jax.jit
        def init(words: jax.Array) -> Any:
            return mdp.init(jax.random.wrap_key_data(words, impl="threefry2x32"))

        @jax.jit
        def step(words: jax.Array, state: Any, action: jax.Array) -> Any:
            return mdp.step(jax.random.wrap_key_data(words, impl="threefry2x32"), state, action)

        self._init, self._step = init, step
        self._describe = jax.jit(
            lambda state: (
                mdp.identity(state),
                mdp.legal(state),
                mdp.encode(state),
                log_prior_of(mdp, state),
            )
        )

    def init(self, seed: int) -> IdentifiedState:
        return self._identify(self._init(_words(seed)))

    def step(self, seed: int, state: IdentifiedState, action: int) -> tuple[IdentifiedState, float, bool]:
        moved = self._step(_words(seed), state.state, np.int32(action))
        return self._identify(moved.state), float(moved.reward), bool(moved.terminated)

    def legal(self, state: IdentifiedState) -> list[bool]:
        return state.legal

    def encode(self, state: IdentifiedState) -> NDArray[np.float32]:
        return state.features

    def log_prior(self, state: IdentifiedState) -> NDArray[np.float32]:
        return state.log_prior

    def _identify(self, state: Any) -> IdentifiedState:
        identity, legal, features, log_prior = map(np.asarray, self._describe(state))
        identified = IdentifiedState(identity.tolist())
        identified.state, identified.legal, identified.features = state, legal.tolist(), features
        identified.log_prior = log_prior
        return identified


def _words(seed: int) -> NDArray[np.uint32]:
    return np.array([seed >> 32 & 0xFFFFFFFF, seed & 0xFFFFFFFF], np.uint32)
