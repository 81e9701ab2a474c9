"""Enumeration of every deterministic policy."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from polinfer import exact
from polinfer.annealing.config import TemperedConfig
from polinfer.core.errors import check_at_least
from polinfer.core.progress import Progress, Report
from polinfer.core.stopping import stop_requested
from polinfer.exact.enumeration import DEFAULT_LIMIT, check_enumerable
from polinfer.methods.base import Method, Needs, need_table, table_posterior
from polinfer.methods.cost import check_population
from polinfer.methods.sampled import EVALUATED_EXACTLY, diagnose_sample
from polinfer.methods.tempered import Tempered
from polinfer.posterior.checkpoint import Checkpoint
from polinfer.posterior.config import MethodConfig
from polinfer.posterior.diagnostics import Diagnostic, fact
from polinfer.posterior.estimand import PAPER, Estimand
from polinfer.posterior.evidence import EvidenceBounds
from polinfer.posterior.posterior import Posterior
from polinfer.problems.registry import Problem


@dataclass(frozen=True, kw_only=True)
class ExactConfig(MethodConfig):
    """How policies are enumerated, and what is kept of them."""

    method: ClassVar[str] = "exact"
    limit: int = DEFAULT_LIMIT
    """The largest number of policies to enumerate."""
    top: int = 10
    """How many of the most probable policies to keep."""
    samples: int = 1000
    """Policies to draw from the posterior, for one policy per episode."""

    def __post_init__(self) -> None:
        for name in ("limit", "top", "samples"):
            check_at_least(name, getattr(self, name), 1)


class _StoppedError(Exception):
    """Enumeration was asked to end."""


class Exact(Method[ExactConfig]):
    """Every policy, with its probability."""

    name = "exact"
    summary = "Enumerate every deterministic policy: the posterior, exactly, for small problems."
    needs = Needs.TABLE
    whole_policies = True
    Config = ExactConfig

    def check(self, problem: Problem, config: ExactConfig, *, seed: int, seeds: int) -> None:
        """Refuse a problem that has too many policies."""
        super().check(problem, config, seed=seed, seeds=seeds)
        check_enumerable(need_table(problem), config.limit)
        check_population(problem, config.top + config.samples)

    def run(
        self,
        problem: Problem,
        config: ExactConfig,
        *,
        seed: int = 0,
        seeds: int = 1,
        progress: Progress | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> Posterior:
        """Enumerate; the seed is that of the policies that are drawn."""
        del seeds, checkpoint
        table = need_table(problem)

        seen = 0

        def report(done: int, total: int) -> None:
            nonlocal seen
            seen = done
            if progress is not None:
                progress(Report(done, total, "policies"))
            if done < total and stop_requested():
                raise _StoppedError

        try:
            solution = exact.policy_posterior(table, progress=report, seed=seed, **config.to_dict())
        except _StoppedError:
            # Some of the policies, in the order of their numbers, are no sample of them.
            found = Tempered().run(problem, TemperedConfig(rounds=2), seed=seed, progress=progress)
            return replace(found, reason=f"tempered, since enumeration stopped after {seen:,} policies")
        assert solution.posterior is not None
        return table_posterior(problem, table, config, solution.policy, solution.posterior, seed=seed)

    def estimand(self, config: ExactConfig) -> Estimand:
        """Return the paper's definition."""
        return PAPER

    def bounds(self, posterior: Posterior, sweeps: int, seed: int) -> EvidenceBounds:
        """Return ``log Z`` itself."""
        assert posterior.policies is not None
        known, stderr = posterior.policies.log_evidence, posterior.policies.log_evidence_stderr
        # A part of the sample (`Posterior.given`) estimates it, and bounds nothing from above.
        return EvidenceBounds(known, stderr) if stderr > 0 else EvidenceBounds(known, 0.0, known, 0.0)

    def diagnose(self, posterior: Posterior) -> list[Diagnostic]:
        """Return how many policies were enumerated, or what the errors are of a part of the sample."""
        assert posterior.policies is not None
        if posterior.policies.log_evidence_stderr > 0:
            # It was conditioned: the draws that make the given choices, and they may be few.
            return diagnose_sample(posterior, EVALUATED_EXACTLY, "condition with source='inference'")
        count = posterior.policies.num_policies
        return [fact("enumerated", f"All {count:,} policies were enumerated in double precision.")]
