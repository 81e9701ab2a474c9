"""What finished rounds say together: marginals and ``log Z`` with their errors over islands.

Every island of every round estimates ``Z`` without bias.  Within a round islands are weighted by their
estimates, as particles are; rounds are weighted by their precision.  Rounds that clearly fall short of the
best one missed something, and are left out.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polinfer.exact.joint import pool as pool_evidence
from polinfer.exact.solution import Floats

_SURE, _NEAR = 3.0, 0.01  # standard errors and log Z by which a round may fall short of the best
_MIXTURES = (0.0, 0.3, 0.6, 1.0)  # shares of the marginals that are made from conditionals


class Rounds(NamedTuple):
    """The means of each island in each round."""

    log_evidence: Floats  # [R, I]
    chosen: Floats  # [R, N, A, I] probability of coming to the state and taking the action
    smooth: Floats  # [R, N, A, I] the same, from conditionals; noise may take it below zero
    visits: Floats  # [R, N, I]
    returns: Floats  # [R, I]


class Estimate(NamedTuple):
    """An answer and its errors."""

    log_evidence: float
    log_evidence_stderr: float
    policy: Floats  # [N, A] marginal policy; who does not come counts as the reference measure
    policy_stderr: Floats  # [N, A]
    occupancy: Floats  # [N] share of the steps spent in each state
    visits: Floats  # [N] expected number of visits
    returns: float
    returns_stderr: float
    distance: float  # expected total variation to the limit, weighted by occupancy

    def precise(self, tolerance: float, evidence_tolerance: float) -> bool:
        """Return whether both errors are within their tolerances."""
        return self.distance <= tolerance and self.log_evidence_stderr <= evidence_tolerance


def island_weights(log_evidence: Floats) -> Floats:
    """Return the weights ``[..., I]`` of islands within a round."""
    weight = np.exp(log_evidence - log_evidence.max(axis=-1, keepdims=True))
    return np.asarray(weight / weight.sum(axis=-1, keepdims=True))


def pool_rounds(log_evidence: Floats) -> Floats:
    """Return ``log Z`` and its standard error by round, ``[R, 2]``, from those of its islands ``[R, I]``."""
    return np.array([pool_evidence(row) for row in log_evidence])


def chosen_share(rounds: Rounds) -> Floats:
    """Return how probable it is that a policy comes to a state and takes an action there, ``[N, A]``."""
    weight = island_weights(rounds.log_evidence.ravel()).reshape(rounds.log_evidence.shape)
    return np.asarray(np.einsum("ri,rnai->na", weight, rounds.chosen))


def complete(pooled: Floats) -> NDArray[np.bool_]:
    """Return the rounds whose evidence ``[R, 2]`` is not far below that of the best one.

    A round that misses a mode falls short of ``Z`` by its mass, with islands that agree with one another.
    """
    best = pooled[np.argmax(pooled[:, 0] - _SURE * pooled[:, 1])]
    gap = _SURE * np.hypot(pooled[:, 1], best[1]) + _NEAR
    return np.asarray(pooled[:, 0] >= best[0] - gap)


def estimate(rounds: Rounds, prior: Floats) -> Estimate:
    """Combine rounds; `prior` ``[N, A]`` is the reference measure."""
    pooled = pool_rounds(rounds.log_evidence)
    kept = complete(pooled)
    rounds, pooled = Rounds(*(part[kept] for part in rounds)), pooled[kept]
    count = rounds.log_evidence.shape[1]
    share = np.maximum(pooled[:, 1], 1e-3) ** -2
    share = share / share.sum()
    log_evidence = float(np.log(share @ np.exp(pooled[:, 0] - pooled[:, 0].max())) + pooled[:, 0].max())
    within = float(np.sqrt(share**2 @ pooled[:, 1] ** 2))
    # Rounds that disagree by more than their islands say: then their spread is the error.
    between = float(np.sqrt(share @ (pooled[:, 0] - log_evidence) ** 2 / max(len(share) - 1, 1)))
    weight = island_weights(rounds.log_evidence)  # [R, I]
    visits = np.einsum("ri,rni->rn", weight, rounds.visits)
    occupancy = visits / np.maximum(visits.sum(axis=1, keepdims=True), 1e-300)

    def pool(chosen: Floats) -> tuple[Floats, Floats, Floats]:
        """Return mean ``[R, N, A]``, its variance and the expected distance ``[R]``."""
        unreached = np.maximum(1.0 - chosen.sum(axis=2, keepdims=True), 0.0)
        policies = chosen + unreached * prior[None, :, :, None]  # [R, N, A, I]
        policies = policies / policies.sum(axis=2, keepdims=True)
        mean = np.einsum("ri,rnai->rna", weight, policies)
        spread = np.einsum("ri,rnai->rna", weight**2, (policies - mean[..., None]) ** 2) * count / (count - 1)
        return mean, spread, np.einsum("rn,rna->r", occupancy, np.sqrt(spread)) / 2 * np.sqrt(2 / np.pi)

    # Both have the same mean; which mixture of them varies least depends on the problem.
    tried = [pool(rounds.chosen + part * (rounds.smooth - rounds.chosen)) for part in _MIXTURES]
    best = np.argmin([each[2] for each in tried], axis=0)
    every = np.arange(len(best))
    mean, spread, distances = (np.stack([each[k] for each in tried])[best, every] for k in range(3))
    trust = np.maximum(distances, 1e-6) ** -2
    trust = trust / trust.sum()
    policy = np.maximum(np.einsum("r,rna->na", trust, mean), 0.0)
    policy = policy / policy.sum(axis=1, keepdims=True)
    variance = np.einsum("r,rna->na", trust**2, spread)
    visited = trust @ visits
    share_of_steps = visited / max(visited.sum(), 1e-300)
    returns = np.einsum("ri,ri->r", weight, rounds.returns)
    errors = np.einsum("ri,ri->r", weight**2, (rounds.returns - returns[:, None]) ** 2) * count / (count - 1)
    return Estimate(
        log_evidence=log_evidence,
        log_evidence_stderr=max(within, between),
        policy=policy,
        policy_stderr=np.sqrt(variance),
        occupancy=share_of_steps,
        visits=visited,
        returns=float(trust @ returns),
        returns_stderr=float(np.sqrt(trust**2 @ errors)),
        distance=float((share_of_steps[:, None] * np.sqrt(variance)).sum() / 2 * np.sqrt(2 / np.pi)),
    )
