"""Which form of a problem the engines run on: its own simulator, or a table made of it."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from polinfer.errors import TooLargeError
from polinfer.learning.config import TrainConfig
from polinfer.mdp import MDP, EnumerableMDP
from polinfer.tabular import TabularMDP, tabulate

TABLE_LIMIT = 4096


class View(NamedTuple):
    """A problem as engines see it."""

    mdp: MDP
    by_table: bool  # evaluate the proposal once for all states


@lru_cache(maxsize=64)
def table_of(mdp: MDP, limit: int = TABLE_LIMIT) -> TabularMDP | None:
    """Return `mdp` as a table if it has one of at most `limit` states; equal problems share it."""
    if not isinstance(mdp, EnumerableMDP):
        return None
    try:
        table = tabulate(mdp, limit)
    except TooLargeError:
        return None
    return table if table.num_states <= limit else None


def shared_table(mdp: object) -> TabularMDP:
    """Return `mdp` as a table of any size; a small one is the one that training has."""
    known = table_of(mdp) if isinstance(mdp, MDP) and not isinstance(mdp, TabularMDP) else None
    return tabulate(mdp) if known is None else known


def choose_view(mdp: MDP, config: TrainConfig) -> View:
    """Take the table when it pays: when it has no more states than an update has steps to evaluate."""
    if config.proposal == "table" and isinstance(mdp, TabularMDP):
        return View(mdp, by_table=True)
    table = table_of(mdp)
    if table is None:
        return View(mdp, by_table=False)
    steps = config.sweep.particles * mdp.horizon * config.sweeps_per_update
    pays = config.proposal == "table" or table.num_states <= max(64, steps)
    return View(table, by_table=pays)
