"""What is known of a run between two steps: arrays and numbers only, so that it can be written down."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polinfer.annealing.classes import Classes
from polinfer.annealing.rounds import Rounds
from polinfer.annealing.stage import Sums
from polinfer.exact.solution import Floats


class WayBack(NamedTuple):
    """Annealing from the posterior back to the start of a round."""

    place: int  # of the ladder, where it is; -1 before it begins
    policy: NDArray[np.int16]  # [N, P]; [N, 0] before it begins
    log_evidence: Floats  # [I] as it is found on the way


class State(NamedTuple):
    """A run between two steps: arrays and numbers only."""

    policy: NDArray[np.int16]  # [N, P]
    start: Floats  # [N, A] q0
    inverse: float  # b
    origin: float  # scale that this round's ladder comes from; 0 where it comes from `start`
    taken_over: bool  # whether the first round did not begin from a start
    log_evidence: Floats  # [I]
    log_size: float  # adapted size of moves
    moves: int  # per step of the ladder
    pilots: int  # rounds that only show where to start from
    calls: int  # compiled calls so far; keys are made of it
    ladder: Floats  # [L] values of `b` that this round came through, from 0
    way_back: WayBack
    accepted: float
    sums: Sums  # over the moves at the end of this round
    rounds: Rounds  # of the rounds before
    round_steps: NDArray[np.int64]  # [R] steps that each took
    round_starts: Floats  # [R, N, A] where each started
    round_classes: NDArray[np.uint64]  # [R, P] classes of the populations that they ended with
    members: NDArray[np.uint64]  # [P] classes of the population now
    classes: Classes
    best_return: float
    best_policy: NDArray[np.int16]  # [N]
    finished: bool


class Population(NamedTuple):
    """Policies at the end of a run, for one at a smaller scale."""

    scale: float
    policy: NDArray[np.int16]  # [N, P]
    start: Floats  # [N, A] what choices are drawn from where policies do not come
    log_evidence: float
    log_size: float  # adapted size of moves
