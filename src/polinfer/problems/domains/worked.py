"""The paper's worked examples (Section Worked Tabular Examples), as tables."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from polinfer.core.errors import DomainError, is_number
from polinfer.core.protocol import Ending
from polinfer.problems.tabular.rows import OutcomeRows
from polinfer.problems.tabular.table import TabularMDP


def table_from_rows(
    rows: Sequence[tuple[str, str, str, float, float]],
    *,
    start: str,
    horizon: int,
    reward_scale: float = 1.0,
    endings: Sequence[Ending] = (),
) -> TabularMDP:
    """Make a table from rows of names: state, action, successor, probability, reward.

    States and actions are numbered in the order of their first appearance, successors after states.  A state
    without rows is terminal; `endings` names terminal states.  An action is legal where it has a row.
    """
    states = list(dict.fromkeys([row[0] for row in rows] + [row[2] for row in rows]))
    actions = list(dict.fromkeys(row[1] for row in rows))
    acting = {row[0] for row in rows}
    legal = np.zeros((len(states), len(actions)), np.bool_)
    for state, action, *_ in rows:
        legal[states.index(state), actions.index(action)] = True
    named = [ending.name for ending in endings]
    return TabularMDP.from_outcomes(
        OutcomeRows(
            np.array([states.index(row[0]) for row in rows]),
            np.array([actions.index(row[1]) for row in rows]),
            np.array([states.index(row[2]) for row in rows]),
            np.array([row[3] for row in rows], np.float64),
            np.array([row[4] for row in rows], np.float64),
        ),
        len(states),
        len(actions),
        start,
        np.array([state not in acting for state in states]),
        horizon,
        legal=legal,
        state_names=states,
        action_names=actions,
        endings=tuple(endings),
        ending_of=np.array([named.index(s) if s in named else -1 for s in states], np.int32),
    ).with_problem(reward_scale=reward_scale)


def bandit(means: Sequence[float] = (0.2, 0.7), *, horizon: int = 1, reward_scale: float = 1.0) -> TabularMDP:
    """One-step bandit with Bernoulli rewards: arm i pays 1 with probability ``means[i]``.

    The posterior-induced policy is ``softmax(means)``, and so is the entropy-regularised one; control as
    inference weighs arm i by ``means[i] e + 1 - means[i]``.
    """
    given = [*means] if hasattr(means, "__iter__") else []
    if not given or any(not is_number(mean) or not 0 <= mean <= 1 for mean in given):
        raise DomainError(f"means must be probabilities, at least one, got {means!r}")
    rows = [
        ("choose", f"arm {i}", f"pulled {i}", chance, float(pay))
        for i, mean in enumerate(means, start=1)
        for pay, chance in ((1, mean), (0, 1 - mean))
    ]
    return table_from_rows(rows, start="choose", horizon=horizon, reward_scale=reward_scale)


def continuation(rho: float = 0.5, *, horizon: int = 20, reward_scale: float = 1.0) -> TabularMDP:
    """Stochastic continuation: `stay` pays 0 and ends with probability ``1 - rho``; `leave` pays 1 and ends.

    The posterior gives `leave` the probability ``e / (1 + e)`` whatever rho is; the entropy-regularised
    policy gives it ``e / x`` with ``x = x^rho + e``.
    """
    if not is_number(rho) or not 0 <= rho < 1:
        raise DomainError(f"rho must lie in 0..1, below 1, got {rho}")
    rows = [
        ("s1", "stay", "s1", rho, 0.0),
        ("s1", "stay", "s2", 1 - rho, 0.0),
        ("s1", "leave", "s2", 1.0, 1.0),
    ]
    return table_from_rows(rows, start="s1", horizon=horizon, reward_scale=reward_scale)
