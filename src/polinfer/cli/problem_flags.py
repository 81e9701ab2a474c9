"""The part of every command that says which problem is meant."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

import tyro

from polinfer.analysis.reward_scale import SHARE, ScaleSuggestion, suggest_scale
from polinfer.core.errors import DomainError, shorten
from polinfer.core.progress import Progress
from polinfer.core.strict_json import parse_json
from polinfer.problems.registry import Problem, make
from polinfer.problems.tables import shared_table

Ending = AbstractContextManager[object]


@dataclass(frozen=True)
class ProblemFlags:
    """The problem: its name and its options."""

    domain: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="DOMAIN")]
    """A name from 'polinfer list', a table file (.npz or .json), an address such as gym:FrozenLake-v1, or a
    class of your own, path/to/file.py:Class."""
    map: str | None = None
    """For 'gridworld': text file, a letter a cell: . pavement, R gravel, G goal, W swamp, S start, # wall."""
    horizon: int | None = None
    """The largest number of steps in an episode; the domain's own by default."""
    reward_scale: Annotated[str | None, tyro.conf.arg(metavar="FACTOR|auto[=SHARE]")] = None
    """A factor on every reward.  It is part of the problem: larger rewards concentrate the posterior.  'auto'
    finds the one at which the policy is SHARE (0.9) of the way from uniform to optimal, and says which."""
    prior: Annotated[str | None, tyro.conf.arg(metavar="FILE")] = None
    """The reference measure: a run folder, or a policy file (.npy, .npz, .json, .csv)."""
    prior_strength: float | None = None
    """Use the prior to this power: as if it had spoken so many times."""
    discount: float | None = None
    """In (0, 1]: a reward after t steps counts this to the power t."""
    time_dependent: bool = False
    """Let policies look at the step: states are pairs of step and state."""
    set: Annotated[tuple[str, ...], tyro.conf.arg(metavar="KEY=VALUE ...")] = field(default=())
    """Further options of the domain, for example: --set rho=0.3, or --set 'means=[0.2, 0.5, 0.9]'."""

    gym_kwargs: Annotated[tuple[str, ...], tyro.conf.arg(metavar="KEY=VALUE ...")] = field(default=())
    """Arguments of the Gymnasium environment: --gym-kwargs map_name=8x8 is_slippery=false."""
    wrapper: Annotated[tyro.conf.UseAppendAction[tuple[str, ...]], tyro.conf.arg(metavar="PACKAGE:CLASS")] = (
        field(default=())
    )
    """A wrapper to put around the environment, such as minigrid.wrappers:FullyObsWrapper; may be repeated."""
    bins: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NUMBER=CUTS ...")] = field(default=())
    """Bins for observations that are not discrete: --bins x0=8 x2=-0.1,0,0.1 (so many, or cut points)."""
    identity: str | None = None
    """A function from the environment to a hashable state, package.module:function, where the observation
    does not tell states apart."""
    draws: int | None = None
    """Draws for each random state and action of a problem that must be explored, on average."""
    max_states: int | None = None
    """The largest number of states to explore."""
    markov: Literal["check", "ignore"] | None = None
    """Whether states that look alike must behave alike; 'ignore' plans with what is seen nevertheless."""
    table_cache: bool = True
    """Keep explored tables on disk, in the user's cache folder."""

    @property
    def options(self) -> dict[str, Any]:
        """The options that were given, parsed."""
        named: dict[str, Any] = {
            "map": self.map,
            "horizon": self.horizon,
            "reward_scale": _factor(self.reward_scale),
            "prior": self.prior,
            "prior_strength": self.prior_strength,
            "discount": self.discount,
            "policies": "time-dependent" if self.time_dependent else None,
        }
        for name in ("identity", "draws", "max_states", "markov"):
            named[name] = getattr(self, name)
        named["gym_kwargs"] = _pairs("--gym-kwargs", self.gym_kwargs) or None
        named["wrappers"] = list(self.wrapper) or None
        named["bins"] = _bins(self.bins) or None
        named["cache"] = None if self.table_cache else False
        options = {name: value for name, value in named.items() if value is not None}
        for name, value in _pairs("--set", self.set).items():
            if name in options:
                raise DomainError(f"option {name!r} is given twice")
            options[name] = value
        return options

    def settle(
        self, progress: Progress | None = None, ending: Callable[[], Ending] = nullcontext
    ) -> tuple[ProblemFlags, ScaleSuggestion | None]:
        """Return the flags with a number for ``--reward-scale auto``, and how it was found.

        The search runs in the context of `ending`, which may end it early.
        """
        share = _auto_share(self.reward_scale)
        if share is None:
            return self, None
        problem = replace(self, reward_scale=None).make()
        shared_table(problem)  # explored before the search begins: half a table would be none
        with ending():
            found = suggest_scale(problem, share, progress=progress)
        return replace(self, reward_scale=repr(found.scale)), found

    def make(self) -> Problem:
        """Make the problem."""
        try:
            made: Problem = make(self.domain, **self.options)
            return made
        except TypeError as error:
            # An option of the wrong kind, such as a word where a number belongs.
            why = shorten(str(error))
            raise DomainError(f"{self.domain}: an option has the wrong kind of value ({why})") from error


def _pairs(flag: str, words: tuple[str, ...]) -> dict[str, Any]:
    """Read KEY=VALUE, where a value is JSON, or text."""
    found: dict[str, Any] = {}
    for text in words:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise DomainError(f"{flag} takes KEY=VALUE, got {shorten(repr(text))}")
        if name in found:
            raise DomainError(f"option {name!r} is given twice")
        try:
            found[name] = parse_json(value)
        except ValueError:
            found[name] = value
    return found


def _bins(words: tuple[str, ...]) -> dict[str, Any]:
    """Read NUMBER=BINS and NUMBER=CUT,CUT,..."""
    found: dict[str, Any] = {}
    for text in words:
        name, equals, value = text.partition("=")
        try:
            cuts = [float(word) for word in value.split(",")]
        except ValueError:
            cuts = []
        if not equals or not name or not cuts:
            raise DomainError(f"--bins takes x0=8 or x0=-0.5,0,0.5, got {shorten(repr(text))}")
        found[name] = int(value) if value.isdigit() else cuts
    return found


def _auto_share(text: str | None) -> float | None:
    """Return the share that ``auto`` or ``auto=SHARE`` asks for; None for anything else."""
    word, equals, share = (text or "").partition("=")
    if word.strip().lower() != "auto":
        return None
    if not equals:
        return SHARE
    try:
        return float(share)
    except ValueError:
        raise DomainError(
            f"--reward-scale auto=SHARE takes a share such as 0.5, got {shorten(repr(share))}"
        ) from None


def _factor(text: str | None) -> float | None:
    if text is None:
        return None
    if _auto_share(text) is not None:
        raise DomainError("--reward-scale auto is for plan and compare; here, give a number")
    try:
        return float(text)
    except ValueError:
        raise DomainError(
            f"--reward-scale takes a number, auto or auto=SHARE, got {shorten(repr(text))}"
        ) from None
