"""The claims ledger: what the paper says, what was measured, and whether it holds."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from polinfer.exact.solution import Floats


class Verdict(StrEnum):
    """What the evidence says of a claim."""

    HOLDS = "holds"
    IN_KIND = "holds in kind"  # the direction, not the size; or on most instances, not on all
    NOT_HERE = "does not hold here"
    UNTESTED = "cannot be tested"


class Claim(NamedTuple):
    """A statement of the paper with its evidence."""

    statement: str  # in our words
    place: str  # in the paper
    evidence: str  # what was measured
    verdict: Verdict
    reading: str = ""  # of absorbing states, that it was judged under; empty where it does not depend on it


def judge(statement: str, place: str, evidence: str, *, holds: bool, in_kind: bool = False) -> Claim:
    """Return the claim with the verdict that two questions decide: as said, or at least in direction?"""
    verdict = Verdict.HOLDS if holds else Verdict.IN_KIND if in_kind else Verdict.NOT_HERE
    return Claim(statement, place, evidence, verdict)


def judge_each(statement: str, place: str, evidence: str, each: Sequence[bool]) -> Claim:
    """Return the claim as judged instance by instance: it holds on all, or in kind on most."""
    return judge(statement, place, evidence, holds=all(each), in_kind=most(each))


def most(each: Sequence[bool]) -> bool:
    """Tell whether more than half are so."""
    return sum(each) * 2 > len(each)


def clearly_above(first: Floats, second: Floats) -> bool:
    """Tell whether the mean of some runs is above that of others by more than two standard errors."""
    variances = [runs.var(ddof=1) / len(runs) if len(runs) > 1 else 0.0 for runs in (first, second)]
    return bool(first.mean() - second.mean() > 2 * np.sqrt(sum(variances)))
