"""How far an answer can be relied upon: proofs first, then what independent runs say.

Evidence is taken in this order, and the reason of a verdict names what decided it: enumeration; rigorous
bounds on ``log Z``, which refute an answer outside of them and prove one whose policies hold nearly all of
the posterior; a reference posterior; a run of annealing that is itself trusted; for annealing, another run
that starts elsewhere.  Agreement with a method that has no certificate of its own certifies nothing.
"""

from __future__ import annotations

import enum
from dataclasses import replace
from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polinfer import exact
from polinfer.analysis.convergence import convergence
from polinfer.analysis.references import reference_for
from polinfer.analysis.table_error import TableUncertainty, table_error
from polinfer.annealing import TemperedConfig, anneal
from polinfer.core.errors import TooLargeError
from polinfer.exact.bounds import EvidenceBounds, class_marginals, evidence_bounds
from polinfer.exact.solution import Floats, Solution
from polinfer.methods import METHODS, infer
from polinfer.posterior.diagnostics import Diagnostic, Severity
from polinfer.posterior.estimand import Target
from polinfer.posterior.posterior import Posterior
from polinfer.problems.tabular.table import TabularMDP

Effort = Literal["default", "thorough"]

TRUSTED, DOUBTED = 0.03, 0.1
"""Distances up to which an answer is trusted, and from which on it is not."""
_ENUMERATED = 100_000  # policies; up to here the exact posterior is at hand
_CHEAP = 3_000_000  # multiplications for one policy; up to here annealing takes some seconds
_IMPRECISE = 1.2  # times the tolerance of log Z, beyond which annealing has not become precise
_HEAVY = 0.7  # Pareto k beyond which importance weights have no reliable mean (Vehtari et al. 2024)
_MIXED = 1.1  # R-hat, beyond which populations may not have mixed
_ABOVE = 4.0  # times the reward scale, from which a check comes down
_SLACK = 0.02  # nats by which an estimate of log Z may miss a bound besides three standard errors
_LEAVES, _WORK = 32, 1e8  # of the bounds; ten times as many when thorough


class Verdict(enum.Enum):
    """How far an answer can be relied upon."""

    TRUST = "trust"
    CARE = "use with care"
    DISTRUST = "do not trust"

    def __str__(self) -> str:
        return self.value


class Judgement(NamedTuple):
    """A verdict with what decided it."""

    verdict: Verdict
    reason: str
    remedy: str = ""
    known_from: str | None = None
    distance: float | None = None
    error: TableUncertainty | None = None  # what the draws of an estimated table leave open


def distance_to(posterior: Posterior, policy: Floats) -> float:
    """Return the total variation to `policy` ``[S, A]``, mean over seeds, weighted by its occupancy."""
    table, probs = posterior.view, posterior.table_probs()
    assert isinstance(table, TabularMDP)
    assert probs is not None
    return mean_distance(table, policy, probs)


def occupancy_of(posterior: Posterior) -> Floats:
    """Return the expected number of steps ``[S]`` of the marginal policy, zero in terminal states."""
    table = posterior.view
    assert isinstance(table, TabularMDP)
    return np.where(table.absorbing, 0.0, exact.evaluate_policy(table, policy_of(posterior)).occupancy)


def mean_distance(table: TabularMDP, policy: Floats, probs: NDArray[np.floating]) -> float:
    """Return the total variation from `policy` ``[S, A]`` to `probs` ``[seeds, S, A]``, by its occupancy."""
    occupancy = exact.evaluate_policy(table, policy / policy.sum(axis=1, keepdims=True)).occupancy
    weight = np.where(table.absorbing, 0.0, occupancy)
    per_state = 0.5 * np.abs(probs - policy).sum(axis=-1).mean(axis=0)
    return float(per_state @ weight / max(weight.sum(), 1e-300))


