"""Independent runs of annealing, pooled: on one machine one after the other, or wherever `workers` says."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from polinfer.annealing.path import AnnealedPoint
from polinfer.exact.joint import pool
from polinfer.exact.solution import Floats

_STRIDE = 1_000_003  # between the seeds of replicas


def replica_seed(seed: int, number: int) -> int:
    """Return the seed of a replica; the first has the run's own."""
    return seed + _STRIDE * number


def pool_points(points: Sequence[AnnealedPoint], seed: int) -> AnnealedPoint:
    """Return one posterior from those of independent runs, in the order of their numbers.

    Each counts by its estimate of ``Z``: a run that missed a mode has found less.  Standard errors are the
    larger of what the runs say themselves and of how far they are apart.
    """
    if len(points) == 1:
        return points[0]
    evidence = np.array([point.log_evidence for point in points])
    share = np.exp(evidence - evidence.max())
    share /= share.sum()

    def mean(name: str) -> tuple[Floats, Floats]:
        values = np.array([getattr(point, name) for point in points])
        errors = np.array([getattr(point, f"{name}_stderr") for point in points])
        weight = share.reshape(-1, *[1] * (values.ndim - 1))
        middle = (weight * values).sum(axis=0)
        count = len(points)
        apart = np.sqrt((weight**2 * (values - middle) ** 2).sum(axis=0) * count / (count - 1))
        return middle, np.maximum(np.sqrt((weight**2 * errors**2).sum(axis=0)), apart)

    policy, policy_stderr = mean("policy")
    returned, returned_stderr = mean("expected_return")
    log_evidence, spread = pool(evidence)
    own = np.sqrt(sum((w * point.log_evidence_stderr) ** 2 for w, point in zip(share, points, strict=True)))
    best = max(points, key=lambda point: point.best_return)
    back, back_stderr = _reverse(points)
    size = len(points[0].sample)
    random = np.random.default_rng([seed, 3])
    origin = random.choice(len(points), size, p=share)
    place = random.integers(size, size=size)
    return points[0]._replace(
        log_evidence=log_evidence,
        log_evidence_stderr=float(max(spread, own)),
        expected_return=float(returned),
        expected_return_stderr=float(returned_stderr),
        entropy=float(share @ np.array([point.entropy for point in points])),
        policy=policy,
        policy_stderr=policy_stderr,
        reach_policy=np.tensordot(share, np.array([point.reach_policy for point in points]), axes=1),
        sample=np.stack([points[i].sample[j] for i, j in zip(origin, place, strict=True)]),
        sample_returns=np.array([points[i].sample_returns[j] for i, j in zip(origin, place, strict=True)]),
        lower_bound=max(point.lower_bound for point in points),
        best=best.best,
        best_return=best.best_return,
        distance=float(max(point.distance for point in points) / np.sqrt(len(points))),
        exact=all(point.exact for point in points),
        reverse_log_evidence=back,
        reverse_log_evidence_stderr=back_stderr,
    )


def _reverse(points: Sequence[AnnealedPoint]) -> tuple[float, float]:
    """Return what the ways back found on average, and its standard error."""
    found = np.array([point.reverse_log_evidence for point in points])
    own = np.linalg.norm([point.reverse_log_evidence_stderr for point in points]) / len(points)
    apart = found.std(ddof=1) / np.sqrt(len(points))
    return float(found.mean()), float(max(apart, own))
