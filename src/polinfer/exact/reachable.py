"""The part of a table that matters to its posterior: the states in which some policy acts within the horizon.

States are renumbered by *rank*: a state comes after every state from which it can be reached but which it
cannot reach itself (strongly connected components in topological order), and within a component after those
that can be visited earlier.
"""

from __future__ import annotations

from graphlib import TopologicalSorter
from typing import NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from polinfer.exact.solution import Floats
from polinfer.problems.tabular.table import TabularMDP

Ints = NDArray[np.int64]


class Reachable(NamedTuple):
    """A table's states in order of rank, and the outcomes between them."""

    state: Ints  # [n], the number of each state in the table
    gain: Floats  # [n, A], expected reward
    legal: NDArray[np.bool_]  # [n, A]
    initial: Floats  # [n]
    earliest: Ints  # [n], the first step at which some policy can be there
    component: Ints  # [n], strongly connected component, in topological order
    island: Ints  # [n], weakly connected component
    source: Ints  # [k], the state of each outcome that leads on, sorted
    action: Ints  # [k]
    target: Ints  # [k]
    probability: Floats  # [k], times the discount: as if the episode ended with the rest
    horizon: int
    prior: Floats  # [n, A], the reference measure
    discount: float  # of which `probability` holds a factor

    @property
    def size(self) -> tuple[int, int]:
        """The number of states and of actions."""
        states, actions = self.gain.shape
        return int(states), int(actions)

    @property
    def recurrent(self) -> NDArray[np.bool_]:
        """The states ``[n]`` that can be visited twice."""
        again = np.bincount(self.component)[self.component] > 1
        again[self.source[self.source == self.target]] = True
        return np.asarray(again)

    def levels(self) -> list[Ints]:
        """The states by their longest way to the end, shortest first, where no state comes twice."""
        states = len(self.state)
        back = scipy.sparse.csr_array((np.ones(len(self.source)), (self.target, self.source)), (states,) * 2)
        back.sum_duplicates()
        waiting = np.bincount(back.indices, minlength=states)
        level, levels = np.flatnonzero(waiting == 0), []
        while len(level):
            levels.append(level)
            before, count = np.unique(back[level].indices, return_counts=True)
            waiting[before] -= count
            level = before[waiting[before] == 0]
        return levels


def reachable(
    table: TabularMDP, legal: NDArray[np.bool_] | None = None, late_first: bool = False
) -> Reachable:
    """Cut a table down to the states in which an action can be taken within the horizon.

    Parameters
    ----------
    table
        The problem.
    legal
        ``[S, A]``, to be used instead of the table's legal actions; the reference measure is conditioned.
    late_first
        Rank states that can be visited equally early in descending order of their numbers.
    """
    allowed = table.legal_actions if legal is None else legal
    source, action, slot = np.nonzero(
        (table.probability > 0) & (allowed & ~table.absorbing[:, None])[..., None]
    )
    target = table.successor[source, action, slot].astype(np.int64)
    probability = table.onward[source, action, slot]
    earliest = _earliest(table, source, target)
    inside = earliest < table.horizon
    on = inside[source] & inside[target]
    source, action, target, probability = source[on], action[on], target[on], probability[on]

    kept = np.flatnonzero(inside)
    place = np.full(table.num_states, -1)
    place[kept] = np.arange(len(kept))
    links = scipy.sparse.csr_array(
        (np.ones(len(source)), (place[source], place[target])), shape=(len(kept), len(kept))
    )
    component = _topological(links)
    island = connected_components(links, directed=False)[1].astype(np.int64)
    tie = -kept if late_first else kept
    order = np.lexsort((tie, earliest[kept], component))
    rank = np.empty(len(kept), np.int64)
    rank[order] = np.arange(len(kept))
    kept = kept[order]
    source, target = rank[place[source]], rank[place[target]]
    by_pair = np.lexsort((action, source))
    return Reachable(
        state=kept,
        gain=(table.probability[kept] * table.reward[kept]).sum(axis=-1),
        legal=allowed[kept],
        initial=table.initial[kept],
        earliest=earliest[kept],
        component=component[order],
        island=island[order],
        source=source[by_pair],
        action=action[by_pair],
        target=target[by_pair],
        probability=probability[by_pair],
        horizon=table.horizon,
        prior=_conditioned(table.prior[kept], allowed[kept]),
        discount=table.discount,
    )


def _conditioned(prior: Floats, legal: NDArray[np.bool_]) -> Floats:
    """Return the reference measure ``[n, A]`` given that the action is among the legal ones."""
    left = np.where(legal, prior, 0.0)
    whole = left.sum(axis=1, keepdims=True)
    return np.asarray(np.where(legal.sum(axis=1, keepdims=True) == 1, legal, left / whole))


def _earliest(table: TabularMDP, source: Ints, target: Ints) -> Ints:
    """Return the first step ``[S]`` at which a state can be acted in; the horizon where it cannot."""
    ahead = scipy.sparse.csr_array(
        (np.ones(len(source), np.int8), (source, target)), shape=(table.num_states, table.num_states)
    )
    earliest = np.full(table.num_states, table.horizon)
    frontier = np.flatnonzero((table.initial > 0) & ~table.absorbing)
    for step in range(table.horizon):
        earliest[frontier] = step
        near = np.unique(ahead[frontier].indices)
        frontier = near[(earliest[near] == table.horizon) & ~table.absorbing[near]]
        if len(frontier) == 0:
            break
    return earliest


def _topological(links: scipy.sparse.csr_array) -> Ints:
    """Number the strongly connected components so that every link leads to the same or a higher number."""
    count, label = connected_components(links, directed=True, connection="strong")
    label = label.astype(np.int64)
    source, target = links.nonzero()
    # SciPy numbers them against the links today, but does not promise to.
    if (label[source] >= label[target]).all():
        return np.asarray(count - 1 - label)
    before: dict[int, set[int]] = {c: set() for c in range(count)}
    for one, two in zip(label[source].tolist(), label[target].tolist(), strict=True):
        if one != two:
            before[two].add(one)
    number = np.empty(count, np.int64)
    number[list(TopologicalSorter(before).static_order())] = np.arange(count)
    return np.asarray(number[label])
