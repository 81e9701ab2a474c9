"""Problems and plain NumPy for the tests of soft actor-critic; nothing is taken from the code under test."""

from __future__ import annotations

from typing import Any

import numpy as np

from polinfer.problems.tabular import OutcomeRows, TabularMDP

# state, action, probability, successor, reward.  State 3 is the end; state 2 never leads there.
ROWS = [
    (0, 0, 0.7, 1, 0.6),
    (0, 0, 0.3, 0, -0.5),
    (0, 1, 1.0, 3, 0.4),
    (0, 2, 0.6, 3, 1.3),
    (0, 2, 0.4, 1, -0.8),
    (1, 0, 0.8, 0, 0.2),
    (1, 0, 0.2, 3, -1.1),
    (1, 2, 1.0, 3, 0.9),
    (2, 1, 1.0, 2, 0.7),
    (2, 2, 1.0, 2, -0.3),
]
LEGAL = np.array([[1, 1, 1], [1, 0, 1], [0, 1, 1], [1, 1, 1]], bool)
FEATURES = np.array([[1.0, -0.5, 0.2], [0.3, 0.9, -1.0], [-0.7, 0.4, 1.1], [0.6, -1.2, -0.4]], np.float32)


def slippery(*, horizon: int = 3, features: np.ndarray | None = None) -> TabularMDP:
    """Slippery, masked, and with a state from which only the horizon ends an episode."""
    state, action, probability, successor, reward = (np.array(column) for column in zip(*ROWS, strict=True))
    return TabularMDP.from_outcomes(
        OutcomeRows(state, action, successor, probability, reward),
        4,
        3,
        np.array([0.5, 0.2, 0.3, 0.0]),
        np.array([False, False, False, True]),
        horizon,
        legal=LEGAL,
        features=features,
    )


def soft_values(alpha: float, gamma: float, sweeps: int = 2_000) -> tuple[np.ndarray, np.ndarray]:
    """Soft value iteration on `ROWS`: ``Q*`` and ``pi*``, both ``[3, 3]``, of the states that act."""
    value = np.zeros(4)
    for _ in range(sweeps):
        q = np.zeros((3, 3))
        for s, a, p, t, r in ROWS:
            q[s, a] += p * (r + gamma * (0.0 if t == 3 else value[t]))
        weight = np.where(LEGAL[:3], np.exp(q / alpha), 0.0)
        value[:3] = alpha * np.log(weight.sum(axis=1))
    return q, weight / weight.sum(axis=1, keepdims=True)


Weights = list[np.ndarray]  # weight, bias, weight, bias, ...


def weights_of(network: Any, *index: int) -> Weights:
    """The arrays of a network in double precision; `index` picks a seed and a critic."""
    return [
        np.asarray(array, np.float64)[index]
        for layer in network.layers
        for array in (layer.weight, layer.bias)
    ]


def outputs(weights: Weights, features: np.ndarray) -> np.ndarray:
    """What a perceptron with rectified units says, ``[B, A]``."""
    signal = np.asarray(features, np.float64)
    for i in range(0, len(weights), 2):
        signal = signal @ weights[i].T + weights[i + 1]
        if i + 2 < len(weights):
            signal = np.where(signal > 0, signal, 0.0)
    return signal


def masked_softmax(logits: np.ndarray, legal: np.ndarray) -> np.ndarray:
    """Probabilities ``[B, A]``, zero where illegal."""
    weight = np.where(legal, np.exp(logits - logits.max(axis=-1, keepdims=True)), 0.0)
    return weight / weight.sum(axis=-1, keepdims=True)
