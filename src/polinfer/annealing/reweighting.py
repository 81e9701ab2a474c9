"""From one reward scale to the next: how far a step may go, and what it does to each island's weights."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polinfer.exact.solution import Floats


class Reweighted(NamedTuple):
    """What a step leaves behind."""

    log_mean: Floats  # [islands] logarithm of each island's mean weight
    picked: NDArray[np.int64]  # [P] the policies that go on, islands one after the other


def longest_step(returns: Floats, longest: float, ess: float) -> float:
    """Return the largest step that leaves the islands, on average, this share of their policies.

    The weights are ``exp(step * returns)``, with returns ``[islands, policies]``; negated, they lead down.
    """

    def enough(step: float) -> bool:
        weight = np.exp(step * (returns - returns.max(axis=1, keepdims=True)))
        left = weight.sum(axis=1) ** 2 / (weight**2).sum(axis=1)
        return bool(left.mean() >= ess * returns.shape[1])

    if enough(longest):
        return longest
    low, high = 0.0, longest
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if enough(middle) else (low, middle)
    return max(low, 1e-12 * longest)


def reweight(log_weight: Floats, random: np.random.Generator) -> Reweighted:
    """Weigh the policies of each island ``[islands, policies]``, and resample them systematically."""
    islands, count = log_weight.shape
    top = log_weight.max(axis=1, keepdims=True)
    weight = np.exp(log_weight - top)
    place = (np.arange(count) + random.random((islands, 1))) / count
    cumulative = np.cumsum(weight, axis=1)
    picked = [
        np.minimum(np.searchsorted(row / row[-1], at, side="right"), count - 1) + i * count
        for i, (row, at) in enumerate(zip(cumulative, place, strict=True))
    ]
    return Reweighted(np.log(weight.mean(axis=1)) + top[:, 0], np.concatenate(picked))
