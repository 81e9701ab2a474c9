"""Figures, drawn from results, as `matplotlib.figure.Figure` objects that belong to no window."""

from polinfer.plots.advising import advising_figure
from polinfer.plots.blackjack import hit_margin, strategy_chart_figure
from polinfer.plots.grid import by_cell, draw_policy_map, policy_map_figure
from polinfer.plots.panels import PolicyPanel
from polinfer.plots.policy import policy_table_figure
from polinfer.plots.returns import return_figure, training_figure
from polinfer.plots.save import save_figure
from polinfer.plots.tireworld import tireworld_figure

__all__ = [
    "PolicyPanel",
    "advising_figure",
    "by_cell",
    "draw_policy_map",
    "hit_margin",
    "policy_map_figure",
    "policy_table_figure",
    "return_figure",
    "save_figure",
    "strategy_chart_figure",
    "tireworld_figure",
    "training_figure",
]
