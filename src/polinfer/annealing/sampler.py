"""Annealing: the population, from the uniform measure to the largest reward scale."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from polinfer.annealing.components import Part, join, rest_return, split
from polinfer.annealing.config import TemperedConfig, check_scales
from polinfer.annealing.moves import Passed, Population, block_scan, gibbs_scan
from polinfer.annealing.ordered import order_of, ordered_cost, ordered_scan
from polinfer.annealing.path import TemperedPath, TemperedPoint
from polinfer.annealing.reweighting import longest_step, reweight
from polinfer.core.errors import PolinferError
from polinfer.exact.enumeration import count_policies, decision_states
from polinfer.exact.evaluation import uniform_policy
from polinfer.exact.joint import pool, reach_policy
from polinfer.exact.returns import Choices, choices_of, gibbs_cost, make_returns, make_visits
from polinfer.exact.solution import Floats
from polinfer.problems.tabular.table import TabularMDP

_GIBBS_COST = 30_000_000  # multiplications per policy and pass
_MAX_STEPS = 10_000

Progress = Callable[[float, float], None]
"""Called with the scale reached and the last one."""


class Kernels(NamedTuple):
    """What a problem's policies are evaluated and moved by, compiled."""

    choices: Choices
    returns: Callable[[Array], Array]
    scan: Callable[[Array, Population, Array], Passed]
    visits: Callable[[Array], Array]


def temper(
    table: TabularMDP,
    config: TemperedConfig | None = None,
    *,
    scales: Iterable[float] = (1.0,),
    seed: int = 0,
    progress: Progress | None = None,
) -> TemperedPath:
    """Anneal a population of policies through all reward scales up to the largest that is asked for.

    Every policy is evaluated exactly, so the target is the posterior's definition, ``exp(scale * J)``
    (target 1).  The estimate of ``log Z`` is that of sequential Monte Carlo samplers (Del Moral, Doucet and
    Jasra 2006) with adaptive steps.

    Parameters
    ----------
    table
        The problem.
    config
        Settings; `TemperedConfig` by default.
    scales
        Reward scales to report, as multiples of the problem's own; annealing ends at the largest.
    seed
        Of the run.
    progress
        Called after each step.

    Examples
    --------
    >>> import polinfer
    >>> table = polinfer.tabulate(polinfer.make("gridworld/ablation"))
    >>> path = temper(table, TemperedConfig(policies=50))
    >>> exact = polinfer.exact.policy_posterior(table).posterior
    >>> point = path.at(1.0)
    >>> bool(abs(point.log_evidence - exact.log_evidence) < 4 * point.log_evidence_stderr + 1e-3)
    True
    """
    settings = config or TemperedConfig()
    if settings.rollouts is not None:
        raise PolinferError(
            "temper computes J from the table; polinfer.annealing.pseudo_marginal plays rollouts"
        )
    wanted = check_scales(scales)
    parts = split(table)
    if not parts:
        raise PolinferError("there is nothing to sample: no state of the problem has a choice")
    with jax.enable_x64(False):
        if len(parts) == 1 and parts[0].mass == 1:
            return _Run(table, settings, wanted, seed).anneal(progress)
        return _anneal_parts(table, parts, settings, wanted, seed, progress)


def _anneal_parts(
    table: TabularMDP,
    parts: list[Part],
    config: TemperedConfig,
    scales: tuple[float, ...],
    seed: int,
    progress: Progress | None,
) -> TemperedPath:
    """Anneal the parts one by one.  A part that holds a share of the starts has that share of the scale."""
    paths = []
    for number, part in enumerate(parts):
        own = tuple(scale * part.mass for scale in scales)
        paths.append(_Run(part.table, config, own, seed + number).anneal(None))
        if progress is not None:
            progress(scales[-1] * (number + 1) / len(parts), scales[-1])
    rest = rest_return(table, parts)
    points = [
        join(table, parts, [path.points[i] for path in paths], scale, rest) for i, scale in enumerate(scales)
    ]
    # The ladders of the parts differ; what they have in common are the scales that were asked for.
    ladder = np.array([0.0, *scales])
    start = sum(part.mass * path.ladder_return[0] for part, path in zip(parts, paths, strict=True)) + rest
    evidence = np.zeros((len(ladder), config.islands))
    for path in paths:
        at = [int(np.flatnonzero(np.isclose(path.ladder, point.scale))[-1]) for point in path.points]
        evidence[1:] += path.ladder_log_evidence[at]
    evidence += (ladder * rest)[:, None]
    returns = np.array([start, *(point.expected_return for point in points)])
    return TemperedPath(
        table, tuple(points), ladder, evidence, returns, float(np.mean([p.accepted for p in paths]))
    )


def pass_cost(table: TabularMDP) -> int:
    """Return how many multiplications, about, a pass of single-state draws takes per policy."""
    order = order_of(table)
    return gibbs_cost(table) if order is None else ordered_cost(table, order)


@lru_cache(maxsize=16)
def make_kernels(table: TabularMDP, islands: int, moves: str) -> Kernels:
    """Compile, once for each problem, the kernels that `temper` and its way back run on."""
    choices, returns = choices_of(table), make_returns(table)
    order = order_of(table)
    if moves == "block" or (moves == "auto" and pass_cost(table) > _GIBBS_COST):
        scan = block_scan(choices, returns, islands)
    elif order is None:
        scan = gibbs_scan(choices, returns, islands)
    else:
        scan = ordered_scan(table, order, islands)
    return Kernels(choices, jax.jit(returns), jax.jit(scan), jax.jit(make_visits(table)))


