"""How the answer depends on the reward scale: from the uniform policy to the optimum.

The reward scale is part of the problem.  This is the whole path of answers over it: the posterior-induced
policy at ``exp(scale * J)`` and, beside it, soft value iteration at ``alpha = 1 / scale``, all evaluated on
the problem's own rewards.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from polinfer import exact
from polinfer.analysis.enumerated import ENUMERATED, EnumeratedReturns
from polinfer.analysis.reward_scale import SHARE, Standing
from polinfer.annealing import AnnealedPoint, TemperedConfig, anneal
from polinfer.annealing.config import check_scales
from polinfer.core.errors import check_at_least
from polinfer.core.progress import Progress, Report
from polinfer.exact.evaluation import PolicyValue
from polinfer.exact.solution import Floats
from polinfer.problems.registry import Problem
from polinfer.problems.tables import shared_table
from polinfer.problems.tabular import TabularMDP

DEFAULT_SCALES = tuple(float(scale) for scale in np.geomspace(0.01, 100.0, 17))
"""A hundredth of the problem's own rewards to a hundred times them, four to a decade."""
PATH_CONFIG = TemperedConfig(tolerance=0.01, evidence_tolerance=0.1, rounds=3)
"""How each scale is annealed: less precisely than one answer is, since there are many."""
_SAMPLING = 0.9  # of the work, where policies are sampled
_GROUPS = 8  # of drawn policies, whose spread gives standard errors
_PRIOR_DRAWS = 256  # policies, whose mean return bounds log Z where rewards hardly matter

_Share = Callable[[float], None]  # called with the share of the work that is done


class ScalePoint(NamedTuple):
    """The answers at one reward scale; standard errors are zero where nothing was sampled."""

    scale: float  # multiple of the problem's own rewards
    policy: Floats  # [S, A], the marginal policy p*
    value: PolicyValue  # of executing it, in the problem's own rewards
    return_stderr: float
    success_stderr: float
    entropy_stderr: float  # of the choices per step
    expected_return: float  # E[J]: one policy drawn per episode
    expected_return_stderr: float
    log_evidence: float  # log of the mean of exp(scale * J)
    log_evidence_stderr: float
    posterior_entropy: float  # of the posterior over policies, nats
    posterior_entropy_stderr: float  # an upper bound
    soft_policy: Floats  # [S, A], averaged over time, of soft value iteration with alpha = 1 / scale
    soft_value: PolicyValue  # of executing the time-dependent one, in the problem's own rewards

    @property
    def effective_policies(self) -> float:
        """How many equally probable policies would have the same entropy."""
        return math.exp(min(self.posterior_entropy, 700.0))

    @property
    def alpha(self) -> float:
        """The entropy weight of the soft policy."""
        return 1.0 / self.scale


class ScalePath(NamedTuple):
    """The path over reward scales, in ascending order, and its ends."""

    table: TabularMDP
    points: tuple[ScalePoint, ...]
    uniform: PolicyValue  # of the uniform policy, or of the prior where there is another
    optimum: PolicyValue  # of the finite-horizon optimum, which looks at the clock: no policy does better
    stationary: PolicyValue  # of the best stationary policy found: where the posterior tends to
    num_policies: int  # deterministic ones
    enumerated: bool  # all of them were evaluated; otherwise they were sampled

    def share(self, point: ScalePoint) -> float | None:
        """Return how far `point` is on the way from the uniform policy to the optimum; None without a way."""
        standing = Standing(
            self.uniform.expected_return, point.value.expected_return, self.optimum.expected_return
        )
        return standing.share

    def scale_at(self, share: float = SHARE) -> float | None:
        """Return the least scale at which the policy is so far on the way, between two points of the path.

        None where the path does not come so far, or begins beyond.
        """
        shares = [(point.scale, self.share(point)) for point in self.points]
        for (low, before), (high, after) in pairwise(shares):
            if before is not None and after is not None and before < share <= after:
                weight = (share - before) / (after - before)
                return float(np.exp(np.log(low) + weight * np.log(high / low)))
        return None


class _Posterior(NamedTuple):
    """What either way of computing the posterior at one scale gives."""

    scale: float
    policy: Floats  # [S, A]
    group_policies: Floats | None  # [groups, S, A]
    expected_return: float
    expected_return_stderr: float
    log_evidence: float
    log_evidence_stderr: float
    entropy: float
    entropy_stderr: float


