"""The representation of a problem that engines run on: its own simulator, or a table of it."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from polinfer.core.errors import TooLargeError
from polinfer.core.protocol import MDP, EnumerableMDP
from polinfer.problems.tabular import TabularMDP, tabulate
from polinfer.problems.tabular.ending import shorten_horizon
from polinfer.problems.tabular.exploration import Exploration, exploration_of

TABLE_LIMIT = 4096


class Representation(NamedTuple):
    """The form of a problem that an engine runs on."""

    mdp: MDP
    by_table: bool  # evaluate the proposal once for all states


@lru_cache(maxsize=64)
def table_of(mdp: MDP, limit: int = TABLE_LIMIT) -> TabularMDP | None:
    """Return `mdp` as an exact table if it has one of at most `limit` states; equal problems share it.

    A problem that does not list its outcomes has none: what only simulates is better off with the simulator.
    """
    if not isinstance(mdp, EnumerableMDP):
        return None
    try:
        table = tabulate(mdp, limit)
    except TooLargeError:
        return None
    return shorten_horizon(table) if table.num_states <= limit else None


def shared_table(mdp: object) -> TabularMDP:
    """Return `mdp` as a table of any size; small tables are shared with training.

    A problem that does not list its outcomes is explored, once.
    """
    if isinstance(mdp, TabularMDP):
        return shorten_horizon(mdp)
    if not isinstance(mdp, EnumerableMDP):
        return _explored(mdp, exploration_of(mdp))
    known = table_of(mdp)
    return shorten_horizon(tabulate(mdp)) if known is None else known


@lru_cache(maxsize=16)
def _explored(problem: object, options: Exploration) -> TabularMDP:
    return shorten_horizon(tabulate(problem))
