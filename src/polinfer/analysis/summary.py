"""What a plan comes to: one plain record per run, the same for every method."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from polinfer import exact
from polinfer.analysis.account import choices_of
from polinfer.analysis.certificate import Certificate, certify, diagnose
from polinfer.analysis.evaluation import Evaluation
from polinfer.analysis.judgement import Effort
from polinfer.analysis.reward_scale import Standing, standing_of
from polinfer.core.protocol import discount_of, has_prior
from polinfer.methods import METHODS
from polinfer.posterior.oracle import Oracle
from polinfer.posterior.posterior import Posterior
from polinfer.problems.tabular.table import TabularMDP
from polinfer.problems.timed import is_timed

LISTED_STATES = 1000


def summarise(
    posterior: Posterior, evaluation: Evaluation, seconds: float, effort: Effort = "default"
) -> dict[str, Any]:
    """Return the record that ``plan --json`` prints and ``summary.json`` holds."""
    returns = {name: float(getattr(evaluation, name).mean()) for name in exact.ReturnSummary._fields}
    record: dict[str, Any] = {
        "method": posterior.method,
        "reason": posterior.reason,
        "seeds": posterior.seeds,
        "seconds": seconds,
        "horizon": posterior.mdp.horizon,
        "terms": describe_terms(posterior),
        "config": posterior.config.to_dict(),
        "seed": posterior.seed,
        "log_evidence": log_evidence(posterior),
        "return": returns,
        "return_std_over_seeds": float(evaluation.mean.std()),
        "return_stderr": float(np.sqrt((evaluation.stderr**2).sum()) / len(evaluation.stderr)),
        "mode": evaluation.mode,
        "episodes": evaluation.episodes,
        "success": None if evaluation.success is None else float(evaluation.success.mean()),
        "endings": {name: float(share.mean()) for name, share in evaluation.endings.items()},
        "length": float(evaluation.length.mean()),
        "diagnostics": [
            {"code": found.code, "severity": str(found.severity), "sentence": found.sentence}
            for found in diagnose(posterior)
        ],
        "certificate": certificate_record(certify(posterior, effort=effort)),
    }
    standing = standing_of(posterior, returns["mean"])
    record["standing"] = None if standing is None else _standing(standing)
    record["choices"] = choices_of(posterior)
    if posterior.policies is not None:
        record["posterior"] = _enumerated(posterior)
    oracle = METHODS[posterior.method].oracle(posterior)
    if oracle is not None:
        record["oracle"] = _oracle(oracle)
    table, probs = posterior.view, posterior.table_probs()
    if isinstance(table, TabularMDP) and probs is not None and table.num_states <= LISTED_STATES:
        assert evaluation.occupancy is not None
        occupancy = evaluation.occupancy.mean(axis=0)
        record["actions"] = list(table.action_names)
        record["policy"] = _listed(table, probs.mean(axis=0), occupancy)
        if posterior.policies is not None and posterior.policies.reach_policy is not None:
            record["reach_policy"] = _listed(table, posterior.policies.reach_policy, occupancy)
    return record


def describe_terms(posterior: Posterior) -> dict[str, Any]:
    """Return the problem's own terms: discount, prior, what policies look at, and what is given."""
    held = posterior.condition
    return {
        "discount": discount_of(posterior.mdp),
        "prior": "given" if has_prior(posterior.mdp) else "uniform",
        "policies": "time-dependent" if is_timed(posterior.mdp) else "stationary",
        "given": None if held is None else held._asdict(),
    }


def log_evidence(posterior: Posterior) -> float | None:
    """Return ``log Z``, or the mean ``log Z-hat`` of the last tenth of training; None for a baseline."""
    if posterior.policies is not None:
        return posterior.policies.log_evidence
    if "log_evidence" not in posterior.trace:
        return None
    return float(posterior.trace.tail("log_evidence", 0.1).mean())


def _standing(standing: Standing) -> dict[str, Any]:
    return {**standing._asdict(), "share": standing.share}


def certificate_record(certificate: Certificate) -> dict[str, Any]:
    """Return a certificate as a record for JSON."""
    estimand = certificate.estimand
    return {
        **certificate._asdict(),
        "estimand": {
            "target": estimand.target.name.lower(),
            "in_the_limit": estimand.in_the_limit,
            "sentence": str(estimand),
        },
        "verdict": str(certificate.verdict),
        "table_error": None if certificate.table_error is None else certificate.table_error._asdict(),
    }


def _oracle(oracle: Oracle) -> dict[str, Any]:
    distances = oracle.distances
    return {
        "name": oracle.name,
        **oracle.settings,
        "result": str(oracle.solution.result),
        "return": oracle.expected_return,
        "distance": None if distances is None else float(distances.mean()),
        "distances": None if distances is None else distances.tolist(),
    }


def _enumerated(posterior: Posterior) -> dict[str, Any]:
    facts, table = posterior.policies, posterior.view
    assert facts is not None
    assert isinstance(table, TabularMDP)
    choices = [s for s in exact.decision_states(table, table.horizon) if table.legal_actions[s].sum() > 1][
        :LISTED_STATES
    ]
    return {
        "policies": facts.num_policies,
        "log_evidence_stderr": facts.log_evidence_stderr,
        "expected_return": facts.expected_return,
        "expected_return_stderr": facts.expected_return_stderr,
        "return_variance": facts.return_variance,
        "entropy": facts.entropy,
        "effective_policies": facts.effective_policies,
        "top": [
            {
                "probability": float(probability),
                "return": float(gain),
                "actions": {table.state_names[s]: table.action_names[int(actions[s])] for s in choices},
            }
            for probability, gain, actions in zip(
                facts.top_probabilities, facts.top_returns, facts.top_policies, strict=True
            )
        ],
    }


def _listed(table: TabularMDP, policy: NDArray[Any], occupancy: NDArray[np.float64]) -> list[dict[str, Any]]:
    return [
        {"state": table.state_names[s], "probs": policy[s].tolist(), "occupancy": float(occupancy[s])}
        for s in range(table.num_states)
        if not table.absorbing[s]
    ]
