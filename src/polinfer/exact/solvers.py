"""Solvers by backward induction, under their names in the literature.

Horizon and discount are the table's, unless a call gives others.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from polinfer.core.absorbing import Absorbing, check_absorbing
from polinfer.core.errors import PolinferError
from polinfer.exact.evaluation import evaluate_policy, one_hot_policy
from polinfer.exact.induction import Objective, solve_finite, solve_stationary
from polinfer.exact.passes import greedy_at, stationary_returns
from polinfer.exact.solution import Result, Solution
from polinfer.problems.tabular.table import TabularMDP

TOLERANCE = 1e-10
MAX_ITERATIONS = 100_000
_SEARCH_LIMIT = 4_000  # single-state changes tried per round


def finite_horizon_optimum(
    table: TabularMDP, horizon: int | None = None, discount: float | None = None
) -> Solution:
    """Maximise the expected return over *time-dependent* policies, by value iteration over the horizon.

    This is an upper bound for stationary policies: near the end of the horizon the best action can change.
    The posterior is over stationary policies; see `stationary_optimum`.
    """
    return solve_finite(table, "finite-horizon optimum", Objective("max"), horizon, discount)


def stationary_value_iteration(
    table: TabularMDP,
    discount: float | None = None,
    tolerance: float = TOLERANCE,
    max_iterations: int = MAX_ITERATIONS,
) -> Solution:
    """Maximise the expected return without a horizon, by value iteration to a fixed point.

    Without discounting this converges only if the optimal policies terminate; otherwise the result is
    `Result.NOT_CONVERGED`.
    """
    return solve_stationary(table, "value iteration", Objective("max"), discount, tolerance, max_iterations)


def stationary_optimum(table: TabularMDP, horizon: int | None = None) -> Solution:
    """Maximise ``J`` over *stationary* deterministic policies: the mode of the policy posterior.

    There is no dynamic program for this.  The greedy policies of the stages of the finite-horizon optimum and
    of value iteration are evaluated, and on small tables the best one is improved one state at a time.  The
    finite-horizon optimum is an upper bound: `Solution.residual` is the gap, and the result is `Result.EXACT`
    where it is zero.  (`policy_posterior` finds the mode with certainty where it can enumerate.)
    """
    bound = finite_horizon_optimum(table, horizon)
    steps = bound.iterations
    # Greedy policies far from the end of the horizon hardly differ, so a few stages are enough.
    picked = np.unique([0, 1, 2, steps // 4, steps // 2, 3 * steps // 4, steps - 1])
    candidates = greedy_at(table, steps, table.discount, picked[picked < steps])
    endless = stationary_value_iteration(table, max_iterations=min(10 * steps + 100, 10 * MAX_ITERATIONS))
    if endless.result is Result.CONVERGED:
        candidates = np.concatenate([candidates, endless.policy.argmax(axis=-1)[None]])
    candidates = np.where(table.absorbing, table.legal_actions.argmax(axis=1), candidates)
    returns = stationary_returns(table, candidates, steps)
    evaluations = len(candidates)
    best, best_return = candidates[returns.argmax()], float(returns.max())

    changes = np.argwhere(table.legal_actions & ~table.absorbing[:, None])
    searching = len(changes) <= _SEARCH_LIMIT
    while searching and bound.objective - best_return > TOLERANCE:
        neighbours = np.repeat(best[None], len(changes), axis=0)
        neighbours[np.arange(len(changes)), changes[:, 0]] = changes[:, 1]
        returns = stationary_returns(table, neighbours, steps)
        evaluations += len(changes)
        searching = returns.max() > best_return + TOLERANCE
        if searching:
            best, best_return = neighbours[returns.argmax()], float(returns.max())

    gap = max(0.0, bound.objective - best_return)
    return Solution(
        method="stationary optimum",
        policy=one_hot_policy(table, best),
        value=evaluate_policy(table, best, steps).value,
        objective=best_return,
        result=Result.EXACT if gap <= 1e-9 * max(1.0, abs(best_return)) else Result.BOUND,
        residual=gap,
        iterations=evaluations,
        settings={"horizon": steps, "discount": table.discount},
        diagnostics={"finite_horizon_optimum": bound.objective},
    )


def soft_value_iteration(
    table: TabularMDP,
    alpha: float = 1.0,
    horizon: int | None = None,
    discount: float | None = None,
    absorbing: Absorbing = "end",
) -> Solution:
    """Maximise expected return plus `alpha` times the policy's entropy, over the horizon.

    Entropy is absolute, not relative to the uniform policy, as in soft actor-critic: with a large `alpha`
    longer episodes have a higher objective.  Where the table has a reference measure that is not uniform, the
    divergence from it is charged instead.  The policy depends on time.

    With ``absorbing="continue"`` an episode goes on in absorbing states until the horizon, without reward,
    and so keeps earning entropy there, ``alpha log|A|`` a step: being alive is then no longer what pays.
    """
    objective = _soft(alpha, absorbing)
    return _with_alpha(solve_finite(table, "soft", objective, horizon, discount), objective)


def soft_stationary(
    table: TabularMDP,
    alpha: float = 1.0,
    discount: float | None = None,
    tolerance: float = TOLERANCE,
    max_iterations: int = MAX_ITERATIONS,
    absorbing: Absorbing = "end",
) -> Solution:
    """Maximise expected return plus `alpha` times entropy without a horizon.

    This is the fixed point of soft actor-critic.  Without discounting it exists only where the entropy bonus
    of never ending is bounded; otherwise the result is `Result.NOT_CONVERGED`.

    With ``absorbing="continue"`` an absorbing state with `n` legal actions is worth ``alpha log(n) / (1 -
    discount)``, the entropy of staying there for ever; without a discount there is then no fixed point.
    """
    objective = _soft(alpha, absorbing)
    solution = solve_stationary(table, "soft, stationary", objective, discount, tolerance, max_iterations)
    return _with_alpha(solution, objective)


def control_as_inference(table: TabularMDP, horizon: int | None = None) -> Solution:
    """Condition an agent that acts by the reference measure on optimality variables, ``exp(reward)`` likely.

    The realised return is exponentiated before the average over transitions is taken, which seeks risk
    (target 3).  `Solution.objective` is the log evidence of that model.
    """
    return solve_finite(table, "control as inference", Objective("prior", risk=1.0), horizon, None)


def entropic_risk(table: TabularMDP, risk: float, horizon: int | None = None) -> Solution:
    """Maximise ``(1/risk) log E exp(risk * return)`` over time-dependent policies.

    Positive `risk` seeks it, negative `risk` avoids it, and zero is the expected return.
    """
    if not np.isfinite(risk):
        raise PolinferError(f"risk must be a finite number, got {risk}")
    solution = solve_finite(table, "entropic risk", Objective("max", risk=float(risk)), horizon, None)
    return _with_setting(solution, "risk", risk)


def _soft(alpha: float, absorbing: Absorbing) -> Objective:
    if not (np.isfinite(alpha) and alpha > 0):
        raise PolinferError(f"alpha must be above zero, got {alpha}; for alpha = 0 use value iteration")
    check_absorbing(absorbing)
    return Objective("soft", alpha=float(alpha), absorbing=absorbing)


def _with_alpha(solution: Solution, objective: Objective) -> Solution:
    """Name the settings of a soft objective; the usual reading of absorbing states is not mentioned."""
    settings = {"alpha": objective.alpha, **solution.settings}
    if objective.absorbing != "end":
        settings["absorbing"] = objective.absorbing
    return replace(solution, settings=settings)


def _with_setting(solution: Solution, name: str, value: float) -> Solution:
    return replace(solution, settings={name: float(value), **solution.settings})
