"""What a problem looks like: a grid, places on a map, a strategy chart, courses, a graph, or a list."""

from __future__ import annotations

import re
from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from polinfer.problems.domains import Advising, Blackjack, GridWorld, Tireworld
from polinfer.problems.domains.bitsets import members
from polinfer.problems.domains.blackjack import hands_of
from polinfer.problems.domains.tireworld import locations_of
from polinfer.problems.registry import Problem, spec_of
from polinfer.problems.tabular import TabularMDP

GRAPH_STATES = 200
"""Beyond so many states a problem is a list and no graph."""

_DIRECTIONS = {"right": (1, 0), "up": (0, -1), "down": (0, 1), "left": (-1, 0)}


class Picture(msgspec.Struct, frozen=True, omit_defaults=True):
    """How to draw a problem.  Positions have x to the right and y down."""

    kind: Literal["grid", "map", "cards", "courses", "graph", "list"]
    width: float = 0
    height: float = 0
    letters: str = ""  # grid: the kind of each cell, row by row from the top
    cell: list[int] = []  # grid: the cell of each state
    directions: list[tuple[int, int]] = []  # grid: where each action points
    nodes: list[tuple[float, float]] = []  # map and graph: places
    labels: list[str] = []
    marks: list[str] = []  # map: start, goal, spare, or empty
    place: list[int] = []  # map: the node of each state
    edges: list[tuple[int, int]] = []  # map: roads; graph: transitions
    roads: list[list[int]] = []  # map: for each place, the edge of each action
    rows: list[str] = []  # cards: the player's totals
    chart: list[list[int]] = []  # cards: [row][dealer's card - 1], a state or -1
    records: list[str] = []  # courses: for each state, a letter a course: new, failed or passed
    sets: list[list[int]] = []  # courses: those of each action


def picture_of(problem: Problem, table: TabularMDP) -> Picture:
    """Return the picture that fits a problem."""
    if isinstance(problem, GridWorld):
        return _grid(problem, table)
    if isinstance(problem, Blackjack):
        return _cards(table)
    if isinstance(problem, Tireworld):
        return _map(problem, table)
    if isinstance(problem, Advising):
        return _courses(problem, table)
    toy = _toy_text(problem, table)
    if toy is not None:
        return toy
    return _graph(table) if table.num_states <= GRAPH_STATES else Picture("list")


def _grid(grid: GridWorld, table: TabularMDP) -> Picture:
    cell = table.identities[:, 0]
    x, y = cell % grid.width, grid.height - 1 - cell // grid.width
    return Picture(
        "grid",
        width=grid.width,
        height=grid.height,
        letters="".join(grid.rows),
        cell=[int(number) for number in y * grid.width + x],
        directions=[_DIRECTIONS[name] for name in grid.action_names],
    )


def _toy_text(problem: Problem, table: TabularMDP) -> Picture | None:
    """Return the grid of Gymnasium's FrozenLake or CliffWalking, whose states are named by row and column."""
    spec = spec_of(problem)
    if spec is None or not set(table.action_names) <= set(_DIRECTIONS):
        return None
    found = [re.fullmatch(r"row (\d+) column (\d+)( \(end\))?", name) for name in table.state_names]
    if not all(found):
        return None
    places = [(int(match[1]), int(match[2])) for match in found if match]
    height, width = 1 + max(row for row, _ in places), 1 + max(column for _, column in places)
    cell = [row * width + column for row, column in places]
    letters = ["."] * (width * height)
    for state, at in enumerate(cell):
        ending = int(table.ending_of[state])
        if ending >= 0:
            letters[at] = "G" if table.endings[ending].success else "W"
        elif table.initial[state] > 0:
            letters[at] = "S"
    if "CliffWalking" in spec.name:
        letters[-width + 1 : -1] = ["W"] * (width - 2)
    return Picture(
        "grid",
        width=width,
        height=height,
        letters="".join(letters),
        cell=cell,
        directions=[_DIRECTIONS[name] for name in table.action_names],
    )


def _cards(table: TabularMDP) -> Picture:
    hands = hands_of(table.identities)
    at = {
        (bool(hands.natural[s]), bool(hands.usable[s]), int(hands.total[s]), int(hands.dealer[s])): int(s)
        for s in np.flatnonzero(hands.ending < 0)
    }
    wanted = [("hard", False, False, total) for total in range(21, 3, -1)]
    wanted += [("soft", False, True, total) for total in range(21, 11, -1)]
    if bool(hands.natural.any()):
        wanted.append(("natural", True, True, 21))
    chart = [[at.get((*row[1:], dealer), -1) for dealer in range(1, 11)] for row in wanted]
    kept = [number for number, states in enumerate(chart) if max(states) >= 0]
    return Picture(
        "cards",
        rows=[f"{wanted[number][0]} {wanted[number][3]}" for number in kept],
        chart=[chart[number] for number in kept],
    )


