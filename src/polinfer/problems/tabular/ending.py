"""How soon every policy has ended: a horizon far beyond that is the same problem as a short one."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import scipy.sparse

from polinfer.core.limits import MINUTE, check_seconds
from polinfer.problems.tabular.table import TabularMDP

LONG = 2_000
"""Steps up to which policies are followed one by one."""
_SHORT = 1000  # steps below which nothing is gained by cutting
_ROUNDING = 1e-13  # of the largest reward: what may be left after the last step
_MOST_STEPS = 100_000
# Measured with `polinfer plan` on one core: 0.3 ms a step on a table of 8 outcomes.
_SECONDS_A_STEP, _SECONDS_AN_OUTCOME = 5e-4, 2e-8


def shorten_horizon(table: TabularMDP) -> TabularMDP:
    """Return the table with the shortest horizon that no return can tell from its own.

    After `t` steps an episode goes on with at most the probability ``u_t``, whatever the policy: ``u_0 = 1``
    outside of absorbing states and ``u_t(s) = max_a sum_s' p(s'|s,a) u_{t-1}(s')``, times the discount.
    What can still be earned is then at most ``u_t`` times the horizon times the largest reward; where that is
    below the rounding of double precision, the steps after `t` are left out.  A table in which some policy
    never ends is returned as it is, and refused where its horizon would take more than a minute or so.
    """
    if table.horizon <= _SHORT:
        return table
    steps = _known_steps(table)
    if steps is None or steps >= table.horizon:
        check_horizon_cost(table, _SECONDS_A_STEP)
        return table
    shorter = table._changed(horizon=steps)
    return shorter.with_sources(table.states) if "_sources" in table.__dict__ else shorter


@lru_cache(maxsize=64)
def _known_steps(table: TabularMDP) -> int | None:
    return _steps_to_end(table)


def _steps_to_end(table: TabularMDP) -> int | None:
    """Return after how many steps nothing is left to earn; None where some policy may go on for ever."""
    states, actions, width = table.probability.shape
    alive = ~table.absorbing
    kept = (table.probability > 0) & alive[table.successor] & table.legal_actions[:, :, None]
    kept &= alive[:, None, None]
    row = np.repeat(np.arange(states * actions), width).reshape(states, actions, width)
    move = scipy.sparse.csr_array(
        (table.probability[kept] * table.discount, (row[kept], table.successor[kept])),
        shape=(states * actions, states),
    )
    left = alive.astype(np.float64)
    # Where nobody can be sure to go on for as many steps as there are states, all ends come geometrically.
    patience = states
    # Not a product with the horizon, which may be larger than any float.
    needed = np.log(_ROUNDING) - np.log(float(min(table.horizon, 10**300)))
    for step in range(1, min(table.horizon, _MOST_STEPS)):
        left = (move @ left).reshape(states, actions).max(axis=1, initial=0.0)
        most = float(left.max(initial=0.0))
        if most <= 0 or np.log(most) < needed:
            return step
        if step >= patience and most >= 1.0 - 1e-12:
            return None
    return None


def check_horizon_cost(table: TabularMDP, seconds_a_step: float) -> None:
    """Refuse a horizon that would take more than a minute, at so many seconds a step on a small table."""
    outcomes = float(np.prod(table.probability.shape, dtype=np.float64))
    steps = float(min(table.horizon, 10**300))
    check_seconds(
        f"a horizon of {_written(table.horizon)} on a table of {outcomes:,.0f} outcomes, in which some "
        "policy need not end,",
        steps * (seconds_a_step + outcomes * _SECONDS_AN_OUTCOME),
        "choose a shorter one (--horizon)",
        MINUTE,
    )


def _written(number: int) -> str:
    return f"{number:,}" if number < 10**15 else f"about {float(min(number, 10**300)):.0e}"
