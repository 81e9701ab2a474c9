"""The exact answer that a method's own answer tends to, where that is not the posterior."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from polinfer.exact.solution import Floats, Solution


class Oracle(NamedTuple):
    """An exact answer, and how far from it each seed ended."""

    name: str
    settings: Mapping[str, float]  # that define it
    solution: Solution
    expected_return: float  # of the exact policy, over the horizon
    distances: Floats | None  # [seeds], mean total variation over states; None where it does not exist
