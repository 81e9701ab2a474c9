"""Annealing of a population of whole policies, from dynamic programming."""

from __future__ import annotations

import time

from polinfer.annealing.config import TemperedConfig
from polinfer.annealing.path import AnnealedPoint
from polinfer.annealing.run import AnnealingRun
from polinfer.core.progress import Progress, Report
from polinfer.exact.joint import describe_sample
from polinfer.exact.solution import PolicyPosterior
from polinfer.methods.base import Method, Needs, need_table, table_posterior
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
        """Anneal, step by step; a snapshot now and then."""
        del seeds
        table = need_table(problem)
        annealing = AnnealingRun(table, config, seed=seed)
        saved = checkpoint.read() if checkpoint is not None else None
        if saved is not None:
            annealing.from_arrays(saved.arrays)
        began = kept = time.monotonic()
        while not annealing.finished:
            late = config.time_limit is not None and time.monotonic() - began > config.time_limit
            annealing.step(hurry=late)
            if checkpoint is not None and time.monotonic() - kept > _BETWEEN:
                kept = time.monotonic()
                checkpoint.write(Snapshot(len(annealing.done), annealing.to_arrays()))
            if progress is not None:
                progress(Report(annealing.progress, 1.0, "annealed", _note(annealing)))
        point = annealing.result().points[-1]
        return table_posterior(problem, table, config, point.policy, _whole(table, point, seed), seed=seed)

    def estimand(self, config: TemperedConfig) -> Estimand:
        """Return the paper's definition: every policy is evaluated exactly."""
        return PAPER

    def bounds(self, posterior: Posterior, sweeps: int, seed: int) -> EvidenceBounds:
        """Return the estimate, which is a bound from below on average."""
        assert posterior.policies is not None
        known, stderr = posterior.policies.log_evidence, posterior.policies.log_evidence_stderr
        if stderr == 0:
            return EvidenceBounds(known, 0.0, known, 0.0)
        return EvidenceBounds(known, stderr)

    def diagnose(self, posterior: Posterior) -> list[Diagnostic]:
        """Return what the standard errors say, or that all was enumerated."""
        whole = posterior.policies
        assert whole is not None
        if whole.log_evidence_stderr == 0:
            return [fact("enumerated", "The problem fell apart into parts that were all enumerated.")]
        return diagnose_sample(posterior, EVALUATED_EXACTLY, "use more policies, moves or rounds")


def _note(annealing: AnnealingRun) -> str:
    part = f"part {len(annealing.done) + 1} of {annealing.jobs}  " if annealing.jobs > 1 else ""
    if annealing.state is None:
        return part.rstrip()
    return f"{part}round {len(annealing.state.round_steps) + 1}"


def _whole(table: TabularMDP, point: AnnealedPoint, seed: int) -> PolicyPosterior:
    return describe_sample(
        table,
        point.sample,
        point.sample_returns,
        log_evidence=point.log_evidence,
        log_evidence_stderr=point.log_evidence_stderr,
        expected_return=point.expected_return,
        expected_return_stderr=point.expected_return_stderr,
        policy_stderr=point.policy_stderr,
        reach_policy=point.reach_policy,
        best=(point.best, point.best_return),
        seed=seed,
    )
