"""Graphs of small tables without places: what leads where, and what is done there.

States are boxes in columns, by the number of arrows from a start.  A box names the state and its likeliest
action; it is the darker, the more it is visited.  An arrow is the wider, the likelier the policy goes there;
arrows that lead back, or stay in a column, are bent and dashed.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch
from matplotlib.path import Path
from numpy.typing import NDArray

from polinfer.exact.solution import Floats
from polinfer.plots.layers import Layers, lay_out
from polinfer.plots.legend import Kind, add_legend
from polinfer.plots.panels import PolicyPanel, panel_figure
from polinfer.plots.policy import check_occupancy, mean_policy
from polinfer.plots.style import FRAME, INK, SMALL_SIZE, TEXT_SIZE, text_width
from polinfer.problems.domains.gridworld import CELL_COLOURS
from polinfer.problems.tabular.table import TabularMDP

MAX_NODES = 30
_MOST_EDGES = 2.2  # arrows per state, beyond which nobody can follow them
_FAINT = 0.02  # probability of going there, below which an arrow is left out
_NAME = 16  # letters
_ROOM = (0.55, 0.62)  # inches between boxes of a column's neighbours, and from row to row
_HEIGHT = 0.46  # inches of a box
_BEND, _SAG, _SIDE = 0.4, 0.5, 0.3  # of arrows back, and inches that they go below or beside the boxes
_LEADS = 1.2  # times an even share: from there on an action is named
_FAILED, _ENDED, _PLAIN = "#56a0d3", "#d8c6e6", "#dfe9f3"
_DARKEST = 0.75


class Graph(NamedTuple):
    """What of a table is drawn, and where."""

    states: NDArray[np.int64]  # [n]
    steps: tuple[Floats, ...]  # for each panel the probability ``[n, n]`` of going from one to another
    edges: list[tuple[int, int]]  # between the numbers of `states`, without those that stay
    column: NDArray[np.int64]  # [n]
    layers: Layers  # with a route for each edge that leads to a later column


def graph_of(table: TabularMDP, panels: Sequence[PolicyPanel]) -> Graph | None:
    """Return the graph of what the panels visit; None where it has too many states or arrows to be read."""
    policies = [mean_policy(table, panel) for panel in panels]
    visits = np.mean([check_occupancy(table, panel) for panel in panels], axis=0)
    acting = np.flatnonzero(~table.absorbing & (visits > 0))
    if not 1 < len(acting) <= MAX_NODES:
        return None
    moved = [_moves(table, policy, acting) for policy in policies]
    reached = np.flatnonzero(table.absorbing & (np.max(moved, axis=0).max(axis=0) >= _FAINT))
    states = np.concatenate([acting, reached])
    if len(states) > MAX_NODES:
        return None
    steps = [np.zeros((len(states), len(states))) for _ in moved]
    for square, rows in zip(steps, moved, strict=True):
        square[: len(acting)] = rows[:, states]
    drawn = np.max(steps, axis=0) >= _FAINT
    np.fill_diagonal(drawn, False)
    edges = [(int(a), int(b)) for a, b in np.argwhere(drawn)]
    if len(edges) > _MOST_EDGES * len(states):
        return None
    column = _columns(drawn, table.initial[states] > 0)
    # Without empty columns, as those of states that only faint arrows lead to would be.
    column = np.unique(column, return_inverse=True)[1].ravel()
    forward = [(a, b) for a, b in edges if column[a] < column[b]]
    return Graph(states, tuple(steps), edges, column, lay_out(column.tolist(), forward))


def _moves(table: TabularMDP, policy: Floats, states: NDArray[np.int64]) -> Floats:
    """Return the probability ``[n, S]`` of each next state under a policy."""
    found = np.zeros((len(states), table.num_states))
    share = np.nan_to_num(policy[states])[..., None] * table.probability[states]
    row = np.broadcast_to(np.arange(len(states))[:, None, None], share.shape)
    np.add.at(found, (row, table.successor[states]), share)
    return found


def _columns(leads: NDArray[np.bool_], first: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the number of arrows from a start to each state; one more than the last where none leads.

    Where no arrow leads back, the longest way counts, so that all arrows lead to a later column.
    """
    longest = np.zeros(len(first), np.int64)
    for _ in range(len(first)):
        longest = np.where(leads, longest[:, None] + 1, 0).max(axis=0)
    if longest.max() < len(first):
        return longest
    column, here, depth = np.full(len(first), -1), first, 0
    while here.any():
        column[here] = depth
        here = leads[here].any(axis=0) & (column < 0)
        depth += 1
    return np.where(column < 0, depth, column)


