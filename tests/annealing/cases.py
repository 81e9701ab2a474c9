"""Small problems with asymmetric numbers, and their policies one by one."""

import itertools
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from polinfer.problems.tabular.table import TabularMDP


def loop(horizon: int = 6) -> TabularMDP:
    """Three states with ways back, chance, an illegal action and two starts; the last state ends."""
    move = np.zeros((4, 3, 4))
    move[0, 0, [1, 2]] = 0.7, 0.3
    move[0, 1, [0, 2]] = 0.4, 0.6
    move[0, 2, 3] = 1.0
    move[1, 0, [0, 3]] = 0.5, 0.5
    move[1, 1, 2] = 1.0
    move[1, 2, 1] = 1.0
    move[2, 0, [1, 3]] = 0.2, 0.8
    move[2, 1, 2] = 1.0
    move[2, 2, [0, 3]] = 0.9, 0.1
    pay = np.array([[0.3, -0.4, 1.1], [0.9, -0.2, 0.35], [-0.7, 0.25, 1.3], [0, 0, 0]])
    legal = np.ones((4, 3), bool)
    legal[1, 2] = False
    return TabularMDP(move, pay, [0.75, 0.25, 0, 0], [3], horizon, legal=legal)


def unreached() -> TabularMDP:
    """Deterministic choices between ways that come to different states; slow to mix without the fill."""
    move = np.zeros((4, 2, 4))
    move[0, 0, 1], move[0, 1, 2] = 1, 1
    move[1, 0, 3], move[1, 1, 2] = 1, 1
    move[2, 0, 3], move[2, 1, 0] = 1, 1
    pay = np.array([[0.2, -0.3], [1.4, 0.1], [2.3, -0.15], [0, 0]])
    return TabularMDP(move, pay, 0, [3], 5)


def tree() -> TabularMDP:
    """Two levels of two actions with two outcomes each."""
    rng = np.random.default_rng(3)
    inner, total = 5, 21
    move, pay = np.zeros((total, 2, total)), np.zeros((total, 2, total))
    for node in range(inner):
        for action in range(2):
            child = 1 + node * 4 + action * 2
            share = rng.uniform(0.2, 0.8)
            move[node, action, [child, child + 1]] = share, 1 - share
            pay[node, action, [child, child + 1]] = rng.normal(size=2) * 3
    return TabularMDP(move, pay, 0, np.arange(total) >= inner, 4)


def shortcut() -> TabularMDP:
    """One state further or two; the horizon cuts the long ways."""
    move, pay = np.zeros((6, 2, 6)), np.zeros((6, 2))
    for state in range(5):
        move[state, 0, state + 1] = 1
        move[state, 1, state + 1] += 0.25
        move[state, 1, min(state + 2, 5)] += 0.75
    pay[:5] = [[0.4, -0.1], [1.2, 0.7], [-0.6, 0.3], [0.9, 1.1], [0.2, 2.0]]
    return TabularMDP(move, pay, 0, [5], 3)


def lattice(side: int = 3, slip: float = 0.0, horizon: int | None = None) -> TabularMDP:
    """Right or down to the opposite corner; a slip takes the other way."""
    rng = np.random.default_rng(side)
    size = side * side
    move, pay = np.zeros((size, 2, size)), rng.normal(size=(size, 2)) * 1.5
    for x, y in itertools.product(range(side), repeat=2):
        ways = [min(x + 1, side - 1) * side + y, x * side + min(y + 1, side - 1)]
        if (x, y) == (side - 1, side - 1):
            continue
        # At the border both actions lead along it.
        ways = [way if way != x * side + y else ways[1 - i] for i, way in enumerate(ways)]
        for action in range(2):
            move[x * side + y, action, ways[action]] += 1 - slip
            move[x * side + y, action, ways[1 - action]] += slip
    pay[-1] = 0
    return TabularMDP(move, pay, 0, [size - 1], horizon or 2 * side)


def lock(digits: int = 12) -> TabularMDP:
    """A late reward behind a combination; a wrong digit stays, which value iteration takes for harmless."""
    size = digits + 1
    code = np.random.default_rng(digits).integers(2, size=digits)
    move, pay = np.zeros((size, 2, size)), np.full((size, 2), -0.01)
    for state in range(digits):
        move[state, code[state], state + 1] = 1
        move[state, 1 - code[state], state] = 1
    pay[digits - 1, code[-1]] += 10.0
    pay[-1] = 0
    return TabularMDP(move, pay, 0, [digits], 3 * digits)


def two_blocks() -> TabularMDP:
    """A forced start that leads into one of two blocks with loops, at different times."""
    move, pay = np.zeros((7, 2, 7)), np.zeros((7, 2))
    move[0, 0, [1, 2]] = 0.6, 0.4  # 0 and 2 are forced
    move[1, 0, [1, 6]], move[1, 1, 3] = [0.5, 0.5], 1
    move[3, 0, 1], move[3, 1, [3, 6]] = 1, [0.3, 0.7]
    move[2, 0, [4, 6]] = 0.8, 0.2
    move[4, 0, 5], move[4, 1, [4, 6]] = 1, [0.7, 0.3]
    move[5, 0, [4, 6]], move[5, 1, 6] = [0.6, 0.4], 1
    pay[:6] = [[0.5, 0], [0.8, -0.3], [-0.2, 0], [0.45, 1.7], [0.6, 0.9], [-0.5, 2.1]]
    legal = np.ones((7, 2), bool)
    legal[[0, 2], 1] = False
    return TabularMDP(move, pay, 0, [6], 7, legal=legal)


def every_policy(legal: NDArray[np.bool_]) -> NDArray[np.int16]:
    """Return all policies ``[N, P]``."""

    def choices() -> Iterator[tuple[int, ...]]:
        return itertools.product(*(np.flatnonzero(row) for row in legal))

    return np.array(list(choices()), np.int16).T
