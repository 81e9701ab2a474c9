"""What stationary policies do on a small table over a long horizon, by squaring (see `powers`)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polinfer.exact import powers
from polinfer.exact.solution import Floats
from polinfer.problems.tabular.ending import LONG
from polinfer.problems.tabular.settling import SQUARED_STATES
from polinfer.problems.tabular.table import TabularMDP

_BYTES = 1 << 26  # of the matrices that are squared together


def pays(states: int, steps: int, discount: float) -> bool:
    """Return whether `steps` steps are better squared: a long horizon, a small table, no discount."""
    return steps > LONG and states <= SQUARED_STATES and discount == 1


class Consequences(NamedTuple):
    """What one policy does, without a discount."""

    value: Floats  # [S]
    variance: Floats  # [S]
    visits: Floats  # [S], expected steps in states that are not terminal
    arrivals: Floats  # [S], the probability of having ended there


def consequences(table: TabularMDP, policy: Floats, steps: int) -> Consequences:
    """Evaluate a policy ``[S, A]``."""
    acting, over = np.flatnonzero(~table.absorbing), np.flatnonzero(table.absorbing)
    weight = policy[acting, :, None] * table.probability[acting]  # [n, A, B]
    reward = table.reward[acting]
    gain = (weight * reward).sum(axis=(1, 2))
    spread = reward - gain[:, None, None]
    where = (np.indices(weight.shape)[0], table.successor[acting])
    leads, tilt = np.zeros((2, len(acting), table.num_states))
    np.add.at(leads, where, weight)
    np.add.at(tilt, where, weight * spread)
    variance = (weight * spread**2).sum(axis=(1, 2))
    done = powers.follow(leads[:, acting], leads[:, over], gain, variance, tilt[:, acting], steps)

    def everywhere(values: Floats) -> Floats:
        found = np.zeros(table.num_states)
        found[acting] = values
        return found

    start, arrivals = table.initial[acting], np.array(table.initial)
    arrivals[over] += start @ done.ended
    return Consequences(
        everywhere(done.value),
        everywhere(np.maximum(done.variance, 0.0)),
        everywhere(start @ done.visits),
        np.where(table.absorbing, arrivals, 0.0),
    )


def returns(table: TabularMDP, policies: NDArray[np.integer], steps: int) -> Floats:
    """Return ``J [n]`` of deterministic policies ``[n, S]``."""
    acting = np.flatnonzero(~table.absorbing)
    # Policies that differ nowhere are one.
    chosen, which = np.unique(np.asarray(policies)[:, acting], axis=0, return_inverse=True)
    leads, gain = _leads(table), (table.probability * table.reward).sum(axis=-1)
    size = max(1, _BYTES // (8 * table.num_states**2))
    found = [
        _values(leads[acting, some], gain[acting, some], acting, steps) @ table.initial[acting]
        for some in (chosen[first : first + size] for first in range(0, len(chosen), size))
    ]
    return np.asarray(np.concatenate(found)[which.ravel()] if found else np.zeros(0))


def mixed_returns(table: TabularMDP, policies: Floats, steps: int) -> Floats:
    """Return ``J [n]`` of stochastic policies ``[n, S, A]``."""
    acting = np.flatnonzero(~table.absorbing)
    gain = (table.probability * table.reward).sum(axis=-1)[acting]
    leads = np.einsum("nsa,sat->nst", policies[:, acting], _leads(table)[acting])
    earned = np.einsum("nsa,sa->ns", policies[:, acting], gain)
    return np.asarray(_values(leads, earned, acting, steps) @ table.initial[acting])


def _leads(table: TabularMDP) -> Floats:
    """Return the probability ``[S, A, S]`` of each successor."""
    leads = np.zeros((*table.legal_actions.shape, table.num_states))
    np.add.at(leads, (*np.indices(table.successor.shape)[:2], table.successor), table.probability)
    return leads


def _values(leads: Floats, gain: Floats, acting: NDArray[np.intp], steps: int) -> Floats:
    """Return the values ``[P, n]`` of policies that lead on by ``[P, n, S]``."""
    leave = np.delete(leads, acting, axis=-1).sum(axis=-1)
    return powers.stationary_values(leads[..., acting], leave, gain, steps)
