"""Annealing of a population of whole policies, from dynamic programming."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from polinfer import exact
from polinfer.annealing.arrays import pack, unpack
from polinfer.annealing.config import TemperedConfig
from polinfer.annealing.path import AnnealedPoint
from polinfer.annealing.replicas import pool_points, replica_seed
from polinfer.annealing.run import AnnealingRun, anneal
from polinfer.core.progress import Progress, Report
from polinfer.core.stopping import stop_requested
from polinfer.core.workers import spread
from polinfer.exact.joint import describe_sample
from polinfer.exact.returns import choices_of
from polinfer.exact.solution import PolicyPosterior
from polinfer.methods.base import Method, Needs, need_table, table_posterior
from polinfer.methods.cost import check_population
from polinfer.methods.sampled import EVALUATED_EXACTLY, diagnose_sample
from polinfer.posterior.checkpoint import Checkpoint, Snapshot
from polinfer.posterior.diagnostics import Diagnostic, fact
from polinfer.posterior.estimand import PAPER, Estimand
from polinfer.posterior.evidence import EvidenceBounds
from polinfer.posterior.posterior import Posterior
from polinfer.problems.registry import Problem
from polinfer.problems.tabular.table import TabularMDP

_BETWEEN = 5.0  # seconds between snapshots


class Tempered(Method[TemperedConfig]):
    """Independent parts of the problem, each enumerated or annealed until it is precise."""

    name = "tempered"
    summary = "Anneal a population of whole policies from a soft policy to the posterior, on tables."
    needs = Needs.TABLE
    resumable = True
    whole_policies = True
    Config = TemperedConfig

    def check(self, problem: Problem, config: TemperedConfig, *, seed: int, seeds: int) -> None:
        """Refuse a population that does not fit into memory."""
        super().check(problem, config, seed=seed, seeds=seeds)
        check_population(problem, config.policies * config.islands)

    def run(
        self,
        problem: Problem,
        config: TemperedConfig,
        *,
        seed: int = 0,
        seeds: int = 1,
        progress: Progress | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> Posterior:
        """Anneal, in one run or in several independent ones that are pooled."""
        del seeds
        table = need_table(problem)
        if len(choices_of(table).state) == 0:
            only = exact.policy_posterior(table)
            assert only.posterior is not None
            return table_posterior(problem, table, config, only.policy, only.posterior, seed=seed)
        if config.replicas == 1:
            point = _anneal(table, config, seed, progress, checkpoint)
        else:
            point = _anneal_replicas(table, config, seed, progress, checkpoint)
        # Replicas are pooled by drawing from all of them; one run keeps its islands apart.
        chains = config.islands if config.replicas == 1 else 1
        whole = _whole(table, point, chains, seed)
        return table_posterior(problem, table, config, point.policy, whole, seed=seed)

    def estimand(self, config: TemperedConfig) -> Estimand:
        """Return the paper's definition: every policy is evaluated exactly."""
        return PAPER

    def bounds(self, posterior: Posterior, sweeps: int, seed: int) -> EvidenceBounds:
        """Return what annealing there found, a bound from below on average, and what annealing back found."""
        whole = posterior.policies
        assert whole is not None
        known, stderr = whole.log_evidence, whole.log_evidence_stderr
        if stderr == 0:
            return EvidenceBounds(known, 0.0, known, 0.0)
        return EvidenceBounds(known, stderr, whole.reverse_log_evidence, whole.reverse_log_evidence_stderr)

    def diagnose(self, posterior: Posterior) -> list[Diagnostic]:
        """Return what the standard errors say, or that all was enumerated."""
        whole = posterior.policies
        assert whole is not None
        if whole.log_evidence_stderr == 0:
            return [fact("enumerated", "All parts of the problem were enumerated or have a closed form.")]
        return diagnose_sample(posterior, EVALUATED_EXACTLY, "use more policies, moves or rounds")


def _anneal(
    table: TabularMDP,
    config: TemperedConfig,
    seed: int,
    progress: Progress | None,
    checkpoint: Checkpoint | None,
) -> AnnealedPoint:
    """Anneal step by step, with a snapshot now and then."""
    annealing = AnnealingRun(table, config, seed=seed)
    saved = checkpoint.read() if checkpoint is not None else None
    if saved is not None:
        annealing.from_arrays(saved.arrays)
    began = kept = time.monotonic()
    far = annealing.progress
    while not annealing.finished:
        late = config.time_limit is not None and time.monotonic() - began > config.time_limit
        annealing.step(hurry=late or bool(stop_requested()))
        if checkpoint is not None and time.monotonic() - kept > _BETWEEN:
            kept = time.monotonic()
            checkpoint.write(Snapshot(len(annealing.done), annealing.to_arrays()))
        if progress is not None:
            far = max(far, annealing.progress)  # reports count up, even where more turns out to be left
            progress(Report(far, 1.0, "annealed", _note(annealing)))
    return annealing.result().points[-1]


def _anneal_replicas(
    table: TabularMDP,
    config: TemperedConfig,
    seed: int,
    progress: Progress | None,
    checkpoint: Checkpoint | None,
) -> AnnealedPoint:
    """Anneal the replicas wherever `polinfer.core.workers` says; each is kept as soon as it is there."""
    saved = checkpoint.read() if checkpoint is not None else None
    blocks = {} if saved is None else saved.blocks
    points = {int(name): unpack("point", AnnealedPoint, arrays) for name, arrays in blocks.items()}
    missing = [number for number in range(config.replicas) if number not in points]
    for number, point in spread(_replica, [(table, config, seed, number) for number in missing]):
        points[number] = point
        if checkpoint is not None:
            block = {f"{number:04d}": pack("point", point)}
            checkpoint.write(Snapshot(len(points), {}, None, block))
        if progress is not None:
            progress(Report(len(points), config.replicas, "replicas"))
    return pool_points([points[number] for number in range(config.replicas)], seed)


def _replica(table: TabularMDP, config: TemperedConfig, seed: int, number: int) -> tuple[int, AnnealedPoint]:
    alone = replace(config, replicas=1)
    point = anneal(table, alone, seed=replica_seed(seed, number)).points[-1]
    return number, point._replace(round_log_evidence=())  # of each part, so of no common shape


def _note(annealing: AnnealingRun) -> str:
    part = f"part {len(annealing.done) + 1} of {annealing.jobs}  " if annealing.jobs > 1 else ""
    if annealing.state is None:
        return part.rstrip()
    cut = annealing.cut
    branch = "" if cut is None else f"branch {len(cut.log_shares) + 1}  "
    return f"{part}{branch}round {len(annealing.state.round_steps) + 1}"


def _whole(table: TabularMDP, point: AnnealedPoint, chains: int, seed: int) -> PolicyPosterior:
    back = point.reverse_log_evidence
    return describe_sample(
        table,
        point.sample,
        point.sample_returns,
        policy=point.policy,
        log_evidence=point.log_evidence,
        log_evidence_stderr=point.log_evidence_stderr,
        expected_return=point.expected_return,
        expected_return_stderr=point.expected_return_stderr,
        policy_stderr=point.policy_stderr,
        reach_policy=point.reach_policy,
        best=(point.best, point.best_return),
        chains=chains,
        reverse=None if np.isnan(back) or point.exact else (back, point.reverse_log_evidence_stderr),
        seed=seed,
    )
