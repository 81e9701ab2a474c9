"""The claims ledger: what the paper says, what was measured, and whether it holds."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Verdict(StrEnum):
    """What the evidence says of a claim."""

    HOLDS = "holds"
    IN_KIND = "holds in kind"  # the direction, not the size
    NOT_HERE = "does not hold here"
    UNTESTED = "cannot be tested"


class Claim(NamedTuple):
    """A statement of the paper with its evidence."""

    statement: str  # in our words
    place: str  # in the paper
    evidence: str  # what was measured
    verdict: Verdict


def judge(statement: str, place: str, evidence: str, *, holds: bool, in_kind: bool = False) -> Claim:
    """Return the claim with the verdict that two questions decide: as said, or at least in direction?"""
    verdict = Verdict.HOLDS if holds else Verdict.IN_KIND if in_kind else Verdict.NOT_HERE
    return Claim(statement, place, evidence, verdict)


def untested(statement: str, place: str, evidence: str) -> Claim:
    """Return a claim that nothing here decides, with what is known all the same."""
    return Claim(statement, place, evidence, Verdict.UNTESTED)
