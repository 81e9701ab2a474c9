"""The reach-weighted soft policy: where annealing starts.

Soft value iteration relative to the reference measure, with a temperature of its own in each state:

    V(s) = (1 / W(s)) log mean_a exp(W(s) (r(s, a) + sum p V(s'))),

where ``W(s)`` is the mean number of arrivals at `s` of those policies that come there at all.  A choice that
is reached with probability 1/64 matters 1/64 as much.  The policy ``softmax(W Q)`` is the posterior's own
conditional in trees (`W` is the probability of the path) and in deterministic problems without loops
(``W = 1``), as long as the horizon does not cut episodes off.

With loops, plain value iteration believes that it may choose anew whenever it comes back to a state, but a
policy does there what it did before.  So who stays in a state meets the value of the same action again, and
not that of the state.  The *committed* version sees every way that leads not further from the start as such
a stay: a policy that turns back in a corridor goes to and fro for ever.  It knows no detours; between the
two, most modes of a problem with loops are seen.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from polinfer.annealing.problem import Problem, transition_matrix
from polinfer.exact.solution import Floats

_PROPAGATED = 200  # steps by which weights are carried to states that no drawn policy came to
_STILL = 1e-10


class Stays(NamedTuple):
    """Which outcomes come back: they meet the same action again."""

    onward: csr_matrix  # [N * A, N] probabilities of those that do not
    back: Floats  # [N, A] probability of those that do


class SoftStart(NamedTuple):
    """A stochastic policy and what it was made from."""

    policy: Floats  # [N, A]
    value: float  # soft value of the start; an estimate of log Z, exact where the policy is


def stays_of(problem: Problem, committed: bool) -> Stays:
    """Return what counts as a stay: self-loops; if `committed`, all that leads not further from the start."""
    size = problem.size
    if committed:
        depth = np.append(_depth(problem), np.inf)
        back = depth[problem.successor] <= depth[:size, None, None]
    else:
        back = problem.successor == np.arange(size)[:, None, None]
    onward = np.where(back, 0.0, problem.probability)
    return Stays(
        transition_matrix(problem._replace(probability=onward)), (problem.probability - onward).sum(axis=-1)
    )


def _depth(problem: Problem) -> Floats:
    """Return the least number of steps from a start to each state, ``[N]``."""
    depth = np.where(problem.initial > 0, 0.0, np.inf)
    frontier = np.flatnonzero(problem.initial > 0)
    for step in range(1, problem.horizon):
        near = np.unique(problem.successor[frontier][problem.probability[frontier] > 0]).astype(np.int64)
        frontier = near[np.isinf(depth[near])]
        if not len(frontier):
            break
        depth[frontier] = step
    return depth


def soft_policy(problem: Problem, scale: float, weight: Floats, behaviour: Floats, stays: Stays) -> SoftStart:
    """Return the soft policy for the weights ``[N]``.

    Where time matters (the horizon cuts episodes), an action's value is the mean over the steps at which the
    policy `behaviour` ``[N, A]`` is in the state.
    """
    size, actions = problem.gain.shape
    gain = scale * problem.gain
    floor = problem.log_prior
    weight = np.maximum(weight, 1e-12)

    def backup(worth: Floats, own: slice = slice(None)) -> Floats:
        tilted = weight[own, None] * worth + floor[own]
        top = tilted.max(axis=1)
        soft = top + np.log(np.exp(tilted - top[:, None]).sum(axis=1))
        return np.asarray(soft / weight[own])

    if problem.width:
        # No horizon cuts anything, and nothing comes back: one visit a state, the last levels first.
        later = np.zeros(size + 1)
        worth = np.zeros((size, actions))
        for first in range(size - problem.width, -1, -problem.width):
            own = slice(first, first + problem.width)
            ahead = (problem.probability[own] * later[problem.successor[own]]).sum(axis=-1)
            worth[own] = gain[own] + ahead
            later[own] = backup(worth[own], own)
        return SoftStart(_softmax(weight[:, None] * worth + floor), float(problem.initial @ later[:size]))
    trail = _visits(problem, transition_matrix(problem), behaviour)
    value = np.zeros(size)
    worth = np.zeros((size, actions))
    total, seen = np.zeros((size, actions)), np.zeros(size)
    for step in range(problem.horizon):
        new_worth = gain + (stays.onward @ value).reshape(size, actions) + stays.back * worth
        value = backup(new_worth)
        change = np.abs(new_worth - worth).max(initial=0.0)
        worth = new_worth
        at = problem.horizon - 1 - step
        if at < len(trail):
            total += trail[at][:, None] * worth
            seen += trail[at]
        if change <= _STILL * max(1.0, np.abs(worth).max(initial=0.0)):
            rest = np.sum(trail[:at], axis=0) if at else np.zeros(size)
            total += rest[:, None] * worth
            seen += rest
            break
    mean = np.where(seen[:, None] > 0, total / np.where(seen > 0, seen, 1.0)[:, None], worth)
    return SoftStart(_softmax(weight[:, None] * mean + floor), float(problem.initial @ value))


def _softmax(tilted: Floats) -> Floats:
    policy = np.exp(tilted - tilted.max(axis=1, keepdims=True))
    return np.asarray(policy / policy.sum(axis=1, keepdims=True))


def _visits(problem: Problem, matrix: csr_matrix, behaviour: Floats) -> list[Floats]:
    """Return the probability of being in each state at each step, ``[N]`` each, until nobody is left."""
    here, trail = problem.initial, []
    for _ in range(problem.horizon):
        trail.append(here)
        here = matrix.T @ (here[:, None] * behaviour).ravel()
        if here.sum() <= 1e-12:
            break
    return trail


def visit_weights(
    problem: Problem, stays: Stays, policy: NDArray[np.int16], visits: Floats, committed: bool
) -> Floats:
    """Return ``W`` ``[N]`` from some policies ``[N, M]`` and their expected visits ``[N, M]``.

    Where none of them comes, the weight is that of the likeliest predecessor times the probability to go on.
    """
    size, actions = problem.gain.shape
    come = visits > 0
    if committed:
        # Committed values look from the first arrival on, which happens once at most.
        arrivals = np.minimum(visits, 1.0)
    else:
        taken = policy[:, None, :] == np.arange(actions, dtype=policy.dtype)[:, None]
        leaving = np.where(taken, visits[:, None, :], 0.0).reshape(size * actions, -1)
        arrivals = np.minimum(problem.initial[:, None] + stays.onward.T @ leaving, visits)
    known = np.asarray(come.any(axis=1))
    weight = np.where(known, arrivals.sum(axis=1) / np.maximum(come.sum(axis=1), 1), 0.0)
    weight = np.where(known, weight, problem.initial)
    if problem.width:
        before = np.append(np.repeat(weight, actions), 0.0)
        for first in range(0, size, problem.width):
            own = slice(first, first + problem.width)
            carried = (np.minimum(before[problem.origin[own]], 1.0) * problem.inflow[own]).max(axis=1)
            weight[own] = np.where(known[own], weight[own], np.maximum(weight[own], carried))
            before[first * actions : (first + problem.width) * actions] = np.repeat(weight[own], actions)
        return np.asarray(weight)
    source, _, _ = np.nonzero(problem.probability > 0)
    used = problem.probability > 0
    target, odds = problem.successor[used], problem.probability[used]
    for _ in range(_PROPAGATED):
        carried = weight.copy()
        np.maximum.at(carried, target, np.minimum(weight[source], 1.0) * odds)
        new = np.where(known, weight, carried)
        if np.array_equal(new, weight):
            break
        weight = new
    return np.asarray(weight)


def mixed(policy: Floats, prior: Floats, share: float) -> Floats:
    """Return `policy` with a share of the reference measure."""
    return np.asarray((1 - share) * policy + share * prior)
