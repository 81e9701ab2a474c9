"""Exact posteriors by listing reach classes: policies that agree wherever they come.

Partial policies are followed until they come to a state without an action; there they branch.  A lock of 20
digits has a million policies and some 40 classes.  Their number is estimated first, from random policies
(Knuth 1975): the mean over policies of ``prod_{s reached} |A(s)|`` is the number of classes.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from polinfer.annealing.buckets import capacity
from polinfer.annealing.passes import make_evaluate
from polinfer.annealing.problem import Problem
from polinfer.annealing.rows import Rows, make_rows
from polinfer.exact.solution import Floats

BATCH = 512
_TOGETHER = 1 << 24  # states times policies that are evaluated together
_WORTHWHILE = 4  # small parts, from which on that is done
_HOPELESS = 20.0  # times the limit: estimates beyond are believed


class Listed(NamedTuple):
    """All reach classes of a problem."""

    policy: NDArray[np.int16]  # [N, C]; -1 where the class does not come
    visits: Floats  # [N, C] expected visits
    returns: Floats  # [C] J
    log_prior: Floats  # [C] log of the reference measure of the class
    chance: Floats | None = None  # [N, C] probability of ever coming; None where it was not computed


def list_classes(problem: Problem, limit: int, seed: int = 0) -> Listed | None:
    """List the reach classes of a problem; None where there are more than `limit`."""
    if limit < 1 or not problem.size:
        return None
    with jax.enable_x64(True):
        rows = make_rows(problem, np.float64)
        evaluate = compile_visits(*problem.gain.shape, problem.width, capacity(problem))
        if _estimate(problem, rows, evaluate, seed) > np.log(limit) + np.log(_HOPELESS):
            return None
        return _follow(problem, rows, evaluate, limit)


@lru_cache(maxsize=64)
def compile_visits(size: int, actions: int, width: int, horizon: int) -> Any:
    """Return the compiled function from rows and `BATCH` policies to their returns and visits."""
    evaluate = make_evaluate(size, actions, width, horizon, BATCH, 8)

    def returns_and_visits(rows: Rows, policy: jax.Array) -> tuple[jax.Array, jax.Array]:
        found = evaluate(rows, policy)
        return found.returns, found.visits

    return jax.jit(returns_and_visits)


def list_together(problem: Problem, parts: list[Problem]) -> dict[int, Listed]:
    """List all policies of the parts that have few, by their number; one evaluation for all of them.

    `problem` is the whole that was split.  What a part earns is the sum over its states of visits times gain.
    """
    most = min(BATCH, max(2, _TOGETHER // max(problem.size, 1)))
    small = [number for number, part in enumerate(parts) if part.log_count <= np.log(most) + 1e-9]
    if len(small) < _WORTHWHILE:
        return {}
    local = np.full(int(problem.state.max()) + 1, -1)
    local[problem.state] = np.arange(problem.size)
    policy = np.repeat(problem.legal.argmax(axis=1)[:, None], most, axis=1).astype(np.int16)
    for number in small:
        part = parts[number]
        radix = part.legal.sum(axis=1)
        place = np.concatenate([[1], np.cumprod(radix)[:-1]])
        digit = (np.arange(most) // place[:, None]) % radix[:, None]
        order = np.argsort(~part.legal, axis=1, kind="stable")
        policy[local[part.state]] = np.take_along_axis(order, digit, axis=1)
    size, actions = problem.gain.shape
    choices = [local[parts[number].state[parts[number].legal.sum(axis=1) > 1]] for number in small]
    with jax.enable_x64(True):
        rows = make_rows(problem, np.float64)
        evaluate = make_evaluate(size, actions, 0, problem.horizon, most, 8)
        follow = jax.jit(lambda rows, own: evaluate(rows, own).visits)
        visits = np.asarray(follow(rows, jnp.asarray(policy)))
        if problem.discount < 1:
            rows = make_rows(problem.undiscounted(), np.float64)
        chance = np.minimum(visits, 1.0)
        # The visits of a policy that stops where it first comes, one state of each part at a time.
        for turn in range(max(len(own) for own in choices)):
            at = np.array([own[turn] for own in choices if len(own) > turn])
            stopped = policy.copy()
            stopped[at] = -1
            chance[at] = np.asarray(follow(rows, jnp.asarray(stopped)))[at]
    found = {}
    for number in small:
        part = parts[number]
        count = round(np.exp(part.log_count))
        at = local[part.state]
        own, come = policy[at, :count], visits[at, :count]
        returns = (np.take_along_axis(part.gain, own.astype(np.int64), axis=1) * come).sum(axis=0)
        found[number] = Listed(own, come, returns, log_share(part, own), chance[at, :count])
    return found


def log_share(problem: Problem, policy: NDArray[np.int16]) -> Floats:
    """Return the log of the reference measure ``[C]`` of partial policies ``[N, C]``; -1 is open."""
    log_prior = np.take_along_axis(problem.log_prior, np.maximum(policy, 0).astype(np.int64), axis=1)
    return np.asarray(np.where(policy >= 0, log_prior, 0.0).sum(axis=0))


def _estimate(problem: Problem, rows: Rows, evaluate: Any, seed: int) -> float:
    """Return the log of the estimated number of classes."""
    random = np.random.default_rng(seed)
    rank = (random.random((problem.size, BATCH)) * problem.legal.sum(axis=1)[:, None]).astype(np.int64)
    order = np.argsort(~problem.legal, axis=1, kind="stable")
    policy = np.take_along_axis(order, rank, axis=1).astype(np.int16)
    _, visits = evaluate(rows, jnp.asarray(policy))
    log_size = np.log(problem.legal.sum(axis=1)) @ (np.asarray(visits) > 0)
    return float(np.logaddexp.reduce(log_size) - np.log(BATCH))


def _follow(problem: Problem, rows: Rows, evaluate: Any, limit: int) -> Listed | None:
    forced = problem.legal.sum(axis=1) == 1
    first = np.where(forced, problem.legal.argmax(axis=1), -1).astype(np.int16)
    # The last ones first: then the list stays short.
    waiting = first[:, None]
    done: list[tuple[NDArray[np.int16], Floats, Floats]] = []
    count = 0
    while waiting.shape[1]:
        take = min(BATCH, waiting.shape[1])
        batch, waiting = waiting[:, -take:], waiting[:, :-take]
        padded = np.pad(batch, ((0, 0), (0, BATCH - take)), mode="edge")
        returns, visits = (np.asarray(part)[..., :take] for part in evaluate(rows, jnp.asarray(padded)))
        come = visits > 0
        open_ = come & (batch < 0)
        complete = ~open_.any(axis=0)
        if complete.any():
            known = np.where(come, batch, -1)[:, complete].astype(np.int16)
            done.append((known, visits[:, complete], returns[complete]))
            count += int(complete.sum())
        branching = np.flatnonzero(~complete)
        at = open_[:, branching].argmax(axis=0)
        number, action = np.nonzero(problem.legal[at])
        children = batch[:, branching[number]].copy()
        children[at[number], np.arange(len(number))] = action
        waiting = np.concatenate([waiting, children], axis=1)
        if count + waiting.shape[1] > limit:
            return None
    policy = np.concatenate([part[0] for part in done], axis=1)
    return Listed(
        policy,
        np.concatenate([part[1] for part in done], axis=1),
        np.concatenate([part[2] for part in done]),
        log_share(problem, policy),
    )