class _Run:
    """One run; the arrays live on the device, the ladder is decided here."""

    def __init__(
        self, table: TabularMDP, config: TemperedConfig, scales: tuple[float, ...], seed: int
    ) -> None:
        self.table, self.config, self.scales = table, config, scales
        self.kernels = make_kernels(table, config.islands, config.moves)
        self.size = config.islands * config.policies
        self.key = jax.random.key(seed)
        self.random = np.random.default_rng(seed)
        choices = self.kernels.choices
        draws = self.random.random((len(choices.state), self.size))
        rank = (draws * choices.legal.sum(axis=1)[:, None]).astype(np.int64)
        order = np.argsort(~choices.legal, axis=1, kind="stable")
        actions = jnp.asarray(np.take_along_axis(order, rank, axis=1), jnp.int32)
        self.population = Population(actions, self.kernels.returns(actions))
        self.log_evidence = np.zeros(config.islands)
        self.accepted = 1.0

    def anneal(self, progress: Progress | None) -> TemperedPath:
        scales, last = list(self.scales), self.scales[-1]
        scale, points = 0.0, []
        ladder, evidence, returns = [0.0], [self.log_evidence.copy()], [self._mean_return()]
        for _ in range(_MAX_STEPS):
            step = longest_step(self._islands(), scales[0] - scale, self.config.ess)
            scale = scales[0] if step >= scales[0] - scale else scale + step
            self._reweight(step)
            reported = scale == scales[0]
            shares = self._rejuvenate(scale, self.config.final_scans if reported else self.config.scans)
            ladder.append(scale)
            evidence.append(self.log_evidence.copy())
            returns.append(self._mean_return())
            if progress is not None:
                progress(scale, last)
            if reported:
                points.append(self._point(scale, shares))
                scales.pop(0)
            if not scales:
                return TemperedPath(
                    self.table,
                    tuple(points),
                    np.array(ladder),
                    np.array(evidence),
                    np.array(returns),
                    self.accepted,
                )
        raise PolinferError(
            f"the reward scale {last:g} was not reached in {_MAX_STEPS:,} steps; the rewards are too large"
        )

    def _mean_return(self) -> float:
        return float(np.asarray(self.population.returns, np.float64).mean())

    def _islands(self) -> Floats:
        return np.asarray(self.population.returns, np.float64).reshape(self.config.islands, -1)

    def _reweight(self, step: float) -> None:
        log_mean, index = reweight(step * self._islands(), self.random)
        self.log_evidence += log_mean
        self.population = jax.tree.map(lambda leaf: leaf[..., jnp.asarray(index)], self.population)

    def _rejuvenate(self, scale: float, passes: int) -> Floats:
        """Move the population; return the mean probability of each action, ``[n, A, islands]``."""
        total: Any = 0.0
        for _ in range(passes):
            self.key, own = jax.random.split(self.key)
            passed = self.kernels.scan(own, self.population, jnp.asarray(scale, jnp.float32))
            self.population = passed.population
            self.accepted = float(passed.accepted)
            total = total + np.asarray(passed.shares, np.float64)
        return np.asarray(total / passes)

    def _point(self, scale: float, shares: Floats) -> TemperedPoint:
        table, choices, islands = self.table, self.kernels.choices, self.config.islands
        policy, stderr = uniform_policy(table), np.zeros((table.num_states, table.num_actions))
        policy[choices.state] = shares.mean(axis=-1)
        policy /= policy.sum(axis=1, keepdims=True)
        stderr[choices.state] = shares.std(axis=-1, ddof=1) / math.sqrt(islands)
        log_evidence, log_evidence_stderr = pool(self.log_evidence)
        means = self._islands().mean(axis=1)
        count = math.log(count_policies(table, decision_states(table, table.horizon)))
        sample = self._whole_policies()
        return TemperedPoint(
            scale=scale,
            log_evidence=log_evidence,
            log_evidence_stderr=log_evidence_stderr,
            expected_return=float(means.mean()),
            expected_return_stderr=float(means.std(ddof=1) / math.sqrt(islands)),
            entropy=max(0.0, count - (scale * float(means.mean()) - log_evidence)),
            policy=policy,
            policy_stderr=stderr,
            reach_policy=self._reach_policy(policy, sample),
            sample=sample,
            sample_returns=np.asarray(self.population.returns, np.float64),
        )

    def _whole_policies(self) -> NDArray[np.int32]:
        """Return the population's actions in all states, ``[P, S]``; the first legal one without a choice."""
        table = self.table
        whole = np.broadcast_to(table.legal_actions.argmax(axis=1), (self.size, table.num_states)).copy()
        whole[:, self.kernels.choices.state] = np.asarray(self.population.actions).T
        return whole.astype(np.int32)

    def _reach_policy(self, policy: Floats, sample: NDArray[np.int32]) -> Floats:
        """Return the marginal policy weighted by each policy's probability of visiting the state."""
        visits = np.asarray(self.kernels.visits(self.population.actions), np.float64)  # [n, P]
        return reach_policy(policy, self.kernels.choices.state, sample, visits)
