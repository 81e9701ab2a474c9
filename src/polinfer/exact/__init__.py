"""Exact solvers on tables, in double precision: the reference for every estimator."""

from polinfer.exact.distribution import ReturnDistribution, ReturnSummary, return_distribution
from polinfer.exact.enumeration import count_policies, decision_states, policy_posterior
from polinfer.exact.evaluation import (
    PolicyValue,
    action_values,
    average_over_time,
    deterministic_returns,
    evaluate_policy,
    one_hot_policy,
    returns_at_once,
    stochastic_returns,
    uniform_policy,
)
from polinfer.exact.solution import PolicyPosterior, Result, Solution
from polinfer.exact.solvers import (
    control_as_inference,
    entropic_risk,
    finite_horizon_optimum,
    soft_stationary,
    soft_value_iteration,
    stationary_optimum,
    stationary_value_iteration,
)
from polinfer.exact.statewise import gibbs_policy, statewise_posterior
from polinfer.exact.worlds import world_averaged_policy

__all__ = [
    "PolicyPosterior",
    "PolicyValue",
    "Result",
    "ReturnDistribution",
    "ReturnSummary",
    "Solution",
    "action_values",
    "average_over_time",
    "control_as_inference",
    "count_policies",
    "decision_states",
    "deterministic_returns",
    "entropic_risk",
    "evaluate_policy",
    "finite_horizon_optimum",
    "gibbs_policy",
    "one_hot_policy",
    "policy_posterior",
    "return_distribution",
    "returns_at_once",
    "soft_stationary",
    "soft_value_iteration",
    "statewise_posterior",
    "stationary_optimum",
    "stationary_value_iteration",
    "stochastic_returns",
    "uniform_policy",
    "world_averaged_policy",
]
