"""Problems that fall apart: parts whose posteriors are independent.

Where no choice has been made yet, every policy does the same.  Those states are the *trunk*: the states that
no state with a choice leads to.  What the trunk sends on is the same for all policies, so the parts below it
that share no state have nothing to do with each other: ``J`` is a sum over them, and the posterior a product.
Blackjack falls apart by the dealer's open card, Taxi by its destination.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import breadth_first_order, connected_components

from polinfer.annealing.problem import Problem, restrict


class Parts(NamedTuple):
    """A problem taken apart."""

    parts: list[Problem]  # each with the states of the trunk that lead to it, which earn nothing
    constant: float  # what the trunk and the parts without a choice earn, whatever the policy


def split(problem: Problem) -> Parts:
    """Return the independent parts of a problem without levels."""
    size = problem.size
    choice = problem.legal.sum(axis=1) > 1
    source, action, slot = np.nonzero(problem.probability > 0)
    target = problem.successor[source, action, slot]
    edges = csr_matrix((np.ones(len(source)), (source, target)), shape=(size, size))
    below = _reachable(edges, choice)
    trunk = ~below
    inside = below[source] & below[target]
    links = csr_matrix((np.ones(inside.sum()), (source[inside], target[inside])), shape=(size, size))
    _, label = connected_components(links, directed=False)
    chosen = np.unique(label[choice])
    into_trunk = csr_matrix((np.ones(len(source)), (target, source)), shape=(size, size))
    order = np.argsort(label, kind="stable")
    bounds = np.searchsorted(label[order], np.stack([chosen, chosen + 1]))
    parts = []
    paid_below = below.copy()
    for first, last in bounds.T:
        own = np.sort(order[first:last])
        if trunk.any():
            start = np.zeros(size, np.bool_)
            start[own] = True
            above = _reachable(into_trunk, start) & trunk
            kept = np.sort(np.concatenate([own, np.flatnonzero(above)]))
        else:
            kept = own
        parts.append(restrict(problem, kept, paid_below))
    free = np.isin(label, chosen) & below
    return Parts(parts, _earned(problem, ~free))


def _reachable(edges: csr_matrix, start: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which states can be reached from some of `start` ``[N]``, those included."""
    size = len(start)
    if not start.any():
        return np.zeros(size, np.bool_)
    # One more node that leads to all starts.
    first = np.flatnonzero(start)
    coo = edges.tocoo()
    rows = np.concatenate([coo.row, np.full(len(first), size)])
    columns = np.concatenate([coo.col, first])
    graph = csr_matrix((np.ones(len(rows)), (rows, columns)), shape=(size + 1, size + 1))
    found = np.zeros(size + 1, np.bool_)
    found[breadth_first_order(graph, size, return_predecessors=False)] = True
    return found[:size]


def _earned(problem: Problem, forced: NDArray[np.bool_]) -> float:
    """Return what is earned in the states `forced` ``[N]``, in which no policy differs from another."""
    first = problem.legal.argmax(axis=1)
    every = np.arange(problem.size)
    follow, odds = problem.successor[every, first], problem.probability[every, first]
    here, earned = np.where(forced, problem.initial, 0.0), 0.0
    gain = problem.gain[every, first]
    for _ in range(problem.horizon):
        earned += float(here @ gain)
        arrived = np.bincount(follow.ravel(), (here[:, None] * odds).ravel(), minlength=problem.size + 1)
        here = np.where(forced, arrived[: problem.size], 0.0)
        if not here.any():
            break
    return earned
