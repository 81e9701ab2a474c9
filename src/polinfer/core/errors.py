"""Errors that a user can correct.

The message is one sentence that names the cause and the fix.  The command line prints it and exits with code
2; any other exception is a bug and keeps its traceback.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterable
from typing import Any

import numpy as np

LONGEST_COMPLAINT = 900
"""Letters of what is said at once, in a terminal or on a page, whatever a file brought into it."""
_LONGEST, _COMPARED = 100, 10_000  # letters of a word, and names, that a suggestion is looked for in


class PolinferError(ValueError):
    """Base of the errors that a user can correct."""


class TableError(PolinferError):
    """A table or table file that is no MDP."""


class DomainError(PolinferError):
    """An unknown domain, or a bad option or map of a known one."""


class TooLargeError(PolinferError):
    """A problem that is too large for an exact method."""


class CostError(PolinferError):
    """A request that would take more time or memory than is spent without being asked twice."""


class ConformanceError(PolinferError):
    """An MDP that violates the protocol."""


def shorten(text: str, most: int = 160) -> str:
    r"""Return `text` in one line of at most `most` letters, for a message.

    Examples
    --------
    >>> shorten("a\n  b" + "c" * 20, most=12)
    'a bccccc ...'
    """
    # Twice as much is looked at as is shown: what a file holds may be very long.
    line = " ".join(text[: 2 * most].split())
    line = "".join(letter if letter.isprintable() else "?" for letter in line)
    return line if len(text) <= 2 * most and len(line) <= most else line[: most - 4] + " ..."


def suggest(word: str, known: Iterable[str]) -> str:
    """Return ``' (did you mean ...?)'`` where a known name is similar, the empty string otherwise.

    Examples
    --------
    >>> suggest("horzion", ["horizon", "reward_scale"])
    " (did you mean 'horizon'?)"
    >>> suggest("xyz", ["horizon"])
    ''
    """
    # Comparing takes the product of the lengths; what is as long as this is no misspelling.
    likely = [name for name in known if abs(len(name) - len(word)) <= 10] if len(word) <= _LONGEST else []
    close = difflib.get_close_matches(word, likely[:_COMPARED], n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def check_share(name: str, value: float) -> float:
    """Return `value` if it is a number in 0..1; name it otherwise."""
    if not is_number(value) or not 0 <= value <= 1:
        raise PolinferError(f"{name} must lie in 0..1, got {shorten(repr(value))}")
    return float(value)


def is_number(value: Any) -> bool:
    """Return whether `value` is a real number (not a bool), finite or not."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value.item()
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def is_whole(value: Any) -> bool:
    """Return whether `value` is an integer."""
    # Finiteness first: int() of infinity or NaN raises.
    return is_number(value) and (isinstance(value, int) or bool(np.isfinite(value))) and int(value) == value


def check_finite(name: str, value: Any) -> float:
    """Return `value` if it is one finite number; name it otherwise."""
    # Compared before conversion: float() of an integer that is too large raises.
    if not is_number(value) or not abs(value) <= sys.float_info.max:
        raise PolinferError(f"{name} must be a finite number, got {shorten(repr(value))}")
    return float(value)


MOST = 1_000_000_000
"""The largest whole number that a setting may have, unless `MOST_OF` names another."""
MOST_OF = {
    "limit": 10**18,
    "enumerate_up_to": 10**18,
    "seed": 2**63 - 1,
    "width": 100_000,
    "depth": 1_000,
    "jobs": 10_000,
    "points": 10_000,
}


def check_at_least(name: str, value: int, least: int) -> int:
    """Return `value` if it is an integer from `least` to the most of its name; name it otherwise."""
    if not is_whole(value):
        raise PolinferError(f"{name} must be a whole number, got {shorten(repr(value))}")
    if value < least:
        raise PolinferError(f"{name} must be at least {least}, got {shorten(str(value))}")
    most = MOST_OF.get(name, MOST)
    if value > most:
        raise PolinferError(f"{name} must be at most {most:,}, got {shorten(str(value), 40)}")
    return int(value)
