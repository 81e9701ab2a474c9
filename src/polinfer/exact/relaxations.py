"""Upper bounds on the log evidence by relaxing the posterior to a dynamic programme.

``log Z = max E[J] - KL(rho || mu)`` over distributions `rho` of deterministic policies.  Both functions
drop part of the divergence and let the policy depend on history, so they can only come out too high; the
page on the certificate in the documentation proves it.

Reveal the choices of a policy one by one, always in the reached state of lowest rank.  A visit is a *record*
when no state of the same or of a higher rank was visited before it.  The probability of a record in `s`
depends on choices in states of lower rank alone, which are known when the choice in `s` is revealed, so it
may be charged ``KL_s / w(s)`` where ``w(s)`` is at least the probability of that record under any policy.
A discount is the same as ending the episode with the rest of the probability at every step, for `J` and `w`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from polinfer.exact.reachable import Ints, Reachable
from polinfer.exact.solution import Floats

MOST_STEPS = 5_000
"""Steps that a bound goes through one by one; what more of them add is bounded in one."""


def entry_bound(graph: Reachable, weight: Floats) -> float:
    """Charge the records that need no memory to be seen; everywhere else the best action is free.

    These are visits to a state that cannot come twice, entries into a strongly connected component, and
    visits at the earliest possible time.  Linear in states, actions, outcomes and horizon.
    """
    if not graph.recurrent.any():
        levels = graph.levels()
        if len(levels) <= graph.horizon:
            return _level_bound(graph, weight, levels)
    states, actions = graph.size
    entering = graph.component[graph.source] != graph.component[graph.target]
    row = graph.source * actions + graph.action
    shape = (states * actions, states)

    def matrix(chosen: Ints) -> scipy.sparse.csr_array:
        return scipy.sparse.csr_array(
            (graph.probability[chosen], (row[chosen], graph.target[chosen])), shape=shape
        )

    enter, stay = matrix(np.flatnonzero(entering)), matrix(np.flatnonzero(~entering))
    free, charged = np.zeros(states), np.zeros(states)
    before = free, charged
    # From the last of these steps on, time does not matter.
    special = int(graph.earliest.max(initial=0)) + 1
    skipped = max(0, graph.horizon - special - MOST_STEPS)
    for step in range(graph.horizon - 1, -1, -1) if not skipped else _steps(graph.horizon, special):
        if skipped and step == special - 1:
            growth = _growth(np.concatenate(before), np.concatenate([free, charged]), skipped)
            free, charged = free + growth, charged + growth
        before = free, charged
        follow = np.where(graph.earliest == step + 1, charged, free)
        worth = graph.gain + (enter @ charged + stay @ follow).reshape(states, actions)
        free = np.where(graph.legal, worth, -np.inf).max(axis=1)
        charged = soft_maximum(worth, graph.prior, weight)
    return float(graph.initial @ charged)


def _steps(horizon: int, special: int) -> Iterator[int]:
    """Yield the last `MOST_STEPS` steps of a horizon, and then the first `special` ones, backwards."""
    yield from range(horizon - 1, horizon - 1 - MOST_STEPS, -1)
    yield from range(special - 1, -1, -1)


def _growth(before: Floats, after: Floats, steps: int) -> float:
    """Return at least what values grow by over so many further steps.

    A step is monotone, and adding a constant to what follows adds at most that to what comes before: nothing
    grows faster than what grew fastest in the last step.
    """
    rounding = 8 * np.finfo(np.float64).eps * float(np.abs(after).max(initial=0.0))
    return steps * (max(0.0, float((after - before).max(initial=0.0))) + rounding)


def _level_bound(graph: Reachable, weight: Floats, levels: list[Ints]) -> float:
    """Visit every state once, the last ones first: nothing comes twice and nothing is cut off."""
    states, actions = graph.size
    row = graph.source * actions + graph.action
    move = scipy.sparse.csr_array((graph.probability, (row, graph.target)), shape=(states * actions, states))
    value = np.zeros(states)
    for level in levels:
        pairs = (level[:, None] * actions + np.arange(actions)).ravel()
        worth = graph.gain[level] + (move[pairs] @ value).reshape(-1, actions)
        value[level] = soft_maximum(worth, graph.prior[level], weight[level])
    return float(graph.initial @ value)


def record_bound(graph: Reachable, weight: Floats) -> float:
    """Charge every record, and hold the policy to the action of the latest one.

    A trajectory of one deterministic policy takes the same action whenever it comes back.  What is remembered
    is the latest record `m` and its action: the cost is that of a table with as many states as there are
    pairs ``(s, m)`` in one strongly connected component, times the number of actions.
    """
    states, actions = graph.size
    pairs = _pairs(graph)
    number = len(pairs.state)
    held = np.flatnonzero(pairs.state == pairs.record)
    gain = np.where(graph.legal, graph.gain, -np.inf)[pairs.state].T.reshape(-1)
    value, charged = np.zeros((number, actions)), np.zeros(states)
    own = np.arange(actions)
    steps = min(graph.horizon, MOST_STEPS)
    before = value, charged
    for _ in range(steps):
        before = value, charged
        # By action, then by pair; the last axis is the action of the record.
        worth = (pairs.stay @ value).reshape(actions, number, actions)
        worth += (gain + pairs.enter @ charged).reshape(actions, number, 1)
        value = np.maximum.reduce(worth, axis=0)
        value[held] = forced = worth[own, held[:, None], own]
        charged = soft_maximum(forced, graph.prior, weight)
    if steps < graph.horizon:
        old, new = (np.concatenate([pair.ravel(), single]) for pair, single in (before, (value, charged)))
        allowed = np.isfinite(new) & np.isfinite(old)  # illegal actions are never worth anything
        charged = charged + _growth(old[allowed], new[allowed], graph.horizon - steps)
    return float(graph.initial @ charged)


def record_work(graph: Reachable) -> float:
    """Return the number of multiplications that `record_bound` takes."""
    size = np.bincount(graph.component).astype(np.float64)
    outcomes = np.bincount(graph.component[graph.source], minlength=len(size))
    # A state of a component of c states is in about (c + 1) / 2 pairs.
    return float((outcomes * (size + 1) / 2).sum() * graph.size[1] * min(graph.horizon, MOST_STEPS))


def soft_maximum(worth: Floats, prior: Floats, weight: Floats) -> Floats:
    """Return ``(1/w) log sum mu exp(w worth)``, `prior` being `mu`; the maximum where the weight is zero."""
    legal = prior > 0
    best = np.where(legal, worth, -np.inf).max(axis=1)
    # expm1 and log1p: with a small weight the exponentials are one but for digits that would be lost.
    below = np.expm1(np.where(legal, worth - best[:, None], 0.0) * weight[:, None])
    mean = (prior * below).sum(axis=1)
    charged = weight > 0
    return np.asarray(np.where(charged, best + np.log1p(mean) / np.where(charged, weight, 1.0), best))


class _Pairs(NamedTuple):
    """The states of `record_bound`: where one is, and the latest record in the same component."""

    state: Ints  # [N]
    record: Ints  # [N], not below `state`; those that have the same record lie side by side
    stay: scipy.sparse.csr_array  # [A N, N], moves that set no record
    enter: scipy.sparse.csr_array  # [A N, n], moves that do


def _pairs(graph: Reachable) -> _Pairs:
    states, actions = graph.size
    # The states of a component have consecutive ranks, so a pair is found by arithmetic.
    lowest = np.searchsorted(graph.component, graph.component)
    below = np.arange(states) - lowest + 1
    offset = np.concatenate([[0], np.cumsum(below)])
    record = np.repeat(np.arange(states), below)
    state = lowest[record] + np.arange(len(record)) - offset[record]

    first = np.searchsorted(graph.source, np.arange(states + 1))
    number = np.diff(first)[state]
    pair = np.repeat(np.arange(len(state)), number)
    outcome = np.arange(len(pair)) - np.repeat(np.cumsum(number) - number, number) + first[state[pair]]
    row = graph.action[outcome] * len(state) + pair
    target, latest = graph.target[outcome], record[pair]
    stays = target <= latest
    stays &= graph.component[target] == graph.component[latest]

    def matrix(chosen: NDArray[np.bool_], column: Ints, width: int) -> scipy.sparse.csr_array:
        data = graph.probability[outcome[chosen]]
        return scipy.sparse.csr_array((data, (row[chosen], column)), shape=(len(state) * actions, width))

    inner = offset[latest[stays]] + target[stays] - lowest[latest[stays]]
    return _Pairs(state, record, matrix(stays, inner, len(state)), matrix(~stays, target[~stays], states))
