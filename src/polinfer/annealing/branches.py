"""A posterior split by the choice in one state: each branch is annealed alone, and their sum is exact.

With ``Z_g`` the evidence of the policies whose action in `s` is one of the group `g`, relative to the
reference measure given that,

    Z = sum_g mu(g|s) Z_g,

whatever the state `s` is and whether policies come there.  A branch is the same problem with fewer legal
actions in one state, so it is annealed by the same compiled programs.  Branches may be split again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polinfer.annealing.config import TemperedConfig
from polinfer.annealing.detours import greedy_stages
from polinfer.annealing.parting import Parting
from polinfer.annealing.parts import REACHED_BY, PartPosterior, sampled_reach, systematic
from polinfer.annealing.problem import Problem
from polinfer.annealing.rounds import Estimate
from polinfer.exact.solution import Floats

MOST_BRANCHES = 8
WORTH_SPLITTING = 0.05  # share of the posterior, from which on a branch may be split again
_TO_SHARES = 5.0  # tolerance of log Z over that of marginals
_LEAST_WEIGHT = 1e-4
_LACKING = 1.0  # nats that the first rounds of a branch may lack, besides two standard errors


class Branch(NamedTuple):
    """Some of the policies of a part: those with certain actions."""

    prior: Floats  # [N, A] reference measure, given these actions
    log_share: float  # of the policies, by the reference measure of the part
    known: NDArray[np.int16]  # [N, K] good policies of the branch
    weight: float = 1.0  # share of the posterior that it may have, by its first rounds


class Cut(NamedTuple):
    """A part that was split, between two steps."""

    open: tuple[Branch, ...]  # the first is being annealed
    log_shares: tuple[float, ...]  # of those that are done
    found: tuple[PartPosterior, ...]  # those done so far; all scales of a branch, one after the other


def branch_problem(problem: Problem, branch: Branch) -> Problem:
    """Return the part with the actions of a branch only."""
    return problem._replace(prior=branch.prior, legal=branch.prior > 0)


def split_branch(problem: Problem, branch: Branch, parting: Parting) -> list[Branch]:
    """Return a branch for each way that leaves, and one for all other actions."""
    row = branch.prior[parting.slot]
    others = np.setdiff1d(np.flatnonzero(row), parting.taken)
    groups = [np.array([action]) for action in parting.taken]
    if len(others):
        groups.append(others)
    return [_narrowed(problem, branch, parting, group) for group in groups]


def _narrowed(problem: Problem, branch: Branch, parting: Parting, group: NDArray[np.int64]) -> Branch:
    row = np.zeros(branch.prior.shape[1])
    row[group] = branch.prior[parting.slot, group]
    share = float(row.sum())
    prior = branch.prior.copy()
    prior[parting.slot] = row / share
    narrowed = Branch(prior, branch.log_share + float(np.log(share)), branch.known, branch.weight)
    good = np.concatenate([parting.ways, branch.known], axis=1)
    legal = np.take_along_axis(prior, good.astype(np.int64), axis=1) > 0
    greedy = greedy_stages(branch_problem(problem, narrowed), (prior == 0)[:, :, None])[:, :, 0].T
    return narrowed._replace(known=np.unique(np.hstack([good[:, legal.all(axis=0)], greedy]), axis=1))


def has_room(cut: Cut, parting: Parting) -> bool:
    """Return whether the first open branch may be split, too."""
    return len(cut.open) + len(cut.log_shares) + len(parting.taken) <= MOST_BRANCHES


def weigh(branch: Branch, found: Estimate, cut: Cut) -> Branch:
    """Return a branch with the share that it may have beside those that are done, by its first rounds."""
    if not cut.log_shares:
        return branch
    scales = len(cut.found) // len(cut.log_shares)
    done = np.array([part.log_evidence for part in cut.found[::scales]]) + np.array(cut.log_shares)
    most = branch.log_share + found.log_evidence + _LACKING + 2 * found.log_evidence_stderr
    log_weight = most - float(np.logaddexp.reduce([*done, most]))
    return branch._replace(weight=float(max(np.exp(log_weight), _LEAST_WEIGHT)))


def branch_config(config: TemperedConfig, branch: Branch) -> TemperedConfig:
    """Return settings with the tolerances of a branch: errors count by its share, and add up in squares."""
    share = branch.weight**-0.5
    # The shares of branches are made of log Z, so its error is one of marginals, too.
    evidence = min(config.evidence_tolerance, _TO_SHARES * config.tolerance)
    return replace(config, tolerance=share * config.tolerance, evidence_tolerance=share * evidence)


def merge(
    problem: Problem,
    log_shares: Sequence[float],
    posteriors: Sequence[PartPosterior],
    evaluate: Callable[[NDArray[np.int16]], tuple[Floats, Floats]],
    islands: int,
    seed: int,
) -> PartPosterior:
    """Return the posterior of a part from those of its branches.

    `evaluate` returns returns and visits of policies.  Samples have as many policies of each island.
    """

    def each(name: str) -> Floats:
        return np.array([getattr(part, name) for part in posteriors])

    def total(name: str) -> tuple[float, float]:
        """Return the log of the sum of what branches have, with its error; nan where one has none."""
        own, stderr = np.array(log_shares) + each(name), each(f"{name}_stderr")
        if np.isnan(own).any():
            return np.nan, 0.0
        whole = np.logaddexp.reduce(own)
        return float(whole), float(np.linalg.norm(np.exp(own - whole) * stderr))

    log_evidence, log_evidence_stderr = total("log_evidence")
    back, back_stderr = total("reverse_log_evidence")
    weight = np.exp(np.array(log_shares) + each("log_evidence") - log_evidence)
    # An error of one branch's evidence moves mass between it and the others.
    moved = weight * each("log_evidence_stderr")

    def mean(name: str) -> Floats:
        return np.asarray(np.tensordot(weight, each(name), axes=1))

    def error(name: str) -> Floats:
        own = np.tensordot(weight**2, each(f"{name}_stderr") ** 2, axes=1)
        return np.asarray(np.sqrt(own + np.tensordot(moved**2, (each(name) - mean(name)) ** 2, axes=1)))

    random = np.random.default_rng([seed, 3])
    count = len(posteriors[0].sample_returns)
    own = [random.permutation(systematic(weight, count // islands, random)) for _ in range(islands)]
    drawn, place = np.concatenate(own), np.arange(count)
    sample = np.stack([part.sample for part in posteriors])[drawn, :, place].T
    few = sample[:, random.permutation(count)[:REACHED_BY]]
    best = max(posteriors, key=lambda part: part.best_return)
    return PartPosterior(
        log_evidence=log_evidence,
        log_evidence_stderr=log_evidence_stderr,
        returns=float(mean("returns")),
        returns_stderr=float(error("returns")),
        policy=mean("policy"),
        policy_stderr=error("policy"),
        visits=mean("visits"),
        sample=sample,
        sample_returns=np.stack([part.sample_returns for part in posteriors])[drawn, place],
        reach=sampled_reach(problem, few, evaluate(few)[1]),
        lower_bound=float(np.logaddexp.reduce(np.array(log_shares) + each("lower_bound"))),
        best=best.best,
        best_return=best.best_return,
        round_log_evidence=np.zeros((0, 0)),  # of each branch, so of no common shape
        exact=False,
        reverse_log_evidence=back,
        reverse_log_evidence_stderr=back_stderr,
    )
