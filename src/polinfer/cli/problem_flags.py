"""The part of every command that says which problem is meant."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import tyro

from polinfer.analysis.reward_scale import SHARE, ScaleSuggestion, suggest_scale
from polinfer.core.errors import DomainError
from polinfer.core.progress import Progress
from polinfer.problems.registry import Problem, make


@dataclass(frozen=True)
class ProblemFlags:
    """The problem: its name and its options."""

    domain: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="DOMAIN")]
    """A name from 'polinfer list', a table file (.npz or .json), or an address such as gym:FrozenLake-v1."""
    map: str | None = None
    """For 'gridworld': text file, a letter a cell: . pavement, R gravel, G goal, W swamp, S start, # wall."""
    horizon: int | None = None
    """The largest number of steps in an episode; the domain's own by default."""
    reward_scale: Annotated[str | None, tyro.conf.arg(metavar="FACTOR|auto[=SHARE]")] = None
    """A factor on every reward.  It is part of the problem: larger rewards concentrate the posterior.  'auto'
    finds the one at which the policy is SHARE (0.9) of the way from uniform to optimal, and says which."""
    set: Annotated[tuple[str, ...], tyro.conf.arg(metavar="KEY=VALUE ...")] = field(default=())
    """Further options of the domain, for example: --set rho=0.3, or --set 'means=[0.2, 0.5, 0.9]'."""

    @property
    def options(self) -> dict[str, Any]:
        """The options that were given, parsed."""
        named = {"map": self.map, "horizon": self.horizon, "reward_scale": _factor(self.reward_scale)}
        options = {name: value for name, value in named.items() if value is not None}
        for text in self.set:
            name, equals, value = text.partition("=")
            if not equals or not name:
                raise DomainError(f"--set takes KEY=VALUE, got {text!r}")
            if name in options:
                raise DomainError(f"option {name!r} is given twice")
            try:
                options[name] = json.loads(value)
            except ValueError:
                options[name] = value
        return options

    def settle(self, progress: Progress | None = None) -> tuple[ProblemFlags, ScaleSuggestion | None]:
        """Return the flags with a number for ``--reward-scale auto``, and how it was found."""
        share = _auto_share(self.reward_scale)
        if share is None:
            return self, None
        found = suggest_scale(replace(self, reward_scale=None).make(), share, progress=progress)
        return replace(self, reward_scale=repr(found.scale)), found

    def make(self) -> Problem:
        """Make the problem."""
        try:
            made: Problem = make(self.domain, **self.options)
            return made
        except TypeError as error:
            # An option of the wrong kind, such as a word where a number belongs.
            raise DomainError(f"{self.domain}: an option has the wrong kind of value ({error})") from error


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
        raise DomainError(f"--reward-scale auto=SHARE takes a share such as 0.5, got {share!r}") from None


def _factor(text: str | None) -> float | None:
    if text is None:
        return None
    if _auto_share(text) is not None:
        raise DomainError("--reward-scale auto is for plan and compare; here, give a number")
    try:
        return float(text)
    except ValueError:
        raise DomainError(f"--reward-scale takes a number, auto or auto=SHARE, got {text!r}") from None
