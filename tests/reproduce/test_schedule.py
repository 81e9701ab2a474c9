"""The order of units and the time that is left."""

import pytest

from polinfer.reproduce.schedule import Expectation, longest_first, time_left
from polinfer.reproduce.unit import Unit


def unit(domain: str, method: str, seeds: int = 25, **settings: float) -> Unit:
    return Unit(domain, method, {}, settings, 0, seeds)


def test_the_nearest_finished_units_decide() -> None:
    known = [
        (unit("tireworld/1", "sac", steps=1_000), 2.0),
        (unit("tireworld/4", "sac", steps=1_000), 6.0),
        (unit("blackjack", "soft"), 3.0),
    ]
    expectation = Expectation(known)
    # Twice the steps and two fifths of the seeds of the same method on the same domain.
    assert expectation.seconds(unit("tireworld/1", "sac", 10, steps=2_000)) == pytest.approx(1.6)
    # Another domain of the family: the median of the method's.
    assert expectation.seconds(unit("tireworld/7", "sac", steps=1_000)) == pytest.approx(4.0)
    # What is computed is judged by what is computed, not by what is trained.
    assert expectation.seconds(unit("tireworld/1", "optimal")) == pytest.approx(3.0)


def test_the_longest_is_first_and_equals_keep_their_order() -> None:
    units = [
        unit("gridworld/flat", "uniform"),
        unit("gridworld/flat", "vsmc", sweeps=50_000),
        unit("gridworld/unimodal", "vsmc", sweeps=50_000),
        unit("advising/1", "sac", steps=1_000_000),
    ]
    assert longest_first(units, Expectation([])) == [units[3], units[1], units[2], units[0]]


def test_time_left_is_that_of_the_last_worker() -> None:
    assert time_left([], [], 2) == 0
    assert time_left([7.0], [3.0, 4.0], 2) == 10.0
    assert time_left([30, 20, 10], [5], 2) == 35.0
    # More than are at work at a time cannot be: the shortest of them has just ended.
    assert time_left([], [1.0, 9.0, 8.0], 2) == 9.0
    # Longest first ends earlier than shortest first.
    assert time_left([9, 5, 4], [], 2) < time_left([4, 5, 9], [], 2)