def graph_figure(table: TabularMDP, graph: Graph, panels: Sequence[PolicyPanel]) -> Figure:
    """Draw one graph per panel.

    Examples
    --------
    >>> import polinfer
    >>> table = polinfer.tabulate(polinfer.make("continuation"))
    >>> policy = polinfer.exact.uniform_policy(table)
    >>> visits = polinfer.exact.evaluate_policy(table, policy).occupancy
    >>> panels = [PolicyPanel("uniform", policy, visits)]
    >>> graph_of(table, panels) is None  # one state in which something is decided
    True
    """
    words = [[_short(table.state_names[s]) for s in graph.states]]
    words += [[_doing(table, mean_policy(table, panel), s) for s in graph.states] for panel in panels]
    longest = max(len(text) for text in (*itertools.chain(*words), "stays: 0.00"))
    wide = text_width(longest, TEXT_SIZE) + 0.12
    scale = np.array([wide + _ROOM[0], _ROOM[1]])
    place = graph.layers.nodes * scale
    points = np.concatenate([place, *(route * scale for route in graph.layers.routes)])
    aside = any(graph.column[a] == graph.column[b] for a, b in graph.edges)
    back = any(graph.column[a] > graph.column[b] for a, b in graph.edges)
    beyond = np.array([wide / 2 + 0.1, _HEIGHT / 2 + 0.1])
    low = points.min(axis=0) - beyond - np.array([0.0, _SAG if back else 0.0])
    high = points.max(axis=0) + beyond + np.array([_SIDE if aside else 0.0, 0.0])
    figure, axes = panel_figure([panel.title for panel in panels], *(high - low))
    most = max(np.where(table.absorbing, 0.0, check_occupancy(table, panel)).max() for panel in panels)
    for ax, panel, steps, doing in zip(axes, panels, graph.steps, words[1:], strict=True):
        ax.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), aspect="equal")
        ax.set_axis_off()
        _draw_arrows(ax, graph, steps, place, scale, wide)
        shade = check_occupancy(table, panel)[graph.states] / max(most, 1e-300)
        _draw_boxes(ax, table, graph, place, (words[0], doing, _staying(graph, steps)), shade, wide)
    kinds = [Kind("visited", _PLAIN)]
    if (table.initial[graph.states] > 0).any():
        kinds.append(Kind("start", _PLAIN, framed=True))
    shown = set(table.ending_of[graph.states].tolist())
    kinds += [
        Kind(ending.name, _ending_colour(table, index))
        for index, ending in enumerate(table.endings)
        if index in shown
    ]
    if (table.absorbing & (table.ending_of < 0))[graph.states].any():
        kinds.append(Kind("end", _ENDED))
    add_legend(figure, kinds, "likeliest action, its probability; wider: more probable; darker: more visits")
    return figure


def _ending_colour(table: TabularMDP, index: int) -> str:
    return _ENDED if index < 0 else CELL_COLOURS["G"] if table.endings[index].success else _FAILED


def _doing(table: TabularMDP, policy: Floats, state: int) -> str:
    if table.absorbing[state]:
        return ""
    best = int(np.nan_to_num(policy[state]).argmax())
    name, count = _short(table.action_names[best]), int(table.legal_actions[state].sum())
    if count == 1:
        return name
    return f"{name}: {policy[state, best]:.2f}" if policy[state, best] * count > _LEADS else "any action"


