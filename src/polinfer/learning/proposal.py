"""Proposals ``q(a|s)``: a network over the factored state, or a plain table of logits."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

ProposalKind = Literal["network", "table"]


class Layer(eqx.Module):
    """An affine map."""

    weight: Array  # [out, in]
    bias: Array  # [out]


class NetworkProposal(eqx.Module):
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
        training starts from the uniform policy.  NumPy draws them: nothing needs to be compiled for it.
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


class TableProposal(eqx.Module):
    """One row of logits per state; its features are the state's number."""

    rows: Array  # [S, A]

    @classmethod
    def uniform(cls, states: int, actions: int) -> TableProposal:
        """Return the table that training starts from."""
        return cls(jnp.zeros((states, actions), jnp.float32))

    def logits(self, features: Array) -> Array:
        """Return the row of the state."""
        return self.rows[features]


Proposal = Any
"""A `NetworkProposal` or a `TableProposal`."""


def log_policy(logits: Array, legal: Array) -> Array:
    """Return ``log q`` ``[..., A]``: -inf where illegal, normalised over the legal actions."""
    return jax.nn.log_softmax(jnp.where(legal, logits, -jnp.inf), axis=-1)
