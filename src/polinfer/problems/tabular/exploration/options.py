"""How a problem is explored, and how a problem carries that with it."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from polinfer.core.errors import PolinferError, check_at_least

_ATTRIBUTE = "_polinfer_exploration"


class NotMarkovError(PolinferError):
    """States that look alike and behave differently."""


@dataclass(frozen=True, kw_only=True)
class Exploration:
    """Settings of an exploration; None stands for a default that depends on the kind of simulator."""

    draws: int | None = None
    """Draws for each state and action that is random, on average (1,000 for problems in JAX, 100 else)."""
    max_states: int | None = None
    """The largest number of states (200,000 for problems in JAX, 20,000 else)."""
    seed: int = 0
    """Of the draws."""
    markov: Literal["check", "ignore"] = "check"
    """Whether states that look alike must behave alike."""
    cache: bool = True
    """Whether the table is kept on disk for the next time."""

    def __post_init__(self) -> None:
        for name in ("draws", "max_states"):
            if getattr(self, name) is not None:
                check_at_least(name, getattr(self, name), 1)
        check_at_least("seed", self.seed, 0)
        if self.markov not in ("check", "ignore"):
            raise PolinferError(f"markov must be check or ignore, got {self.markov!r}")

    def filled(self, compiled: bool) -> Exploration:
        """Return the settings with what None stands for."""
        draws, states = (1000, 200_000) if compiled else (100, 20_000)
        return replace(
            self,
            draws=draws if self.draws is None else self.draws,
            max_states=states if self.max_states is None else self.max_states,
        )


OPTIONS = tuple(field.name for field in fields(Exploration) if field.name != "seed")
"""The settings that `polinfer.make` takes for any problem; `seed` often is an option of the problem's own."""


def exploration_of(problem: object) -> Exploration:
    """Return how `problem` asks to be explored."""
    found: Exploration = getattr(problem, _ATTRIBUTE, Exploration())
    return found


def with_exploration(problem: Any, **options: Any) -> Any:
    """Attach settings to a problem, which is returned."""
    asked = replace(exploration_of(problem), **options)
    try:
        object.__setattr__(problem, _ATTRIBUTE, asked)
    except (AttributeError, TypeError):
        raise PolinferError(
            f"{type(problem).__name__} takes no attributes, so it cannot carry {', '.join(options)}; pass "
            "them to polinfer.tabulate"
        ) from None
    return problem
