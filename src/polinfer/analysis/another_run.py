"""What other runs of annealing say about one: from another start, with more moves, from larger rewards.

Log Z is only ever *under*estimated when a mode is missed, so a run that found less cannot refute one that
found more, and the same start again would miss again whatever it misses.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from polinfer.analysis.convergence import convergence
from polinfer.analysis.judgement import (
    TRUSTED,
    Effort,
    Judgement,
    Verdict,
    distance_to,
    occupancy_of,
    policy_of,
)
from polinfer.annealing import TemperedConfig, anneal
from polinfer.annealing.config import Start
from polinfer.annealing.run import states_where_ways_part
from polinfer.core.progress import Progress, Report, current_progress
from polinfer.core.stopping import stopping
from polinfer.exact.solution import Floats, PolicyPosterior
from polinfer.methods import infer
from polinfer.posterior.diagnostics import Diagnostic, Severity
from polinfer.posterior.posterior import Posterior
from polinfer.problems.tabular.table import TabularMDP

_IMPRECISE = 1.2  # times the tolerance of log Z, beyond which annealing has not become precise
_MIXED = 1.1  # R-hat, beyond which populations may not have mixed
_APART = 0.1  # nats, besides four standard errors, that two estimates of log Z may differ by
_SHORT = 1.0  # nats by which a run may fall short and still speak of another mode
_STARTS: tuple[Start, ...] = ("known", "uniform", "soft")
"""In the order of asking.  The first sees what pays most, and both of two ways that soft values and draws
choose between; the second sees where policies are many."""
_ABOVE = 4.0  # times the reward scale, from which a check comes down


def by_another_start(
    posterior: Posterior, table: TabularMDP, findings: list[Diagnostic], seed: int, effort: Effort
) -> Judgement:
    """Judge annealing by its own errors and by a run with another seed that starts elsewhere."""
    with stopping() as stopper:
        judged = _by_another_start(posterior, table, findings, seed, effort)
    if not stopper.answered:
        return judged
    # A run that was hurried to its end neither confirms nor refutes.
    return Judgement(
        Verdict.CARE,
        f"the run that it would be compared with was cut short by {stopper.answered}",
        "more time for the certificate",
    )


def _by_another_start(
    posterior: Posterior, table: TabularMDP, findings: list[Diagnostic], seed: int, effort: Effort
) -> Judgement:
    config, whole = posterior.config, posterior.policies
    assert isinstance(config, TemperedConfig)
    assert whole is not None
    imprecise = whole.log_evidence_stderr > _IMPRECISE * config.evidence_tolerance
    if imprecise or any(finding.severity is not Severity.FACT for finding in findings):
        return Judgement(Verdict.CARE, "its standard errors are large", "use more policies, moves or rounds")
    hurried = _by_the_way_back(whole)
    if hurried is not None:
        return hurried
    check_config = config if effort == "thorough" else _coarser(config)
    short = replace(check_config, rounds=config.rounds if effort == "thorough" else 2)
    farthest = 0.0
    for start in [other for other in _STARTS if other != config.start][:2]:
        # Half the islands would save time, but what the known start finds is found by few of them.
        own = replace(short, start=start, islands=config.islands if start == "known" else short.islands)
        check = _compare(posterior, table, own, seed + 7_001)
        leans = start == "known" and check.distance > TRUSTED and check.ahead <= check.margin
        if leans and _differs_where_ways_part(posterior, table, own, check):
            # A start around several ways may lean to one of them.  Ask each of them apart.
            apart = _compare(posterior, table, replace(own, split="always"), seed + 8_001)
            check = apart if apart.ahead >= -_SHORT else check
        ahead, distance = check.ahead, check.distance
        if ahead > check.margin:
            return Judgement(
                Verdict.DISTRUST,
                f"a run that started elsewhere found {ahead:.2f} nats more evidence",
                "a mode was missed; use more policies and moves",
                "run from another start",
                distance,
            )
        if start == "known" and distance > TRUSTED:
            if ahead < -_SHORT:
                continue  # it did not arrive, and says nothing
            return Judgement(
                Verdict.CARE,
                f"a run from around the best policies known is {distance:.3f} away and found about as much",
                "there may be several modes; use more policies and moves, or a smaller reward scale",
                "run from around the best policies known",
                distance,
            )
        farthest = max(farthest, distance)
    distance = farthest if distance <= TRUSTED else distance
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
    again = infer(
        table,
        replace(check_config, moves=2 * config.moves),
        seed=seed + 9_001 + posterior.seed,
        progress=_checking(),
    )
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


class _Check(NamedTuple):
    """Another run beside an answer."""

    ahead: float  # nats of evidence that it found more
    margin: float  # that errors explain
    distance: float
    policy: Floats  # [S, A]


def _differs_where_ways_part(
    posterior: Posterior, table: TabularMDP, config: TemperedConfig, check: _Check
) -> bool:
    states = states_where_ways_part(table, config)
    apart = np.abs(check.policy - policy_of(posterior))[states].sum(axis=1) / 2
    return bool((apart > TRUSTED).any())


def _compare(posterior: Posterior, table: TabularMDP, config: TemperedConfig, seed: int) -> _Check:
    """Anneal with other settings and another seed."""
    whole = posterior.policies
    check = infer(table, config, seed=seed + posterior.seed, progress=_checking())
    assert whole is not None
    assert check.policies is not None
    noise = float(np.hypot(check.policies.log_evidence_stderr, whole.log_evidence_stderr))
    ahead = check.policies.log_evidence - whole.log_evidence
    policy = policy_of(check)
    return _Check(ahead, 4 * noise + _APART, distance_to(posterior, policy), policy)


def _by_the_way_back(whole: PolicyPosterior) -> Judgement | None:
    """Doubt an answer whose annealing back to the start finds more evidence than its annealing there did.

    Where moves do not keep up with the steps of the ladder, all populations alike find too little on the way
    there and too much on the way back.
    """
    back = whole.reverse_log_evidence
    if back is None:
        return None
    noise = float(np.hypot(whole.log_evidence_stderr, whole.reverse_log_evidence_stderr or 0.0))
    more = back - whole.log_evidence
    if more <= 4 * noise + _APART:
        return None
    return Judgement(
        Verdict.CARE,
        f"annealing back found {more:.2f} nats more evidence than annealing there, so moves do not keep up",
        "use more moves or rounds",
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
    watcher = _checking()
    path = anneal(
        table,
        replace(config, split="always"),  # larger rewards freeze one of several ways
        scales=(1.0, _ABOVE),
        seed=seed + 9_001 + posterior.seed,
        progress=None if watcher is None else lambda done, total: watcher(Report(done, total, "")),
    )
    point = path.at(1.0)
    distance = distance_to(posterior, point.policy)
    more = point.log_evidence - whole.log_evidence
    noise = float(np.hypot(point.log_evidence_stderr, whole.log_evidence_stderr))
    missed = more > 4 * noise + _APART
    reason = (
        f"a run from another start found {'less' if ahead < 0 else 'more'} evidence ({abs(ahead):.2f} nats), "
        f"and one that came down from {_ABOVE:g} times the reward scale is {distance:.3f} away"
    )
    if missed:
        reason += f", with {more:.2f} nats more"
    sure = distance <= TRUSTED and abs(more) <= 4 * noise + _APART and ahead < 0
    return Judgement(
        Verdict.TRUST if sure else Verdict.DISTRUST if missed else Verdict.CARE,
        reason,
        "" if sure else "use more policies and moves, or a smaller reward scale",
        "run from a larger reward scale",
        distance,
    )


def _checking() -> Progress | None:
    """Return who watches now, told that what is being computed is only to be compared with."""
    watcher = current_progress()
    if watcher is None:
        return None
    return lambda report: watcher(report._replace(unit="checking by another run"))


def _coarser(config: TemperedConfig) -> TemperedConfig:
    """Return the settings of a run that only has to tell distances of 0.03 from smaller ones."""
    return replace(
        config,
        islands=max(2, config.islands // 2),
        tolerance=max(config.tolerance, TRUSTED / 3),
        evidence_tolerance=max(config.evidence_tolerance, 0.1),
        replicas=1,
    )
