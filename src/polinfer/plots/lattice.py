"""Maps of tables whose states are named by row and column: FrozenLake, CliffWalking, Taxi, MiniGrid.

What a state says besides its place, such as where Taxi's passenger waits, is a layer, and a layer is a map.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import Collection, PolyCollection
from matplotlib.figure import Figure
from numpy.typing import NDArray

from polinfer.exact.solution import Floats
from polinfer.plots.crosses import arrow_collection, frames, letters, squares
from polinfer.plots.legend import Kind, add_legend
from polinfer.plots.panels import PolicyPanel, panel_figure
from polinfer.plots.policy import check_occupancy, mean_policy
from polinfer.problems.domains.gridworld import CELL_COLOURS
from polinfer.problems.tabular.table import TabularMDP

_NAME = re.compile(r"(?:row (\d+) column (\d+)|column (\d+) row (\d+)),? ?(.*?)(?: \(end\))?$")
_FACING = re.compile(r"facing (\w+)")
_STEPS = {
    "right": (1, 0),
    "east": (1, 0),
    "left": (-1, 0),
    "west": (-1, 0),
    "up": (0, 1),
    "north": (0, 1),
    "down": (0, -1),
    "south": (0, -1),
}
_MOST_LAYERS = 8  # maps of one panel, the most visited first
_FAILED, _EMPTY, _ENDED = "#56a0d3", "#f2f2f2", "#d8c6e6"
_END, _OPEN = "E", "·"  # marks of an end without a name, and of actions about as probable as one another
_LEADS = 1.2  # times an even share: from there on the likeliest action is drawn
_DARKEST = 0.75
_MOST_STARTS = 4


class Lattice(NamedTuple):
    """Where the states of a table are."""

    place: NDArray[np.int64]  # [S, 2] column and row, both from the first that is one, rows downwards
    layer: NDArray[np.int64]  # [S]
    layers: tuple[str, ...]  # their names
    facing: Floats  # [S, 2] the direction that a state looks to; zero where it has none

    @property
    def size(self) -> tuple[int, int]:
        """Columns and rows."""
        return int(self.place[:, 0].max()) + 1, int(self.place[:, 1].max()) + 1


def lattice_of(table: TabularMDP) -> Lattice | None:
    """Read places from the names of states; None where they do not tell, or where there is but one row.

    Examples
    --------
    >>> import polinfer
    >>> lattice_of(polinfer.make("gym:FrozenLake-v1")).size
    (4, 4)
    >>> lattice_of(polinfer.make("bandit")) is None
    True
    """
    found = [_NAME.match(name) for name in table.state_names]
    places, rest = [], []
    for match in found:
        if match is None:
            return None
        row, column = (match[1], match[2]) if match[1] is not None else (match[4], match[3])
        places.append((int(column), int(row)))
        rest.append(match[5])
    place = np.array(places)
    place -= place.min(axis=0)  # the outer walls of MiniGrid are no states
    facing = [_FACING.search(words) for words in rest]
    looks = np.array([_STEPS.get(match[1], (0, 0)) if match else (0, 0) for match in facing], np.float64)
    names, layer = np.unique(rest, return_inverse=True)
    if place.max() < 1:
        return None
    return Lattice(place, layer, tuple(map(str, names)), looks)


def lattice_figure(table: TabularMDP, lattice: Lattice, panels: Sequence[PolicyPanel]) -> Figure:
    """Draw each panel as one map, or as one for each of its most visited layers.

    An arrow is the most probable move, as long as it is probable; another action, such as picking up, is its
    first letter.
    """
    visits = np.mean([check_occupancy(table, panel) for panel in panels], axis=0)
    share = np.bincount(lattice.layer, np.where(table.absorbing, 0.0, visits), len(lattice.layers))
    shown = np.argsort(-share, kind="stable")[: _MOST_LAYERS if len(lattice.layers) > 1 else 1]
    shown = np.array([one for one in shown if share[one] > 0] or shown[:1])
    columns, rows = lattice.size
    cell = min(0.55, max(0.14, 4.0 / max(columns, rows)))
    drawn = [(panel, int(one)) for panel in panels for one in shown]
    titles = [
        f"{panel.title}: {lattice.layers[one]}" if lattice.layers[one] else panel.title
        for panel, one in drawn
    ]
    figure, axes = panel_figure(titles, max(1.5, columns * cell), rows * cell)
    for ax, (panel, one) in zip(axes, drawn, strict=True):
        _draw(ax, table, lattice, mean_policy(table, panel), visits, lattice.layer == one)
    others = _other_actions(table)
    kinds = [Kind("visited", CELL_COLOURS["."]), Kind("never visited", _EMPTY)]
    if _few_starts(table):
        kinds.append(Kind("start", CELL_COLOURS["."], framed=True))
    kinds += [
        Kind(ending.name, CELL_COLOURS["G"] if ending.success else _FAILED, ending.name[:1].upper())
        for ending in table.endings
    ]
    if (table.absorbing & (table.ending_of < 0) & (visits > 0)).any():
        kinds.append(Kind("end", _ENDED, _END))
    if others:
        kinds.append(Kind("no action leads", "white", _OPEN))
    kinds += [Kind(table.action_names[action], "white", _letter(table, action)) for action in others]
    remark = "arrow: likeliest move, longer: more probable; darker: more visits"
    left_out = int((share > 0).sum()) - len(shown)
    add_legend(figure, kinds, remark + (f"; {left_out} more layers" if left_out > 0 else ""))
    return figure


def _few_starts(table: TabularMDP) -> bool:
    """Return whether starts are so few that frames around them say something."""
    return int((table.initial > 0).sum()) <= _MOST_STARTS


def _directions(table: TabularMDP) -> Floats:
    """Return the step ``[A, 2]`` of each action; zero where it is no move in a direction of the compass."""
    names = [name.lower() for name in table.action_names]
    compass = {"up", "down"} <= set(names) or {"north", "south"} <= set(names)
    return np.array([_STEPS.get(name, (0, 0)) if compass else (0, 0) for name in names], np.float64)


def _other_actions(table: TabularMDP) -> list[int]:
    steps = _directions(table)
    return [action for action in range(table.num_actions) if not steps[action].any()]


def _letter(table: TabularMDP, action: int) -> str:
    """Return the fewest letters that tell an action from the others without a direction."""
    name = table.action_names[action]
    names = [table.action_names[other] for other in _other_actions(table) if other != action]
    for count in range(1, len(name)):
        if not any(other.lower().startswith(name[:count].lower()) for other in names):
            return name[:count].upper() if count == 1 else name[:count]
    return name


def _draw(
    ax: Axes,
    table: TabularMDP,
    lattice: Lattice,
    policy: Floats,
    visits: Floats,
    inside: NDArray[np.bool_],
) -> None:
    columns, rows = lattice.size
    every = np.array([(x + 1.0, y + 1.0) for y in range(rows) for x in range(columns)])
    centre = np.stack([lattice.place[:, 0] + 1.0, rows - lattice.place[:, 1]], axis=-1).astype(np.float64)
    # What is never visited, such as CliffWalking's cliff, stays pale.
    acting = inside & ~table.absorbing & (visits > 0)
    taken = set(map(tuple, lattice.place[acting].tolist()))
    alone = np.array([tuple(place) not in taken for place in lattice.place.tolist()])
    named = table.ending_of >= 0
    ended = inside & table.absorbing & (named | (visits > 0)) & alone
    good = np.array([ending.success for ending in table.endings] + [False])[table.ending_of]
    most = visits[~table.absorbing].max(initial=0.0)
    shade = np.zeros((int(acting.sum()), 4))
    shade[:, 3] = _DARKEST * np.clip(visits[acting] / most, 0.0, 1.0) if most > 0 else 0.0
    edge: Any = {"edgecolors": "white", "linewidths": 0.8}
    collections: list[Collection] = [
        PolyCollection(list(squares(every, 0.5)), facecolors=_EMPTY, label="empty", **edge),
        PolyCollection(
            list(squares(centre[acting], 0.5)), facecolors=CELL_COLOURS["."], label="ground", **edge
        ),
        PolyCollection(
            list(squares(centre[ended], 0.5)),
            facecolors=[
                _ENDED if not told else CELL_COLOURS["G"] if well else _FAILED
                for told, well in zip(named[ended], good[ended], strict=True)
            ],
            label="endings",
            **edge,
        ),
        PolyCollection(
            list(squares(centre[acting], 0.35)), facecolors=shade, linewidths=0.0, label="occupancy"
        ),
    ]
    names = [
        table.endings[index].name[:1].upper() if index >= 0 else _END for index in table.ending_of[ended]
    ]
    collections.append(letters(names, centre[ended], size=0.5))
    if _few_starts(table):
        collections.append(frames(centre[acting & (table.initial > 0)], 0.09))
    collections += _policy(table, lattice, policy, centre, acting)
    for collection in collections:
        collection.set_snap(False)
        ax.add_collection(collection, autolim=False)
    ax.set(xlim=(0.5, columns + 0.5), ylim=(0.5, rows + 0.5), aspect="equal")
    ax.set_axis_off()


def _policy(
    table: TabularMDP, lattice: Lattice, policy: Floats, centre: Floats, acting: NDArray[np.bool_]
) -> list[Collection]:
    """Draw arrows where the likeliest action is a move, and letters where it is not."""
    steps = np.repeat(_directions(table)[None], table.num_states, axis=0)  # [S, A, 2]
    forward = [action for action, name in enumerate(table.action_names) if name.lower() == "forward"]
    steps[:, forward] = lattice.facing[:, None]
    states = np.flatnonzero(acting)
    best = policy[states].argmax(axis=1)
    moves = steps[states, best].any(axis=1)
    found: list[Collection] = []
    for direction in np.unique(steps[states[moves], best[moves]], axis=0):
        own = states[moves][(steps[states[moves], best[moves]] == direction).all(axis=1)]
        chance = policy[own].max(axis=1, keepdims=True)
        found.append(arrow_collection(chance, centre[own], direction[None]))
    still = states[~moves]
    leads = policy[still].max(axis=1) * table.legal_actions[still].sum(axis=1) > _LEADS
    words = [
        _letter(table, int(action)) if clear else _OPEN
        for action, clear in zip(best[~moves], leads, strict=True)
    ]
    marks = letters(words, centre[still], size=0.4)
    marks.set(facecolor="white", label="actions")
    return [*found, marks]
