"""The part of every command that says which problem is meant."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Annotated, Any

import tyro

from polinfer.core.errors import DomainError
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
    reward_scale: float | None = None
    """A factor on every reward.  It is part of the problem: larger rewards concentrate the posterior."""
    prior: Annotated[str | None, tyro.conf.arg(metavar="FILE")] = None
    """The reference measure: a run folder, or a .npz or .json file with a 'prior' table [S, A]."""
    prior_strength: float | None = None
    """Use the prior to this power: as if it had spoken so many times."""
    discount: float | None = None
    """In (0, 1]: a reward after t steps counts this to the power t."""
    time_dependent: bool = False
    """Let policies look at the step: states are pairs of step and state."""
    set: Annotated[tuple[str, ...], tyro.conf.arg(metavar="KEY=VALUE ...")] = field(default=())
    """Further options of the domain, for example: --set rho=0.3, or --set 'means=[0.2, 0.5, 0.9]'."""

    @property
    def options(self) -> dict[str, Any]:
        """The options that were given, parsed."""
        named = {
            "map": self.map,
            "horizon": self.horizon,
            "reward_scale": self.reward_scale,
            "prior": self.prior,
            "prior_strength": self.prior_strength,
            "discount": self.discount,
            "policies": "time-dependent" if self.time_dependent else None,
        }
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

    def make(self) -> Problem:
        """Make the problem."""
        try:
            made: Problem = make(self.domain, **self.options)
            return made
        except TypeError as error:
            # An option of the wrong kind, such as a word where a number belongs.
            raise DomainError(f"{self.domain}: an option has the wrong kind of value ({error})") from error
