"""Small problems are padded to a few sizes, so that they share compiled programs.

Compiling takes seconds, and annealing a small problem less than one.  Slots, outcomes and predecessors are
rounded up to 1, 2, 3, 4, 6, 8, 12, 16, ... with entries of probability zero that nobody comes to; programs
provide for a power of two of steps, and take those that there are.  Large problems stay as they are: there
padding would cost more than the compiler.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from polinfer.annealing.problem import Problem, make_problem

_SMALL = 128  # slots
_SIZES = (8, 16, 24, 32, 48, 64, 96, 128)
_LEAST_STEPS = 32


def bucket(count: int, least: int = 1) -> int:
    """Return the smallest of 1, 2, 3, 4, 6, 8, 12, 16, ... that is not below `count` or `least`.

    Examples
    --------
    >>> [bucket(count) for count in (0, 1, 3, 5, 9, 13, 100)]
    [0, 1, 3, 6, 12, 16, 128]
    """
    if not count:
        return 0
    power = 1 << (max(count, least) - 1).bit_length()
    return power // 4 * 3 if power >= 4 and max(count, least) <= power // 4 * 3 else power


def rounded(count: int, size: int) -> int:
    """Return a length of a problem with `size` slots as its programs have it."""
    return bucket(count) if size <= _SMALL else count


def capacity(problem: Problem) -> int:
    """Return the number of steps that programs provide for; 0 where they go by levels."""
    if problem.width:
        return 0
    if problem.size > _SMALL:
        return problem.horizon
    return max(_LEAST_STEPS, 1 << (problem.horizon - 1).bit_length())


def padded(problem: Problem) -> Problem:
    """Return a small problem with empty slots at its end; a large one as it is."""
    if not problem.size or problem.size > _SMALL:
        return problem
    size = next(size for size in _SIZES if size >= problem.size and not size % max(problem.width, 1))
    outcomes = bucket(problem.successor.shape[2])

    def lay(values: NDArray[Any], empty: float) -> NDArray[Any]:
        width = [(0, size - problem.size)] + [(0, 0)] * (values.ndim - 1)
        if values.ndim == 3:
            width[2] = (0, outcomes - values.shape[2])
        return np.pad(values, width, constant_values=empty)

    prior = lay(problem.prior, 0.0)
    prior[problem.size :, 0] = 1.0
    over = np.where(problem.successor < problem.size, problem.successor, size)
    larger = make_problem(
        lay(problem.state, -1),
        lay(over, size),
        lay(problem.probability, 0.0),
        lay(problem.gain, 0.0),
        prior,
        lay(problem.initial, 0.0),
        problem.horizon,
        problem.discount,
        problem.width,
    )
    columns = bucket(larger.origin.shape[1], 2) - larger.origin.shape[1]
    hubs = bucket(len(larger.hub_origin)) - len(larger.hub_origin)
    actions = problem.gain.shape[1]
    return larger._replace(
        origin=np.pad(larger.origin, ((0, 0), (0, columns)), constant_values=size * actions),
        inflow=np.pad(larger.inflow, ((0, 0), (0, columns))),
        hub_origin=np.pad(larger.hub_origin, (0, hubs), constant_values=size * actions),
        hub_target=np.pad(larger.hub_target, (0, hubs), constant_values=size - 1),
        hub_inflow=np.pad(larger.hub_inflow, (0, hubs)),
    )
