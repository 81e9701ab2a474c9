"""Passes over a table for greedy, time-dependent policies: sparse products in double precision.

Everything is laid out by action, then by state: a step backward is one product with a matrix ``[A S, S]`` and
one maximum over the first axis.  Only values are kept; the actions of all stages are found by a second pass
where somebody asks for them.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from polinfer.core.limits import check_bytes
from polinfer.exact import squared
from polinfer.exact.solution import Floats
from polinfer.problems.tabular.settling import Settled, by_action, settle
from polinfer.problems.tabular.table import TabularMDP

_LOOK = 16  # steps between two looks at whether values still change
_ROWS = 1 << 17  # states times policies that are evaluated together


def optimal_value(table: TabularMDP, horizon: int, discount: float) -> Floats:
    """Return the largest expected return ``[S]`` over `horizon` steps."""
    settled = _settled(table, horizon, discount)
    if settled is not None:
        return settled.value
    move, gain = by_action(table, discount)
    value = np.zeros(table.num_states)
    for step in range(horizon):
        worth = (move @ value).reshape(gain.shape)
        worth += gain
        after = np.maximum.reduce(worth, axis=0)
        if step % _LOOK == 0 and np.array_equal(after, value):
            break  # it is its own successor: more steps change nothing
        value = after
    return value


def _settled(table: TabularMDP, horizon: int, discount: float) -> Settled | None:
    return settle(table, horizon) if squared.pays(table.num_states, horizon, discount) else None


def greedy_at(
    table: TabularMDP, horizon: int, discount: float, steps: NDArray[np.integer]
) -> NDArray[np.int32]:
    """Return the best action ``[k, S]`` at each of some steps ``[k]`` of the horizon."""
    settled = _settled(table, horizon, discount)
    if settled is not None:
        return np.stack([settled.at(horizon - int(step)) for step in steps])
    return np.asarray(greedy_actions(table, horizon, discount)[steps])


def greedy_actions(table: TabularMDP, horizon: int, discount: float) -> NDArray[np.int32]:
    """Return the best action ``[H, S]`` of each stage, first step first, the first one where several are."""
    check_bytes(
        f"the actions of {horizon:,} steps", 4.0 * horizon * table.num_states, "choose a shorter --horizon"
    )
    settled = _settled(table, horizon, discount)
    if settled is not None:
        return settled.spread(horizon)
    move, gain = by_action(table, discount)
    value = np.zeros(table.num_states)
    actions = np.zeros((horizon, table.num_states), np.int32)
    better = np.empty(table.num_states, np.bool_)
    for step in range(horizon - 1, -1, -1):
        worth = (move @ value).reshape(gain.shape)
        worth += gain
        best, action = worth[0], actions[step]
        for other in range(1, len(worth)):
            np.greater(worth[other], best, out=better)
            np.putmask(action, better, other)
            np.maximum(best, worth[other], out=best)
        if step % _LOOK == 0 and np.array_equal(best, value):
            actions[:step] = action
            break
        value = best
    return actions


def stationary_returns(table: TabularMDP, policies: NDArray[np.integer], horizon: int) -> Floats:
    """Return ``J [n]`` of deterministic policies ``[n, S]``, as many at a time as fit into the cache.

    Like `deterministic_returns`, which compiles for every new shape: worth it for many policies only.
    """
    if squared.pays(table.num_states, horizon, table.discount):
        return squared.returns(table, policies, horizon)
    batch = max(1, _ROWS // table.num_states)
    parts = [_batch_returns(table, policies[i : i + batch], horizon) for i in range(0, len(policies), batch)]
    return np.concatenate(parts) if parts else np.zeros(0)


def _batch_returns(table: TabularMDP, policies: NDArray[np.integer], horizon: int) -> Floats:
    number, states = policies.shape
    place = np.arange(states)
    weight = np.where(table.absorbing[:, None], 0.0, table.onward[place, policies])  # [n, S, B]
    follow = table.successor[place, policies] + states * np.arange(number)[:, None, None]
    used = weight > 0
    ends = np.concatenate([[0], np.cumsum(used.sum(axis=-1))])
    move = scipy.sparse.csr_array((weight[used], follow[used], ends), shape=(number * states,) * 2)
    gain = (weight * table.reward[place, policies]).sum(axis=-1).ravel() / table.discount
    value = np.zeros(number * states)
    for step in range(horizon):
        after = move @ value
        after += gain
        if step % _LOOK == 0 and np.array_equal(after, value):
            break
        value = after
    return np.asarray(value.reshape(number, states) @ table.initial)


def one_hot_stages(actions: NDArray[np.int32], num_actions: int) -> Floats:
    """Write actions ``[H, S]`` as probabilities ``[H, S, A]``."""
    stages = np.zeros((*actions.shape, num_actions))
    np.put_along_axis(stages, actions[..., None], 1.0, axis=-1)
    return stages


def visits(table: TabularMDP, actions: NDArray[np.int32]) -> Iterator[Floats]:
    """Yield the discounted probability ``[S]`` of acting in each state at each step of actions ``[H, S]``."""
    states = np.arange(table.num_states)
    here = np.where(table.absorbing, 0.0, table.initial)
    for action in actions:
        yield here
        flow = table.onward[states, action] * here[:, None]
        here = np.bincount(table.successor[states, action].ravel(), flow.ravel(), minlength=table.num_states)
        here[table.absorbing] = 0.0


def average_actions(table: TabularMDP, actions: NDArray[np.int32]) -> Floats:
    """Average actions ``[H, S]`` over time as ``[S, A]``, weighted by visits, or plainly without any."""
    states = np.arange(table.num_states)
    total = np.zeros((table.num_states, table.num_actions))
    for action, here in zip(actions, visits(table, actions), strict=True):
        total[states, action] += here
    unseen = total.sum(axis=1) == 0
    for action in range(table.num_actions):
        total[unseen, action] = (actions[:, unseen] == action).sum(axis=0)
    total[table.absorbing] = table.legal_actions[table.absorbing]
    return np.asarray(total / total.sum(axis=1, keepdims=True))
