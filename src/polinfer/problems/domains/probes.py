"""Probes: problems so small that every answer is known in closed form.

`known_answer` gives the marginal policy and the log evidence of each, to test estimators with.  Their numbers
are asymmetric on purpose.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import scipy.special

from polinfer.core.errors import DomainError
from polinfer.core.protocol import Ending
from polinfer.problems.domains.worked import table_from_rows
from polinfer.problems.tabular.table import TabularMDP


class KnownAnswer(NamedTuple):
    """The posterior of a probe."""

    policy: Mapping[str, Mapping[str, float]]  # p*(action | state), by name
    log_evidence: float  # log mean exp(J)


def three_targets(*, horizon: int = 1, reward_scale: float = 1.0) -> TabularMDP:
    """Two arms with equal means: A pays 0, B pays +4 with probability 1/4 and -4/3 with 3/4.

    ``P(B)`` is 0.500 for the paper's posterior ``exp(E[R])``, 0.402 for the average over worlds
    ``E[softmax R]``, and 0.933 for control as inference ``E[exp R]``.
    """
    rows = [
        ("choose", "A", "done", 1.0, 0.0),
        ("choose", "B", "done", 0.25, 4.0),
        ("choose", "B", "done", 0.75, -4 / 3),
    ]
    return table_from_rows(rows, start="choose", horizon=horizon, reward_scale=reward_scale)


def fork(*, horizon: int = 2, reward_scale: float = 1.0) -> TabularMDP:
    """A gate and a room that half of the policies never reach: `in` leads there, `out` pays 0.7.

    In the room `in` pays 2 and `out` pays -1.  Policies that go `out` at the gate have a uniform second
    choice, which counts in the marginal policy but not in the reach policy.
    """
    rows = [
        ("gate", "in", "room", 1.0, 0.0),
        ("gate", "out", "left outside", 1.0, 0.7),
        ("room", "in", "won", 1.0, 2.0),
        ("room", "out", "lost", 1.0, -1.0),
    ]
    return table_from_rows(
        rows,
        start="gate",
        horizon=horizon,
        reward_scale=reward_scale,
        endings=(Ending("won", True), Ending("lost", False), Ending("left outside", False)),
    )


def slippery_loop(*, horizon: int = 6, reward_scale: float = 1.0) -> TabularMDP:
    """Retry or rest: `push` ends with +2 with probability 0.3, else costs 0.4; `rest` costs 0.1 and stays.

    A deterministic policy that rests once rests until the horizon.
    """
    rows = [
        ("work", "push", "done", 0.3, 2.0),
        ("work", "push", "work", 0.7, -0.4),
        ("work", "rest", "work", 1.0, -0.1),
    ]
    return table_from_rows(
        rows, start="work", horizon=horizon, reward_scale=reward_scale, endings=(Ending("done", True),)
    )


def known_answer(name: str, *, reward_scale: float = 1.0) -> KnownAnswer:
    """Return the exact posterior of the probe called `name`, from its closed form at the default horizon.

    Examples
    --------
    >>> round(known_answer("fork").policy["room"]["in"], 4)
    0.7979
    """
    if name == "three-targets":
        return _one_state("choose", {"A": 0.0, "B": 0.0})
    if name == "slippery-loop":
        # Steps of pushing happen with probability 0.7^t; each earns 0.3 * 2 - 0.7 * 0.4 on average.
        push = (0.3 * 2.0 - 0.7 * 0.4) * (1 - 0.7**6) / 0.3
        return _one_state("work", {"push": push * reward_scale, "rest": -0.6 * reward_scale})
    if name == "fork":
        returns = reward_scale * np.array([2.0, -1.0, 0.7])
        win, lose, out = np.exp(returns - returns.max()).tolist()
        total = win + lose + 2 * out
        gate = {"in": (win + lose) / total, "out": 2 * out / total}
        room = {"in": (win + out) / total, "out": (lose + out) / total}
        return KnownAnswer({"gate": gate, "room": room}, math.log(total / 4) + float(returns.max()))
    raise DomainError(f"no probe is called {name!r}; there are fork, slippery-loop and three-targets")


def _one_state(state: str, returns: Mapping[str, float]) -> KnownAnswer:
    values = np.array(list(returns.values()))
    probs = dict(zip(returns, scipy.special.softmax(values).tolist(), strict=True))
    return KnownAnswer({state: probs}, float(scipy.special.logsumexp(values) - np.log(len(values))))
