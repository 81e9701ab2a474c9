"""Problems that fall apart: parts that no episode leaves have independent posteriors.

In Blackjack the dealer's open card never changes, so hands against different cards have nothing to do with
each other: ``J`` is a sum over the cards, and the posterior a product.  Parts are annealed one by one, which
is cheaper than the whole by far.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from polinfer.annealing.path import TemperedPoint
from polinfer.exact.enumeration import decision_states
from polinfer.exact.evaluation import evaluate_policy, uniform_policy
from polinfer.problems.tabular.table import TabularMDP


class Part(NamedTuple):
    """A part of a problem, as a problem of its own."""

    table: TabularMDP  # all states, but only the part's starts
    mass: float  # probability that an episode starts here
    states: NDArray[np.int64]  # in which something is decided


def split(table: TabularMDP) -> list[Part]:
    """Return the parts that episodes never leave; those without a choice are left out."""
    states = decision_states(table, table.horizon)
    local = np.full(table.num_states, -1)
    local[states] = np.arange(len(states))
    possible = (table.probability[states] > 0) & table.legal_actions[states][:, :, None]
    origin, action, slot = np.nonzero(possible)
    target = local[table.successor[states[origin], action, slot]]
    inside = target >= 0
    links = coo_matrix((np.ones(inside.sum()), (origin[inside], target[inside])), shape=[len(states)] * 2)
    count, label = connected_components(links, directed=False)
    parts = []
    for number in range(count):
        own = states[label == number]
        start = np.zeros(table.num_states)
        start[own] = table.initial[own]
        mass = float(start.sum())
        if mass > 0 and (table.legal_actions[own].sum(axis=1) > 1).any():
            parts.append(Part(table.with_initial(start / mass), mass, own))
    return parts


def rest_return(table: TabularMDP, parts: list[Part]) -> float:
    """Return what is earned outside the parts, where nothing is decided."""
    # There every policy does the same, so the uniform one tells.
    value = evaluate_policy(table, uniform_policy(table)).value
    outside = np.ones(table.num_states, np.bool_)
    for part in parts:
        outside[part.states] = False
    return float(table.initial[outside] @ value[outside])


def join(
    table: TabularMDP, parts: list[Part], points: list[TemperedPoint], scale: float, rest: float
) -> TemperedPoint:
    """Return the posterior of the whole problem at one scale from those of its parts."""
    policy = uniform_policy(table)
    stderr, reach = np.zeros_like(policy), policy.copy()
    sample = np.broadcast_to(
        table.legal_actions.argmax(axis=1), (len(points[0].sample), table.num_states)
    ).astype(np.int32)
    returns = np.full(len(sample), rest)
    for part, point in zip(parts, points, strict=True):
        policy[part.states] = point.policy[part.states]
        stderr[part.states] = point.policy_stderr[part.states]
        reach[part.states] = point.reach_policy[part.states]
        sample[:, part.states] = point.sample[:, part.states]
        returns += part.mass * point.sample_returns
    masses = np.array([part.mass for part in parts])

    def total(name: str) -> float:
        return float(sum(getattr(point, name) for point in points))

    def root(errors: NDArray[np.float64]) -> float:
        return float(np.sqrt((errors**2).sum()))

    return TemperedPoint(
        scale=scale,
        log_evidence=total("log_evidence") + scale * rest,
        log_evidence_stderr=root(np.array([point.log_evidence_stderr for point in points])),
        expected_return=float(masses @ [point.expected_return for point in points]) + rest,
        expected_return_stderr=root(masses * [point.expected_return_stderr for point in points]),
        entropy=total("entropy"),
        policy=policy,
        policy_stderr=stderr,
        reach_policy=reach,
        sample=sample,
        sample_returns=returns,
    )
