"""What an answer is worth: its target, proofs, estimated bounds, and a verdict with its reason and remedy."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from polinfer.analysis.convergence import convergence
from polinfer.analysis.judgement import Effort, Verdict, occupancy_of
from polinfer.analysis.table_error import TableUncertainty
from polinfer.analysis.verdict import judge, prove
from polinfer.core.display import viewer
from polinfer.core.errors import PolinferError
from polinfer.exact.solution import Floats
from polinfer.methods import METHODS
from polinfer.posterior.diagnostics import Diagnostic
from polinfer.posterior.estimand import Estimand
from polinfer.posterior.posterior import Posterior

SWEEPS = 50
"""Fresh sweeps that a trained proposal is judged by; large ones, of many particles and worlds, are fewer."""


class Certificate(NamedTuple):
    """What one answer is worth; None where a number does not apply or cannot be had."""

    estimand: Estimand
    verdict: Verdict
    reason: str  # what decided the verdict
    remedy: str  # what would help; empty where nothing is needed
    proven_lower: float | None  # log Z is not below this
    proven_upper: float | None  # nor above this
    proven_share: float | None  # of the posterior, at least, that is held by the policies found
    log_evidence_lower: float | None  # estimated bounds; without exact weights, on the mean over worlds
    log_evidence_upper: float | None
    log_evidence_stderr: float | None  # of the lower one
    log_evidence_upper_stderr: float | None
    ess: float | None  # share of the particles, at the end of a sweep
    pareto_k: float | None  # of the final weights, median over sweeps
    r_hat: float | None  # of marginals over independent populations, weighted by occupancy
    sample_ess: float | None  # effective number of policies behind a marginal, weighted by occupancy
    known_from: str | None  # what the distance is to
    distance: float | None  # occupancy-weighted total variation of the marginal policy
    table_error: TableUncertainty | None = None  # what the draws of an estimated table leave open

    @property
    def gap(self) -> float | None:
        """How far apart the estimated bounds are."""
        if self.log_evidence_lower is None or self.log_evidence_upper is None:
            return None
        return self.log_evidence_upper - self.log_evidence_lower

    def __str__(self) -> str:
        return f"{self.verdict}: {self.reason}"

    def _repr_html_(self) -> str:
        return str(viewer().card(self))


def certify(
    posterior: Posterior, *, sweeps: int = SWEEPS, seed: int = 0, effort: Effort = "default"
) -> Certificate:
    """Judge `posterior`.

    Parameters
    ----------
    posterior
        The answer.
    sweeps
        Fresh sweeps that a trained proposal or particles are judged by.
    seed
        Of those sweeps, and of the runs that are compared with.
    effort
        ``thorough`` may take ten times as long: bounds of more leaves, comparisons of more policies.

    Examples
    --------
    >>> import polinfer
    >>> posterior = polinfer.infer(polinfer.make("gridworld/ablation"), "exact")
    >>> certificate = polinfer.certify(posterior)
    >>> str(certificate.verdict), certificate.gap, round(certificate.distance, 6)
    ('trust', 0.0, 0.0)
    """
    if not isinstance(posterior, Posterior):
        raise PolinferError(
            f"certify judges a Posterior, got {type(posterior).__name__}; a policy from elsewhere goes to "
            "certify_policy(problem, policy)"
        )
    if effort not in ("default", "thorough"):
        raise PolinferError(f"effort must be default or thorough, got {effort!r}")
    method = METHODS[posterior.method]
    estimated = method.bounds(posterior, sweeps, seed)
    ess = pareto = None
    if estimated.weights is not None:
        ess = float(np.mean([1 / (row**2).sum() / len(row) for row in estimated.weights]))
        tails = [k for k in map(pareto_k, estimated.weights) if k is not None]
        pareto = float(np.median(tails)) if tails else None
    mixing = convergence(posterior, occupancy_of(posterior)) if posterior.policies is not None else None
    proven = prove(posterior, effort)
    judged = judge(posterior, proven, pareto, seed, effort)
    return Certificate(
        estimand=method.estimand(posterior.config),
        verdict=judged.verdict,
        reason=judged.reason,
        remedy=judged.remedy,
        proven_lower=None if proven is None else proven.lower,
        proven_upper=None if proven is None else proven.upper,
        proven_share=None if proven is None else 1.0 - proven.total_variation,
        log_evidence_lower=estimated.lower,
        log_evidence_upper=estimated.upper,
        log_evidence_stderr=estimated.lower_stderr,
        log_evidence_upper_stderr=estimated.upper_stderr,
        ess=ess,
        pareto_k=pareto,
        r_hat=None if mixing is None else mixing.r_hat,
        sample_ess=None if mixing is None else mixing.ess,
        known_from=judged.known_from,
        distance=judged.distance,
        table_error=judged.error,
    )


def diagnose(posterior: Posterior) -> list[Diagnostic]:
    """Return the findings of the method about its answer: codes, severities, and sentences for people."""
    return METHODS[posterior.method].diagnose(posterior)


def pareto_k(weight: Floats) -> float | None:
    """Return the shape of a generalised Pareto tail of importance weights; None for fewer than 25.

    The tail is as long as Pareto-smoothed importance sampling takes it.
    """
    count = len(weight)
    if count < 25:
        return None
    size = int(min(0.2 * count, 3 * np.sqrt(count)))
    ordered = np.sort(weight)
    excess = ordered[-size:] - ordered[-size - 1]
    if excess.max() <= 1e-12 * ordered[-1]:
        return 0.0
    import scipy.stats  # noqa: PLC0415 - a third of the time that importing polinfer takes

    shape, _, _ = scipy.stats.genpareto.fit(excess / excess.max(), floc=0)
    return float(shape)
