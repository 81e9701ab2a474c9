"""How much of a run is done: an estimate in moves, from how far its errors have come down.

Rounds that only show where to start from are short.  The last round goes on until the marginals are precise,
and errors fall with the square root of the moves, so those seen so far tell about how many are missing.
"""

from __future__ import annotations

from typing import NamedTuple

from polinfer.annealing.annealer import Annealer
from polinfer.annealing.state import State

_LADDER = 6.0  # steps of a ladder that was not climbed yet
_PILOT = 16.0  # moves at the end of a round that only shows where to start from
_UNKNOWN = 200.0  # moves at the end of the last round, before anything is known of the errors
_LONGEST = 512.0


class Work(NamedTuple):
    """Moves, about."""

    done: float
    left: float

    @property
    def total(self) -> float:
        """Done and left."""
        return self.done + self.left


def work_of(annealer: Annealer, state: State) -> Work:
    """Return how many moves were made and how many may be left."""
    config, number = annealer.config, len(state.round_steps)
    pilots = 0 if state.taken_over else state.pilots
    pace, _ = annealer.effort.pilot_pace(config.moves, config.ess)  # moves after a step, in pilot rounds
    own = pace if number < pilots else state.moves
    before, made = float(state.round_steps.sum()), float(state.sums.moves)
    steps, place = len(state.ladder) - 1, state.way_back.place
    back = steps - place if place >= 0 else 0
    piloted = pace * float(state.round_steps[:pilots].sum())
    climbed = config.moves * float(state.round_steps[pilots:].sum())
    done = piloted + climbed + (own if number < pilots else config.moves) * (steps + back)
    done += number * _PILOT + made
    if state.finished:
        return Work(done, 0.0)
    if place >= 0:
        return Work(done, float(place * config.moves))
    ladder = before / number if number else _LADDER
    here = steps * (1.0 / state.inverse - 1.0) if state.inverse else ladder
    # What the errors so far say of the moves that the precise round will take.
    found = annealer.estimate(state) if number or made else None
    seen = number * _PILOT + made
    wanted = _UNKNOWN
    if found is not None:
        wanted = min(_LONGEST, seen * (found.distance / config.tolerance) ** 2)
    wanted = max(wanted, float(annealer.effort.least))
    further = max(0, pilots - number)
    left = here * own
    left += max(0.0, (_PILOT if further else wanted) - made)
    if further:
        each = max(ladder, steps + here)
        left += each * (config.moves + (further - 1) * pace) + (further - 1) * _PILOT + wanted
    if not state.taken_over:
        left += (steps + here) * config.moves  # back to the start
    return Work(done, left)
