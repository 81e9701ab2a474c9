"""Graphs in columns, all edges from left to right, with few crossings (Sugiyama, Tagawa and Toda, 1981)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from polinfer.exact.solution import Floats

_PASSING = 0.5  # the room that a passing edge takes in a column, where a node takes one
_ROUNDS = 12

_Item = tuple[int, int]  # a node and -1, or a node and the column that its edges pass
_Columns = list[list[_Item]]


class Layers(NamedTuple):
    """Where nodes and edges lie."""

    nodes: Floats  # [n, 2], x the column, y upwards about zero
    routes: tuple[Floats, ...]  # for each edge the points [k, 2] it goes through, one in every column


def lay_out(column: Sequence[int], edges: Sequence[tuple[int, int]]) -> Layers:
    """Place nodes in their columns; edges pass the columns between their ends as if they had a node there.

    The edges of one node pass a column together, and part after it.  Each edge must lead to a higher column.
    The order within the columns is the best one that a few rounds of sorting by the mean place of the
    neighbours find.

    Examples
    --------
    >>> lay_out([0, 0, 1, 1], [(0, 3), (1, 2)]).nodes[:, 1].tolist()
    [0.5, -0.5, -0.5, 0.5]
    """
    chains: list[list[_Item]] = [
        [(first, -1), *((first, c) for c in range(column[first] + 1, column[second])), (second, -1)]
        for first, second in edges
    ]
    where = {(node, -1): c for node, c in enumerate(column)}
    where |= {item: item[1] for chain in chains for item in chain[1:-1]}
    links = list(dict.fromkeys(pair for chain in chains for pair in itertools.pairwise(chain)))
    columns: _Columns = [[item for item, c in where.items() if c == at] for at in range(max(column) + 1)]
    best = columns
    for turn in range(_ROUNDS):
        columns = _sort(columns, links, forward=turn % 2 == 0)
        best = min(best, columns, key=lambda found: _badness(found, links))
    height = _heights(best)
    places = {item: (float(c), height[item]) for item, c in where.items()}
    nodes = np.array([places[node, -1] for node in range(len(column))])
    return Layers(nodes, tuple(np.array([places[item] for item in chain]) for chain in chains))


def _sort(columns: _Columns, links: Sequence[tuple[_Item, _Item]], *, forward: bool) -> _Columns:
    """Sort each column by the mean height of its neighbours in the column before it, or after it."""
    new = [list(items) for items in columns]
    for at in range(1, len(new)) if forward else range(len(new) - 2, -1, -1):
        height = _heights(new)

        def wanted(item: _Item, height: dict[_Item, float] = height) -> float:
            pairs = links if forward else [(b, a) for a, b in links]
            near = [height[a] for a, b in pairs if b == item]
            return float(np.mean(near)) if near else height[item]

        new[at].sort(key=wanted, reverse=True)
    return new


def _heights(columns: _Columns) -> dict[_Item, float]:
    found: dict[_Item, float] = {}
    for items in columns:
        room = np.array([1.0 if passing < 0 else _PASSING for _, passing in items])
        top = room.sum() / 2
        found |= dict(zip(items, (top - np.cumsum(room) + room / 2).tolist(), strict=True))
    return found


def _badness(columns: _Columns, links: Sequence[tuple[_Item, _Item]]) -> tuple[int, float]:
    """Return the number of crossings and, of as many, how steep the edges are."""
    place = {item: at for at, items in enumerate(columns) for item in items}
    height = _heights(columns)
    crossings = sum(
        place[a] == place[c] and (height[a] - height[c]) * (height[b] - height[d]) < 0
        for (a, b), (c, d) in itertools.combinations(links, 2)
    )
    return crossings, sum((height[a] - height[b]) ** 2 for a, b in links)