def prove(posterior: Posterior, effort: Effort) -> EvidenceBounds | None:
    """Return rigorous bounds on ``log Z``, with the policies that the answer has found."""
    table = posterior.view
    if not METHODS[posterior.method].is_posterior or not isinstance(table, TabularMDP):
        return None
    found = None
    if posterior.policies is not None:
        known = [posterior.policies.top_policies]
        if posterior.policies.sampled_policies is not None:
            known.append(posterior.policies.sampled_policies)
        found = np.concatenate(known)
    times = 10 if effort == "thorough" else 1
    return evidence_bounds(table, found, leaves=_LEAVES * times, work=_WORK * times)


def judge(
    posterior: Posterior, proven: EvidenceBounds | None, pareto: float | None, seed: int, effort: Effort
) -> Judgement:
    """Return the verdict on an answer, and on what the draws of an estimated table leave open."""
    return allow_for_draws(_judge(posterior, proven, pareto, seed, effort), table_error(posterior, seed))


def allow_for_draws(judged: Judgement, error: TableUncertainty | None) -> Judgement:
    """Trust an answer no further than the table that it was computed on."""
    if error is None:
        return judged
    if judged.verdict is not Verdict.TRUST:
        return judged._replace(error=error)
    total = (judged.distance or 0.0) + error.distance
    if total <= TRUSTED:
        reason = f"{judged.reason}, and the draws of its table leave {error.distance:.3f} open"
        return judged._replace(reason=reason, error=error)
    wanted = error.draws_for(0.8 * max(TRUSTED - (judged.distance or 0.0), TRUSTED / 3))
    return judged._replace(
        verdict=Verdict.CARE if total <= DOUBTED else Verdict.DISTRUST,
        reason=f"{judged.reason}, but the table rests on about {error.draws:,} draws a pair, which leave "
        f"{error.distance:.3f} open",
        remedy=f"more draws: --draws {wanted:,}",
        error=error,
    )


def _judge(
    posterior: Posterior, proven: EvidenceBounds | None, pareto: float | None, seed: int, effort: Effort
) -> Judgement:
    """Return the verdict on an answer, by the first kind of evidence that decides it."""
    method, table = METHODS[posterior.method], posterior.view
    findings = method.diagnose(posterior)
    heavy = pareto is not None and pareto > _HEAVY
    if any(finding.code == "enumerated" for finding in findings):
        sampling = isinstance(posterior.config, TemperedConfig)
        how = "all parts of the problem were enumerated or have a closed form"
        return Judgement(
            Verdict.TRUST, how if sampling else "every policy was enumerated", "", "enumeration", 0.0
        )
    if proven is None or not isinstance(table, TabularMDP):
        if heavy:
            return Judgement(
                Verdict.DISTRUST,
                f"the weights have a heavy tail (Pareto k {pareto:.2f})",
                "use more particles, or a smaller reward scale",
            )
        return Judgement(
            Verdict.CARE,
            "nothing is known to compare it with",
            "a problem that lists its outcomes can be tabulated, and then bounded",
        )
    refuted = _refute(posterior, proven)
    if refuted is not None:
        return refuted
    known = _known_exactly(posterior, table)
    if known is not None:
        return _bydistance(posterior, known.policy, known.name, heavy)
    proof = _by_proof(posterior, table, proven)
    if proof is not None:
        return proof
    if isinstance(posterior.config, TemperedConfig):
        return _by_another_start(posterior, table, findings, seed, effort)
    if _cost(table) > _CHEAP and effort == "default":
        return Judgement(
            Verdict.CARE, "no proof was found, and annealing is expensive here", "certify thoroughly"
        )
    trusted = _annealed(table, seed, effort)
    if trusted.verdict is Verdict.TRUST:
        return _bydistance(posterior, trusted.policy, "tempered answer, which is trusted", heavy)
    return Judgement(
        Verdict.CARE,
        f"it is {distance_to(posterior, trusted.policy):.3f} from a tempered answer that is itself in doubt",
        "certify thoroughly, or plan with method tempered and more policies",
    )


