"""Findings about an answer: a code for programs, a severity for decisions, a sentence for people."""

from __future__ import annotations

import enum
from typing import NamedTuple


class Severity(enum.Enum):
    """How much a finding matters."""

    FACT = "fact"  # worth knowing
    WARNING = "warning"  # the answer may be off
    ERROR = "error"  # the answer should not be used

    def __str__(self) -> str:
        return self.value


class Diagnostic(NamedTuple):
    """One finding."""

    code: str  # stable, such as ``low-ess``
    severity: Severity
    sentence: str

    def __str__(self) -> str:
        return self.sentence


def fact(code: str, sentence: str) -> Diagnostic:
    """Return a finding that is worth knowing."""
    return Diagnostic(code, Severity.FACT, sentence)


def warning(code: str, sentence: str) -> Diagnostic:
    """Return a finding that puts the answer in doubt."""
    return Diagnostic(code, Severity.WARNING, sentence)
