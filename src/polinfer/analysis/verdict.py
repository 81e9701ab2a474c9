"""How far an answer can be relied upon: proofs first, then what independent runs say.

Evidence is taken in this order, and the reason of a verdict names what decided it: enumeration; rigorous
bounds on ``log Z``, which refute an answer outside of them and prove one whose policies hold nearly all of
the posterior; a reference posterior; a run of annealing that is itself trusted; for annealing, another run
that starts elsewhere.  Agreement with a method that has no certificate of its own certifies nothing.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from polinfer import exact
from polinfer.analysis.another_run import by_another_start
from polinfer.analysis.judgement import DOUBTED, TRUSTED, Effort, Judgement, Verdict, distance_to, policy_of
from polinfer.analysis.references import reference_for
from polinfer.analysis.table_error import TableUncertainty, table_error
from polinfer.annealing import TemperedConfig
from polinfer.core.errors import TooLargeError
from polinfer.core.stopping import stopping
from polinfer.exact.bounds import EvidenceBounds, class_marginals, evidence_bounds
from polinfer.exact.solution import Floats, Solution
from polinfer.methods import METHODS, infer
from polinfer.posterior.estimand import Target
from polinfer.posterior.posterior import Posterior
from polinfer.problems.tabular.table import TabularMDP

_ENUMERATED = 100_000  # policies; up to here the exact posterior is at hand
_CHEAP = 3_000_000  # multiplications for one policy; up to here annealing takes some seconds
_HEAVY = 0.7  # Pareto k beyond which importance weights have no reliable mean (Vehtari et al. 2024)
_SLACK = 0.02  # nats by which an estimate of log Z may miss a bound besides three standard errors
_LEAVES, _WORK = 32, 1e8  # of the bounds; ten times as many when thorough


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
    judged = allow_for_draws(_judge(posterior, proven, pareto, seed, effort), table_error(posterior, seed))
    return allow_for_averages(judged, posterior.view)


def allow_for_averages(judged: Judgement, view: object) -> Judgement:
    """Never trust an answer on a table that averages over something hidden: the problem is another one.

    What is hidden may last, so that one policy's return is not that of the averages; how much that matters
    is not known.
    """
    if judged.verdict is not Verdict.TRUST or not (isinstance(view, TabularMDP) and view.averaged):
        return judged
    return judged._replace(
        verdict=Verdict.CARE,
        reason=f"{judged.reason}, for a table that averages over what states do not show (markov ignore)",
        remedy="states that show what matters: identity=, or a wrapper",
    )


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
            "a table can be bounded: of a problem that lists its outcomes, or whose states tell what follows",
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
        return by_another_start(posterior, table, findings, seed, effort)
    if _cost(table) > _CHEAP and effort == "default":
        return Judgement(
            Verdict.CARE, "no proof was found, and annealing is expensive here", "certify thoroughly"
        )
    with stopping() as stopper:
        trusted = _annealed(table, seed, effort)
    if stopper.answered:
        _annealed.cache_clear()  # whoever asks again may have more time
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


class _Annealed(NamedTuple):
    verdict: Verdict
    policy: Floats


@lru_cache(maxsize=16)
def _annealed(table: TabularMDP, seed: int, effort: Effort) -> _Annealed:
    """Anneal, and certify that."""
    answer = infer(table, TemperedConfig(), seed=seed + 5_001)
    judged = judge(answer, prove(answer, effort), None, seed, effort)
    return _Annealed(judged.verdict, policy_of(answer))


def _cost(table: TabularMDP) -> int:
    """Return about how many multiplications one evaluation of a policy takes."""
    return int(np.prod(table.probability.shape)) * table.horizon


@lru_cache(maxsize=16)
def _enumerate(table: TabularMDP) -> Solution | None:
    try:
        return exact.policy_posterior(table, reach=False, limit=_ENUMERATED)
    except TooLargeError:
        return None
