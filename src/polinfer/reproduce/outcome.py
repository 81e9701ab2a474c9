"""From a policy to the numbers that tables and figures are made of."""

from __future__ import annotations

import numpy as np

from polinfer import exact
from polinfer.analysis.certificate import SWEEPS
from polinfer.analysis.evaluation import Evaluation, evaluate, merge_returns
from polinfer.core.files import Arrays
from polinfer.exact.solution import Floats
from polinfer.methods import METHODS
from polinfer.posterior.posterior import Posterior
from polinfer.problems.tabular import TabularMDP
from polinfer.reproduce.store import Outcome

_NUMBERS = ("mean", "std", "q05", "q95", "cvar05", "cvar95", "length")


def describe_policy(table: TabularMDP, policies: Floats) -> Outcome:
    """Evaluate policies ``[n, S, A]`` exactly."""
    values = [exact.evaluate_policy(table, policy) for policy in policies]
    spreads = [exact.return_distribution(table, policy) for policy in policies]
    unknown = (np.nan,) * 4
    tails = np.array([unknown if found is None else found.summary()[2:] for found in spreads], np.float64)
    arrays: Arrays = {
        "mean": np.array([value.expected_return for value in values]),
        "std": np.array([value.std for value in values]),
        "length": np.array([value.length for value in values]),
        "q05": tails[:, 0],
        "q95": tails[:, 1],
        "cvar05": tails[:, 2],
        "cvar95": tails[:, 3],
        **_on_table(table, policies),
    }
    if all(found is not None for found in spreads):
        pooled = np.concatenate([found.returns for found in spreads if found is not None])
        weight = np.concatenate([found.probability for found in spreads if found is not None])
        arrays |= _histogram(pooled, weight / len(spreads))
    return Outcome(arrays)


def describe_run(posterior: Posterior, episodes: int) -> Outcome:
    """Evaluate every seed by episodes as the paper does, and exactly too where there is a table."""
    played = evaluate(posterior.mdp, posterior, episodes=episodes)
    arrays: Arrays = {name: getattr(played, name) for name in _NUMBERS}
    arrays |= {f"ending.{name}": share for name, share in played.endings.items()}
    if played.success is not None:
        arrays["success"] = played.success
    arrays |= _played_returns(played)
    probs = posterior.table_probs()
    if probs is not None and isinstance(posterior.view, TabularMDP):
        rows = probs.astype(np.float64)
        arrays |= _on_table(posterior.view, rows / rows.sum(axis=-1, keepdims=True), prefix="exact.")
    trace = posterior.trace
    kept = {"episode_return": "trace.return", "log_evidence": "trace.log_evidence", "ess": "trace.ess"}
    arrays |= {name: trace[column] for column, name in kept.items() if column in trace and len(trace)}
    return Outcome(arrays)


def describe_samples(table: TabularMDP, runs: list[Posterior]) -> Outcome:
    """Evaluate the marginal policies of methods that sample whole policies, a run per seed, exactly."""
    policies = np.concatenate([_probs(run) for run in runs])
    arrays: Arrays = dict(describe_policy(table, policies).arrays)
    arrays["log_evidence"] = np.array([run.policies.log_evidence for run in runs if run.policies is not None])
    return Outcome(arrays)


def _probs(run: Posterior) -> Floats:
    rows = run.table_probs()
    assert rows is not None
    probs: Floats = rows.astype(np.float64) / rows.sum(axis=-1, keepdims=True)
    return probs


def describe_bounds(posterior: Posterior) -> Arrays:
    """Return the bounds on ``log Z`` that the first seed's certificate has."""
    found = METHODS[posterior.method].bounds(posterior[0], SWEEPS, seed=0)
    bounds = {"log_evidence_lower": found.lower, "log_evidence_upper": found.upper}
    return {name: np.array([bound]) for name, bound in bounds.items() if bound is not None}


def _on_table(table: TabularMDP, policies: Floats, prefix: str = "") -> Arrays:
    """Return what a table tells exactly; policy, occupancy and entropy always, the rest under `prefix`."""
    values = [exact.evaluate_policy(table, policy) for policy in policies]
    arrays: Arrays = {
        "policy": policies.astype(np.float32),
        "occupancy": np.stack([value.occupancy for value in values]).astype(np.float32),
        "entropy": np.array([value.entropy for value in values]),
        "second": policies[:, int(table.initial.argmax()), 1],  # action in the start
    }
    if prefix:
        arrays[prefix + "mean"] = np.array([value.expected_return for value in values])
    for ending in table.endings:
        arrays[f"{prefix}ending.{ending.name}"] = np.array([value.endings[ending.name] for value in values])
    if values[0].success is not None:
        arrays[prefix + "success"] = np.array([value.success for value in values])
    return arrays


def _played_returns(played: Evaluation) -> Arrays:
    assert played.returns is not None
    merged = merge_returns(played.returns).ravel()
    return _histogram(merged, np.full(merged.shape, 1.0 / merged.size))


def _histogram(values: Floats, weight: Floats) -> Arrays:
    """Return the distinct returns of all seeds together, and their shares."""
    found, place = np.unique(values, return_inverse=True)
    shares = np.bincount(place, weight, len(found))
    return {"values": found.astype(np.float32), "shares": shares.astype(np.float32)}
