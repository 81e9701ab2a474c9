"""Passes over a table for greedy, time-dependent policies: sparse products in double precision.

Everything is laid out by action, then by state: a step backward is one product with a matrix ``[A S, S]`` and
one maximum over the first axis.  Only values are kept; the actions of all stages are found by a second pass
where somebody asks for them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from polinfer.exact.solution import Floats
from polinfer.problems.tabular.table import TabularMDP

_LOOK = 16  # steps between two looks at whether values still change
_ROWS = 1 << 17  # states times policies that are evaluated together


class Layout(NamedTuple):
    """A table as one sparse matrix."""

    move: scipy.sparse.csr_array  # [A S, S], probabilities times the discount
    gain: Floats  # [A, S], expected reward; minus infinity where the action is illegal


def lay_out(table: TabularMDP, discount: float) -> Layout:
    """Return the table by action, then by state; nothing follows a terminal state."""
    states, actions, width = table.successor.shape
    gain = np.ascontiguousarray(np.einsum("sab,sab->as", table.probability, table.reward))
    gain[:, table.absorbing] = 0.0
    gain[~table.legal_actions.T] = -np.inf
    data = table.probability.transpose(1, 0, 2).reshape(-1)
    # Indices of four bytes are twice as fast to read as those of eight.
    kind = np.int32 if data.size < 2**31 else np.int64
    index = table.successor.transpose(1, 0, 2).reshape(-1).astype(kind, copy=False)
    ends = np.arange(0, data.size + 1, width, dtype=kind)
    if (data == 0).any() or table.absorbing.any():
        used = (data.reshape(actions, states, width) > 0) & ~table.absorbing[:, None]
        count = np.add.reduce(used.reshape(-1, width), axis=1, dtype=kind)
        ends = np.concatenate([np.zeros(1, kind), np.cumsum(count, dtype=kind)])
        data, index = data[used.reshape(-1)], index[used.reshape(-1)]
    move = scipy.sparse.csr_array((data * discount, index, ends), shape=(actions * states, states))
    return Layout(move, gain)


def optimal_value(table: TabularMDP, horizon: int, discount: float) -> Floats:
    """Return the largest expected return ``[S]`` over `horizon` steps."""
    move, gain = lay_out(table, discount)
    value = np.zeros(table.num_states)
    for step in range(horizon):
        worth = (move @ value).reshape(gain.shape)
        worth += gain
        after = np.maximum.reduce(worth, axis=0)
        if step % _LOOK == 0 and np.array_equal(after, value):
            break  # it is its own successor: more steps change nothing
        value = after
    return value


def greedy_actions(table: TabularMDP, horizon: int, discount: float) -> NDArray[np.int32]:
    """Return the best action ``[H, S]`` of each stage, first step first, the first one where several are."""
    move, gain = lay_out(table, discount)
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