def _refute(posterior: Posterior, proven: EvidenceBounds) -> Judgement | None:
    """Refuse an estimate of ``log Z`` that a bound contradicts."""
    whole, estimand = posterior.policies, METHODS[posterior.method].estimand(posterior.config)
    if whole is None or estimand.target is not Target.EXP_EXPECTED_RETURN or estimand.in_the_limit:
        return None
    slack = 3 * whole.log_evidence_stderr + _SLACK
    if whole.log_evidence < proven.lower - slack:
        return Judgement(
            Verdict.DISTRUST,
            f"refuted: log Z is at least {proven.lower:.3f}, and the answer says {whole.log_evidence:.3f}",
            "a mode was missed; use method tempered, or more of its policies and moves",
        )
    if whole.log_evidence > proven.upper + slack:
        return Judgement(
            Verdict.DISTRUST,
            f"refuted: log Z is at most {proven.upper:.3f}, and the answer says {whole.log_evidence:.3f}",
            "use more policies; the estimate of log Z rests on a few of them",
        )
    return None


class _Known(NamedTuple):
    name: str
    policy: Floats


def _known_exactly(posterior: Posterior, table: TabularMDP) -> _Known | None:
    """Return an answer that can be relied upon without a run: enumeration, or a reference file."""
    solution = _enumerate(table)
    if solution is not None:
        return _Known("enumeration", solution.policy)
    found = reference_for(posterior.mdp)
    return None if found is None else _Known("reference posterior", found.policy)


def _bydistance(posterior: Posterior, policy: Floats, name: str, heavy: bool) -> Judgement:
    distance = distance_to(posterior, policy)
    reason = f"it is {distance:.3f} from the {name}"
    if distance <= TRUSTED:
        return Judgement(
            Verdict.TRUST,
            reason + ("; its weights alone would not do" if heavy else ""),
            "",
            name,
            distance,
        )
    verdict = Verdict.CARE if distance <= DOUBTED else Verdict.DISTRUST
    return Judgement(verdict, reason, "use method auto, or spend more on this one", name, distance)


def _by_proof(posterior: Posterior, table: TabularMDP, proven: EvidenceBounds) -> Judgement | None:
    """Compare with the exact marginals of policies that hold nearly all of the posterior."""
    outside = proven.total_variation
    if outside > TRUSTED:
        return None
    apart = distance_to(posterior, class_marginals(table, proven.policies))
    distance = apart + outside
    if apart - outside > DOUBTED:
        return Judgement(
            Verdict.DISTRUST,
            f"refuted: it is at least {apart - outside:.3f} from the posterior, of which the policies found "
            f"hold at least {100 * (1 - outside):.1f}%",
            "use method auto",
            "proof",
            apart,
        )
    if distance > TRUSTED:
        return None
    return Judgement(
        Verdict.TRUST,
        f"proven: it is at most {distance:.3f} from the posterior, of which the policies found hold at least "
        f"{100 * (1 - outside):.1f}%",
        "",
        "proof",
        distance,
    )


def _by_another_start(
    posterior: Posterior, table: TabularMDP, findings: list[Diagnostic], seed: int, effort: Effort
) -> Judgement:
    """Judge annealing by its own errors and by a run with another seed that starts elsewhere."""
    config, whole = posterior.config, posterior.policies
    assert isinstance(config, TemperedConfig)
    assert whole is not None
    imprecise = whole.log_evidence_stderr > _IMPRECISE * config.evidence_tolerance
    if imprecise or any(finding.severity is not Severity.FACT for finding in findings):
        return Judgement(Verdict.CARE, "its standard errors are large", "use more policies, moves or rounds")
    check_config = config if effort == "thorough" else _coarser(config)
    other = replace(
        check_config,
        start="uniform" if config.start == "soft" else "soft",
        rounds=config.rounds if effort == "thorough" else 2,
    )
    check = infer(table, other, seed=seed + 7_001 + posterior.seed)
    assert check.policies is not None
    ahead = check.policies.log_evidence - whole.log_evidence
    noise = float(np.hypot(check.policies.log_evidence_stderr, whole.log_evidence_stderr))
    distance = distance_to(posterior, policy_of(check))
    if ahead > 4 * noise + 0.1:
        return Judgement(
            Verdict.DISTRUST,
            f"a run that started elsewhere found {ahead:.2f} nats more evidence",
            "a mode was missed; use more policies and moves",
            "run from another start",
            distance,
        )
    mixing = convergence(posterior, occupancy_of(posterior))
    mixed = mixing is None or mixing.r_hat <= _MIXED
    if distance <= TRUSTED and mixed:
        return Judgement(
            Verdict.TRUST,
            f"its standard errors are small, and a run from another start is {distance:.3f} away",
            "",
            "run from another start",
            distance,
        )
    if distance > TRUSTED:
        return _from_above(posterior, table, check_config, ahead, seed)
    # Populations differ, and agree on average perhaps by chance.  Ask the same start again, with more moves.
    assert mixing is not None
    again = infer(table, replace(check_config, moves=2 * config.moves), seed=seed + 9_001 + posterior.seed)
    distance = distance_to(posterior, policy_of(again))
    state, action = mixing.worst
    return Judgement(
        Verdict.TRUST if distance <= TRUSTED else Verdict.CARE,
        f"its populations differ (R-hat {mixing.r_hat:.2f}, most for {table.action_names[action]} in "
        f"{table.state_names[state]}), and a run with twice the moves is {distance:.3f} away",
        "" if distance <= TRUSTED else "use more policies and moves, or a smaller reward scale",
        "run with twice the moves",
        distance,
    )


