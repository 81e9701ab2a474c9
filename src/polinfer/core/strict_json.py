"""JSON that means one thing: no name twice, no numbers that JSON does not have, nothing behind its end."""

from __future__ import annotations

import json
import re
from typing import Any

from polinfer.core.errors import shorten

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def parse_json(text: str, constants: list[str] | None = None) -> Any:
    """Read one JSON document.

    Parameters
    ----------
    text
        The document.
    constants
        Where given, NaN and infinity are read and noted here, for the caller to refuse by their place.

    Raises
    ------
    ValueError
        In one line: for text that is no JSON, a name that an object has twice, NaN and infinity, and lists in
        lists by the thousand.

    Examples
    --------
    >>> parse_json('{"horizon": 3}')
    {'horizon': 3}
    >>> parse_json('{"horizon": 3, "horizon": 4}')
    Traceback (most recent call last):
        ...
    ValueError: the name 'horizon' is there twice; which one counts?
    """

    def constant(word: str) -> float:
        if constants is None:
            raise ValueError(f"{word} is not a number that JSON has; write a finite number")
        constants.append(word)
        return float(word)

    try:
        value = json.loads(text, object_pairs_hook=_without_duplicates, parse_constant=constant)
        if _SURROGATE.search(text):
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError("lists or objects are nested too deeply") from None
    except UnicodeEncodeError:
        raise ValueError("half a letter (a lone surrogate) is no text") from None
    return value


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the name {shorten(repr(twice))} is there twice; which one counts?")
    return found
