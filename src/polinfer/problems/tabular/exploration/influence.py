"""How much the error of each state and action in a table matters for the return.

For a policy the derivative of ``J`` in the probability of an outcome is ``sum_t d_t(s) pi_t(a|s) (r + V)``,
visits times what follows.  Its standard deviation over the outcomes of a pair, divided by the square root of
the draws, is the error that the pair brings to ``J``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from polinfer.problems.tabular.table import TabularMDP

Floats = NDArray[np.float64]


def influence(table: TabularMDP) -> Floats:
    """Return the standard deviation ``[S, A]`` of what one draw of each pair says of ``J``.

    The policy is the soft one of the table, ``pi_t(a|s) ~ exp Q_t``: near the posterior, and cheap.
    """
    states, actions, _ = table.successor.shape
    gain = table.probability * table.reward
    legal = table.legal_actions
    values = np.zeros((table.horizon + 1, states))
    policies = np.empty((table.horizon, states, actions), np.float32)
    for step in range(table.horizon - 1, -1, -1):
        worth = gain.sum(axis=-1) + (table.probability * values[step + 1][table.successor]).sum(axis=-1)
        worth = np.where(legal, worth, -np.inf)
        top = worth.max(axis=1, keepdims=True)
        odds = np.exp(worth - top)
        share = odds / odds.sum(axis=1, keepdims=True)
        # The value is the expected return of the soft policy, without its entropy.
        value = (share * np.where(legal, worth, 0.0)).sum(axis=1)
        values[step] = np.where(table.absorbing, 0.0, value)
        policies[step] = share
    visits = np.where(table.absorbing, 0.0, table.initial)
    outcome = np.zeros(table.successor.shape)
    for step in range(table.horizon):
        taken = visits[:, None] * policies[step]
        outcome += taken[..., None] * (table.reward + values[step + 1][table.successor])
        flow = (taken[..., None] * table.probability).ravel()
        visits = np.bincount(table.successor.ravel(), flow, minlength=states)
        visits[table.absorbing] = 0.0
    mean = (table.probability * outcome).sum(axis=-1, keepdims=True)
    return np.asarray(np.sqrt((table.probability * (outcome - mean) ** 2).sum(axis=-1)))
