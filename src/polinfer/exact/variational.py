"""A lower bound on the log evidence by independent choices: no sampling, and classes without number.

For a policy whose choices are independent draws from ``q(a|s)``, ``log Z >= E_q[J] - E_q[sum_reached KL_s]``.
Where no state in which `q` is random can be visited twice, ``E_q[J]`` is the return of the stochastic policy
`q`, which a dynamic programme finds; elsewhere `q` is held to one action.  Exact for trees and for
deterministic problems in which no state comes twice.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components
from scipy.special import rel_entr

from polinfer.exact.powers import follow
from polinfer.exact.reachable import Ints, Reachable
from polinfer.exact.relaxations import soft_maximum
from polinfer.exact.solution import Floats
from polinfer.exact.squared import pays
from polinfer.exact.visits import visit_bound

_ROUNDS = 3  # of fitting the weight of a state to how often it is visited when it is reached


class Factorised(NamedTuple):
    """Independent choices and what they prove."""

    log_evidence: float  # a lower bound
    policy: Floats  # [n, A], by rank


def factorised_bound(graph: Reachable, anchor: Ints) -> Factorised:
    """Return the best of some lower bounds by independent choices.

    Parameters
    ----------
    graph
        The reachable part of a table.
    anchor
        ``[n]``, the action of a good policy in each state, taken where a choice may not be random.
    """
    tries = [
        _try(graph, anchor, key) for key in (graph.earliest, -_steps_to_end(graph)) if graph.recurrent.any()
    ] or [_try(graph, anchor, graph.earliest)]
    return max(tries, key=lambda found: found.log_evidence)


def _try(graph: Reachable, anchor: Ints, key: Ints) -> Factorised:
    """Choose among actions all of whose outcomes leave the component or raise `key`: these make no loops."""
    actions = graph.size[1]
    onward = (graph.component[graph.target] != graph.component[graph.source]) | (
        key[graph.target] > key[graph.source]
    )
    allowed = graph.legal.copy()
    allowed[graph.source[~onward], graph.action[~onward]] = False
    chosen = allowed.any(axis=1)
    allowed[~chosen, anchor[~chosen]] = True
    kept = onward & allowed[graph.source, graph.action]
    levels = graph._replace(
        source=graph.source[kept], action=graph.action[kept], target=graph.target[kept]
    ).levels()

    move = _moves(graph)
    fixed = np.eye(actions)[anchor]
    weight = np.maximum(visit_bound(graph), 1e-12)
    best = _evaluate(graph, fixed, move)
    for _ in range(_ROUNDS):
        policy = _without_loops(graph, _soft_policy(graph, move, levels, allowed, weight), fixed)
        found = _evaluate(graph, policy, move)
        if found.bound <= best.bound + 1e-9:
            break
        best = found
        weight = np.clip(found.visits / np.maximum(found.reach, 1e-300), 1e-12, 1.0)
    return Factorised(best.bound, best.policy)


def _soft_policy(
    graph: Reachable,
    move: scipy.sparse.csr_array,
    levels: list[Ints],
    allowed: NDArray[np.bool_],
    weight: Floats,
) -> Floats:
    """Return the softmax ``[n, A]`` of a soft recursion over the allowed actions, the last states first."""
    states, actions = graph.size
    value, policy = np.zeros(states), np.zeros((states, actions))
    for level in levels:
        pairs = (level[:, None] * actions + np.arange(actions)).ravel()
        worth = graph.gain[level] + (move[pairs] @ value).reshape(-1, actions)
        may = allowed[level]
        # The mean is over legal actions: those that are not allowed have no mass, and that is a loss.
        prior = np.where(may, graph.prior[level], 0.0)
        share = prior.sum(axis=1)
        prior = prior / share[:, None]
        value[level] = soft_maximum(worth, prior, weight[level]) + np.log(share) / weight[level]
        scaled = np.where(may, worth * weight[level][:, None], -np.inf)
        mass = prior * np.exp(scaled - scaled.max(axis=1, keepdims=True))
        policy[level] = mass / mass.sum(axis=1, keepdims=True)
    return policy


def _without_loops(graph: Reachable, policy: Floats, fixed: Floats) -> Floats:
    """Hold every state that `policy` can visit twice to its fixed action, until all of them are."""
    states = len(policy)
    while True:
        used = policy[graph.source, graph.action] > 0
        source, target = graph.source[used], graph.target[used]
        links = scipy.sparse.csr_array((np.ones(len(source)), (source, target)), shape=(states, states))
        label = connected_components(links, directed=True, connection="strong")[1]
        again = np.bincount(label)[label] > 1
        again[source[source == target]] = True
        random = (policy > 0).sum(axis=1) > 1
        if not (again & random).any():
            return policy
        policy = np.where((again & random)[:, None], fixed, policy)


class _Evaluation(NamedTuple):
    bound: float
    policy: Floats  # [n, A]
    visits: Floats  # [n], expected
    reach: Floats  # [n], at least the share of policies that act there


def _evaluate(graph: Reachable, policy: Floats, move: scipy.sparse.csr_array) -> _Evaluation:
    states, actions = policy.shape
    mixed = scipy.sparse.csr_array(
        (policy.ravel(), np.arange(states * actions), np.arange(0, states * actions + 1, actions)),
        shape=(states, states * actions),
    )
    step = (mixed @ move).tocsr()
    gain = np.where(policy > 0, policy * np.where(graph.legal, graph.gain, 0.0), 0.0).sum(axis=1)
    possible = move.copy()
    possible.data = np.ones_like(possible.data)
    leads = (mixed @ possible).tocsr().T.tocsr()
    started = (graph.initial > 0).astype(np.float64)
    # Both from above: the share of policies by the union bound, and whether there are any at all.
    reach, any_ = np.ones(states), started
    for _ in range(graph.horizon):
        before, seen = reach, any_
        reach = np.minimum(1.0, started + leads @ reach)
        any_ = np.minimum(1.0, any_ + np.ceil(leads @ any_))
        # Every round gives a bound; where nothing changes, no further one gives another.
        if np.array_equal(reach, before) and np.array_equal(any_, seen):
            break
    if pays(states, graph.horizon, graph.discount):
        value, visits = _squared(step.toarray(), gain, graph)
    else:
        value, here, visits, flow = np.zeros(states), graph.initial, np.zeros(states), step.T.tocsr()
        for _ in range(graph.horizon):
            value = gain + step @ value
            visits += here
            here = flow @ here
    reach = reach * any_
    # What is reached by no policy costs nothing.
    divergence = rel_entr(policy, graph.prior).sum(axis=1)
    bound = float(graph.initial @ value - reach @ np.maximum(divergence, 0.0))
    return _Evaluation(bound, policy, visits, reach)


def _squared(step: Floats, gain: Floats, graph: Reachable) -> tuple[Floats, Floats]:
    """Return values and expected visits ``[n]`` over a long horizon."""
    nothing = np.zeros_like(step)
    # What does not lead on ends; rounding may leave a little less than nothing.
    ended = np.maximum(1.0 - step.sum(axis=1, keepdims=True), 0.0)
    done = follow(
        step, np.where(ended < 1e-14, 0.0, ended), gain, np.zeros_like(gain), nothing, graph.horizon
    )
    return done.value, np.asarray(graph.initial @ done.visits)


def _moves(graph: Reachable) -> scipy.sparse.csr_array:
    states, actions = graph.size
    row = graph.source * actions + graph.action
    moves = scipy.sparse.csr_array((graph.probability, (row, graph.target)), shape=(states * actions, states))
    moves.sum_duplicates()
    return moves


def _steps_to_end(graph: Reachable) -> Ints:
    """Return the least number of steps ``[n]`` to an end of the episode; the horizon where there is none."""
    states, actions = graph.size
    row = graph.source * actions + graph.action
    inside = np.bincount(row, graph.probability, minlength=states * actions).reshape(states, actions)
    steps = np.full(states, graph.horizon, np.int64)
    back = scipy.sparse.csr_array(
        (np.ones(len(graph.source), np.int8), (graph.target, graph.source)), shape=(states, states)
    )
    frontier = np.flatnonzero(((inside < graph.discount * (1 - 1e-9)) & graph.legal).any(axis=1))
    for number in range(1, graph.horizon):
        steps[frontier] = number
        near = np.unique(back[frontier].indices)
        frontier = near[steps[near] == graph.horizon]
        if len(frontier) == 0:
            break
    return steps
