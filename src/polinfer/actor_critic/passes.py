"""Passes through a perceptron, forward and backward, in parts.

Automatic differentiation would evaluate a network anew wherever it is used.  Here the activations of a
forward pass are values: one pass serves acting, targets and losses, and is good until the weights change.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
from jax import Array

from polinfer.smc.proposal import Layer, NetworkProposal


class Pass(NamedTuple):
    """What the hidden layers of a network gave for some rows of features, and what came out."""

    hidden: tuple[Array, ...]  # of each hidden layer, [R, width]
    outputs: Array  # [R, A]


def forward(network: NetworkProposal, features: Array) -> Pass:
    """Evaluate `network` in rows of features ``[R, F]``."""
    *hidden, last = network.layers
    entered, given = features, []
    for layer in hidden:
        entered = jax.nn.relu(entered @ layer.weight.T + layer.bias)
        given.append(entered)
    return Pass(tuple(given), entered @ last.weight.T + last.bias)


def backward(network: NetworkProposal, features: Array, passed: Pass, slope: Array) -> NetworkProposal:
    """Return the gradient in the weights, from the one in the outputs ``[R, A]``."""
    inputs, layers = (features, *passed.hidden), []
    for number in reversed(range(len(network.layers))):
        layers.append(Layer(slope.T @ inputs[number], slope.sum(axis=0)))
        if number:
            # What came in was rectified by the layer before: zero there has no slope.
            slope = (slope @ network.layers[number].weight) * (inputs[number] > 0)
    return NetworkProposal(tuple(reversed(layers)))
