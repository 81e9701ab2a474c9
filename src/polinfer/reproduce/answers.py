"""The exact answers that stand beside what was trained."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from polinfer import exact
from polinfer.analysis.references import reference_for
from polinfer.core.absorbing import Absorbing
from polinfer.core.errors import PolinferError, TooLargeError
from polinfer.exact.solution import Floats
from polinfer.learning.fit import initial_proposal, view_for
from polinfer.methods import VsmcConfig
from polinfer.posterior.posterior import Posterior
from polinfer.problems.registry import make
from polinfer.problems.tabular import TabularMDP
from polinfer.reproduce.outcome import describe_policy, describe_run
from polinfer.reproduce.problems import table_for
from polinfer.reproduce.store import Outcome
from polinfer.reproduce.unit import Unit

_ENUMERATED = 1 << 17  # policies; up to here the posterior is enumerated


def answer(unit: Unit) -> Outcome:
    """Compute the unit's answer and evaluate it exactly."""
    mdp = make(unit.domain, **unit.options)
    if unit.method == "chance":
        return describe_run(_untrained(mdp), unit.settings["episodes"])
    table = table_for(mdp)
    if unit.method == "posterior":
        return _posterior(mdp, table)
    policy = _SOLVERS[unit.method](table, **unit.settings)
    return describe_policy(table, policy[None])


def _untrained(mdp: Any) -> Posterior:
    """Return the policy that training starts from: uniform, on problems of any size."""
    config = VsmcConfig()
    proposal = initial_proposal(mdp, config.training(), 0, 1)
    return Posterior(mdp, view_for(mdp, config.training()), config, proposal)


def _posterior(mdp: Any, table: TabularMDP) -> Outcome:
    """Return the marginal policy of the posterior: enumerated, or from a reference file."""
    try:
        solution = exact.policy_posterior(table, limit=_ENUMERATED)
        assert solution.posterior is not None
        policy, found = solution.policy, solution.posterior
        stderr, evidence_stderr, earned_stderr = np.zeros_like(policy), 0.0, 0.0
        evidence, earned = found.log_evidence, found.expected_return
    except TooLargeError:
        known = reference_for(mdp)
        if known is None:
            raise PolinferError(
                "this problem has too many policies to enumerate and no reference file; make one: "
                "python -m polinfer.analysis.references"
            ) from None
        policy, stderr = known.policy, known.policy_stderr
        evidence, evidence_stderr = known.log_evidence, known.log_evidence_stderr
        earned, earned_stderr = known.expected_return, known.expected_return_stderr
    policy = policy / policy.sum(axis=1, keepdims=True)
    extra = {
        "log_evidence": np.array([evidence]),
        "log_evidence_stderr": np.array([evidence_stderr]),
        "committed": np.array([earned]),
        "committed_stderr": np.array([earned_stderr]),
        "policy_stderr": stderr[None],
    }
    return Outcome({**describe_policy(table, policy[None]).arrays, **extra})


def _soft(table: TabularMDP, alpha: float, gamma: float, absorbing: Absorbing = "end") -> Floats:
    return exact.soft_stationary(table, alpha, gamma, absorbing=absorbing).policy


_SOLVERS: dict[str, Callable[..., Floats]] = {
    "uniform": exact.uniform_policy,
    "optimal": lambda table: exact.stationary_optimum(table).policy,
    "soft": _soft,
    "inference": lambda table: exact.control_as_inference(table).policy,
    "statewise": lambda table: exact.statewise_posterior(table).policy,
}
