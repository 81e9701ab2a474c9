"""Gymnasium environments where a problem is expected: converted once, with their own defaults."""

from __future__ import annotations

import importlib
from typing import Any

_ATTRIBUTE = "_polinfer_problem"


def as_problem(given: Any) -> Any:
    """Return a Gymnasium environment as a problem, the same one each time; anything else as it is."""
    if hasattr(given, "num_actions") or not (hasattr(given, "action_space") and hasattr(given, "reset")):
        return given
    known = vars(given).get(_ATTRIBUTE)
    if known is None:
        # Adapters build on tables, so they are imported when they are needed.
        known = importlib.import_module("polinfer.problems.adapters").from_gymnasium(given)
        vars(given)[_ATTRIBUTE] = known
    return known
