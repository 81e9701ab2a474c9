"""How long units will take: to begin with the longest, and to say how much time is left."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from statistics import median

from polinfer.reproduce.unit import Unit

_AMOUNTS = ("sweeps", "steps")
# Processor microseconds per seed and sweep, or step of SAC: one core, 25 seeds, the paper's settings;
# good enough for an order.  What was measured in the same folder takes their place.
_SWEEP = {"gridworld": 35.0, "blackjack": 37.0, "tireworld": 60.0, "advising": 220.0}
_STEP = {"gridworld": 9.4, "blackjack": 19.0, "tireworld": 20.0, "advising": 40.0}  # the last is a guess
_UNKNOWN = 40.0
_OTHERWISE = 20.0  # seconds of a unit that is not trained

Known = Sequence[tuple[Unit, float]]
"""Finished units, and the seconds that they took."""


class Expectation:
    """What a unit will take, judged by finished ones that are alike.

    The nearest that there are decide: the same method on the same domain, the same method, any.  Trained
    units are compared by their seconds per seed and sweep or step, so that other budgets help, too.
    """

    def __init__(self, known: Known) -> None:
        self._ratios: dict[tuple[str, ...], list[float]] = {}
        for unit, seconds in known:
            for alike in _likeness(unit):
                self._ratios.setdefault(alike, []).append(seconds / _guess(unit))

    def seconds(self, unit: Unit) -> float:
        """Return the seconds that `unit` is expected to take."""
        found = next((self._ratios[alike] for alike in _likeness(unit) if alike in self._ratios), [1.0])
        return _guess(unit) * median(found)


def longest_first(units: Sequence[Unit], expectation: Expectation) -> list[Unit]:
    """Return the units in the order in which the last ones to finish are short; neighbours stay together."""
    return sorted(units, key=lambda unit: -expectation.seconds(unit))


def time_left(waiting: Iterable[float], running: Iterable[float], jobs: int) -> float:
    """Return the seconds until all is done, where each worker takes the next waiting unit when it is free.

    Examples
    --------
    >>> time_left([30, 20, 10], running=[5], jobs=2)
    35.0
    """
    free = heapq.nlargest(jobs, (float(left) for left in running))
    free += [0.0] * (jobs - len(free))
    heapq.heapify(free)
    for seconds in waiting:
        heapq.heappush(free, heapq.heappop(free) + seconds)
    return max(free)


def _likeness(unit: Unit) -> list[tuple[str, ...]]:
    """Return what units have in common with this one, the nearest first."""
    kind = "trained" if _amount(unit) else "computed"
    return [(kind, unit.method, unit.domain), (kind, unit.method), (kind,)]


def _guess(unit: Unit) -> float:
    """Return a first guess, from nothing that was measured here."""
    amount = _amount(unit)
    if not amount:
        return _OTHERWISE
    rates = _STEP if "steps" in unit.settings else _SWEEP
    return 1e-6 * rates.get(unit.domain.split("/")[0], _UNKNOWN) * unit.seeds * amount


def _amount(unit: Unit) -> float:
    return float(next((unit.settings[name] for name in _AMOUNTS if name in unit.settings), 0))
