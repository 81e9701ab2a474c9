"""How much the error of each state and action in a table matters for the return.

For a policy the derivative of ``J`` in the probability of an outcome is ``sum_t d_t(s) pi_t(a|s) (r + V)``,
visits times what follows.  Its standard deviation over the outcomes of a pair, divided by the square root of
the draws, is the error that the pair brings to ``J``.

A pair that always did the same so far may have missed what is rare: half a draw more, of anything in the
range of rewards and values, keeps such pairs from getting no more draws for want of a surprise.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from polinfer.problems.tabular.table import TabularMDP

Floats = NDArray[np.float64]
UNSEEN = 0.5
"""Draws that other outcomes count as, where all draws of a pair had the same one."""


def influence(table: TabularMDP) -> Floats:
    """Return the standard deviation ``[S, A]`` of what one draw of each pair says of ``J``.

    The policy is the soft one of the table, ``pi_t(a|s) ~ exp Q_t``: near the posterior, and cheap.
    """
    values, policies = soft_policies(table)
    states, actions, _ = table.successor.shape
    visits, total = np.where(table.absorbing, 0.0, table.initial), np.zeros((states, actions))
    outcome = np.zeros(table.successor.shape)
    for step in range(table.horizon):
        taken = visits[:, None] * policies[step]
        total += taken
        outcome += taken[..., None] * (table.reward + values[step + 1][table.successor])
        flow = (taken[..., None] * table.probability).ravel()
        visits = np.bincount(table.successor.ravel(), flow, minlength=states)
        visits[table.absorbing] = 0.0
    mean = (table.probability * outcome).sum(axis=-1, keepdims=True)
    variance = (table.probability * (outcome - mean) ** 2).sum(axis=-1)
    if table.draws is not None:
        paid = table.reward[table.probability > 0]
        span = np.ptp(paid) + np.ptp(values[0]) if paid.size else 0.0
        alone = (table.draws > 0) & ((table.probability > 0).sum(axis=-1) == 1)
        missed = np.where(alone, UNSEEN / (table.draws + UNSEEN), 0.0)
        variance += missed * (1 - missed) * (total * span) ** 2
    return np.asarray(np.sqrt(variance))


def soft_policies(table: TabularMDP) -> tuple[Floats, NDArray[np.float32]]:
    """Return the values ``[H + 1, S]`` and the choices ``[H, S, A]`` of the soft policy, by step."""
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
    return values, policies
