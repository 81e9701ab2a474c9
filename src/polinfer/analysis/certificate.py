"""What an answer is worth: its target, how tight it is, and how far it is from what is known."""

from __future__ import annotations

import enum
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import scipy.stats

from polinfer import exact
from polinfer.analysis.references import reference_for
from polinfer.annealing import TemperedConfig
from polinfer.core.errors import TooLargeError
from polinfer.exact.solution import Floats, Solution
from polinfer.methods import METHODS, infer
from polinfer.posterior.diagnostics import Diagnostic, Severity
from polinfer.posterior.estimand import Estimand
from polinfer.posterior.posterior import Posterior
from polinfer.problems.tabular.table import TabularMDP

SWEEPS = 50
"""Fresh sweeps that a trained proposal is judged by; large ones, of many particles and worlds, are fewer."""
_ENUMERATED = 100_000  # policies; up to here the exact posterior is at hand
_CHEAP = 3_000_000  # multiplications per pass and policy; up to here a tempered sample takes some seconds
_TRUSTED, _DOUBTED = 0.03, 0.1  # distance to what is known
_HEAVY = 0.7  # Pareto k beyond which importance weights have no reliable mean (Vehtari et al. 2024)


class Verdict(enum.Enum):
    """How far an answer can be relied upon."""

    TRUST = "trust"
    CARE = "use with care"
    DISTRUST = "do not trust"

    def __str__(self) -> str:
        return self.value


class Certificate(NamedTuple):
    """What one answer is worth; None where a number does not apply or cannot be had."""

    estimand: Estimand
    log_evidence_lower: float | None  # on log Z; without exact weights, on its mean over a sweep's worlds
    log_evidence_upper: float | None  # on the same, as far as it starts from the posterior
    log_evidence_stderr: float | None  # of the lower bound
    log_evidence_upper_stderr: float | None
    ess: float | None  # share of the particles, at the end of a sweep
    pareto_k: float | None  # of the final weights, median over sweeps
    known_from: str | None  # what the distance is to
    distance: float | None  # occupancy-weighted total variation of the marginal policy
    verdict: Verdict
    reason: str  # what decided the verdict

    @property
    def gap(self) -> float | None:
        """How far apart the bounds are."""
        if self.log_evidence_lower is None or self.log_evidence_upper is None:
            return None
        return self.log_evidence_upper - self.log_evidence_lower


def certify(posterior: Posterior, *, sweeps: int = SWEEPS, seed: int = 0) -> Certificate:
    """Judge `posterior`; what was trained or is made of particles runs some fresh sweeps for it.

    Both bounds on ``log Z`` are means of random numbers, so a small gap may come out negative.  For a sample
    of whole policies and with exact weights they bound the paper's ``Z``, for other sweeps the mean of
    ``log Z_w`` over worlds.

    Examples
    --------
    >>> import polinfer
    >>> posterior = polinfer.infer(polinfer.make("gridworld/ablation"), "exact")
    >>> certificate = polinfer.certify(posterior)
    >>> str(certificate.verdict), certificate.gap, round(certificate.distance, 6)
    ('trust', 0.0, 0.0)
    """
    known_from, known = _known(posterior)
    distance = None if known is None else distance_to(posterior, known)
    method = METHODS[posterior.method]
    bounds = method.bounds(posterior, sweeps, seed)
    ess = pareto = None
    if bounds.weights is not None:
        ess = float(np.mean([1 / (row**2).sum() / len(row) for row in bounds.weights]))
        tails = [k for k in map(pareto_k, bounds.weights) if k is not None]
        pareto = float(np.median(tails)) if tails else None
    return Certificate(
        estimand=method.estimand(posterior.config),
        log_evidence_lower=bounds.lower,
        log_evidence_upper=bounds.upper,
        log_evidence_stderr=bounds.lower_stderr,
        log_evidence_upper_stderr=bounds.upper_stderr,
        ess=ess,
        pareto_k=pareto,
        known_from=known_from,
        distance=distance,
        **_judge(posterior, known_from, distance, pareto)._asdict(),
    )