def _map(world: Tireworld, table: TabularMDP) -> Picture:
    names = world.map.locations
    found = [re.fullmatch(r"la(\d+)a(\d+)", name) for name in names]
    if all(found):
        row, column = np.array([[int(part) for part in match.groups()] for match in found if match]).T
        x, y = column + row / 2, -row * np.sqrt(3) / 2
    else:
        angle = 2 * np.pi * np.arange(len(names)) / len(names)
        x, y = len(names) / 6 * np.cos(angle), len(names) / 6 * np.sin(angle)
    x, y = x - x.min(), y - y.min()
    number = {name: i for i, name in enumerate(names)}
    marks = [
        "start"
        if name == world.map.start
        else "goal"
        if name == world.map.goal
        else "spare"
        if name in world.map.spares
        else ""
        for name in names
    ]
    return Picture(
        "map",
        width=float(x.max()),
        height=float(y.max()),
        nodes=[(float(a), float(b)) for a, b in zip(x, y, strict=True)],
        labels=list(names),
        marks=marks,
        place=[int(place) for place in locations_of(table.identities)],
        edges=[(number[a], number[b]) for a, b in world.map.roads],
        roads=[[k for k, road in enumerate(world.map.roads) if road[0] == name] for name in names],
    )


def _courses(program: Advising, table: TabularMDP) -> Picture:
    """Place courses in columns: behind all of their prerequisites, as far as these are no circle."""
    names, needed = program.curriculum.courses, program.curriculum.prerequisites
    level = dict.fromkeys(names, 0)
    for _ in names:
        for first, second in needed:
            level[second] = min(len(names), max(level[second], level[first] + 1))
    columns = [[name for name in names if level[name] == depth] for depth in sorted(set(level.values()))]
    tall = max(map(len, columns))
    at = {
        name: (float(x), (tall - len(column)) / 2 + y)
        for x, column in enumerate(columns)
        for y, name in enumerate(column)
    }
    number = {name: i for i, name in enumerate(names)}
    half = table.identities.shape[1] // 2
    records = []
    for words in table.identities:
        passed, taken = (set(members(part, len(names))) for part in (words[:half], words[half:]))
        records.append("".join("p" if c in passed else "f" if c in taken else "n" for c in range(len(names))))
    return Picture(
        "courses",
        width=float(len(columns) - 1),
        height=float(tall - 1),
        nodes=[at[name] for name in names],
        labels=list(names),
        marks=["required" if name in program.curriculum.required else "" for name in names],
        edges=[(number[first], number[second]) for first, second in needed],
        records=records,
        sets=[
            [number[name] for name in action.removeprefix("enrol ").split("+") if name in number]
            for action in table.action_names
        ],
    )


def _graph(table: TabularMDP) -> Picture:
    """Place states in columns by their distance from the start, near the states that lead to them."""
    edges = _edges(table)
    onward: list[list[int]] = [[] for _ in range(table.num_states)]
    for first, second in edges:
        onward[first].append(second)
    depth = {int(state): 0 for state in np.flatnonzero(table.initial)}
    queue = list(depth)
    for state in queue:
        for after in onward[state]:
            if after not in depth:
                depth[after] = depth[state] + 1
                queue.append(after)
    last = max(depth.values())
    columns: list[list[int]] = [[] for _ in range(last + 2)]
    for state in queue:
        columns[depth[state]].append(state)
    columns[last + 1] = [state for state in range(table.num_states) if state not in depth]
    height = {state: i - (len(columns[0]) - 1) / 2 for i, state in enumerate(columns[0])}
    for number, column in enumerate(columns[1:], start=1):
        wish = {
            state: float(np.mean([height[a] for a, b in edges if b == state and a in height] or [0.0]))
            for state in column
        }
        columns[number] = sorted(column, key=lambda state: (wish[state], state))
        for i, state in enumerate(columns[number]):
            height[state] = i - (len(column) - 1) / 2
    tall = max(map(len, columns))
    nodes = [(0.0, 0.0)] * table.num_states
    for number, column in enumerate(columns):
        for state in column:
            nodes[state] = (float(number), height[state] * tall / max(1, len(column)) ** 0.5 / tall**0.5)
    low = min(y for _, y in nodes)
    nodes = [(x, y - low) for x, y in nodes]
    return Picture(
        "graph",
        width=max(x for x, _ in nodes),
        height=max(y for _, y in nodes),
        nodes=nodes,
        edges=edges,
    )


def _edges(table: TabularMDP) -> list[tuple[int, int]]:
    possible: NDArray[np.bool_] = (table.probability > 0) & table.legal_actions[:, :, None]
    possible = possible & ~table.absorbing[:, None, None]
    first = np.broadcast_to(np.arange(table.num_states)[:, None, None], possible.shape)[possible]
    pairs = np.unique(np.stack([first, table.successor[possible]], axis=1), axis=0)
    return [(int(a), int(b)) for a, b in pairs]
