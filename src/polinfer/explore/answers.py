"""What the worker computes, as records that the page draws; all of it by `infer` and `polinfer.analysis`."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from polinfer import exact
from polinfer.analysis.certificate import Certificate, certify, diagnose
from polinfer.analysis.explanation import CLEAR, EVEN, explain
from polinfer.analysis.reward_path import DEFAULT_SCALES, ScalePath, scale_path
from polinfer.annealing import TemperedConfig
from polinfer.core.progress import Progress
from polinfer.exact.solution import Floats
from polinfer.explore.pictures import Picture, picture_of
from polinfer.explore.records import GridProblem
from polinfer.posterior.posterior import Posterior
from polinfer.problems.domains import GridWorld
from polinfer.problems.registry import Problem
from polinfer.problems.tables import shared_table
from polinfer.problems.tabular import TabularMDP

DRAFT = TemperedConfig(
    policies=32,
    islands=4,
    rounds=1,
    moves=4,
    tolerance=0.02,
    evidence_tolerance=0.5,
    enumerate_up_to=4096,
    time_limit=1.0,
)
"""A first answer, within a second or so; its standard errors are shown with it."""
PATH = replace(DRAFT, rounds=2, evidence_tolerance=0.3, enumerate_up_to=20_000, time_limit=10.0)
"""How the path over reward scales is annealed, for a picture that is slid through."""
SCALES = tuple(float(scale) for scale in np.geomspace(0.01, 100.0, 9))
"""The reward scales of large problems, two to a decade."""
_LARGE = 100  # states

_INLINE = 150_000  # outcomes of a table that are sent to the page, which then plays episodes itself
_DRAWS = 200_000  # entries of the drawn policies that are sent
_EXPLAINED = 150  # states


class Numbers(msgspec.Struct, frozen=True):
    """An array in base64: ``u16`` holds probabilities times 65,535, ``f32`` and ``i16`` themselves."""

    dtype: str
    data: bytes


class Outcomes(msgspec.Struct, frozen=True):
    """The transition table ``[S, A, B]``."""

    branches: int
    successor: Numbers
    probability: Numbers
    reward: Numbers


class ProblemInfo(msgspec.Struct, frozen=True):
    """What a problem is."""

    title: str
    states: list[str]
    actions: list[str]
    horizon: int
    initial: Numbers
    absorbing: list[int]  # the terminal states
    choices: list[int]  # the states with more than one legal action
    illegal: list[tuple[int, int]]
    endings: dict[str, list[int]]  # states by the name of the ending; success first
    log_policies: float  # logarithm of the number of deterministic policies
    picture: Picture
    grid: GridProblem | None  # as the editor takes it
    outcomes: Outcomes | None  # None where they are too many
    even: float = EVEN  # two actions closer than this are nearly even
    clear: float = CLEAR


class PolicyRecord(msgspec.Struct, frozen=True):
    """One policy and what executing it comes to."""

    name: str
    policy: Numbers  # [S, A]
    occupancy: Numbers  # [S], expected visits
    returned: float  # expected return of executing it, in the problem's own rewards
    success: float | None
    entropy: float  # nats a step
    length: float
    note: str = ""
    averaged: float | None = None  # returned, by `policy`, where it averages a policy that looks at the time


class AnswerRecord(msgspec.Struct, frozen=True):
    """A posterior."""

    executed: PolicyRecord  # the marginal policy
    stderr: Numbers | None  # [S, A]
    method: str
    reason: str
    draft: bool
    seconds: float
    log_evidence: float | None
    log_evidence_stderr: float | None
    expected_return: float | None  # E[J], one policy drawn per episode
    expected_return_stderr: float | None
    posterior_entropy: float | None
    draws: int
    drawn: Numbers | None  # [draws, S]
    chance: float | None = None  # of what is given, under the posterior without it
    chance_stderr: float | None = None
    source: str = ""  # of a conditional posterior: part of the sample, or inferred anew


class PointRecord(msgspec.Struct, frozen=True):
    """The path at one reward scale."""

    scale: float
    executed: PolicyRecord
    soft: PolicyRecord
    returned_stderr: float
    expected_return: float
    expected_return_stderr: float
    log_evidence: float
    log_evidence_stderr: float
    posterior_entropy: float


class PathRecord(msgspec.Struct, frozen=True):
    """The posterior over reward scales."""

    points: list[PointRecord]
    uniform: float  # returns
    optimum: float
    stationary: float
    enumerated: bool


class ActionRecord(msgspec.Struct, frozen=True):
    """One action of a choice."""

    action: int
    probability: float
    returned: float  # with this action here, the policy as it is elsewhere
    loss: float


class ChoiceRecord(msgspec.Struct, frozen=True):
    """Why a state matters."""

    state: int
    visits: float
    verdict: str
    disagrees: bool
    actions: list[ActionRecord]


class ExplanationRecord(msgspec.Struct, frozen=True):
    """The states visited most, with what the alternatives cost."""

    choices: list[ChoiceRecord]
    left_out: int
    returned: float
    uniform: float
    optimum: float


class CertificateRecord(msgspec.Struct, frozen=True):
    """What the answer is worth, in words and numbers."""

    verdict: str
    reason: str
    remedy: str
    estimand: str
    log_evidence: float | None
    log_evidence_stderr: float | None
    proven_lower: float | None
    proven_upper: float | None
    proven_share: float | None
    known_from: str | None
    distance: float | None
    findings: list[str]


def shares(array: NDArray[Any]) -> Numbers:
    """Return probabilities for the page; five digits are more than anybody can see."""
    return Numbers("u16", np.round(np.clip(array, 0.0, 1.0) * 65535).astype("<u2").tobytes())


def floats(array: NDArray[Any]) -> Numbers:
    """Return numbers for the page."""
    return Numbers("f32", np.asarray(array, "<f4").tobytes())


def whole(array: NDArray[Any]) -> Numbers:
    """Return whole numbers for the page."""
    return Numbers("i16", np.asarray(array, "<i2").tobytes())


def problem_info(problem: Problem, title: str) -> ProblemInfo:
    """Describe a problem."""
    table = shared_table(problem)
    legal = table.legal_actions.sum(axis=1)
    deciding = exact.decision_states(table, table.horizon)
    order = sorted(range(len(table.endings)), key=lambda i: not table.endings[i].success)
    return ProblemInfo(
        title=title,
        states=list(table.state_names),
        actions=list(table.action_names),
        horizon=table.horizon,
        initial=floats(table.initial),
        absorbing=[int(s) for s in np.flatnonzero(table.absorbing)],
        choices=[int(s) for s in np.flatnonzero(~table.absorbing & (legal > 1))],
        illegal=[(int(s), int(a)) for s, a in np.argwhere(~table.legal_actions & ~table.absorbing[:, None])],
        endings={
            table.endings[i].name: [int(s) for s in np.flatnonzero(table.ending_of == i)] for i in order
        },
        log_policies=float(np.log(legal[deciding]).sum()),
        picture=picture_of(problem, table),
        grid=_grid_request(problem),
        outcomes=_outcomes(table),
    )


def _grid_request(problem: Problem) -> GridProblem | None:
    if not isinstance(problem, GridWorld):
        return None
    names = [name for name in GridProblem.__struct_fields__ if name != "map"]
    return GridProblem("\n".join(problem.rows), **{name: getattr(problem, name) for name in names})


def _outcomes(table: TabularMDP) -> Outcomes | None:
    if table.successor.size > _INLINE:
        return None
    return Outcomes(
        table.successor.shape[2], whole(table.successor), floats(table.probability), floats(table.reward)
    )


def executed(
    table: TabularMDP,
    name: str,
    policy: Floats,
    run: Floats | None = None,
    note: str = "",
    scale: float = 1.0,
) -> PolicyRecord:
    """Return a policy ``[S, A]`` with what `run`, the policy itself by default, comes to.

    The rewards of `table` are `scale` times the problem's own, in which returns are told.
    """
    value = exact.evaluate_policy(table, policy if run is None else run)
    record = record_of(name, policy, replace(value, expected_return=value.expected_return / scale), note)
    if run is None or run.ndim < 3:
        return record
    averaged = exact.evaluate_policy(table, policy).expected_return / scale
    return msgspec.structs.replace(record, averaged=averaged)


def record_of(name: str, policy: Floats, value: exact.PolicyValue, note: str = "") -> PolicyRecord:
    """Return a policy ``[S, A]`` with its value."""
    return PolicyRecord(
        name=name,
        policy=shares(policy),
        occupancy=floats(value.occupancy),
        returned=value.expected_return,
        success=value.success,
        entropy=value.entropy,
        length=value.length,
        note=note,
    )


def marginal_policy(posterior: Posterior) -> Floats:
    """Return the marginal policy ``[S, A]``, mean over seeds."""
    probs = posterior.table_probs()
    assert probs is not None
    policy = probs.astype(np.float64).mean(axis=0)
    return np.asarray(policy / policy.sum(axis=1, keepdims=True))


def answer_record(posterior: Posterior, *, draft: bool, began: float, scale: float = 1.0) -> AnswerRecord:
    """Describe a posterior on a table whose rewards are `scale` times the problem's own."""
    table = posterior.view
    assert isinstance(table, TabularMDP)
    known, probs = posterior.policies, posterior.table_probs()
    assert probs is not None
    errors = None if known is None else known.policy_stderr
    if errors is None and posterior.seeds > 1:
        errors = probs.std(axis=0, ddof=1) / math.sqrt(posterior.seeds)
    drawn = None if known is None else known.sampled_policies
    count = 0 if drawn is None else min(len(drawn), max(1, _DRAWS // table.num_states))
    # Draws come in the order of islands: take them from all.
    kept = None if drawn is None else drawn[np.linspace(0, len(drawn) - 1, count).astype(np.int64)]
    return AnswerRecord(
        executed=executed(table, "posterior", marginal_policy(posterior), scale=scale),
        stderr=None if errors is None else floats(errors),
        method=posterior.method,
        reason=posterior.reason,
        draft=draft,
        seconds=time.monotonic() - began,
        log_evidence=None if known is None else known.log_evidence,
        log_evidence_stderr=None if known is None else known.log_evidence_stderr,
        expected_return=None if known is None else known.expected_return / scale,
        expected_return_stderr=None if known is None else known.expected_return_stderr / scale,
        posterior_entropy=None if known is None else known.entropy,
        draws=count,
        drawn=None if kept is None else whole(kept),
    )


def follow_path(problem: Problem, *, seed: int, progress: Progress | None) -> PathRecord:
    """Compute the path over reward scales that is slid through."""
    large = shared_table(problem).num_states > _LARGE
    scales = SCALES if large else DEFAULT_SCALES
    return path_record(scale_path(problem, scales, PATH, seed=seed, progress=progress))


def path_record(path: ScalePath) -> PathRecord:
    """Describe a path over reward scales."""
    return PathRecord(
        points=[
            PointRecord(
                scale=point.scale,
                executed=record_of("posterior", point.policy, point.value),
                soft=record_of("soft", point.soft_policy, point.soft_value),
                returned_stderr=point.return_stderr,
                expected_return=point.expected_return,
                expected_return_stderr=point.expected_return_stderr,
                log_evidence=point.log_evidence,
                log_evidence_stderr=point.log_evidence_stderr,
                posterior_entropy=point.posterior_entropy,
            )
            for point in path.points
        ],
        uniform=path.uniform.expected_return,
        optimum=path.optimum.expected_return,
        stationary=path.stationary.expected_return,
        enumerated=path.enumerated,
    )


def explanation_record(posterior: Posterior, scale: float = 1.0) -> ExplanationRecord:
    """Say which choices are clear, and what the alternatives cost, in the problem's own rewards."""
    found = explain(posterior, top=_EXPLAINED)
    return ExplanationRecord(
        choices=[
            ChoiceRecord(
                state=choice.state,
                visits=choice.occupancy,
                verdict=choice.verdict,
                disagrees=choice.disagrees,
                actions=[
                    ActionRecord(action, share, returned / scale, loss / scale)
                    for action, share, returned, loss in zip(
                        choice.actions, choice.probs, choice.returns, choice.losses, strict=True
                    )
                ],
            )
            for choice in found.choices
        ],
        left_out=found.left_out,
        returned=found.expected_return / scale,
        uniform=found.uniform_return / scale,
        optimum=found.optimal_return / scale,
    )


def certificate_record(posterior: Posterior, certificate: Certificate | None = None) -> CertificateRecord:
    """Judge a posterior."""
    judged = certify(posterior) if certificate is None else certificate
    known = posterior.policies
    return CertificateRecord(
        verdict=str(judged.verdict),
        reason=judged.reason,
        remedy=judged.remedy,
        estimand=str(judged.estimand),
        log_evidence=judged.log_evidence_lower if known is None else known.log_evidence,
        log_evidence_stderr=judged.log_evidence_stderr if known is None else known.log_evidence_stderr,
        proven_lower=judged.proven_lower,
        proven_upper=judged.proven_upper,
        proven_share=judged.proven_share,
        known_from=judged.known_from,
        distance=judged.distance,
        findings=[finding.sentence for finding in diagnose(posterior)],
    )


def soft_record(table: TabularMDP, scale: float = 1.0) -> PolicyRecord:
    """Return the soft policy of a table whose rewards are `scale` times the problem's own."""
    found = exact.soft_value_iteration(table)
    return executed(table, "soft", found.policy, found.executable, scale=scale)


def neighbour_records(table: TabularMDP, scale: float = 1.0) -> list[PolicyRecord]:
    """Return the exact answers of neighbours on the same problem."""
    inference = exact.control_as_inference(table)
    stationary = exact.stationary_optimum(table)
    clock = exact.finite_horizon_optimum(table)
    luck = "conditions on optimality: counts on luck"
    return [
        executed(table, "control as inference", inference.policy, inference.executable, luck, scale),
        executed(table, "optimum", stationary.policy, note="the best stationary policy found", scale=scale),
        executed(
            table,
            "optimum with a clock",
            clock.policy,
            clock.executable,
            "looks at the time that is left",
            scale,
        ),
        executed(table, "uniform", exact.uniform_policy(table), note="the prior's mean", scale=scale),
    ]
