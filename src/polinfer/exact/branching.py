"""Branch and bound on the evidence: ``Z`` is the mean of what it is with each action of one state fixed.

The mean is under the reference measure.

The search is best first.  A leaf fixes the choices of some states that every policy of the leaf reaches, and
its bound is that of the problem with no other action in them.  Where all that is reached is fixed, the leaf
is one reach class and its mass is exact.  So the bound falls to ``log Z`` as leaves are added.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polinfer.problems.tabular.table import TabularMDP


class Search(NamedTuple):
    """What a search found out."""

    upper: float  # at least log Z
    policies: NDArray[np.int64]  # [k, S], one policy of every class that was completed
    leaves: int  # how many problems were bounded


def branch(
    table: TabularMDP,
    bound: Callable[[NDArray[np.bool_]], float],
    leaves: int,
    *,
    found: float = -np.inf,
    tolerance: float = 1e-3,
) -> Search:
    """Search best first until `leaves` problems were bounded or the gap is at most `tolerance`.

    Parameters
    ----------
    table
        The problem.
    bound
        Bounds the log evidence of the problem with these legal actions ``[S, A]``.
    leaves
        How many problems to bound at most.
    found
        A lower bound that is known already.
    tolerance
        Stop where the upper bound exceeds the lower one by no more than this.
    """
    free = np.full(table.num_states, -1)
    root = bound(table.legal_actions)
    # The largest contribution first; the number breaks ties, so that arrays are never compared.
    open_: list[tuple[float, int, float, NDArray[np.int64]]] = [(-root, 0, 0.0, free)]
    complete: list[float] = []
    policies: list[NDArray[np.int64]] = []
    upper, bounded, order = root, 1, count(1)
    while open_ and upper - max(found, _log_sum(complete)) > tolerance:
        contribution, _, log_share, choices = open_[0]
        state = first_undecided(table, choices)
        if state is None:
            heapq.heappop(open_)
            complete.append(-contribution)
            policies.append(np.where(choices >= 0, choices, table.legal_actions.argmax(axis=1)))
            continue
        actions = np.flatnonzero(table.legal_actions[state])
        if bounded + len(actions) > leaves and len(actions) > 1:
            break
        heapq.heappop(open_)
        log_prior = np.log(np.where(table.legal_actions[state], table.prior[state], 1.0))
        for action in actions:
            child = choices.copy()
            child[state] = action
            # A forced choice changes nothing, so its bound stays.
            value = -contribution
            if len(actions) > 1:
                value = log_share + log_prior[action] + bound(_restrict(table, child))
                bounded += 1
            heapq.heappush(open_, (-value, next(order), log_share + float(log_prior[action]), child))
        # A restricted problem may be relaxed more loosely than the whole was: keep the best of all bounds.
        upper = min(upper, _log_sum([*complete, *(-leaf[0] for leaf in open_)]))
    found_policies = np.array(policies, np.int64).reshape(len(policies), table.num_states)
    return Search(upper, found_policies, bounded)


def first_undecided(table: TabularMDP, choices: NDArray[np.int64]) -> int | None:
    """Return a state without a choice (-1) in which every policy with these `choices` acts, the earliest."""
    here = np.flatnonzero((table.initial > 0) & ~table.absorbing)
    seen = table.absorbing.copy()
    for _ in range(table.horizon):
        undecided = here[choices[here] < 0]
        if len(undecided):
            return int(undecided[0])
        seen[here] = True
        follow = table.successor[here, choices[here]][table.probability[here, choices[here]] > 0]
        here = np.unique(follow[~seen[follow]])
        if len(here) == 0:
            break
    return None


def _restrict(table: TabularMDP, choices: NDArray[np.int64]) -> NDArray[np.bool_]:
    legal = table.legal_actions.copy()
    fixed = np.flatnonzero(choices >= 0)
    legal[fixed] = False
    legal[fixed, choices[fixed]] = True
    return legal


def _log_sum(values: list[float]) -> float:
    return float(np.logaddexp.reduce(values)) if values else -np.inf
