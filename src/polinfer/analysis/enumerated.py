"""All policies of a small problem with their returns: the posterior at any reward scale follows from them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from polinfer import exact
from polinfer.exact.solution import Floats
from polinfer.problems.tabular.table import TabularMDP

ENUMERATED = 100_000
"""With at most this many policies all are evaluated, once for all scales; with more they are sampled."""
_AT_ONCE = 1 << 13  # policies written out together


class ScaledPosterior(NamedTuple):
    """The posterior at one reward scale, exactly."""

    policy: Floats  # [S, A], the marginal policy
    expected_return: float  # E[J], in the problem's own rewards
    log_evidence: float  # log of the mean of exp(scale * J) under the reference measure
    entropy: float  # of the posterior over policies, nats


class EnumeratedReturns:
    """Every deterministic policy of `table` with its ``J``: at each scale only the weights differ.

    Examples
    --------
    >>> import polinfer
    >>> listed = EnumeratedReturns(polinfer.make("bandit", means=[0.0, 1.0]))
    >>> listed.at(2.0).policy[0].round(3).tolist()
    [0.119, 0.881]
    """

    def __init__(self, table: TabularMDP) -> None:
        self.table = table
        decision = exact.decision_states(table, table.horizon)
        self.free = decision[table.legal_actions[decision].sum(axis=1) > 1]
        legal = [np.flatnonzero(table.legal_actions[state]) for state in self.free]
        count = exact.count_policies(table, decision)
        self.chosen = np.empty((count, len(self.free)), np.int32)  # [n, free states]
        if len(self.free):
            digits = np.unravel_index(np.arange(count), tuple(len(actions) for actions in legal))
            for column, (actions, digit) in enumerate(zip(legal, digits, strict=True)):
                self.chosen[:, column] = actions[digit]
        with np.errstate(divide="ignore"):
            log_prior = np.log(table.prior[self.free])  # [free states, A]
        self.log_prior = log_prior[np.arange(len(self.free)), self.chosen].sum(axis=1)  # [n]
        forced = table.legal_actions.argmax(axis=1).astype(np.int32)
        self.returns = np.empty(count)  # [n]
        for first in range(0, count, _AT_ONCE):
            part = slice(first, first + _AT_ONCE)
            policies = np.repeat(forced[None], len(self.chosen[part]), axis=0)
            policies[:, self.free] = self.chosen[part]
            self.returns[part] = exact.deterministic_returns(table, policies)

    def at(self, scale: float) -> ScaledPosterior:
        """Return the posterior ``exp(scale * J)``."""
        table, returns = self.table, self.returns
        log_weight = scale * (returns - returns.max()) + self.log_prior
        weight = np.exp(log_weight)
        total = weight.sum()
        share = weight / total
        policy = table.prior.copy()
        for column, state in enumerate(self.free):
            policy[state] = np.bincount(self.chosen[:, column], share, minlength=table.num_actions)
            policy[state] /= policy[state].sum()
        return ScaledPosterior(
            policy=policy,
            expected_return=float(share @ returns),
            log_evidence=float(np.log(total) + scale * returns.max()),
            entropy=max(0.0, float(np.log(total) - share @ np.where(share > 0, log_weight, 0.0))),
        )
