"""How a problem was made, so that it can be made again."""

from __future__ import annotations

import contextlib
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")
_SPEC = "_polinfer_spec"


class Spec(NamedTuple):
    """How an MDP was made, so that it can be made again."""

    name: str
    options: dict[str, Any]


def attach_spec(problem: T, spec: Spec | None) -> T:
    """Write down on `problem` how it was made; None where that is not known."""
    # Frozen dataclasses refuse ordinary assignment; an object without a __dict__ stays without a spec.
    with contextlib.suppress(AttributeError, TypeError):
        object.__setattr__(problem, _SPEC, spec)
    return problem


def spec_of(problem: object) -> Spec | None:
    """Return how `make` made `problem`, None where it did not or where it read a file."""
    spec: Spec | None = getattr(problem, _SPEC, None)
    return spec
