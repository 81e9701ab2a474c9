"""The figures of experiments, from rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from polinfer.exact import ReturnDistribution
from polinfer.plots import PolicyPanel, by_cell, draw_policy_map, return_figure
from polinfer.plots.panels import panel_figure
from polinfer.plots.style import INK, SMALL_SIZE, TEXT_SIZE, line_colour, style_axes
from polinfer.problems.domains.gridworld import GridWorld
from polinfer.problems.registry import make
from polinfer.reproduce.experiment import Found
from polinfer.reproduce.problems import table_for

_CELL = 0.55  # inches


def map_figure(rows: Mapping[str, Found]) -> Figure:
    """Draw policy and occupancy maps side by side, crosses and visits averaged over runs."""
    grids = [make(found.row.domain, **found.row.options) for found in rows.values()]
    width, height = (max(getattr(grid, side) for grid in grids) for side in ("width", "height"))
    figure, axes = panel_figure(list(rows), max(1.5, width * _CELL), height * _CELL)
    for ax, found, grid in zip(axes, rows.values(), grids, strict=True):
        panel = grid_panel(found, grid)
        draw_policy_map(ax, grid, panel.policy, panel.occupancy)
    return figure


def grid_panel(found: Found, grid: GridWorld) -> PolicyPanel:
    """Return a row as a panel by cell."""
    table = table_for(grid)
    visits = np.asarray(found["occupancy"], np.float64).mean(axis=0)
    return PolicyPanel("", by_cell(table, grid, found.policy, axis=1), by_cell(table, grid, visits))


def return_distributions(rows: Mapping[str, Found]) -> Figure:
    """Draw the distribution functions of the return, all runs together."""
    found = {
        name: ReturnDistribution(
            np.asarray(row["values"], np.float64), np.asarray(row["shares"], np.float64) / row["shares"].sum()
        )
        for name, row in rows.items()
        if "values" in row
    }
    return return_figure(found)


def outcome_bars(rows: Mapping[str, Found], endings: Sequence[str], *, width: float = 9.6) -> Figure:
    """Draw the probability of each ending, a group of bars per row; whiskers are one deviation over runs."""
    figure = Figure(figsize=(width, 2.9), layout="constrained", facecolor="white")
    ax = figure.add_subplot()
    style_axes(ax)
    place, share = np.arange(len(rows)), 0.8 / len(endings)
    for index, ending in enumerate(endings):
        field = f"ending.{ending}"
        heights = [row.mean(field) for row in rows.values()]
        spread = [row.spread(field) for row in rows.values()]
        shift = (index - (len(endings) - 1) / 2) * share
        ax.bar(
            place + shift,
            heights,
            0.92 * share,
            yerr=spread,
            color=line_colour(index),
            label=ending,
            ecolor=INK,
            error_kw={"elinewidth": 0.8},
        )
    _name_rows(ax, list(rows), "probability")
    figure.legend(loc="outside right upper", fontsize=SMALL_SIZE, frameon=False, labelcolor=INK)
    return figure


_LEVEL = 4  # names of rows that have room beside each other


def success_figure(panels: Mapping[str, Mapping[str, Found]]) -> Figure:
    """Draw the success probability of every run as a dot and their mean as a bar, a panel per instance."""
    figure, axes = panel_figure(list(panels), 2.2, 2.0, margin=(0.4, 0.7))
    for ax, rows in zip(axes, panels.values(), strict=True):
        style_axes(ax)
        for index, found in enumerate(rows.values()):
            runs = np.asarray(found["success"], np.float64)
            around = index + np.linspace(-0.22, 0.22, len(runs)) if len(runs) > 1 else [index]
            ax.bar(index, runs.mean(), 0.66, color=line_colour(index), alpha=0.35)
            ax.plot(around, np.sort(runs), ".", color=line_colour(index), markersize=3)
        _name_rows(ax, list(rows), "success probability")
        ax.set_ylim(0, 1)
    return figure


def _name_rows(ax: Axes, names: list[str], label: str) -> None:
    wrapped = [name.replace(", ", "\n").replace(" (", "\n(") for name in names]
    ax.set_xticks(range(len(names)), wrapped, fontsize=SMALL_SIZE)
    if len(names) > _LEVEL:
        for text in ax.get_xticklabels():
            text.set(rotation=40, rotation_mode="anchor", ha="right", va="center")
    ax.set_ylabel(label, fontsize=TEXT_SIZE, color=INK)