def scale_path(
    mdp: Problem,
    scales: Iterable[float] = DEFAULT_SCALES,
    config: TemperedConfig | None = None,
    *,
    seed: int = 0,
    limit: int = ENUMERATED,
    progress: Progress | None = None,
) -> ScalePath:
    """Follow the posterior-induced policy, and soft value iteration, through reward scales.

    Where there are at most `limit` deterministic policies, ``J`` of each is computed once and weighed anew at
    every scale: the answers are exact.  Otherwise one run of `polinfer.annealing.anneal` goes through all
    scales.  Standard errors of return, success and entropy are then those of the policies that were drawn,
    which is on the safe side: the answer itself averages over many more.

    Parameters
    ----------
    mdp
        A problem that `tabulate` can write out.
    scales
        Multiples of the problem's own rewards, whatever reward scale it was made with.
    config
        How policies are sampled; `PATH_CONFIG` by default.
    seed
        Of the sampling.
    limit
        The largest number of policies to enumerate.
    progress
        Called with the share of the work that is done, of one.

    Examples
    --------
    >>> import polinfer
    >>> path = polinfer.scale_path(polinfer.make("probe/fork"), [0.01, 1, 100])
    >>> [round(point.value.expected_return, 2) for point in path.points]
    [0.61, 1.16, 2.0]
    >>> [round(point.effective_policies, 1) for point in path.points]
    [4.0, 2.7, 1.0]
    """
    wanted = check_scales(scales)
    table = shared_table(mdp)
    decision = exact.decision_states(table, table.horizon)
    count = exact.count_policies(table, decision)
    enumerated = count <= check_at_least("limit", limit, 0)

    def report(share: float) -> None:
        if progress is not None:
            progress(Report(share, 1.0, "reward scales"))

    found = (
        _enumerate(table, wanted)
        if enumerated
        else _sample(table, wanted, config or PATH_CONFIG, seed, report)
    )
    points = []
    for posterior in found:
        points.append(_point(table, posterior))
        before = 0.0 if enumerated else _SAMPLING
        report(before + (1 - before) * len(points) / len(wanted))
    return ScalePath(
        table=table,
        points=tuple(points),
        uniform=exact.evaluate_policy(table, table.prior),
        optimum=exact.evaluate_policy(table, exact.finite_horizon_optimum(table).executable),
        stationary=exact.evaluate_policy(table, exact.stationary_optimum(table).executable),
        num_policies=count,
        enumerated=enumerated,
    )


def _enumerate(table: TabularMDP, scales: tuple[float, ...]) -> Iterator[_Posterior]:
    """Evaluate every policy once; at each scale only their weights differ."""
    listed = EnumeratedReturns(table)
    for scale in scales:
        found = listed.at(scale)
        yield _Posterior(
            scale=scale,
            policy=found.policy,
            group_policies=None,
            expected_return=found.expected_return,
            expected_return_stderr=0.0,
            log_evidence=found.log_evidence,
            log_evidence_stderr=0.0,
            entropy=found.entropy,
            entropy_stderr=0.0,
        )


def _sample(
    table: TabularMDP, scales: tuple[float, ...], config: TemperedConfig, seed: int, report: _Share
) -> list[_Posterior]:
    def reached(done: float, total: float) -> None:
        report(_SAMPLING * done / total)

    path = anneal(table, config, scales=scales, seed=seed, progress=reached)
    found = [
        _Posterior(
            scale=point.scale,
            policy=point.policy,
            group_policies=None if point.exact else _group_policies(table, point, _GROUPS),
            expected_return=point.expected_return,
            expected_return_stderr=point.expected_return_stderr,
            log_evidence=point.log_evidence,
            log_evidence_stderr=point.log_evidence_stderr,
            entropy=point.entropy,
            # entropy = log(count) - scale E[J] + log Z; how the two errors go together is not known.
            entropy_stderr=point.scale * point.expected_return_stderr + point.log_evidence_stderr,
        )
        for point in path.points
    ]
    return _anchored(found, _prior_returns(table, seed))


def _prior_returns(table: TabularMDP, seed: int) -> Floats:
    """Return ``J`` of policies drawn from the reference measure."""
    noise = np.random.default_rng(seed).random((_PRIOR_DRAWS, table.num_states, 1))
    drawn = (noise < table.prior.cumsum(axis=1) / table.prior.sum(axis=1, keepdims=True)).argmax(axis=2)
    return exact.deterministic_returns(table, drawn.astype(np.int32))


