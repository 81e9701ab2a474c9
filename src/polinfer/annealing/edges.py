"""Transitions by pairs of neighbouring states, where several actions of a state share their successors.

On a grid, four actions with three outcomes each lead to four or five neighbours.  Written by pairs, a step
of the forward pass and one of the backward pass cost a multiplication per neighbour, with weights that are
looked up once per policy; and the adjoint needs no more than ``C[s, s'] = sum_t d_t(s) V_{t+1}(s')``:

    G[s, a] = visits(s) r(s, a) + sum_{s'} p(s'|s, a) C[s, s'].

That is about half the work of going over actions and outcomes on slippery grids; where every outcome has a
successor of its own, it is more.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polinfer.annealing.buckets import rounded
from polinfer.annealing.problem import Problem
from polinfer.exact.solution import Floats

_MOST = 16  # neighbours or predecessors of a state


class Edges(NamedTuple):
    """Neighbours of each state; all arrays are empty where going by actions and outcomes is cheaper."""

    neighbour: NDArray[np.int32]  # [U, N] slot of a successor; N where there is none
    weight: Floats  # [U, N, A] probability of going there
    arriving: NDArray[np.int32]  # [K, N] pairs u * N + s that lead to the state; U * N where there is none


def find_edges(problem: Problem) -> Edges:
    """Return the edges of a problem without levels."""
    size, actions, outcomes = problem.successor.shape
    none = Edges(np.zeros((0, 0), np.int32), np.zeros((0, 0, 0)), np.zeros((0, 0), np.int32))
    state, action, slot = np.nonzero(problem.probability > 0)
    if problem.width or not len(state):
        return none
    target = problem.successor[state, action, slot].astype(np.int64)
    pair, number = np.unique(state * size + target, return_inverse=True)
    source, goal = pair // size, pair % size
    rank = np.arange(len(pair)) - np.searchsorted(source, source)
    into = np.argsort(goal, kind="stable")
    into_rank = np.empty(len(pair), np.int64)
    into_rank[into] = np.arange(len(pair)) - np.searchsorted(goal[into], goal[into])
    width, depth = int(rank.max()) + 1, int(into_rank.max()) + 1
    by_action = actions * outcomes + problem.origin.shape[1] + 2 * actions
    if max(width, depth) > _MOST or 2 * width + depth >= by_action or len(problem.hub_origin):
        return none
    width, depth = rounded(width, size), rounded(depth, size)
    neighbour = np.full((width, size), size, np.int32)
    neighbour[rank, source] = goal
    weight = np.zeros((width, size, actions))
    np.add.at(weight, (rank[number], state, action), problem.probability[state, action, slot])
    arriving = np.full((depth, size), width * size, np.int32)
    arriving[into_rank, goal] = rank * size + source
    return Edges(neighbour, weight, arriving)