def _from_above(
    posterior: Posterior, table: TabularMDP, config: TemperedConfig, ahead: float, seed: int
) -> Judgement:
    """Judge annealing where the other start did not arrive: by a run that comes from the other end.

    It begins where rewards count several times as much, at policies near the optimum, and goes down.  The
    same start again would miss again whatever it misses.
    """
    whole = posterior.policies
    assert whole is not None
    path = anneal(table, config, scales=(1.0, _ABOVE), seed=seed + 9_001 + posterior.seed)
    point = path.at(1.0)
    distance = distance_to(posterior, point.policy)
    more = point.log_evidence - whole.log_evidence
    noise = float(np.hypot(point.log_evidence_stderr, whole.log_evidence_stderr))
    missed = more > 4 * noise + 0.1
    reason = (
        f"a run from another start found {'less' if ahead < 0 else 'more'} evidence ({abs(ahead):.2f} nats), "
        f"and one that came down from {_ABOVE:g} times the reward scale is {distance:.3f} away"
    )
    if missed:
        reason += f", with {more:.2f} nats more"
    sure = distance <= TRUSTED and abs(more) <= 4 * noise + 0.1 and ahead < 0
    return Judgement(
        Verdict.TRUST if sure else Verdict.DISTRUST if missed else Verdict.CARE,
        reason,
        "" if sure else "use more policies and moves, or a smaller reward scale",
        "run from a larger reward scale",
        distance,
    )


def _coarser(config: TemperedConfig) -> TemperedConfig:
    """Return the settings of a run that only has to tell distances of 0.03 from smaller ones."""
    return replace(
        config,
        tolerance=max(config.tolerance, TRUSTED / 3),
        evidence_tolerance=max(config.evidence_tolerance, 0.1),
        replicas=1,
    )


class _Annealed(NamedTuple):
    verdict: Verdict
    policy: Floats


@lru_cache(maxsize=16)
def _annealed(table: TabularMDP, seed: int, effort: Effort) -> _Annealed:
    """Anneal, and certify that."""
    answer = infer(table, TemperedConfig(), seed=seed + 5_001)
    judged = judge(answer, prove(answer, effort), None, seed, effort)
    return _Annealed(judged.verdict, policy_of(answer))


def policy_of(posterior: Posterior) -> Floats:
    """Return the marginal policy ``[S, A]`` of a posterior on a table, mean over seeds."""
    probs = posterior.table_probs()
    assert probs is not None
    policy = probs.astype(np.float64).mean(axis=0)
    return np.asarray(policy / policy.sum(axis=1, keepdims=True))


def _cost(table: TabularMDP) -> int:
    """Return about how many multiplications one evaluation of a policy takes."""
    return int(np.prod(table.probability.shape)) * table.horizon


@lru_cache(maxsize=16)
def _enumerate(table: TabularMDP) -> Solution | None:
    try:
        return exact.policy_posterior(table, reach=False, limit=_ENUMERATED)
    except TooLargeError:
        return None
