"""Proposals ``q(a|s)``: a network over the factored state, or a plain table of logits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from polinfer.core.protocol import MDP
from polinfer.problems.tabular.table import TabularMDP

_STATES_AT_ONCE = 4096

ProposalKind = Literal["network", "table"]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Layer:
    """An affine map."""

    weight: Array  # [out, in]
    bias: Array  # [out]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class NetworkProposal:
    """A perceptron with rectified units on ``encode(state)``; two hidden layers of 64 as in the paper."""

    layers: tuple[Layer, ...]

    @classmethod
    def initial(
        cls,
        seed: int | tuple[int, ...],
        features: int,
        actions: int,
        width: int = 64,
        depth: int = 2,
        zero_last: bool = True,
    ) -> NetworkProposal:
        """Return a network with random hidden layers.

        Weights are uniform within ``1/sqrt(inputs)``.  With `zero_last` the last layer is zero, so that
        training starts from the uniform policy.  They are drawn by NumPy, which needs no compilation.
        """
        random = np.random.default_rng(seed)
        sizes = [features, *[width] * depth, actions]
        layers = []
        for inputs, outputs in pairwise(sizes):
            bound = 1 / np.sqrt(inputs)
            weight, bias = (random.uniform(-bound, bound, shape) for shape in ((outputs, inputs), outputs))
            layers.append((weight, bias))
        if zero_last:
            layers[-1] = (np.zeros_like(layers[-1][0]), np.zeros_like(layers[-1][1]))
        return cls(tuple(Layer(jnp.asarray(w, jnp.float32), jnp.asarray(b, jnp.float32)) for w, b in layers))

    def logits(self, features: Array) -> Array:
        """Return one logit per action, legal or not."""
        *hidden, last = self.layers
        for layer in hidden:
            features = jax.nn.relu(features @ layer.weight.T + layer.bias)
        return features @ last.weight.T + last.bias


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class TableProposal:
    """One row of logits per state; its features are the state's number."""

    rows: Array  # [S, A]

    @classmethod
    def uniform(cls, states: int, actions: int) -> TableProposal:
        """Return the table that training starts from."""
        return cls(jnp.zeros((states, actions), jnp.float32))

    def logits(self, features: Array) -> Array:
        """Return the row of the state."""
        return self.rows[features]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class ShiftedProposal:
    """A network whose logits are added to those of a given policy of a table, which is held fixed."""

    network: NetworkProposal
    shift: Array  # [S, A] log probabilities that training starts from


Proposal = Any
"""A `NetworkProposal`, a `ShiftedProposal` or a `TableProposal`."""


def log_policy(logits: Array, legal: Array) -> Array:
    """Return ``log q`` ``[..., A]``: -inf where illegal, normalised over the legal actions."""
    return jax.nn.log_softmax(jnp.where(legal, logits, -jnp.inf), axis=-1)


def log_proposal_of(mdp: MDP, proposal: Proposal, by_table: bool) -> Callable[[Any], Array]:
    """Return the function from a state to ``log q``.

    On a table the network is evaluated once for all states instead of at every step of every particle.
    """
    if by_table:
        assert isinstance(mdp, TabularMDP)
        rows = table_log_policy(mdp, proposal)
        return lambda state: rows[state]
    return lambda state: log_policy(_logits(mdp, proposal, state), mdp.legal(state))


def _logits(mdp: MDP, proposal: Proposal, state: Any) -> Array:
    if isinstance(proposal, TableProposal):
        return proposal.logits(state)
    if isinstance(proposal, ShiftedProposal):
        return proposal.network.logits(mdp.encode(state)) + jax.lax.stop_gradient(proposal.shift)[state]
    scores: Array = proposal.logits(mdp.encode(state))
    return scores


def table_log_policy(table: TabularMDP, proposal: Proposal) -> Array:
    """Return ``log q`` of all states of a table, ``[S, A]``."""
    states = jnp.arange(table.num_states)

    # A large table in parts: its one-hot features are a matrix ``[S, S]``.
    large = table.num_states > _STATES_AT_ONCE
    rows = (
        jax.lax.map(partial(_logits, table, proposal), states, batch_size=_STATES_AT_ONCE)
        if large
        else jax.vmap(partial(_logits, table, proposal))(states)
    )
    return log_policy(rows, jnp.asarray(table.legal_actions))
