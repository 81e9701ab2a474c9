"""Facts of the two domains taken from the International Planning Competition of 2014, and their options."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

from polinfer.core.errors import DomainError, is_whole, suggest

INSTANCES = tuple(range(1, 11))


class TireMap(NamedTuple):
    """Where roads lead and spares lie."""

    locations: tuple[str, ...]
    roads: tuple[tuple[str, str], ...]  # one way, from and to
    spares: tuple[str, ...]  # the locations at which a spare lies
    start: str
    goal: str
    flat_prob: float  # the constant FLAT-PROB of the file
    horizon: int


class Curriculum(NamedTuple):
    """The courses of a program."""

    courses: tuple[str, ...]
    prerequisites: tuple[tuple[str, str], ...]  # the first is a prerequisite of the second
    required: tuple[str, ...]
    load: int  # the largest number of courses at a time
    horizon: int

    def relevant(self) -> tuple[str, ...]:
        """Return the required courses, their prerequisites, and the prerequisites of these."""
        found = set(self.required)
        while True:
            more = {first for first, second in self.prerequisites if second in found} - found
            if not more:
                return tuple(course for course in self.courses if course in found)
            found |= more

    def restrict(self, courses: Sequence[str]) -> Curriculum:
        """Return the curriculum without all other courses."""
        return self._replace(
            courses=tuple(courses),
            prerequisites=tuple(p for p in self.prerequisites if p[0] in courses and p[1] in courses),
        )


@cache
def tire_map(instance: int) -> TireMap:
    """Return the map of a Tireworld instance."""
    facts = _facts("tireworld", instance)
    roads = tuple((origin, target) for origin, target in facts["roads"])
    return TireMap(**{**facts, "roads": roads, **_tuples(facts, "locations", "spares")})


@cache
def curriculum(instance: int) -> Curriculum:
    """Return the courses of an Academic Advising instance."""
    facts = _facts("advising", instance)
    pairs = tuple((first, second) for first, second in facts["prerequisites"])
    return Curriculum(**{**facts, "prerequisites": pairs, **_tuples(facts, "courses", "required")})


def _facts(domain: str, instance: int) -> dict[str, Any]:
    if not is_whole(instance) or int(instance) not in INSTANCES:
        raise DomainError(f"{domain} has the instances 1 to 10, got {instance!r}")
    facts: dict[str, Any] = _read()[domain][str(int(instance))]
    return facts


@cache
def _read() -> dict[str, Any]:
    text = resources.files("polinfer.problems.domains").joinpath("ippc2014.json").read_text(encoding="utf-8")
    facts: dict[str, Any] = json.loads(text)
    return facts


def _tuples(facts: Mapping[str, Any], *names: str) -> dict[str, tuple[str, ...]]:
    return {name: tuple(facts[name]) for name in names}


def check_choice(name: str, value: Any, choices: Sequence[str]) -> None:
    """Refuse a `value` that is none of `choices`."""
    if value not in choices:
        near = suggest(value, choices) if isinstance(value, str) else ""
        listed = " or ".join(repr(choice) for choice in choices)
        raise DomainError(f"{name} must be {listed}, got {value!r}{near}")


def check_flag(name: str, value: Any) -> None:
    """Refuse a `value` that is neither true nor false."""
    if not isinstance(value, bool):
        raise DomainError(f"{name} must be true or false, got {value!r}")


def resolve(semantics: str, defaults: Mapping[str, Mapping[str, Any]], **given: Any) -> dict[str, Any]:
    """Return the options of `semantics`, with those replaced that are given (not None)."""
    check_choice("semantics", semantics, tuple(defaults))
    return {**defaults[semantics], **{name: value for name, value in given.items() if value is not None}}
