"""The problems of the experiments as tables."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from polinfer.problems.tables import shared_table
from polinfer.problems.tabular import TabularMDP


@lru_cache(maxsize=32)
def table_for(mdp: Any) -> TabularMDP:
    """Return `mdp` as a table; all that is asked about one problem shares it."""
    return shared_table(mdp)
