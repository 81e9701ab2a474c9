"""Exact posteriors in closed form, for problems in which a policy comes to a state in one way at most.

Let no state come twice, and let every policy that comes to `s` do so with the same probability ``W(s)`` and
along one path of choices.  Then what lies below `s` is independent of the rest given that `s` is reached, and
``V(s) = (1/W) log sum_a mu(a|s) exp(W (r + P V))`` is exact: ``log Z`` is the mean of ``V`` over starts, and
the posterior chooses independently in the states that it reaches.  Trees are of this kind, and so are
deterministic problems, lattices of them below chance outcomes, and certain moves with the step in the state.

One path of choices is recognised by *contexts*.  A start has one; a move with one successor keeps it; each of
several successors of a chance move begins a new one.  A policy has one path within a context, for that is
entered at one state and every step in it is certain (or ends the episode).  So a state whose ways in all have
the same context and the same probability qualifies.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from polinfer.annealing.parts import PartPosterior
from polinfer.annealing.problem import Problem, levels_of, transition_matrix
from polinfer.exact.evaluation import draw_prior
from polinfer.exact.solution import Floats

_EQUAL = 1e-12  # relative difference of probabilities that are the same but for rounding


class _Layers(NamedTuple):
    """A problem with its states sorted by level, and the one probability of coming to each."""

    order: NDArray[np.int64]  # [N] the slot of each sorted state
    bounds: NDArray[np.int64]  # [L + 1] where levels begin
    onward: csr_matrix  # [N * A, N]
    weight: Floats  # [N] W


def closed_form(problem: Problem, scale: float, count: int, seed: int) -> PartPosterior | None:
    """Return the exact posterior with a sample of `count` policies; None where there is no closed form."""
    layers = _layers(problem)
    if layers is None:
        return None
    order, bounds, onward, weight = layers
    legal, prior = problem.legal[order], problem.prior[order]
    gain = problem.gain[order]
    size, actions = gain.shape
    value, choice = np.zeros(size), np.array(prior)
    best_value, best = np.zeros(size), np.zeros(size, np.int16)
    for first, last in reversed(list(pairwise(bounds))):
        rows = onward[first * actions : last * actions]
        shape = (last - first, actions)
        worth = scale * gain[first:last] + (rows @ value).reshape(shape)
        hard = np.where(legal[first:last], gain[first:last] + (rows @ best_value).reshape(shape), -np.inf)
        best[first:last], best_value[first:last] = hard.argmax(axis=1), hard.max(axis=1)
        value[first:last], choice[first:last] = _soft(worth, weight[first:last], prior[first:last])
    came = _reach(layers, choice, problem.initial[order] > 0)
    visits = weight * came
    sample = _draw(layers, problem, choice, count, np.random.default_rng([seed, 3]))
    slots = np.argsort(order)

    log_evidence = float(problem.initial[order] @ value)
    return PartPosterior(
        log_evidence=log_evidence,
        log_evidence_stderr=0.0,
        returns=float(visits @ (choice * gain).sum(axis=1)),
        returns_stderr=0.0,
        policy=(came[:, None] * choice + (1 - came[:, None]) * prior)[slots],
        policy_stderr=np.zeros_like(prior),
        visits=visits[slots],
        sample=sample.policy[slots],
        sample_returns=sample.returns,
        reach=np.where(came[:, None] > 0, choice, 0.0)[slots],
        lower_bound=log_evidence,
        reverse_log_evidence=log_evidence,
        best=best[slots],
        best_return=float(problem.initial[order] @ best_value),
        round_log_evidence=np.zeros((0, 0)),
        exact=True,
    )


def _layers(problem: Problem) -> _Layers | None:
    """Sort the states by level and find the probability of each; None where a state has two."""
    level = levels_of(problem)
    if level is None or not problem.size:
        return None
    actions = problem.gain.shape[1]
    order = np.argsort(level, kind="stable")
    bounds = np.searchsorted(level[order], np.arange(level.max() + 2))
    matrix = transition_matrix(problem)
    rows = (order[:, None] * actions + np.arange(actions)).ravel()
    onward = matrix[rows][:, order].tocsr()
    onward.sort_indices()
    weight = _weights(onward, bounds, problem.legal[order].sum(axis=1) > 1, problem.initial[order])
    return None if weight is None else _Layers(order, bounds, onward, weight)


def _weights(
    onward: csr_matrix, bounds: NDArray[np.int64], choice: NDArray[np.bool_], initial: Floats
) -> Floats | None:
    """Return ``W`` ``[N]``, or None where policies come to a state with different ones, or by two ways.

    What no choice precedes is reached by every policy, by all ways together.
    """
    size = len(initial)
    actions = onward.shape[0] // size
    context, weight = np.arange(size), np.array(initial)
    free = np.ones(size, np.bool_)  # no choice was made before
    lowest, highest = np.full(size, np.iinfo(np.int64).max), np.full(size, -1)
    least, most = np.full(size, np.inf), np.zeros(size)
    fanned = np.diff(onward.indptr) > 1
    for first, last in pairwise(bounds):
        entered = np.flatnonzero(highest[first:last] >= 0) + first
        mixed = weight[entered] > 0  # a start, or a way without a choice, besides
        apart = (lowest[entered] != highest[entered]) | (
            most[entered] - least[entered] > _EQUAL * most[entered]
        )
        if mixed.any() or apart.any():
            return None
        context[entered], weight[entered], free[entered] = lowest[entered], least[entered], False
        start, stop = onward.indptr[first * actions], onward.indptr[last * actions]
        edge = np.arange(start, stop)
        row = np.repeat(
            np.arange(first * actions, last * actions),
            np.diff(onward.indptr[first * actions : last * actions + 1]),
        )
        source, target = row // actions, onward.indices[edge]
        mass = weight[source] * onward.data[edge]
        certain = free[source] & ~choice[source]
        np.add.at(weight, target[certain], mass[certain])
        chosen = ~certain
        own = np.where(fanned[row], size + edge, context[source])[chosen]
        np.minimum.at(lowest, target[chosen], own)
        np.maximum.at(highest, target[chosen], own)
        np.minimum.at(least, target[chosen], mass[chosen])
        np.maximum.at(most, target[chosen], mass[chosen])
    return weight


def _soft(worth: Floats, weight: Floats, prior: Floats) -> tuple[Floats, Floats]:
    """Return ``(1/W) log sum_a mu exp(W worth)`` ``[n]`` and the choice ``[n, A]`` behind it."""
    top = np.where(prior > 0, worth, -np.inf).max(axis=1, keepdims=True)
    behind = np.where(prior > 0, weight[:, None] * (worth - top), -np.inf)
    # log1p and expm1: a state that is hardly reached has differences near zero.
    log_mean = np.log1p((prior * np.expm1(behind)).sum(axis=1))
    choice = prior * np.exp(behind)
    # Empty slots have no weight, and nothing to gain.
    value = top[:, 0] + log_mean / np.where(weight > 0, weight, 1.0)
    return value, choice / choice.sum(axis=1, keepdims=True)


def _reach(layers: _Layers, choice: Floats, start: NDArray[np.bool_]) -> Floats:
    """Return the probability ``[N]`` that a policy that chooses independently comes to each state."""
    came, actions = start.astype(np.float64), choice.shape[1]
    possible = layers.onward.copy()
    possible.data = np.ones_like(possible.data)
    for first, last in pairwise(layers.bounds):
        # Ways without a choice may meet; all policies take them.
        came[first:last] = np.minimum(came[first:last], 1.0)
        flow = (came[first:last, None] * choice[first:last]).ravel()
        came += possible[first * actions : last * actions].T @ flow
    return np.minimum(came, 1.0)


class _Drawn(NamedTuple):
    policy: NDArray[np.int16]  # [N, M]
    returns: Floats  # [M]


def _draw(
    layers: _Layers, problem: Problem, choice: Floats, count: int, random: np.random.Generator
) -> _Drawn:
    """Draw policies: by `choice` where they come, by the reference measure elsewhere."""
    size, actions = choice.shape
    policy = draw_prior(choice, random.random((size, count))).astype(np.int16)
    incoming = layers.onward.T.tocsr()
    came = np.repeat((problem.initial[layers.order] > 0)[:, None], count, axis=1)
    for first, last in pairwise(layers.bounds):
        pointer = incoming.indptr[first : last + 1]
        entered = np.flatnonzero(np.diff(pointer)) + first
        if len(entered) == 0:
            continue
        pair = incoming.indices[pointer[0] : pointer[-1]]
        took = came[pair // actions] & (policy[pair // actions] == (pair % actions)[:, None])
        came[entered] |= np.logical_or.reduceat(took, incoming.indptr[entered] - pointer[0], axis=0)
    gain = np.take_along_axis(problem.gain[layers.order], policy.astype(np.int64), axis=1)
    returns = layers.weight @ np.where(came, gain, 0.0)
    elsewhere = draw_prior(problem.prior[layers.order], random.random((size, count)))
    return _Drawn(np.where(came, policy, elsewhere).astype(np.int16), np.asarray(returns))
