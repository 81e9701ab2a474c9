"""The optimum over a long horizon, from as many steps as it takes to settle, with a proof of the rest.

Let ``v_t`` be the largest expected return over `t` steps and ``d = v_t - v_{t-16}``.  Sixteen steps are a
monotone map, and adding a constant to what follows adds at most that to what comes before.  So over every
further sixteen steps `v` grows by at most the largest `d` among the states that can be reached, and by at
least the smallest `d` among those that are reached by repeating the last sixteen greedy actions.  Where the
two agree to the digits that matter, the value is known for any number of further steps.  Sixteen, not one:
values of chains with the periods 2, 4, 8 and 16 never settle step by step.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from polinfer.problems.tabular.table import TabularMDP

Floats = NDArray[np.float64]

SQUARED_STATES = 256
"""States up to which a long horizon is settled and squared rather than gone through."""
CYCLE = 16
_MOST_STEPS = 20_000
_MOST_ROUNDS = 2_000
_EXACT = 1e-11  # of the largest value


class Layout(NamedTuple):
    """A table as one sparse matrix, by action, then by state."""

    move: scipy.sparse.csr_array  # [A S, S], probabilities times the discount
    gain: Floats  # [A, S], expected reward; minus infinity where the action is illegal


def by_action(table: TabularMDP, discount: float) -> Layout:
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


class Settled(NamedTuple):
    """The optimum over a horizon, of which only the last steps were gone through."""

    value: Floats  # [S]
    actions: NDArray[np.int32]  # [t, S], the last step first; the last sixteen of them repeat before that

    def at(self, left: int) -> NDArray[np.int32]:
        """Return the best actions ``[S]`` with so many steps left."""
        number = len(self.actions)
        if left > number:
            left = number - CYCLE + 1 + (left - 1 - number) % CYCLE
        return np.asarray(self.actions[left - 1])

    def spread(self, horizon: int) -> NDArray[np.int32]:
        """Return the best actions ``[H, S]``, the first step first."""
        left = np.arange(1, horizon + 1)
        number = len(self.actions)
        late = number - CYCLE + (left - 1 - number) % CYCLE
        return np.asarray(self.actions[np.where(left <= number, left - 1, late)[::-1]])


@lru_cache(maxsize=64)
def settle(table: TabularMDP, horizon: int) -> Settled | None:
    """Return the optimum over `horizon` steps without a discount, None where values do not settle soon."""
    if table.num_states > SQUARED_STATES or horizon <= 2 * CYCLE:
        return None
    move, gain = by_action(table, 1.0)
    states = np.arange(table.num_states)
    every = np.broadcast_to(np.arange(len(gain))[:, None], gain.shape)
    value, before = np.zeros(table.num_states), np.zeros(table.num_states)
    actions: list[NDArray[np.intp]] = []
    look = 3 * CYCLE
    for step in range(1, min(_MOST_STEPS, horizon) + 1):
        worth = (move @ value).reshape(gain.shape) + gain
        actions.append(worth.argmax(axis=0))
        value = worth[actions[-1], states]
        if (horizon - step) % CYCLE:
            continue
        change, before = value - before, value
        if step < look:
            continue
        look = step * 3 // 2
        rounds = float((horizon - step) // CYCLE)
        most = _most(move, change, _closure(move, every, table), table)
        enough = _EXACT * max(float(np.abs(value + rounds * most).max()), float(np.abs(value).max()))
        if (rounds * (most - change)).max() > enough:
            continue
        last = np.stack(actions[-CYCLE:])
        least = _least(move, change, _closure(move, last, table), last)
        if (rounds * (most - least)).max() <= enough:
            # The lower bound is what the actions that were found do earn.
            return Settled(value + rounds * least, np.asarray(actions, np.int32))
    return None


def _most(
    move: scipy.sparse.csr_array, change: Floats, reached: NDArray[np.bool_], table: TabularMDP
) -> Floats:
    """Return what sixteen steps add at most, ``[S]``, however many times they are repeated.

    That is any ``h >= d`` of which no action expects more than it is.  The largest `d` in reach is one; the
    larger of `d` and what the best action expects of an `h` is another, and smaller.
    """
    bound = np.where(reached, change, -np.inf).max(axis=1)
    legal = table.legal_actions.T
    for _ in range(_MOST_ROUNDS):
        expected = (move @ bound).reshape(legal.shape)
        smaller = np.where(
            table.absorbing, 0.0, np.maximum(change, np.where(legal, expected, -np.inf).max(axis=0))
        )
        if np.array_equal(smaller, bound):
            break
        bound = np.minimum(smaller, bound)
    return np.asarray(bound)


def _least(
    move: scipy.sparse.csr_array, change: Floats, reached: NDArray[np.bool_], actions: NDArray[np.intp]
) -> Floats:
    """Return what sixteen steps by `actions` ``[16, S]``, last step first, add at least, repeated."""
    bound = np.where(reached, change, np.inf).min(axis=1)
    rows = [move[row * len(change) + np.arange(len(change))] for row in actions]
    for _ in range(_MOST_ROUNDS // CYCLE):
        expected = bound
        for row in rows:
            expected = row @ expected
        larger = np.minimum(change, expected)
        if np.array_equal(larger, bound):
            break
        bound = np.maximum(larger, bound)
    return np.asarray(bound)


def _closure(
    move: scipy.sparse.csr_array, actions: NDArray[np.integer], table: TabularMDP
) -> NDArray[np.bool_]:
    """Return which states ``[S, S]`` follow which, themselves included, by actions ``[k, S]``."""
    every = np.arange(table.num_states)
    leads = np.eye(table.num_states, dtype=np.bool_)
    for row in actions:
        legal = table.legal_actions[every, row]
        leads |= (move[row * table.num_states + every] > 0).toarray() & legal[:, None]
    while True:
        further = (leads.astype(np.float32) @ leads.astype(np.float32)) > 0
        if np.array_equal(further, leads):
            return leads
        leads = further
