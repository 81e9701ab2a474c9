"""What is the same in every case is done once for all, or in some: reading flags, drawing, bounds, long horizons.

A command that is typed once pays for these once; ten thousand cases in one process would pay for nothing else.
What is read from a case is never left out.
"""

from __future__ import annotations

import gc
from functools import cache
from typing import Any

import pytest
import tyro._parsers

import polinfer.cli.parser
import polinfer.cli.plan
import polinfer.methods.fitted
import polinfer.problems.tabular.ending
from polinfer.posterior.evidence import EvidenceBounds
from polinfer.reproduce.unit import Unit

EACH = 10  # one in so many cases draws its pictures and samples its bounds; of names, which are drawn, every other
SOONER = 20  # times that long horizons seem to take in the other cases: a minute is refused at three seconds


class Turn:
    """Whether the present case does everything."""

    whole = True

    def take(self, kind: str, seed: int) -> None:
        self.whole = seed % (2 if kind == "name" else EACH) == 0


def make_cheap(patch: pytest.MonkeyPatch) -> Turn:
    """Share between cases what does not depend on them; return what decides which cases do everything."""
    # Tracing leaves millions of objects that stay.
    gc.set_threshold(200_000, 50, 100)
    turn = Turn()
    patch.setattr(polinfer.cli.parser, "known_flags", cache(polinfer.cli.parser.known_flags))
    described: dict[str, dict[str, Any]] = {}
    describe = Unit.describe
    patch.setattr(
        Unit,
        "describe",
        lambda unit: described.get(repr(unit)) or described.setdefault(repr(unit), describe(unit)),
    )
    _share_parsers(patch)
    _spare_minutes(patch, turn)
    draw, bound = polinfer.cli.plan.draw_run, polinfer.methods.fitted.bound_by_sweeps
    patch.setattr(polinfer.cli.plan, "draw_run", lambda *given: draw(*given) if turn.whole else [])
    patch.setattr(
        polinfer.methods.fitted,
        "bound_by_sweeps",
        lambda *given, **named: bound(*given, **named) if turn.whole else EvidenceBounds(),
    )
    return turn


def _spare_minutes(patch: pytest.MonkeyPatch, turn: Turn) -> None:
    """Refuse what takes longer than a few seconds in place of a minute: it differs by nothing but time."""
    check = polinfer.problems.tabular.ending.check_seconds

    def check_sooner(what: str, seconds: float, remedy: str, most: float) -> None:
        check(what, seconds if turn.whole else SOONER * seconds, remedy, most)

    patch.setattr(polinfer.problems.tabular.ending, "check_seconds", check_sooner)


def _share_parsers(patch: pytest.MonkeyPatch) -> None:
    """Keep what tyro has read of a command: its fields, their types and their docstrings."""
    made: dict[Any, Any] = {}
    make = tyro._parsers.ParserSpecification.from_callable_or_type

    def share(f: Any, **named: Any) -> Any:
        if named["parent_classes"]:
            return make(f, **named)
        if f not in made:
            made[f] = make(f, **named)
        return made[f]

    patch.setattr(tyro._parsers.ParserSpecification, "from_callable_or_type", staticmethod(share))
