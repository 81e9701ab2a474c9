"""Maps of Triangle Tireworld: roads as wide as they are often taken.

A location is the darker, the longer the car is there.  A road is an arrow, as wide as the share of the moves
out of its location that take it; roads that nobody takes are hairlines.  A ring stands for a spare.

All is drawn in units of a road's length, so that a map looks the same at any size.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import EllipseCollection, LineCollection, PolyCollection
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from numpy.typing import NDArray

from polinfer.core.errors import PolinferError
from polinfer.exact.solution import Floats
from polinfer.plots.panels import PolicyPanel, check_panels, panel_figure
from polinfer.plots.policy import check_occupancy, mean_policy
from polinfer.plots.style import FRAME, INK, PALETTE, SMALL_SIZE, TEXT_SIZE
from polinfer.problems.domains.bitsets import num_words
from polinfer.problems.domains.gridworld import CELL_COLOURS
from polinfer.problems.domains.tireworld import Tireworld, locations_of
from polinfer.problems.tabular.table import TabularMDP

_NODE = 0.2  # the radius of a location
_GAP = 0.035  # between a location and the ends of its roads
_WIDEST = 0.17  # the width of an arrow of probability one
_HEAD = 0.17  # the length of an arrow's head
_FLARE = 0.055  # what the head stands out to each side
_SPARE = 0.07  # the radius of a spare
_NUMBERED = 5  # locations a side; numbers do not fit into larger maps


def tireworld_figure(mdp: Tireworld, table: TabularMDP, panels: Sequence[PolicyPanel]) -> Figure:
    """Draw one map per panel, four in a row.

    Parameters
    ----------
    table
        Of `mdp`.
    panels
        Policies and occupancies by state of `table`; several seeds are averaged.  The states of a location
        are weighted by their occupancies.

    Examples
    --------
    >>> import polinfer
    >>> mdp = polinfer.make("tireworld/1")
    >>> table = polinfer.tabulate(mdp)
    >>> optimum = polinfer.exact.stationary_optimum(table)
    >>> visits = polinfer.exact.evaluate_policy(table, optimum.policy).occupancy
    >>> figure = tireworld_figure(mdp, table, [PolicyPanel("optimum", optimum.policy, visits)])
    >>> figure.axes[0].get_title()
    'optimum'
    """
    place = _check_table(mdp, table)
    policies = [mean_policy(table, panel) for panel in check_panels(panels)]
    steps = [check_occupancy(table, panel) for panel in panels]
    count = len(mdp.map.locations)
    visits = [np.bincount(place, occupancy, count).astype(np.float64) for occupancy in steps]
    centre = _lay_out(mdp.map.locations)
    low, high, edge = centre.min(axis=0), centre.max(axis=0), _NODE + 0.175
    width, height = high - low + (2 * edge, 2 * _NODE + 0.5)
    inches = max(0.36, min(1.05, 4.2 / width))
    figure, axes = panel_figure([panel.title for panel in panels], width * inches, height * inches)
    scale = ScalarMappable(Normalize(0.0, max(1.0, float(np.max(visits)))), "Blues")
    for ax, policy, occupancy, seen in zip(axes, policies, steps, visits, strict=True):
        shares = _road_shares(mdp, place, policy, np.where(table.absorbing, 0.0, occupancy))
        _draw_roads(ax, mdp, centre, shares, numbers=_is_small(mdp))
        _draw_places(ax, mdp, centre, seen, scale)
        ax.set(xlim=(low[0] - edge, high[0] + edge), ylim=(low[1] - _NODE - 0.3, high[1] + _NODE + 0.2))
        ax.set_aspect("equal")
        ax.set_axis_off()
    _draw_spares(axes[0], np.array([[low[0], high[1]]]), "key")
    axes[0].text(low[0] + 0.13, high[1], "spare", va="center", fontsize=SMALL_SIZE, color=INK)
    bar = figure.colorbar(scale, ax=axes, shrink=0.6, aspect=30, fraction=0.02, pad=0.015)
    bar.ax.tick_params(labelsize=SMALL_SIZE, color=FRAME, labelcolor=INK, width=0.7, length=3)
    bar.set_label("steps there per episode", fontsize=TEXT_SIZE, color=INK)
    bar.outline.set(edgecolor=FRAME, linewidth=0.7)
    return figure


def _check_table(mdp: Tireworld, table: TabularMDP) -> NDArray[np.int32]:
    """Return the location ``[S]`` of each state."""
    place = locations_of(table.identities)
    words = 1 + num_words(len(mdp.map.spares))
    strange = table.identities.shape[1] != words or table.num_actions != mdp.num_actions
    if strange or place.min() < 0 or place.max() >= len(mdp.map.locations):
        raise PolinferError("the table is not one of this Tireworld; make it with tabulate(mdp)")
    return place


def _is_small(mdp: Tireworld) -> bool:
    return len(mdp.map.locations) <= _NUMBERED * (_NUMBERED + 1) // 2


def _lay_out(locations: Sequence[str]) -> Floats:
    """Return where the locations lie, ``[L, 2]``, neighbours about one apart.

    ``la2a3`` is the third of the second row of a triangle, counted from the lower left.  Locations with other
    names lie on a circle.
    """
    found = [re.fullmatch(r"la(\d+)a(\d+)", name) for name in locations]
    if all(found):
        row, column = np.array([[int(part) for part in match.groups()] for match in found if match]).T
        return np.stack([column + row / 2, row * np.sqrt(3) / 2], axis=1)
    angle = np.pi - 2 * np.pi * np.arange(len(locations)) / len(locations)
    radius = 0.5 / np.sin(np.pi / max(2, len(locations)))
    return np.asarray(radius * np.stack([np.cos(angle), np.sin(angle)], axis=1))


def _road_shares(mdp: Tireworld, place: NDArray[np.int32], policy: Floats, occupancy: Floats) -> Floats:
    """Return the share ``[roads]`` of the moves out of its location that take a road; NaN without moves."""
    locations = mdp.map.locations
    out = [[k for k, road in enumerate(mdp.map.roads) if road[0] == name] for name in locations]
    shares = np.full(len(mdp.map.roads), np.nan)
    for number, roads in enumerate(out):
        here = (place == number) & (occupancy > 0)
        moves = occupancy[here] @ policy[here, : len(roads)]
        if moves.sum() > 0:
            shares[roads] = moves / moves.sum()
    return shares


def _draw_roads(ax: Axes, mdp: Tireworld, centre: Floats, shares: Floats, *, numbers: bool) -> None:
    number = {name: i for i, name in enumerate(mdp.map.locations)}
    ends = np.array([[number[origin], number[target]] for origin, target in mdp.map.roads])
    root, tip = centre[ends[:, 0]], centre[ends[:, 1]]
    along = (tip - root) / np.linalg.norm(tip - root, axis=1, keepdims=True)
    root, tip = root + (_NODE + _GAP) * along, tip - (_NODE + _GAP) * along
    across = np.stack([-along[:, 1], along[:, 0]], axis=1)
    ax.add_collection(
        LineCollection(list(np.stack([root, tip], axis=1)), colors="#c4c4c4", linewidths=0.8, label="roads"),
        autolim=False,
    )
    share = np.nan_to_num(shares)[:, None]
    half = _WIDEST / 2 * share
    # The head of an arrow too thin to see vanishes with it.
    flare = half + _FLARE * np.minimum(1.0, 8 * share)
    neck = tip - _HEAD * along
    corners = [
        root - half * across,
        neck - half * across,
        neck - flare * across,
        tip,
        neck + flare * across,
        neck + half * across,
        root + half * across,
    ]
    arrows = PolyCollection(
        list(np.stack(corners, axis=1)), facecolors=PALETTE[1], linewidths=0.0, zorder=2, label="moves"
    )
    ax.add_collection(arrows, autolim=False)
    if numbers:
        # Left of roads that rise, a little before their middle, and below all others: where there is room.
        rises, falls = along[:, 1:] > 0.1, along[:, 1:] < -0.1
        middle = root + np.where(rises, 0.38, 0.5) * (tip - root)
        at = middle + np.select([rises, falls], [0.25, -0.22], -0.18) * across
        for (x, y), p in zip(at, np.nan_to_num(shares), strict=True):
            if p >= 0.005:
                ax.text(x, y, _number(p), ha="center", va="center", fontsize=SMALL_SIZE, color=INK, zorder=4)


def _draw_places(ax: Axes, mdp: Tireworld, centre: Floats, seen: Floats, scale: ScalarMappable) -> None:
    names = mdp.map.locations
    colour = scale.to_rgba(seen)
    _circles(ax, centre, _NODE, "locations", facecolors=colour, edgecolors=FRAME, linewidths=0.7, zorder=3)
    for name, label, edge in (
        (mdp.map.start, "start", PALETTE[2]),
        (mdp.map.goal, "goal", CELL_COLOURS["G"]),
    ):
        at = centre[[names.index(name)]]
        _circles(ax, at, _NODE, label, facecolors="none", edgecolors=edge, linewidths=2.2, zorder=4)
        x, y = at[0] - (0.0, _NODE + 0.07)
        ax.text(x, y, label, ha="center", va="top", fontsize=SMALL_SIZE, color=INK)
    if _is_small(mdp):
        for (x, y), visits, rgba in zip(centre, seen, colour, strict=True):
            ink = "white" if rgba[:3] @ (0.299, 0.587, 0.114) < 0.55 else INK
            text = _number(visits)
            ax.text(x, y, text, ha="center", va="center_baseline", fontsize=SMALL_SIZE, color=ink, zorder=5)
    spares = centre[[names.index(name) for name in mdp.map.spares]] + (0.0, _NODE)
    _draw_spares(ax, spares, "spares")


def _draw_spares(ax: Axes, at: Floats, label: str) -> None:
    _circles(ax, at, _SPARE, label, facecolors=INK, linewidths=0.0, zorder=5)
    _circles(ax, at, 0.45 * _SPARE, "", facecolors="white", linewidths=0.0, zorder=6)


def _circles(ax: Axes, at: Floats, radius: float, label: str, **look: Any) -> None:
    size = np.full(len(at), 2 * radius)
    shapes = EllipseCollection(
        size,
        size,
        np.zeros(len(at)),
        units="xy",
        offsets=at,
        offset_transform=ax.transData,
        label=label,
        **look,
    )
    ax.add_collection(shapes, autolim=False)


def _number(value: float) -> str:
    """Format a share with two decimals; 0 and 1 without decimals."""
    text = f"{value:.2f}"
    return text[0] if text in ("0.00", "1.00") else text
