"""Outcomes that were drawn, counted."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polinfer.problems.tabular.rows import OutcomeRows

_REWARDS = 8  # different rewards that are kept for one state, action and successor


class Drawn(NamedTuple):
    """Counted outcomes; every field is ``[n]``."""

    state: NDArray[np.int64]
    action: NDArray[np.int64]
    way: NDArray[np.int64]  # which representative of the state was stepped from
    successor: NDArray[np.int64]
    reward: NDArray[np.float64]
    number: NDArray[np.int64]  # how often

    def take(self, at: Any) -> Drawn:
        """Return the rows at an index, a slice or a mask."""
        columns: Any = [column[at] for column in self]
        return Drawn(*columns)


def joined(parts: list[Drawn]) -> Drawn:
    """Return all outcomes, equal ones counted together, ordered by state, action, way and successor."""
    if not parts:
        return Drawn(*(np.zeros(0, np.int64),) * 4, np.zeros(0), np.zeros(0, np.int64))
    columns: Any = [np.concatenate(column) for column in zip(*parts, strict=True)]
    whole = Drawn(*columns)
    whole = whole.take(np.lexsort((whole.reward, whole.successor, whole.way, whole.action, whole.state)))
    differs = np.zeros(len(whole.state), np.bool_)
    differs[:1] = True
    for column in whole[:-1]:
        differs[1:] |= column[1:] != column[:-1]
    first = np.nonzero(differs)[0]
    return whole.take(first)._replace(number=np.add.reduceat(whole.number, first))


def weights_by_way(drawn: Drawn, num_actions: int) -> NDArray[np.float64]:
    """Return weights ``[n]`` by which every representative of a state counts alike.

    Where there are several they are the draws: what two draws of one representative have in common may be
    what is hidden.
    """
    pair, way, number = _by_way(drawn, num_actions)
    _, first = np.unique(way, return_index=True)
    ways = np.bincount(pair[first], minlength=int(pair.max(initial=-1)) + 1)
    return np.where(ways[pair] > 1, number / np.bincount(way, number)[way], number)


def weights_by_visit(drawn: Drawn, num_actions: int) -> NDArray[np.float64]:
    """Return weights ``[n]`` by which visits count alike, and sum to the effective number of episodes.

    The `way` of a draw is its episode.  Visits in one episode share what is hidden; their effective number
    is that of unequally weighted episodes (Kish): the square of the sum over the sum of squares.
    """
    pair, way, number = _by_way(drawn, num_actions)
    size = np.bincount(way, number)
    _, first = np.unique(way, return_index=True)
    total, squares = np.bincount(pair, number), np.bincount(pair[first], size**2)
    return np.asarray(number * total[pair] / squares[pair])


def _by_way(drawn: Drawn, num_actions: int) -> tuple[NDArray[np.int64], ...]:
    """Return the pair of each row, a number for its pair and way together, and how often it was drawn."""
    pair = drawn.state * num_actions + drawn.action
    _, way = np.unique(np.stack([pair, drawn.way], axis=1), axis=0, return_inverse=True)
    return pair, way.ravel(), drawn.number


def estimate(
    drawn: Drawn, num_actions: int, weight: NDArray[np.float64] | None = None
) -> tuple[OutcomeRows, NDArray[np.int64]]:
    """Return the shares of the outcomes as probabilities, and the number of draws ``[S * A]`` of each pair.

    A reward that takes many values for one successor is kept by a few: means of equally many draws each.
    With `weight` ``[n]`` rows count by it, and its sums are the draws.
    """
    pair = drawn.state * num_actions + drawn.action
    if weight is None:
        weight = drawn.number.astype(np.float64)
    total = np.bincount(pair, weight)
    link = np.stack([pair, drawn.successor], axis=1)
    # `drawn` is ordered by way before successor; here ways are taken together.
    order = np.lexsort((drawn.reward, link[:, 1], link[:, 0]))
    link, reward, count = link[order], drawn.reward[order], weight[order]
    new = np.ones(len(order), np.bool_)
    new[1:] = (link[1:] != link[:-1]).any(axis=1)
    group = np.cumsum(new) - 1
    within = np.cumsum(count) - count
    size = np.bincount(group, count)
    before = within - (np.cumsum(size) - size)[group]
    distinct = new.copy()
    distinct[1:] |= reward[1:] != reward[:-1]
    number = np.bincount(group, distinct)
    # The bin of a draw: its reward itself where they are few, else its place in the order of rewards.
    rank = np.cumsum(distinct) - 1
    rank = rank - rank[np.nonzero(new)[0]][group]
    placed = np.minimum((before + count / 2) / size[group] * _REWARDS, _REWARDS - 1).astype(np.int64)
    bin_ = np.where(number[group] > _REWARDS, placed, rank)
    row = group * (max(_REWARDS, int(number.max(initial=0))) + 1) + bin_
    _, first, back = np.unique(row, return_index=True, return_inverse=True)
    mass = np.bincount(back, count)
    mean = np.bincount(back, count * reward) / mass
    # Rounding must not touch rewards that all are one number.
    exact = np.where(number[group[first]] > _REWARDS, mean, reward[first])
    owner, successor = link[first, 0], link[first, 1]
    rows = OutcomeRows(owner // num_actions, owner % num_actions, successor, mass / total[owner], exact)
    return rows, np.round(total).astype(np.int64)
