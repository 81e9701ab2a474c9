"""Summary of a sample of whole policies from the posterior."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from polinfer.exact.enumeration import count_policies, decision_states
from polinfer.exact.solution import Floats, PolicyPosterior
from polinfer.problems.tabular.table import TabularMDP

_TOP = 10
_KEPT = 1000


def describe_sample(
    table: TabularMDP,
    sample: NDArray[np.int32],
    returns: Floats,
    *,
    log_evidence: float,
    expected_return: float,
    reach_policy: Floats,
    log_evidence_stderr: float = 0.0,
    expected_return_stderr: float = 0.0,
    policy_stderr: Floats | None = None,
    best: tuple[NDArray[np.int32], float] | None = None,
    seed: int = 0,
) -> PolicyPosterior:
    """Sum up a sample of whole policies ``[n, S]`` with their exact ``J`` ``[n]``.

    The most probable policies are the best of the sample, and `best`, the best one known with its return;
    their probabilities are ``exp(J) / Z``, as exact as ``log_evidence`` is.
    """
    count = count_policies(table, decision_states(table, table.horizon))
    log_count = math.log(count)
    top, top_returns = _best_of(sample, returns)
    if best is not None:
        top, top_returns = _best_of(
            np.concatenate([best[0][None], top]), np.concatenate([[best[1]], top_returns])
        )
    kept = np.random.default_rng(seed).permutation(len(sample))[:_KEPT]
    return PolicyPosterior(
        log_evidence=log_evidence,
        num_policies=float(count) if log_count < 700 else math.inf,
        reach_policy=reach_policy,
        expected_return=expected_return,
        return_variance=float(returns.var()),
        entropy=max(0.0, log_count - (expected_return - log_evidence)),
        top_policies=top,
        top_probabilities=np.exp(np.minimum(top_returns - log_evidence - log_count, 0.0)),
        top_returns=top_returns,
        sampled_policies=sample[kept],
        log_evidence_stderr=log_evidence_stderr,
        expected_return_stderr=expected_return_stderr,
        policy_stderr=policy_stderr,
    )


def _best_of(sample: NDArray[np.int32], returns: Floats) -> tuple[NDArray[np.int32], Floats]:
    """Return the distinct policies with the largest returns, best first."""
    # Only as many are compared whole as are needed to find distinct ones.
    likely = np.argsort(-returns, kind="stable")[: 50 * _TOP]
    _, first = np.unique(sample[likely], axis=0, return_index=True)
    chosen = likely[np.sort(first)][:_TOP]
    return sample[chosen], returns[chosen]


def reach_policy(
    policy: Floats, states: NDArray[np.int64], sample: NDArray[np.int32], visits: Floats
) -> Floats:
    """Weight each policy ``[n, S]`` of a sample, in each of `states`, by its probability of coming there.

    `visits` holds those, ``[len(states), n]``.  Elsewhere, and where none comes, the marginal `policy`
    ``[S, A]`` stands.
    """
    reach = np.array(policy)
    for state, visit in zip(states, visits, strict=True):
        mass = np.bincount(sample[:, state], visit, minlength=policy.shape[1])
        if mass.sum() > 0:
            reach[state] = mass / mass.sum()
    return reach


def pool(log_evidence: Floats) -> tuple[float, float]:
    """Return the logarithm of the islands' mean evidence, and its standard error."""
    relative = np.exp(log_evidence - log_evidence.max())
    stderr = relative.std(ddof=1) / relative.mean() / np.sqrt(len(relative))
    return float(np.log(relative.mean()) + log_evidence.max()), float(stderr)
