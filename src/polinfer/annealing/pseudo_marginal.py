"""Tempered sampling where ``J`` can only be estimated: the pseudo-marginal method (Andrieu and Roberts 2009).

A policy is judged by the mean return ``J-hat`` of K rollouts, and keeps that estimate until another policy
takes its place.  That is plain annealing over pairs of a policy and its rollouts, and exact for them.  What
it leaves for the policies is

    p_K(pi) ∝ E[exp(J-hat)] = E[exp(R / K)] ** K,

where R is the return of one episode: with one rollout this is target 3, control as inference, which takes
luck for merit; as K grows it tends to target 1, ``exp(E[R])``, from the risk-seeking side: ``J-hat`` is too
large by its variance, ``Var[R] / 2K``, to first order.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from polinfer.annealing.reweighting import longest_step, reweight
from polinfer.annealing.rollouts import Judge, Judged, make_judge
from polinfer.core.errors import PolinferError, check_at_least, check_share
from polinfer.core.stopping import stop_requested
from polinfer.exact.evaluation import deterministic_returns
from polinfer.exact.joint import describe_sample, pool, reach_policy
from polinfer.exact.returns import choices_of, visits_of
from polinfer.exact.solution import Floats, PolicyPosterior
from polinfer.posterior.config import MethodConfig
from polinfer.problems.registry import Problem
from polinfer.problems.tabular.table import TabularMDP

_MAX_STEPS = 10_000


@dataclass(frozen=True, kw_only=True)
class RolloutsConfig(MethodConfig):
    """How policies are annealed that can only be judged by episodes."""

    method: ClassVar[str] = "rollouts"
    rollouts: int = 64
    """Episodes whose mean return judges a policy; the target is exp(J) only as they grow."""
    policies: int = 250
    """Policies per island."""
    islands: int = 8
    """Independent populations; standard errors are taken over them."""
    ess: float = 0.9
    """The next reward scale is the one at which the effective sample size falls to this share."""
    scans: int = 2
    """Passes of moves after each step."""
    final_scans: int = 8
    """Passes of moves at the end, over which answers are averaged."""

    def __post_init__(self) -> None:
        for name in ("policies", "islands"):
            check_at_least(name, getattr(self, name), 2)
        for name in ("rollouts", "scans", "final_scans"):
            check_at_least(name, getattr(self, name), 1)
        if not 0 < check_share("ess", self.ess) < 1:
            raise PolinferError(f"ess must lie between 0 and 1, got {self.ess}")


class RolloutPosterior(NamedTuple):
    """What rollouts tell of the posterior; standard errors are over islands."""

    states: list[Any]  # n of them: all of a table, or those that a policy of the sample came to
    policy: (
        Floats  # [n, A] marginal policy; a policy that never came to a state has the reference measure there
    )
    policy_stderr: Floats  # [n, A]
    log_evidence: float  # log of the mean of exp(J-hat): above that of exp(J), see the module
    log_evidence_stderr: float
    sample: Any  # policies drawn from the posterior: [P, S] actions, or P dictionaries from state to action
    sample_returns: Floats  # [P] their estimates; of policies that were chosen for them, so too large
    accepted: float  # share of proposals, at the end


def pseudo_marginal(
    problem: Problem,
    config: RolloutsConfig,
    *,
    seed: int = 0,
    progress: Callable[[float, float], None] | None = None,
) -> RolloutPosterior:
    """Sample whole policies of a table, a JAX MDP or a simulator, each judged by some episodes.

    They are ``config.rollouts``.  Starts are drawn anew for each episode, so that ``J`` averages over them.

    Examples
    --------
    >>> import polinfer
    >>> config = RolloutsConfig(policies=500, rollouts=1)
    >>> found = pseudo_marginal(polinfer.make("probe/three-targets"), config)
    >>> bool(abs(found.policy[0, 1] - 0.933) < 5 * found.policy_stderr[0, 1])
    True
    """
    judge = make_judge(problem, config.rollouts, seed)
    # From all actions anew to about one in an episode.
    shares = [0.5**i for i in range(1 + math.ceil(math.log2(problem.horizon)))]
    return _Run(judge, config, shares, seed).anneal(progress)


class _Run:
    def __init__(self, judge: Judge, config: RolloutsConfig, shares: list[float], seed: int) -> None:
        self.judge, self.config, self.shares = judge, config, shares
        self.random = np.random.default_rng([seed, 1])
        self.now: Judged = judge.start(config.islands * config.policies)
        self.accepted = 1.0

    def anneal(self, progress: Callable[[float, float], None] | None) -> RolloutPosterior:
        scale, last, config = 0.0, 1.0, self.config
        evidence = np.zeros(config.islands)
        for _ in range(_MAX_STEPS):
            returns = self.now.returns.reshape(config.islands, -1)
            # Asked to stop, the rest of the way is one step: the islands' errors tell what it costs.
            hurry = bool(stop_requested())
            step = last - scale if hurry else longest_step(returns, last - scale, config.ess)
            scale = last if step >= last - scale else scale + step
            log_mean, index = reweight(step * returns, self.random)
            evidence += log_mean
            self.now = Judged(self.judge.pick(self.now.policies, index), self.now.returns[index])
            passes = config.final_scans if scale == last and not hurry else config.scans
            populations = [self._move(scale) for _ in range(passes)]
            if progress is not None:
                progress(scale, last)
            if scale == last:
                return self._describe(populations, evidence)
        raise PolinferError(
            f"the reward scale {last:g} was not reached in {_MAX_STEPS:,} steps; the rewards are too large"
        )

    def _move(self, scale: float) -> Any:
        """Propose to every policy, once with each share of its actions; return the policies."""
        accepted = []
        for share in self.shares:
            tried = self.judge.propose(self.now.policies, share)
            chance = self.random.random(len(tried.returns))
            # The old estimate stays: judging it anew here would change what the moves leave as it is.
            taken = np.log(chance) < scale * (tried.returns - self.now.returns)
            self.now = Judged(
                self.judge.choose(taken, tried.policies, self.now.policies),
                np.where(taken, tried.returns, self.now.returns),
            )
            accepted.append(taken.mean())
        self.accepted = float(np.mean(accepted))
        return self.now.policies

    def _describe(self, populations: list[Any], evidence: Floats) -> RolloutPosterior:
        islands = self.config.islands
        states, shares = self.judge.marginals(populations, islands)
        return RolloutPosterior(
            list(states),
            shares.mean(axis=-1),
            shares.std(axis=-1, ddof=1) / math.sqrt(islands),
            *pool(evidence),
            self.now.policies,
            self.now.returns,
            self.accepted,
        )


def rollout_posterior(
    table: TabularMDP,
    config: RolloutsConfig,
    *,
    seed: int = 0,
    progress: Callable[[float, float], None] | None = None,
) -> tuple[Floats, PolicyPosterior]:
    """Return the marginal policy ``[S, A]`` and what is known of whole policies, with their exact ``J``."""
    found = pseudo_marginal(table, config, seed=seed, progress=progress)
    returns = deterministic_returns(table, found.sample)
    means = returns.reshape(config.islands, -1).mean(axis=1)
    whole = describe_sample(
        table,
        found.sample,
        returns,
        policy=found.policy,
        log_evidence=found.log_evidence,
        log_evidence_stderr=found.log_evidence_stderr,
        expected_return=float(means.mean()),
        expected_return_stderr=float(means.std(ddof=1) / math.sqrt(config.islands)),
        policy_stderr=found.policy_stderr,
        reach_policy=reach_policy(
            found.policy, choices_of(table).state, found.sample, visits_of(table, found.sample)
        ),
        seed=seed,
    )
    return found.policy, whole
