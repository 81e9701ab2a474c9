"""The whole distribution of an episode's return, exactly, where few different returns can occur."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polinfer.core.errors import check_at_least
from polinfer.exact.evaluation import check_policy
from polinfer.exact.solution import Floats
from polinfer.problems.tabular.table import TabularMDP

DEFAULT_LIMIT = 50_000
_DECIMALS = 9


class ReturnSummary(NamedTuple):
    """A distribution of returns in the numbers that the paper's tables print."""

    mean: float
    std: float
    q05: float | None  # the smallest return with at least 5% at or below it
    q95: float | None
    cvar05: float | None  # the mean of the returns at or below q05
    cvar95: float | None  # the mean of the returns at or above q95


class ReturnDistribution(NamedTuple):
    """The returns that can occur, in ascending order, with their probabilities."""

    returns: Floats  # [n]
    probability: Floats  # [n]

    def summary(self) -> ReturnSummary:
        """Return mean, spread, quantiles and conditional tail means."""
        mean = float(self.probability @ self.returns)
        std = float(np.sqrt(self.probability @ (self.returns - mean) ** 2))
        cumulative = np.cumsum(self.probability)
        low = self.returns[np.searchsorted(cumulative, 0.05 - 1e-12)]
        high = self.returns[np.searchsorted(cumulative, 0.95 - 1e-12)]

        def mean_where(mask: NDArray[np.bool_]) -> float:
            return float(self.probability[mask] @ self.returns[mask] / self.probability[mask].sum())

        return ReturnSummary(
            mean,
            std,
            float(low),
            float(high),
            mean_where(self.returns <= low),
            mean_where(self.returns >= high),
        )


def return_distribution(
    table: TabularMDP,
    policy: Floats | NDArray[np.integer],
    horizon: int | None = None,
    limit: int = DEFAULT_LIMIT,
) -> ReturnDistribution | None:
    """Follow every combination of state and return so far through the horizon.

    Returns that agree to nine decimals are one.  Returns None when that would take more than about `limit`
    combinations at once: sample episodes instead.
    """
    steps = table.horizon if horizon is None else check_at_least("horizon", horizon, 1)
    checked = check_policy(table, policy, steps)
    stages = np.broadcast_to(checked, (steps, *checked.shape[-2:]))
    state: NDArray[np.integer] = np.nonzero(table.initial)[0]
    mass, gained = table.initial[state], np.zeros(len(state))
    ended_mass: list[Floats] = []
    ended_gain: list[Floats] = []
    for step, stage in enumerate(stages):
        over = table.absorbing[state]
        ended_mass.append(mass[over])
        ended_gain.append(gained[over])
        state, mass, gained = state[~over], mass[~over], gained[~over]
        if len(state) == 0:
            break
        weight = stage[state][:, :, None] * table.probability[state]  # [n, A, B]
        n, a, b = np.nonzero(weight)
        if len(n) > 8 * limit:
            return None
        after = np.round(gained[n] + table.discount**step * table.reward[state[n], a, b], _DECIMALS)
        state, mass, gained = _merge(table.successor[state[n], a, b], mass[n] * weight[n, a, b], after)
        if len(state) > limit:
            return None
    _, probability, returns = _merge(
        np.zeros(sum(map(len, ended_mass)) + len(mass), np.int64),
        np.concatenate([*ended_mass, mass]),
        np.concatenate([*ended_gain, gained]),
    )
    return ReturnDistribution(returns, probability)


def _merge(
    state: NDArray[np.integer], mass: Floats, gained: Floats
) -> tuple[NDArray[np.integer], Floats, Floats]:
    """Add up the mass of equal pairs of state and return; the result is sorted by both."""
    order = np.lexsort((gained, state))
    state, mass, gained = state[order], mass[order], gained[order]
    new = np.ones(len(state), np.bool_)
    new[1:] = (state[1:] != state[:-1]) | (gained[1:] != gained[:-1])
    return state[new], np.asarray(np.add.reduceat(mass, np.nonzero(new)[0])), gained[new]
