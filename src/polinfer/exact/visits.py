"""The largest probability with which any policy visits a state: exactly where cheap, or from above."""

from __future__ import annotations

import numpy as np
import scipy.sparse

from polinfer.exact.reachable import Reachable
from polinfer.exact.solution import Floats


def visit_bound(graph: Reachable) -> Floats:
    """Return at least ``max_pi P(visit s)`` for every state ``[n]``, in linear time.

    ``P(visit s) <= initial(s) + sum_x P(visit x) g(x, s)``, where ``g`` is the largest probability that `x`,
    once visited, is ever left for `s` directly.  Iterating from the mass that can reach `s` at all gives
    smaller and smaller bounds; all of them hold.  Exact for trees.
    """
    states, actions = graph.size
    mass = np.bincount(graph.island, graph.initial)[graph.island]
    pair = graph.source * actions + graph.action
    moves = scipy.sparse.csr_array(
        (graph.probability, (pair, graph.target)), shape=(states * actions, states)
    ).tocoo()
    moves.sum_duplicates()
    source, target, share = moves.row // actions, moves.col, moves.data.copy()
    alone = np.bincount(graph.component)[graph.component] == 1
    staying = np.zeros(states * actions)
    own = source == target
    staying[moves.row[own]] = share[own]
    # A state that is only repeated by staying is left for `s` with p(s) / (1 - p(stay)) under one action.
    leaving = 1 - staying[moves.row]
    share = np.where(leaving > 1e-12, share / np.maximum(leaving, 1e-12), 1.0)
    share = np.where(alone[source], np.minimum(share, 1.0), 1.0)[~own]
    source, target = source[~own], target[~own]
    # The largest share over actions of each link.
    order = np.lexsort((share, target, source))
    source, target, share = source[order], target[order], share[order]
    last = np.append((np.diff(source) != 0) | (np.diff(target) != 0), True)[: len(source)]
    flow = scipy.sparse.csr_array((share[last], (target[last], source[last])), shape=(states, states))
    bound = mass
    for _ in range(graph.horizon):
        smaller = np.minimum(mass, graph.initial + flow @ bound)
        if (smaller == bound).all():
            break
        bound = smaller
    return np.asarray(bound)


def record_work(graph: Reachable) -> float:
    """Return the number of multiplications that `record_probability` takes."""
    size = np.bincount(graph.island).astype(np.float64)
    outcomes = np.bincount(graph.island[graph.source], minlength=len(size))
    return float((outcomes * size / 2).sum() * graph.horizon)


def record_probability(graph: Reachable) -> Floats:
    """Return the largest probability ``[n]`` of visiting `s` before any state of a higher rank.

    One dynamic programme a state, over policies that may depend on time, all at once: the unknowns are pairs
    of states in one weakly connected component.
    """
    states, actions = graph.size
    order = np.lexsort((np.arange(states), graph.island))  # by component, then by rank
    place = np.empty(states, np.int64)
    place[order] = np.arange(states)
    island = graph.island[order]
    first = np.searchsorted(island, island)
    number = np.arange(states) - first  # goal `i` has this many states of lower rank in its component
    offset = np.concatenate([[0], np.cumsum(number)])
    goal = np.repeat(np.arange(states), number)
    here = first[goal] + np.arange(len(goal)) - offset[goal]

    by_place = np.lexsort((graph.action, place[graph.source]))
    source, target = place[graph.source][by_place], place[graph.target][by_place]
    start = np.searchsorted(source, np.arange(states + 1))
    count = np.diff(start)[here]
    pair = np.repeat(np.arange(len(here)), count)
    outcome = np.arange(len(pair)) - np.repeat(np.cumsum(count) - count, count) + start[here[pair]]
    row = pair * actions + graph.action[by_place][outcome]
    share, to, aim = graph.probability[by_place][outcome], target[outcome], goal[pair]
    hit = np.bincount(row[to == aim], share[to == aim], minlength=len(here) * actions)
    on = to < aim
    column = offset[aim[on]] + to[on] - first[aim[on]]
    move = scipy.sparse.csr_array((share[on], (row[on], column)), shape=(len(here) * actions, len(here)))

    illegal = ~graph.legal[order][here]
    value = np.zeros(len(here))
    for _ in range(graph.horizon - 1):
        worth = (hit + move @ value).reshape(-1, actions)
        worth[illegal] = 0.0
        after = worth.max(axis=1)
        if (after == value).all():
            break
        value = after
    initial = graph.initial[order]
    total = initial + np.bincount(goal, value * initial[here], minlength=states)
    weight = np.empty(states)
    weight[order] = np.minimum(total, 1.0)
    return weight