def _staying(graph: Graph, steps: Floats) -> list[str]:
    return [f"stays: {chance:.2f}" if chance >= _FAINT else "" for chance in np.diag(steps)]


def _draw_arrows(ax: Axes, graph: Graph, steps: Floats, place: Floats, scale: Floats, wide: float) -> None:
    routes = iter(graph.layers.routes)
    side = wide / 2 + 0.02
    for first, second in graph.edges:
        forward = graph.column[first] < graph.column[second]
        route = next(routes) * scale if forward else None
        chance = steps[first, second]
        if chance < _FAINT:
            continue
        look: dict[str, Any] = {
            "arrowstyle": "-|>,head_length=3.5,head_width=1.8",
            "mutation_scale": 1.0,
            "linewidth": 0.5 + 2.5 * chance,
            "color": FRAME,
            "zorder": 1,
        }
        if route is not None:
            # Level while it passes a column, bent between columns.
            points = [point for x, y in route for point in ((x - side, y), (x + side, y))][1:-1]
            vertices, codes = [points[0]], [Path.MOVETO]
            for (x0, y0), (x1, y1) in itertools.pairwise(points):
                middle = (x0 + x1) / 2
                vertices += [(middle, y0), (middle, y1), (x1, y1)]
                codes += [Path.CURVE4] * 3
            ax.add_patch(FancyArrowPatch(path=Path(vertices, codes), shrinkA=0, shrinkB=0, **look))
            continue
        # Back below the boxes; within a column beside them.
        if graph.column[first] == graph.column[second]:
            ends, most = place[[first, second]] + np.array([side, 0.0]), _SIDE
            sign = 1.0 if place[first, 1] < place[second, 1] else -1.0
        else:
            ends, most = place[[first, second]] - np.array([0.0, _HEIGHT / 2]), _SAG
            sign = -1.0
        # The middle of such an arc is half of `bend` times its length away from the straight line.
        bend = sign * min(_BEND, 1.6 * most / float(np.linalg.norm(ends[1] - ends[0])))
        ax.add_patch(
            FancyArrowPatch(
                *ends, connectionstyle=f"arc3,rad={bend}", linestyle="--", shrinkA=0, shrinkB=0, **look
            )
        )


def _draw_boxes(
    ax: Axes,
    table: TabularMDP,
    graph: Graph,
    place: Floats,
    words: tuple[list[str], list[str], list[str]],
    shade: Floats,
    wide: float,
) -> None:
    for number, (state, (x, y)) in enumerate(zip(graph.states, place, strict=True)):
        ended = bool(table.absorbing[state])
        dark = 0.0 if ended else _DARKEST * float(np.clip(shade[number], 0.0, 1.0))
        colour = _ending_colour(table, int(table.ending_of[state])) if ended else _PLAIN
        start = table.initial[state] > 0
        corner, size = (x - wide / 2, y - _HEIGHT / 2), (wide, _HEIGHT)
        style = "round,pad=0,rounding_size=0.06"
        box: dict[str, Any] = {"boxstyle": style, "zorder": 2}
        ax.add_patch(FancyBboxPatch(corner, *size, facecolor=colour, edgecolor="none", **box))
        ax.add_patch(
            FancyBboxPatch(
                corner,
                *size,
                facecolor=(0.0, 0.0, 0.0, dark),
                edgecolor="black" if start else FRAME,
                linewidth=1.6 if start else 0.6,
                **box,
            )
        )
        lines = [part[number] for part in words if part[number]]
        for line, text in enumerate(lines):
            ax.text(
                x,
                y + 0.14 * ((len(lines) - 1) / 2 - line),
                text,
                fontsize=TEXT_SIZE if line == 0 else SMALL_SIZE,
                fontweight="bold" if line == 0 else "normal",
                color="white" if dark > 0.45 else INK,
                ha="center",
                va="center",
                zorder=3,
            )


def _short(name: str) -> str:
    return name if len(name) <= _NAME else name[: _NAME - 1] + "…"
