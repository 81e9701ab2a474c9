"""How far an answer is on the way from the uniform policy to the optimum, and which reward scale moves it.

The reward scale is part of the problem: it says how much the rewards matter against the number of policies.
At the scale that a problem happens to come with, the posterior can be nearly the prior, or nearly one policy.
Both are correct, and both should be said.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from polinfer import exact
from polinfer.analysis.enumerated import ENUMERATED, EnumeratedReturns, ScaledPosterior
from polinfer.annealing import AnnealedPoint, TemperedConfig, anneal
from polinfer.annealing.soft import soft_start
from polinfer.core.errors import PolinferError, is_number
from polinfer.core.progress import Progress, Report
from polinfer.core.stopping import stop_requested
from polinfer.exact.solution import Floats
from polinfer.posterior.posterior import Posterior
from polinfer.problems.registry import Problem
from polinfer.problems.tables import shared_table
from polinfer.problems.tabular.table import TabularMDP

FLAT, PEAKED = 0.1, 0.99
"""Shares of the way below and above which another reward scale is suggested."""
SHARE = 0.9
"""The share of the way that `suggest_scale` looks for by default."""
HALF_WAY = 0.5
_CONFIG = TemperedConfig(policies=64, islands=4, rounds=2, tolerance=0.05, evidence_tolerance=0.3)
_CLOSE = 0.03  # to the share that is wanted
_MOST = 10  # scales that are annealed
_LEAST_LEFT = 1e-3  # seconds
_LEAST_SCALE, _LARGEST_SCALE = 1e-3, 1e5  # over the range of J
_BISECTIONS = 40


class Standing(NamedTuple):
    """Where a policy stands between the uniform policy and the optimum."""

    uniform: float  # return of the reference policy: uniform over the legal actions, or the prior
    policy: float  # return of the answer, executed
    optimum: float  # of the finite-horizon optimum: no policy does better

    @property
    def share(self) -> float | None:
        """The share of the way, 0 at the uniform policy, 1 at the optimum; None where there is no way."""
        span = self.optimum - self.uniform
        return (self.policy - self.uniform) / span if span > _nothing(self.optimum, self.uniform) else None


class ScaleSuggestion(NamedTuple):
    """A reward scale, and how far the posterior-induced policy comes there."""

    scale: float  # factor on the rewards of the problem as it was given
    wanted: float  # share of the way that was asked for
    share: float  # that the policy has at `scale`, an action drawn at every step
    committed_share: float  # that the posterior has, one policy drawn per episode
    expected_return: float  # of the policy there, in the rewards of the problem as it was given
    uniform_return: float
    optimal_return: float
    exact: bool  # all policies were enumerated; otherwise they were sampled
    tried: tuple[tuple[float, float], ...]  # scales and their shares, in the order they were tried

    @property
    def reached(self) -> bool:
        """Whether the share is about the one that was asked for."""
        return abs(self.share - self.wanted) <= 2 * _CLOSE


def standing_of(posterior: Posterior, executed: float) -> Standing | None:
    """Return where a policy that earns `executed` stands; None without a table."""
    table = posterior.view
    if not isinstance(table, TabularMDP):
        return None
    uniform = exact.evaluate_policy(table, table.prior).expected_return
    return Standing(uniform, executed, exact.finite_horizon_optimum(table).objective)


def scale_record(found: ScaleSuggestion) -> dict[str, Any]:
    """Return a suggestion as plain lists and numbers."""
    return {**found._asdict(), "tried": [list(pair) for pair in found.tried], "reached": found.reached}


def suggest_scale(
    problem: Problem,
    share: float = SHARE,
    *,
    seed: int = 0,
    tolerance: float = _CLOSE,
    time_limit: float | None = None,
    progress: Progress | None = None,
) -> ScaleSuggestion:
    """Find the reward scale at which the posterior-induced policy is a `share` of the way to the optimum.

    The way leads from the return of the uniform policy to that of the optimum.  A larger scale makes better
    policies more probable; it also says that the differences between policies matter more, so it changes the
    preferences that the rewards express.  Few policies are enumerated.  Otherwise dynamic programming guesses
    the scale, and annealing corrects it.

    Where equally good policies take different ways, an action drawn at every step mixes them and loses
    return at any scale.  The search then ends where one policy drawn per episode is far enough.

    Parameters
    ----------
    problem
        A problem that `tabulate` can write out.
    share
        Of the way, above 0 and below 1.
    seed
        Of the sampling.
    tolerance
        How near to `share` is near enough.
    time_limit
        Seconds after which the best scale so far is returned; the one that is being tried is cut short.
    progress
        Called with how far the annealing at each scale is.

    Examples
    --------
    >>> import polinfer
    >>> found = polinfer.suggest_scale(polinfer.make("gridworld/ablation"), 0.5)
    >>> f"{found.scale:.2f} {found.share:.2f}", found.exact
    ('0.64 0.50', True)
    """
    if not is_number(share) or not 0 < share < 1:
        raise PolinferError(f"share must lie between 0 and 1, got {share!r}")
    table = shared_table(problem)
    uniform = exact.evaluate_policy(table, table.prior).expected_return
    optimum = exact.finite_horizon_optimum(table).objective
    span = optimum - uniform
    if span <= _nothing(optimum, uniform):
        raise PolinferError("no reward scale matters here: the uniform policy is as good as the optimum")
    tried: list[_Trial] = []

    def share_of(policy: Floats) -> float:
        return (exact.evaluate_policy(table, policy).expected_return - uniform) / span

    def trial(scale: float, found: ScaledPosterior | AnnealedPoint) -> _Trial:
        return _Trial(scale, share_of(found.policy), (found.expected_return - uniform) / span)

    count = exact.count_policies(table, exact.decision_states(table, table.horizon))
    enumerated = count <= ENUMERATED
    if enumerated:
        listed = EnumeratedReturns(table)

        def weighed(scale: float) -> _Trial:
            return trial(scale, listed.at(scale))

        tried.append(weighed(_rounded(_bisect(weighed, share, _ends(span)))))
    else:
        began = time.monotonic()

        def left() -> float:
            return math.inf if time_limit is None else began + time_limit - time.monotonic()

        def annealed(scale: float) -> _Trial:
            known = "; ".join(f"{one.share:.0%} of the way at {one.scale:g}" for one in tried[-1:])

            far = 0.0

            def report(done: float, total: float) -> None:
                nonlocal far
                far = max(far, done)  # more may turn out to be left
                if progress is not None:
                    progress(Report(far, total, f"trying reward scale {scale:g}", known))

            config = replace(_CONFIG, time_limit=None if time_limit is None else max(left(), _LEAST_LEFT))
            tried.append(
                trial(scale, anneal(table, config, scales=(scale,), seed=seed, progress=report).points[-1])
            )
            return tried[-1]

        def late() -> bool:
            return left() <= 0 or bool(stop_requested())

        _search(annealed, share, tolerance, _guess(table, share_of, share, span), _ends(span), late)
    best = min(tried, key=lambda one: (not one.near(share, tolerance), abs(one.share - share), one.scale))
    return ScaleSuggestion(
        scale=best.scale,
        wanted=float(share),
        share=best.share,
        committed_share=best.committed,
        expected_return=uniform + best.share * span,
        uniform_return=uniform,
        optimal_return=optimum,
        exact=enumerated,
        tried=tuple((one.scale, one.share) for one in tried),
    )


class _Trial(NamedTuple):
    scale: float
    share: float  # of the way, an action drawn at every step
    committed: float  # one policy drawn per episode: never falls as the scale grows

    def enough(self, wanted: float) -> bool:
        """Whether a larger scale is of no use: what is missing is lost by mixing policies."""
        return self.share >= wanted or self.committed >= 1 - (1 - wanted) / 4

    def near(self, wanted: float, tolerance: float) -> bool:
        return abs(self.share - wanted) <= tolerance


def _nothing(*values: float) -> float:
    """Return a difference that is only rounding."""
    return 1e-9 * max(1.0, *map(abs, values))


def _ends(span: float) -> tuple[float, float]:
    return math.log(_LEAST_SCALE / span), math.log(_LARGEST_SCALE / span)


def _rounded(scale: float) -> float:
    return float(f"{scale:.3g}")


def _bisect(share_at: Callable[[float], _Trial], wanted: float, ends: tuple[float, float]) -> float:
    """Return the least scale at which enough is reached."""
    low, high = ends
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (low, middle) if share_at(math.exp(middle)).enough(wanted) else (middle, high)
    return math.exp((low + high) / 2)


def _guess(table: TabularMDP, share_of: Callable[[Floats], float], wanted: float, span: float) -> float:
    """Return the logarithm of the scale at which the soft start of annealing has the share that is wanted."""

    def share_at(x: float) -> float:
        return share_of(soft_start(table.with_problem(reward_scale=math.exp(x))))

    low, high = math.log(1e-2 / span), math.log(1e3 / span)
    # The soft policy keeps a share of the uniform one, so it never quite arrives.
    most = max(share_at(high), 1e-3)
    for _ in range(8):
        middle = (low + high) / 2
        low, high = (middle, high) if share_at(middle) < wanted * most else (low, middle)
    return (low + high) / 2


def _search(
    share_at: Callable[[float], _Trial],
    wanted: float,
    tolerance: float,
    guess: float,
    ends: tuple[float, float],
    late: Callable[[], bool],
) -> None:
    """Try scales near the guess until one has the share that is wanted, nearly."""
    below: _Trial | None = None
    above: _Trial | None = None
    x, stride = guess, math.log(2.0)
    for _ in range(_MOST):
        here = share_at(_rounded(math.exp(x)))
        if here.near(wanted, tolerance) or late():
            return
        below, above = (below, here) if here.enough(wanted) else (here, above)
        if below is None or above is None:
            # Further each time: the guess was far off.
            x = x + stride if above is None else x - stride
            stride *= 1.5
            if not ends[0] <= x <= ends[1]:
                return
        elif math.log(above.scale / below.scale) < _CLOSE:
            return
        else:
            x = _between(below, above, wanted)


def _between(below: _Trial, above: _Trial, wanted: float) -> float:
    """Return where a line through the log odds of two shares meets the one that is wanted."""
    first, second, target = (_log_odds(share) for share in (below.share, above.share, wanted))
    weight = (target - first) / (second - first) if second > first else 0.5
    low, high = math.log(below.scale), math.log(above.scale)
    return low + float(np.clip(weight, 0.15, 0.85)) * (high - low)


def _log_odds(share: float) -> float:
    kept = min(max(share, 1e-3), 1 - 1e-3)
    return math.log(kept / (1 - kept))