def _anchored(found: list[_Posterior], prior_returns: Floats) -> list[_Posterior]:
    """Shift log Z of all scales where that of the least contradicts ``s E_0[J] <= log Z(s) <= s E_s[J]``.

    Both are Jensen's inequality, and narrow where rewards hardly matter.  A short run may be several nats
    below: its populations come from afar, and all scales share what that loses.
    """
    least = found[0]
    noise = float(prior_returns.std(ddof=1) / math.sqrt(len(prior_returns)))
    low = least.scale * (float(prior_returns.mean()) - 2 * noise)
    high = least.scale * (least.expected_return + 2 * least.expected_return_stderr)
    shift = float(np.clip(least.log_evidence, low, max(low, high))) - least.log_evidence
    if abs(shift) <= 2 * least.log_evidence_stderr:
        return found
    return [
        point._replace(
            log_evidence=point.log_evidence + shift,
            log_evidence_stderr=point.log_evidence_stderr + (abs(shift) if point is not least else 0.0),
            entropy=point.entropy + shift,
            entropy_stderr=point.entropy_stderr + (abs(shift) if point is not least else 0.0),
        )
        for point in found
    ]


def _group_policies(table: TabularMDP, point: AnnealedPoint, groups: int) -> Floats:
    """Return the marginal policy of each of some groups of the sample, ``[groups, S, A]``."""
    count = len(point.sample) // groups * groups
    populations = point.sample[:count].reshape(groups, -1, table.num_states)
    policies = np.repeat(table.prior[None], groups, axis=0)
    choices = exact.decision_states(table, table.horizon)
    taken = populations[:, :, choices, None] == np.arange(table.num_actions)
    policies[:, choices] = taken.mean(axis=1)
    return policies


def _point(table: TabularMDP, posterior: _Posterior) -> ScalePoint:
    soft = exact.soft_value_iteration(table, 1.0 / posterior.scale)
    groups = posterior.group_policies
    values = [] if groups is None else [exact.evaluate_policy(table, policy) for policy in groups]

    def stderr(numbers: list[float]) -> float:
        return float(np.std(numbers, ddof=1) / math.sqrt(len(numbers))) if len(numbers) > 1 else 0.0

    return ScalePoint(
        scale=posterior.scale,
        policy=posterior.policy,
        value=exact.evaluate_policy(table, posterior.policy),
        return_stderr=stderr([value.expected_return for value in values]),
        success_stderr=stderr([value.success for value in values if value.success is not None]),
        entropy_stderr=stderr([value.entropy for value in values]),
        expected_return=posterior.expected_return,
        expected_return_stderr=posterior.expected_return_stderr,
        log_evidence=posterior.log_evidence,
        log_evidence_stderr=posterior.log_evidence_stderr,
        posterior_entropy=posterior.entropy,
        posterior_entropy_stderr=posterior.entropy_stderr,
        soft_policy=soft.policy,
        soft_value=exact.evaluate_policy(table, soft.executable),
    )


def as_json(path: ScalePath) -> dict[str, Any]:
    """Return the path as plain lists and numbers."""

    def brief(value: PolicyValue) -> dict[str, Any]:
        return {"return": value.expected_return, "success": value.success, "entropy": value.entropy}

    return {
        "enumerated": path.enumerated,
        "log_policies": math.log(path.num_policies),
        "uniform": brief(path.uniform),
        "optimum": brief(path.optimum),
        "stationary_optimum": brief(path.stationary),
        "suggested_scale": path.scale_at(),
        "points": [
            {
                "scale": point.scale,
                "share": path.share(point),
                **brief(point.value),
                "return_stderr": point.return_stderr,
                "success_stderr": None if point.value.success is None else point.success_stderr,
                "entropy_stderr": point.entropy_stderr,
                "expected_return": point.expected_return,
                "expected_return_stderr": point.expected_return_stderr,
                "log_evidence": point.log_evidence,
                "log_evidence_stderr": point.log_evidence_stderr,
                "posterior_entropy": point.posterior_entropy,
                "posterior_entropy_stderr": point.posterior_entropy_stderr,
                "effective_policies": point.effective_policies,
                "soft": {"alpha": point.alpha, **brief(point.soft_value)},
            }
            for point in path.points
        ],
    }
