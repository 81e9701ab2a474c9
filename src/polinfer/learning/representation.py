"""Which form of a problem training runs on: its own simulator, or a table made of it."""

from __future__ import annotations

from polinfer.core.protocol import MDP
from polinfer.learning.config import TrainConfig
from polinfer.problems.tables import Representation, table_of
from polinfer.problems.tabular.table import TabularMDP


def choose_representation(mdp: MDP, config: TrainConfig) -> Representation:
    """Take the table when it pays: when it has no more states than an update has steps to evaluate."""
    if config.proposal == "table" and isinstance(mdp, TabularMDP):
        return Representation(mdp, by_table=True)
    table = table_of(mdp)
    if table is None:
        return Representation(mdp, by_table=False)
    steps = config.sweep.particles * mdp.horizon * config.sweeps_per_update
    pays = config.proposal == "table" or table.num_states <= max(64, steps)
    return Representation(table, by_table=pays)
