"""What a number estimates: the three targets of a posterior seen through noisy rollouts.

For noise ``w`` and return ``R``: ``exp(E_w R)`` is the paper's definition; averaged SMC output with one world
tends to ``E_w[softmax R]``; optimality-variable control as inference has ``E_w exp(R)``, which seeks risk.
"""

from __future__ import annotations

import enum
from typing import NamedTuple


class Target(enum.Enum):
    """What an answer is an estimate of."""

    EXP_EXPECTED_RETURN = "1: exp(E[R])"
    EXPECTED_SOFTMAX = "2: E[softmax R]"
    EXPECTED_EXP = "3: E[exp R]"
    MIXED = "none of the three"
    RETURN_PLUS_ENTROPY = "none: return plus entropy, a baseline"

    def __str__(self) -> str:
        return self.value


class Estimand(NamedTuple):
    """A target, and what keeps a finite run from it."""

    target: Target
    detail: str  # for people
    in_the_limit: bool = False  # the target is met only as the number named in `detail` grows

    def __str__(self) -> str:
        return f"{self.target}, {self.detail}" if self.detail else str(self.target)


PAPER = Estimand(Target.EXP_EXPECTED_RETURN, "the paper's definition")
