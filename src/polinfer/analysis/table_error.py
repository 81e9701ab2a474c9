"""The error that an estimated table brings to an answer: to ``J``, to ``log Z`` and to the marginal policy.

A Bayesian bootstrap, linear in the table.  The derivative of ``J(pi)`` in the probability of an outcome is
visits times what follows, ``g = sum_t d_t(s) (r + V_{t+1}(s'))``, from two passes per policy.  Tables that
might have given these draws (Dirichlet, by their counts) change each policy's return by ``sum g dP``;
policies drawn from the answer are weighed anew by the exponential of that change, and the marginal policy
and ``log Z`` move with the weights.

What was never drawn counts as many draws as outcomes were drawn once (Good and Turing), and as many more as
other pairs have on average, half a draw being added to their sum: a pair may have missed what others show.
Where all draws had the same outcome, it counts as half a draw more.  It may be worth anything between the
least and the largest reward and value of the table.  Without this an outcome of 3%, missed by 40 draws, was
as good as impossible, and wrong answers were trusted.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polinfer import exact
from polinfer.exact.solution import Floats
from polinfer.posterior.posterior import Posterior
from polinfer.problems.tabular.exploration.influence import UNSEEN
from polinfer.problems.tabular.table import TabularMDP

_TABLES = 64  # bootstrapped ones
_POLICIES = 1_000
_WORK = 4e8  # products of policies, states, outcomes and steps
_NEVER = 0.5  # draws of what was never drawn, over all pairs together, besides what is estimated
_SURE = 0.9  # quantile over tables of the distance


class TableUncertainty(NamedTuple):
    """What draws leave open; standard errors, and a distance that 9 in 10 tables keep."""

    draws: int  # median over the pairs that are random
    return_stderr: float  # of the posterior's expected return
    log_evidence_stderr: float
    distance: float  # of the marginal policy, total variation by occupancy

    def draws_for(self, distance: float) -> int:
        """Return how many draws a pair would bring `self.distance` down to `distance`: about."""
        if distance <= 0 or self.distance <= 0:
            return self.draws
        wanted = self.draws * (self.distance / distance) ** 2
        digits = 10 ** max(0, math.floor(math.log10(wanted)) - 1)
        return int(math.ceil(wanted / digits) * digits)


def table_error(posterior: Posterior, seed: int = 0) -> TableUncertainty | None:
    """Return the error that the table of an answer brings; None where it is exact, or there is none."""
    table = posterior.view
    if not isinstance(table, TabularMDP) or not table.is_estimated:
        return None
    probs = posterior.table_probs()
    assert probs is not None
    marginal = probs.astype(np.float64).mean(axis=0)
    marginal /= marginal.sum(axis=1, keepdims=True)
    drawn = posterior.policies.sampled_policies if posterior.policies is not None else None
    if drawn is None:
        drawn = _independent(marginal, seed)
    return bootstrap(table, np.ascontiguousarray(drawn[:_POLICIES]), marginal, seed)


def _independent(marginal: Floats, seed: int) -> NDArray[np.int32]:
    """Draw policies whose choices are independent, as those of a proposal are."""
    uniform = np.random.default_rng([seed, 11]).random((_POLICIES, len(marginal), 1))
    above = uniform > np.cumsum(marginal, axis=1)[None, :, :-1]
    return np.asarray(above.sum(axis=-1), np.int32)


def bootstrap(
    table: TabularMDP, policies: NDArray[np.int32], marginal: Floats, seed: int
) -> TableUncertainty:
    """Return the error for policies ``[n, S]`` that are drawn from an answer with this marginal policy."""
    cost = table.num_states * table.successor.shape[-1] * table.horizon
    count = int(np.clip(_WORK / cost, 32, len(policies)))
    unique, times = np.unique(policies[:count], axis=0, return_counts=True)
    changes = _changes(table, seed)
    moved = np.empty((_TABLES, len(unique)))
    returns = np.empty(len(unique))
    for index, policy in enumerate(unique):
        moved[:, index], returns[index] = changes.of(policy)
    log_share = np.log(times / times.sum()) + moved
    top = log_share.max(axis=1, keepdims=True)
    share = np.exp(log_share - top)
    log_z = np.log(share.sum(axis=1)) + top[:, 0]
    share /= share.sum(axis=1, keepdims=True)
    occupancy = exact.evaluate_policy(table, marginal).occupancy
    weight = np.where(table.absorbing, 0.0, occupancy)
    weight /= max(weight.sum(), 1e-300)
    base, distance = times / times.sum(), np.zeros(_TABLES)
    for action in range(table.num_actions):
        chosen = (unique == action).astype(np.float64)
        distance += 0.5 * (np.abs(share @ chosen - base @ chosen) @ weight)
    gained = (share * (returns + moved)).sum(axis=1)
    draws = table.draws
    random = draws[draws > 0] if draws is not None else np.array([table.initial_draws])
    return TableUncertainty(
        draws=int(np.median(random)),
        return_stderr=float(np.sqrt(np.mean((gained - base @ returns) ** 2))),
        log_evidence_stderr=float(np.sqrt(np.mean(log_z**2))),
        distance=float(np.quantile(distance, _SURE)),
    )


class _Changes(NamedTuple):
    """Tables around an estimate, as changes of its probabilities."""

    table: TabularMDP
    outcome: Floats  # [tables, S, A, B]; without what was never drawn
    initial: Floats  # [tables, S]
    unseen: Floats  # [tables, S, A], share of what was never drawn
    worth: Floats  # [tables, S, A], what that is worth: 0 the least, 1 the largest

    def of(self, policy: NDArray[np.int32]) -> tuple[Floats, float]:
        """Return by how much ``J`` of a policy changes in each table, and ``J``."""
        table = self.table
        states = np.arange(table.num_states)
        action = np.where(table.absorbing, 0, policy)
        probability = np.where(table.absorbing[:, None], 0.0, table.probability[states, action])
        successor, reward = table.successor[states, action], table.reward[states, action]
        gain = (probability * reward).sum(axis=-1)
        values = np.zeros((table.horizon + 1, table.num_states))
        for step in range(table.horizon - 1, -1, -1):
            later = (probability * values[step + 1][successor]).sum(axis=-1)
            values[step] = gain + table.discount * later
        visits, total = np.where(table.absorbing, 0.0, table.initial), np.zeros(table.num_states)
        weighed = np.zeros(successor.shape)
        for step in range(table.horizon):
            kept = table.discount**step * visits
            total += kept
            weighed += kept[:, None] * (reward + table.discount * values[step + 1][successor])
            flow = (visits[:, None] * probability).ravel()
            visits = np.bincount(successor.ravel(), flow, minlength=table.num_states)
            visits[table.absorbing] = 0.0
        moved = np.einsum("ksb,sb->k", self.outcome[:, states, action], weighed)
        # Starts that were never drawn are worth what starts are worth on average, whatever the policy.
        moved += self.initial @ (values[0] - table.initial @ values[0])
        least, span = _range(table, values[0])
        worth = least + span * self.worth[:, states, action]
        moved += (self.unseen[:, states, action] * worth) @ total
        return moved, float(table.initial @ values[0])


def _range(table: TabularMDP, value: Floats) -> tuple[float, float]:
    """Return the least that a step and what follows may be worth, and how much more the most is."""
    paid = table.reward[table.probability > 0]
    least = min(0.0, float(paid.min(initial=0.0))) + float(value.min())
    return least, max(0.0, float(paid.max(initial=0.0))) + float(value.max()) - least


@lru_cache(maxsize=2)
def _changes(table: TabularMDP, seed: int) -> _Changes:
    random = np.random.default_rng([seed, 7])
    shape = table.successor.shape
    draws = np.zeros(shape[:2], np.int64) if table.draws is None else table.draws.astype(np.int64)
    state, action = np.nonzero(draws)
    outcome = np.zeros((_TABLES, *shape), np.float32)
    unseen, worth = (np.zeros((_TABLES, *shape[:2]), np.float32) for _ in range(2))
    if len(state):
        number, share = draws[state, action], table.probability[state, action]
        share = share / share.sum(axis=-1, keepdims=True)
        count = share * number[:, None]
        once = (np.abs(count - 1) < 1e-6).sum(axis=-1)
        drawn = random.standard_gamma(count, (_TABLES, *count.shape))
        shared = (once.sum() + _NEVER) / len(once)
        alone = (share > 0).sum(axis=-1) == 1
        other = random.standard_gamma(once + shared + UNSEEN * alone, (_TABLES, len(state)))
        total = drawn.sum(axis=-1) + other
        outcome[:, state, action] = drawn / total[..., None] - share
        unseen[:, state, action] = other / total
        worth[:, state, action] = random.random((_TABLES, len(state)))
    initial = np.zeros((_TABLES, table.num_states))
    if table.initial_draws:
        count = table.initial * table.initial_draws
        once = (np.abs(count - 1) < 1e-6).sum() + _NEVER
        drawn = random.standard_gamma(count, (_TABLES, table.num_states))
        initial = drawn / (drawn.sum(axis=1) + random.standard_gamma(once, _TABLES))[:, None] - table.initial
    return _Changes(table, outcome, initial, unseen, worth)
