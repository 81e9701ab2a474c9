"""States of plain-Python simulators as arrays, for networks and compiled code."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from polinfer.core.errors import PolinferError
from polinfer.core.protocol import Transition
from polinfer.core.simulator import Simulator


class EncodedState(NamedTuple):
    """The features and legal actions of a simulator's state."""

    features: Any  # [F] float32
    legal: Any  # [A] bool
    identity: Any  # [2] int32, a hash of the two


@dataclass(frozen=True)
class EncodedView:
    """A simulator as an MDP without transitions: only features, identities and legal actions."""

    simulator: Simulator

    @property
    def num_actions(self) -> int:
        """The number of actions."""
        return self.simulator.num_actions

    @property
    def horizon(self) -> int:
        """The largest number of steps in an episode."""
        return self.simulator.horizon

    @cached_property
    def num_features(self) -> int:
        """The length of an encoding."""
        return len(self.simulator.encode(self.simulator.init(0)))

    def of(self, state: Any) -> EncodedState:
        """Encode a state of the simulator and check the result.

        States with equal features and legal actions have one identity, so one action of a sampled policy.
        """
        as_state: Any = getattr(self.simulator, "as_state", None)
        if as_state is not None:  # an environment's own observation will do
            state = as_state(state)
        features = np.asarray(self.simulator.encode(state), np.float32)
        if features.shape != (self.num_features,) or not np.isfinite(features).all():
            raise PolinferError(
                f"encode must give {self.num_features} finite numbers in every state, as in the first one; "
                f"in state {state!r} it gives {features!r}"
            )
        legal = np.asarray(self.simulator.legal(state), np.bool_)
        if legal.shape != (self.num_actions,):
            raise PolinferError(
                f"legal must give {self.num_actions} flags, one per action, got {legal!r} in state {state!r}"
            )
        digest = hashlib.blake2b(features.tobytes() + legal.tobytes(), digest_size=8).digest()
        return EncodedState(features, legal, np.frombuffer(digest, np.int32))

    def nothing(self) -> EncodedState:
        """Return a placeholder state: zero features, all actions legal."""
        return EncodedState(
            np.zeros(self.num_features, np.float32),
            np.ones(self.num_actions, np.bool_),
            np.zeros(2, np.int32),
        )

    def init(self, key: Array) -> EncodedState:
        """Return an empty state, for its shapes."""
        del key
        return EncodedState(*map(jnp.asarray, self.nothing()))

    def step(self, key: Array, state: EncodedState, action: Array) -> Transition:
        """Refuse: only the simulator moves."""
        raise TypeError("an encoded state does not move; step the simulator")

    def encode(self, state: EncodedState) -> Array:
        """Return the features."""
        return jnp.asarray(state.features)

    def identity(self, state: EncodedState) -> Array:
        """Return the hash of the state."""
        return jnp.asarray(state.identity)

    def legal(self, state: EncodedState) -> Array:
        """Return the legal actions."""
        return jnp.asarray(state.legal)
