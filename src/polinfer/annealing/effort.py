"""What a run does less of, where a move of its population takes long."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

BLOCK = 16  # moves between looks at the precision
MOST_MOVES = 512  # at the end of a round, times what `moves` is over its first value
_AT_ONCE = 2e10  # multiplications in one compiled call, about: a second or two
_CHEAP = 4e9  # multiplications that the last sampling of a round takes in any case
_SOME = 3.2e10  # likewise, where a block of moves is more than that
_LEAST_MOVES = 4
_NOTICED = 5e8  # multiplications in a move, from which on pilot rounds are hurried
_LONG = 2e9  # likewise, from which on a pilot that is hardly needed is left out
_DEAR = 1e10  # likewise, from which on detours are not looked for
_PILOT = 64  # moves at the end of a round before the first refit, at most
_PILOT_ESS = 0.5  # what a step of a hurried round leaves


class Effort(NamedTuple):
    """How much is done, by the multiplications in a move of the whole population."""

    at_once: int  # moves in one compiled call, at most
    least: int  # moves at the end of a round, however precise it is
    hurried: bool  # rounds that only show where to start from take longer steps, half the moves
    long: bool  # such rounds are left out where the first one found its start to be nearly the posterior
    dear: bool  # detours are not looked for

    @classmethod
    def of(cls, work: float) -> Effort:
        """Return how much to do where a move takes so many multiplications."""
        work = max(work, 1)
        fewest = np.clip(_SOME / work, _LEAST_MOVES, BLOCK)
        return cls(
            at_once=max(1, int(_AT_ONCE / work)),
            least=int(np.clip(_CHEAP / work, fewest, MOST_MOVES // 2)),
            hurried=work >= _NOTICED,
            long=work >= _LONG,
            dear=work >= _DEAR,
        )

    def pilot_pace(self, moves: int, ess: float) -> tuple[int, float]:
        """Return the moves after a step of a pilot round, and the effective share that a step leaves."""
        return (max(1, moves // 2), min(ess, _PILOT_ESS)) if self.hurried else (moves, ess)

    @property
    def pilot_moves(self) -> int:
        """Moves at the end of a pilot round, at most."""
        return _PILOT // 2 if self.hurried else _PILOT