def diagnose(posterior: Posterior) -> list[Diagnostic]:
    """Return the findings of the method about its answer: codes, severities, and sentences for people."""
    return METHODS[posterior.method].diagnose(posterior)


def distance_to(posterior: Posterior, policy: Floats) -> float:
    """Return the total variation to `policy` ``[S, A]``, mean over seeds, weighted by its occupancy."""
    table, probs = posterior.view, posterior.table_probs()
    assert isinstance(table, TabularMDP)
    assert probs is not None
    occupancy = exact.evaluate_policy(table, policy / policy.sum(axis=1, keepdims=True)).occupancy
    weight = np.where(table.absorbing, 0.0, occupancy)
    per_state = 0.5 * np.abs(probs - policy).sum(axis=-1).mean(axis=0)
    return float(per_state @ weight / max(weight.sum(), 1e-300))


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
    shape, _, _ = scipy.stats.genpareto.fit(excess / excess.max(), floc=0)
    return float(shape)


class _Judgement(NamedTuple):
    verdict: Verdict
    reason: str


def _judge(
    posterior: Posterior, known_from: str | None, distance: float | None, pareto: float | None
) -> _Judgement:
    findings = METHODS[posterior.method].diagnose(posterior)
    if any(finding.code == "enumerated" for finding in findings):
        return _Judgement(Verdict.TRUST, "every policy was enumerated")
    heavy = pareto is not None and pareto > _HEAVY
    if distance is not None:
        found = f"it is {distance:.3f} from the {known_from}"
        if distance <= _TRUSTED:
            return _Judgement(Verdict.TRUST, found + ("; its weights alone would not do" if heavy else ""))
        return _Judgement(Verdict.CARE if distance <= _DOUBTED else Verdict.DISTRUST, found)
    if posterior.policies is not None:
        if all(finding.severity is Severity.FACT for finding in findings):
            return _Judgement(Verdict.TRUST, "its standard errors are small")
        return _Judgement(Verdict.CARE, "its standard errors are large")
    if heavy:
        return _Judgement(Verdict.DISTRUST, f"the weights have a heavy tail (Pareto k {pareto:.2f})")
    return _Judgement(Verdict.CARE, "nothing is known to compare it with")


def _known(posterior: Posterior) -> tuple[str | None, Floats | None]:
    """Return the best answer there is to compare with: enumeration, a reference file, or a tempered sample.

    Sweeps that have never found a mode do not miss it, and their bounds agree without it: on tables small
    enough for it to take seconds, a sample found in another way is asked.
    """
    table = posterior.view
    method = METHODS[posterior.method]
    if not method.is_posterior or not isinstance(table, TabularMDP):
        return None, None
    solution = _enumerate(table)
    if solution is not None:
        return "enumeration", solution.policy
    found = reference_for(posterior.mdp)
    if found is not None:
        return "reference posterior", found.policy
    if not isinstance(posterior.config, TemperedConfig) and _annealing_cost(table) <= _CHEAP:
        return "tempered sample", _sample(table)
    return None, None


def _annealing_cost(table: TabularMDP) -> int:
    """Return about how many multiplications one evaluation of a policy takes."""
    return int(np.prod(table.probability.shape)) * table.horizon


@lru_cache(maxsize=16)
def _enumerate(table: TabularMDP) -> Solution | None:
    try:
        return exact.policy_posterior(table, reach=False, limit=_ENUMERATED)
    except TooLargeError:
        return None


@lru_cache(maxsize=16)
def _sample(table: TabularMDP) -> Floats:
    sampled = infer(table, TemperedConfig(policies=100)).table_probs()
    assert sampled is not None
    policy: Floats = sampled[0].astype(np.float64)
    return policy
