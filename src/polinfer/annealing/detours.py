"""Ways that pay less than the best one and have more policies: what is best when that one is forbidden.

Soft values, committed ones and draws may all miss a mode, and the best policy known is of another one.  So
optimisation is asked again, with one of the best policy's choices forbidden, each in turn; and again from
what it then finds, with that choice still forbidden (Lawler 1972 lists the best solutions of a problem in
this way).  Importance sampling around each way says whether it holds more evidence than was found there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from jax import Array
from numpy.typing import NDArray

from polinfer.annealing.ensemble import Ensemble
from polinfer.annealing.noise import fold
from polinfer.annealing.problem import Problem, transition_matrix
from polinfer.annealing.starts import WORTH, around, around_all, log_mean, weighted
from polinfer.exact.solution import Floats

_DEPTH = 3  # choices in a row that are forbidden
_EACH = 4  # ways that are followed from one
_WAYS = 12  # that are looked at
_COMMON = 0.5  # share of visits that two of them may have in common
_LESS = 10.0  # nats that a way may earn less than the best policy, to be started from as well
_FOLLOWED = 4  # policies that such a start is around, at most
_FEWER = 1.0  # nats by which a way must hold more evidence than was found there
_MOST_CHOICES = 256
_WORK = 500_000_000  # multiplications that one round of optimising may take


class Way(NamedTuple):
    """A policy, and what optimisation was denied when it found it."""

    policy: NDArray[np.int16]  # [N]
    visits: Floats  # [N]
    forbidden: NDArray[np.bool_]  # [N, A]


def detour(
    ensemble: Ensemble,
    known: NDArray[np.int16],
    key: Array,
    *,
    taken: Floats,
    log_evidence: float,
    elsewhere: Floats,
) -> Floats | None:
    """Return a start around a way that holds more of the evidence than was found so far, if there is one.

    Ways are those beside the best policy of `known` ``[N, K]``.  Of the choices of a way the one is looked at
    that policies so far made least, with the shares `taken` ``[N, A]``; what policies that make it hold is
    estimated by importance sampling around the way, which hardly ever finds too much.
    """
    most, chosen = log_evidence - WORTH, None
    for count, way in enumerate(find_ways(ensemble, known)):
        start = around(ensemble, way.policy, elsewhere)
        drawn, reached, log_weight = weighted(ensemble, fold(key, count), start)
        made = np.where(way.visits > 0, taken[np.arange(len(taken)), way.policy], np.inf)
        slot = int(np.argmin(made))
        own = (drawn[slot] == way.policy[slot]) & reached[slot]
        found = _surely(np.where(own, log_weight, -np.inf))
        share = max(float(made[slot]), 0.5 / log_weight.size)
        if found > max(most, log_evidence + np.log(share) + _FEWER):
            most, chosen = found, start
    return chosen


def known_start(ensemble: Ensemble, known: NDArray[np.int16], alone: bool = False) -> Floats:
    """Return a start around the best policy of `known` ``[N, K]``, and around ways that earn about as much.

    It owes nothing to soft values or to draws: where they lean to one of two ways, it takes both.  Where ways
    are dear to find, the best policy may stand `alone`.
    """
    prior = ensemble.problem.prior
    if not known.shape[1]:
        return prior
    returns, _ = ensemble.evaluate(known)
    best = int(np.argmax(returns))
    others = [] if alone else [way.policy for way in find_ways(ensemble, known)]
    ways = np.stack([known[:, best], *others], axis=1)
    earned, _ = ensemble.evaluate(ways)
    near = ensemble.scale * (float(returns[best]) - earned) <= _LESS
    return around_all(ensemble, ways[:, near][:, :_FOLLOWED], prior)


def find_ways(ensemble: Ensemble, known: NDArray[np.int16]) -> list[Way]:
    """Return ways that have little in common with one another and the best policy of `known` ``[N, K]``."""
    returns, visits = ensemble.evaluate(known)
    best = int(np.argmax(returns))
    frontier = [Way(known[:, best], visits[:, best], ~ensemble.problem.legal)]
    seen, found = list(frontier), []
    for _ in range(_DEPTH):
        further: list[Way] = []
        for base in frontier:
            before = len(further)
            for way in _detours(ensemble, base):
                if len(seen) > _WAYS or len(further) - before == _EACH:
                    break
                if max(_common(way, other) for other in seen) <= _COMMON:
                    seen.append(way)
                    further.append(way)
        found += further
        frontier = further
    return found


def _common(one: Way, other: Way) -> float:
    either = np.maximum(one.visits, other.visits).sum()
    return float(np.minimum(one.visits, other.visits).sum() / max(either, 1e-300))


def _detours(ensemble: Ensemble, base: Way) -> Iterator[Way]:
    """Yield the best ways that make a certain choice otherwise than `base`, those of high return first."""
    slots, policies = forbid_each(ensemble.problem, base)
    if not len(slots):
        return
    returns, visits = ensemble.evaluate(policies.transpose(1, 0, 2).reshape(ensemble.problem.size, -1))
    stages, _, number = policies.shape
    returns, visits = returns.reshape(stages, number), visits.reshape(-1, stages, number)
    stage = returns.argmax(axis=0)
    for each in np.argsort(-returns.max(axis=0), kind="stable"):
        policy, own = policies[stage[each], :, each], visits[:, stage[each], each]
        forbidden = base.forbidden.copy()
        forbidden[slots[each], base.policy[slots[each]]] = True
        yield Way(policy, own, forbidden)


def forbid_each(problem: Problem, base: Way) -> tuple[NDArray[np.int64], NDArray[np.int16]]:
    """Return where a choice of `base` may be forbidden ``[D]``, and what is best then ``[K, N, D]``.

    Choices come first where the policy comes most often, as many as are affordable; for each of them there
    are greedy policies of `K` stages.
    """
    slots = np.flatnonzero((base.visits > 0) & ((~base.forbidden).sum(axis=1) > 1))
    step = max(int(np.count_nonzero(problem.probability)), 1) * problem.horizon
    most = min(_MOST_CHOICES, _WORK // step)
    slots = slots[np.argsort(-base.visits[slots], kind="stable")][:most]
    number = np.arange(len(slots))
    forbidden = np.repeat(base.forbidden[:, :, None], len(slots), axis=2)
    forbidden[slots, base.policy[slots], number] = True
    return slots, greedy_stages(problem, forbidden)


def greedy_stages(problem: Problem, forbidden: NDArray[np.bool_]) -> NDArray[np.int16]:
    """Return what is best with some steps to go, ``[K, N, D]``, where actions ``[N, A, D]`` are forbidden."""
    size, actions, number = forbidden.shape
    matrix, value, found = transition_matrix(problem), np.zeros((size, number)), []
    stages = {problem.horizon, max(problem.horizon // 2, 1), max(problem.horizon // 8, 1)}
    for left in range(1, problem.horizon + 1):
        worth = problem.gain[:, :, None] + (matrix @ value).reshape(size, actions, -1)
        worth[forbidden] = -np.inf
        value = worth.max(axis=1)
        if left in stages:
            found.append(worth.argmax(axis=1).astype(np.int16))
    return np.stack(found)


def _surely(log_weight: Floats) -> float:
    """Return the log of what the mean of weights is at least, by two standard errors."""
    mean = log_mean(log_weight)
    if not np.isfinite(mean):
        return mean
    error = np.sqrt(np.exp(log_mean(2 * log_weight) - 2 * mean) / log_weight.size)
    return mean + float(np.log(max(1.0 - 2 * error, 1e-300)))
