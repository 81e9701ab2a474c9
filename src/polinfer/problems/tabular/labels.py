"""Names of actions, and names for states that have none: the whole numbers that tell them apart."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_LONGEST = 8  # numbers that a name may consist of


def identity_names(identities: NDArray[np.int32]) -> list[str] | None:
    """Return a name for each row of identities ``[S, K]``; None where they would be long.

    Examples
    --------
    >>> identity_names(np.array([[3, 0], [2, 1]], np.int32))
    ['(3, 0)', '(2, 1)']
    >>> identity_names(np.array([[7]], np.int32))
    ['7']
    """
    width = identities.shape[1]
    if not 1 <= width <= _LONGEST:
        return None
    rows = identities.tolist()
    return [str(row[0]) for row in rows] if width == 1 else [str(tuple(row)) for row in rows]


def action_names_of(problem: Any) -> tuple[str, ...] | None:
    """Return the names of actions, which a problem may have without naming its states."""
    names = getattr(problem, "action_names", None)
    return None if names is None else tuple(map(str, names))
