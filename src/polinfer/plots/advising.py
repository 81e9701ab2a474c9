"""Prerequisite graphs of Academic Advising: which courses are taken, how often, and which first.

A course is the darker, the likelier it is ever taken; the number is how often it is taken in an episode.  The
bar at its foot is the probability that the first enrolment has it.  Required courses have a bold frame.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import PathCollection, PolyCollection
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.path import Path
from numpy.typing import NDArray

from polinfer.core.errors import PolinferError
from polinfer.exact.solution import Floats
from polinfer.plots.layers import Layers, lay_out
from polinfer.plots.panels import PolicyPanel, check_panels, panel_figure
from polinfer.plots.policy import check_occupancy, mean_policy
from polinfer.plots.style import FRAME, INK, PALETTE, SMALL_SIZE, TEXT_SIZE, wrap_text
from polinfer.problems.domains.advising import Advising
from polinfer.problems.domains.bitsets import BITS, num_words
from polinfer.problems.domains.ippc2014 import Curriculum
from polinfer.problems.tabular.table import TabularMDP

_SCALE = (0.86, 0.62)  # inches between columns and between rows
_BOX = (0.62, 0.60)  # width and height of a course, in columns and rows
_BAR = (0.05, 0.09)  # the gap above the bar, and its height, in rows
_HEAD = (0.09, 0.065)  # the length of an arrow's head, and half its width
_KEY = (
    "number: enrolments per episode; orange bar: probability of being in the first enrolment; "
    "bold frame: required"
)


class _Enrolments(NamedTuple):
    ever: Floats  # [C], the probability that a course is ever taken
    mean: Floats  # [C], how often it is taken in an episode
    first: Floats  # [C], the probability that the first enrolment has it


def advising_figure(mdp: Advising, table: TabularMDP, panels: Sequence[PolicyPanel]) -> Figure:
    """Draw one prerequisite graph per panel, four in a row.

    Columns go by level, which is the first digit in a course's name, and within a level by prerequisites.

    Parameters
    ----------
    table
        Of `mdp`.
    panels
        Policies and occupancies by state of `table`; several seeds are averaged.

    Examples
    --------
    >>> import polinfer
    >>> mdp = polinfer.make("advising/1", relevant_only=True)
    >>> table = polinfer.tabulate(mdp)
    >>> optimum = polinfer.exact.stationary_optimum(table)
    >>> visits = polinfer.exact.evaluate_policy(table, optimum.policy).occupancy
    >>> figure = advising_figure(mdp, table, [PolicyPanel("optimum", optimum.policy, visits)])
    >>> [text.get_text() for text in figure.axes[0].texts[:2]]
    ['CS11', '1.25']
    """
    taken = _check_table(mdp, table)
    counts = [_count(mdp, table, taken, panel) for panel in check_panels(panels)]
    levels, graph = _lay_out(mdp.curriculum)
    points = np.concatenate([graph.nodes, *graph.routes])
    low, high = points.min(axis=0) - np.array([0.4, 0.75]), points.max(axis=0) + np.array([0.4, 0.4])
    width, height = (high - low) * _SCALE
    titles = [panel.title for panel in panels]
    figure, axes = panel_figure(titles, width, height, margin=(0.6, 0.25))
    scale = ScalarMappable(Normalize(0.0, 1.0), "Blues")
    for ax, count in zip(axes, counts, strict=True):
        _draw_arrows(ax, graph)
        _draw_courses(ax, mdp.curriculum, graph.nodes, count, scale)
        for level in sorted(set(levels)):
            at = np.mean([graph.nodes[c, 0] for c, found in enumerate(levels) if found == level])
            bottom = low[1] + 0.02
            ax.text(at, bottom, f"level {level}", ha="center", fontsize=SMALL_SIZE, color=FRAME)
        ax.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))
        ax.set_axis_off()
    bar = figure.colorbar(scale, ax=axes, shrink=0.7, aspect=30, fraction=0.02, pad=0.015)
    bar.ax.tick_params(labelsize=SMALL_SIZE, color=FRAME, labelcolor=INK, width=0.7, length=3)
    bar.set_label("probability of ever enrolling", fontsize=TEXT_SIZE, color=INK)
    bar.outline.set(edgecolor=FRAME, linewidth=0.7)
    key = wrap_text(_KEY, figure.get_figwidth() - 0.3, SMALL_SIZE)
    figure.supxlabel(key, fontsize=SMALL_SIZE, color=INK)
    return figure


def _check_table(mdp: Advising, table: TabularMDP) -> NDArray[np.bool_]:
    """Return which courses have been taken in each state, ``[S, C]``."""
    count = len(mdp.curriculum.courses)
    words = num_words(count)
    if table.identities.shape[1] != 2 * words or table.action_names != mdp.action_names:
        raise PolinferError("the table is not one of this Advising; make it with tabulate(mdp)")
    course = np.arange(count)
    bits = table.identities[:, words + course // BITS] >> course % BITS
    return np.asarray(bits & 1 != 0)


def _count(mdp: Advising, table: TabularMDP, taken: NDArray[np.bool_], panel: PolicyPanel) -> _Enrolments:
    # Where nothing is decided nothing is taken, and NaN in states that are never visited must not spread.
    visits = np.where(table.absorbing, 0.0, check_occupancy(table, panel))
    seen = (visits > 0) | (table.initial > 0)
    policy = np.where(seen[:, None], mean_policy(table, panel), 0.0)
    sets = [set(name.removeprefix("enrol ").split("+")) for name in mdp.action_names]
    member = np.array([[course in chosen for course in mdp.curriculum.courses] for chosen in sets])
    takes = policy @ member  # [S, C]
    # A course has at most one first time, so that their mean number is a probability.
    return _Enrolments(visits @ (takes * ~taken), visits @ takes, table.initial @ takes)


def _lay_out(plan: Curriculum) -> tuple[list[int], Layers]:
    """Return the level of each course, and the graph with courses and prerequisites in their order."""
    number = {course: i for i, course in enumerate(plan.courses)}
    edges = [(number[first], number[second]) for first, second in plan.prerequisites]
    digits = [re.search(r"\d", course) for course in plan.courses]
    levels = [int(digit[0]) if digit else 0 for digit in digits]
    rank = [(level, 0) for level in levels]
    for _ in plan.courses:
        for first, second in edges:
            level, depth = rank[first]
            rank[second] = max(rank[second], (level, depth + 1))
    if any(rank[first] >= rank[second] for first, second in edges):
        raise PolinferError("the prerequisites go round in a circle, so that they cannot be drawn")
    columns = sorted(set(rank))
    return levels, lay_out([columns.index(found) for found in rank], edges)


def _draw_arrows(ax: Axes, graph: Layers) -> None:
    half = _BOX[0] / 2
    paths, ends = [], set()
    for route in graph.routes:
        # Level while it passes a column, bent between columns.
        points = [point for x, y in route for point in ((x - half, y), (x + half, y))][1:-1]
        points[-1] = (points[-1][0] - _HEAD[0] / 2, points[-1][1])
        vertices, codes = [points[0]], [Path.MOVETO]
        for (x0, y0), (x1, y1) in itertools.pairwise(points):
            middle = (x0 + x1) / 2
            vertices += [(middle, y0), (middle, y1), (x1, y1)]
            codes += [Path.CURVE4] * 3
        paths.append(Path(vertices, codes))
        ends.add((route[-1][0] - half, route[-1][1]))
    lines = PathCollection(paths, facecolors="none", edgecolors=FRAME, linewidths=0.8, label="prerequisites")
    length, side = _HEAD
    heads = [[(x, y), (x - length, y + side), (x - length, y - side)] for x, y in sorted(ends)]
    tips = PolyCollection(heads, facecolors=FRAME, linewidths=0.0, label="heads")
    for collection in (lines, tips):
        ax.add_collection(collection, autolim=False)


def _draw_courses(
    ax: Axes, plan: Curriculum, centre: Floats, count: _Enrolments, scale: ScalarMappable
) -> None:
    colour = scale.to_rgba(count.ever)
    corners = np.array([(-0.5, -0.5), (0.5, -0.5), (0.5, 0.5), (-0.5, 0.5)]) * _BOX
    required = [course in plan.required for course in plan.courses]
    boxes = PolyCollection(
        list(centre[:, None] + corners),
        facecolors=colour,
        edgecolors=[INK if bold else FRAME for bold in required],
        linewidths=[1.8 if bold else 0.7 for bold in required],
        zorder=2,
        label="courses",
    )
    top = centre - np.array([_BOX[0] / 2, _BOX[1] / 2 + _BAR[0]])
    unit = np.array([(0.0, 0.0), (1.0, 0.0), (1.0, -1.0), (0.0, -1.0)]) * (_BOX[0], _BAR[1])
    whole = top[:, None] + unit
    part = top[:, None] + unit * np.stack([count.first, np.ones_like(count.first)], axis=1)[:, None]
    tracks = PolyCollection(list(whole), facecolors="#ececec", linewidths=0.0, zorder=2, label="certain")
    bars = PolyCollection(list(part), facecolors=PALETTE[1], linewidths=0.0, zorder=3, label="first")
    for collection in (boxes, tracks, bars):
        ax.add_collection(collection, autolim=False)
    for (x, y), course, mean, rgba in zip(centre, plan.courses, count.mean, colour, strict=True):
        ink = "white" if rgba[:3] @ (0.299, 0.587, 0.114) < 0.55 else INK
        look: dict[str, Any] = {"ha": "center", "va": "center", "color": ink, "zorder": 4}
        ax.text(x, y + 0.13, course, fontsize=TEXT_SIZE, **look)
        ax.text(x, y - 0.14, f"{mean:.2f}", fontsize=SMALL_SIZE, **look)
