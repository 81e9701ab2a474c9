"""Summary of a sample of whole policies from the posterior."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy

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
    policy: Floats,
    log_evidence: float,
    expected_return: float,
    reach_policy: Floats,
    log_evidence_stderr: float = 0.0,
    expected_return_stderr: float = 0.0,
    policy_stderr: Floats | None = None,
    best: tuple[NDArray[np.int32], float] | None = None,
    chains: int = 1,
    reverse: tuple[float, float] | None = None,
    seed: int = 0,
) -> PolicyPosterior:
    """Sum up a sample of whole policies ``[n, S]`` with their exact ``J`` ``[n]``.

    `policy` ``[S, A]`` is the marginal one.  The most probable policies are those of the sample, and `best`,
    the best one known with its return; their probabilities are ``mu exp(J) / Z``, as exact as
    ``log_evidence`` is.  `reverse` is the log evidence that annealing back finds, with its standard error.
    """
    states = decision_states(table, table.horizon)
    count = count_policies(table, states)
    log_count = math.log(count)
    if best is not None:
        sample_and, returns_and = np.concatenate([best[0][None], sample]), np.append(best[1], returns)
    else:
        sample_and, returns_and = sample, returns
    chosen = _most_probable(sample_and, returns_and + log_prior_of_policies(table, states, sample_and))
    top, top_returns = sample_and[chosen], returns_and[chosen]
    log_prior = log_prior_of_policies(table, states, top)
    blocks = np.random.default_rng(seed).permuted(np.arange(len(sample)).reshape(chains, -1), axis=1)
    kept = blocks[:, : max(1, _KEPT // chains)].ravel()
    return PolicyPosterior(
        log_evidence=log_evidence,
        num_policies=float(count) if log_count < 700 else math.inf,
        reach_policy=reach_policy,
        expected_return=expected_return,
        return_variance=float(returns.var()),
        entropy=posterior_entropy(table, states, policy, expected_return, log_evidence),
        top_policies=top,
        top_probabilities=np.exp(np.minimum(top_returns - log_evidence + log_prior, 0.0)),
        top_returns=top_returns,
        sampled_policies=sample[kept],
        log_evidence_stderr=log_evidence_stderr,
        expected_return_stderr=expected_return_stderr,
        policy_stderr=policy_stderr,
        chains=chains,
        reverse_log_evidence=None if reverse is None else reverse[0],
        reverse_log_evidence_stderr=None if reverse is None else reverse[1],
    )


def log_prior_of_policies(
    table: TabularMDP, states: NDArray[np.int64], policies: NDArray[np.integer]
) -> Floats:
    """Return the log of the reference measure ``[n]`` of whole policies ``[n, S]``, over `states`."""
    log_prior = np.log(np.where(table.legal_actions, table.prior, 1.0))
    return np.asarray(log_prior[states, policies[:, states]].sum(axis=1))


def posterior_entropy(
    table: TabularMDP, states: NDArray[np.int64], policy: Floats, scaled_return: float, log_evidence: float
) -> float:
    """Return the entropy of the posterior, ``log Z - E[J] - E[log mu]``, in nats.

    `states` are those in which an action can be taken.  ``log mu`` is a sum over them, so its expectation
    follows from the marginal `policy` ``[S, A]``; `scaled_return` is ``E[J]`` times the reward scale.
    """
    log_prior = float(
        xlogy(policy[states], np.where(table.prior[states] > 0, table.prior[states], 1.0)).sum()
    )
    return max(0.0, log_evidence - scaled_return - log_prior)


def _most_probable(sample: NDArray[np.int32], log_mass: Floats) -> NDArray[np.int64]:
    """Return the places of the distinct policies with the largest masses, largest first."""
    # Only as many are compared whole as are needed to find distinct ones.
    likely = np.argsort(-log_mass, kind="stable")[: 50 * _TOP]
    _, first = np.unique(sample[likely], axis=0, return_index=True)
    return np.asarray(likely[np.sort(first)][:_TOP])


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
