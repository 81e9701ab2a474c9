"""JSON that means one thing: no name twice, no numbers that JSON does not have, nothing behind its end."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

from polinfer.core.errors import shorten

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_DEEPEST = 200  # lists in lists; what goes through them afterwards recurses


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
        lists by the hundred.

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
        _check_depth(value)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    except UnicodeEncodeError:
        raise ValueError("half a letter (a lone surrogate) is no text") from None
    return value


_TOO_DEEP = "lists or objects are nested too deeply"


def _check_depth(value: Any) -> None:
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(_DEEPEST):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return
    raise ValueError(_TOO_DEEP)


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        # Counted once: a file may have a hundred thousand names.
        (twice, _), *_ = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"the name {shorten(repr(twice))} is there twice; which one counts?")
    return found
