"""Units that sample whole policies: one run per seed."""

from __future__ import annotations

import numpy as np

from polinfer.core.files import Arrays
from polinfer.methods.inference import infer_sampled, sampling_config
from polinfer.posterior.posterior import Posterior
from polinfer.problems.registry import make
from polinfer.reproduce.outcome import describe_bounds, describe_policy
from polinfer.reproduce.problems import table_for
from polinfer.reproduce.store import Outcome
from polinfer.reproduce.unit import Unit


def sample(unit: Unit) -> Outcome:
    """Run every seed of the unit, and evaluate the marginal policies exactly."""
    mdp, config = make(unit.domain, **unit.options), sampling_config(unit.method, **unit.settings)
    runs = [
        infer_sampled(mdp, unit.method, config, seed=unit.first_seed + number) for number in range(unit.seeds)
    ]
    policies = np.concatenate([_probs(run) for run in runs])
    arrays: Arrays = dict(describe_policy(table_for(mdp), policies).arrays)
    arrays["log_evidence"] = np.array([run.policies.log_evidence for run in runs if run.policies is not None])
    if unit.certified:
        arrays |= describe_bounds(runs[0])
    return Outcome(arrays)


def _probs(run: Posterior) -> np.ndarray:
    rows = run.table_probs()
    assert rows is not None
    probs: np.ndarray = rows.astype(np.float64) / rows.sum(axis=-1, keepdims=True)
    return probs
