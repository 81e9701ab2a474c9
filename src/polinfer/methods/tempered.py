"""Annealing of a population of whole policies."""

from __future__ import annotations

from polinfer.annealing.config import TemperedConfig
from polinfer.annealing.estimated import rollout_posterior
from polinfer.annealing.reverse import reverse_evidence
from polinfer.annealing.sampler import temper
from polinfer.core.errors import PolinferError
from polinfer.core.progress import Progress, Report
from polinfer.exact.joint import describe_sample
from polinfer.methods.base import Method, Needs, need_table, table_posterior
from polinfer.methods.sampled import EVALUATED_EXACTLY, diagnose_sample
from polinfer.posterior.checkpoint import Checkpoint
from polinfer.posterior.diagnostics import Diagnostic, fact
from polinfer.posterior.estimand import PAPER, Estimand, Target
from polinfer.posterior.evidence import EvidenceBounds
from polinfer.posterior.posterior import Posterior
from polinfer.problems.registry import Problem
from polinfer.problems.tabular.table import TabularMDP


class Tempered(Method[TemperedConfig]):
    """A population of policies, annealed through all reward scales."""

    name = "tempered"
    summary = "Anneal a population of whole policies from the uniform measure to the posterior, on tables."
    needs = Needs.TABLE
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
        """Anneal, with exact returns or with rollouts."""
        del seeds, checkpoint
        table = _table_for(problem, config)

        def report(scale: float, last: float) -> None:
            if progress is not None:
                progress(Report(scale, last, "reward scale"))

        if config.rollouts is not None:
            policy, whole = rollout_posterior(table, config, seed=seed, progress=report)
            return table_posterior(problem, table, config, policy, whole, seed=seed)
        point = temper(table, config, seed=seed, progress=report).points[-1]
        whole = describe_sample(
            table,
            point.sample,
            point.sample_returns,
            log_evidence=point.log_evidence,
            log_evidence_stderr=point.log_evidence_stderr,
            expected_return=point.expected_return,
            expected_return_stderr=point.expected_return_stderr,
            policy_stderr=point.policy_stderr,
            reach_policy=point.reach_policy,
            seed=seed,
        )
        return table_posterior(problem, table, config, point.policy, whole, seed=seed)

    def estimand(self, config: TemperedConfig) -> Estimand:
        """Return the paper's definition, or what rollouts make of it."""
        if config.rollouts is None:
            return PAPER
        if config.rollouts == 1:
            return Estimand(Target.EXPECTED_EXP, "one rollout per policy")
        return Estimand(
            Target.EXP_EXPECTED_RETURN, f"as the {config.rollouts:,} rollouts per policy grow", True
        )

    def bounds(self, posterior: Posterior, sweeps: int, seed: int) -> EvidenceBounds:
        """Return the estimate, which is a bound from below on average, and one from annealing back."""
        facts, table, config = posterior.policies, posterior.view, posterior.config
        assert facts is not None
        assert isinstance(table, TabularMDP)
        assert isinstance(config, TemperedConfig)
        lower = EvidenceBounds(facts.log_evidence, facts.log_evidence_stderr)
        if config.rollouts is not None or facts.sampled_policies is None:
            return lower  # Annealing back would need the rollouts that each policy was judged by.
        if len(facts.sampled_policies) < 2 * config.islands:
            return lower
        upper = reverse_evidence(table, facts.sampled_policies, config, seed=seed)
        return lower._replace(upper=upper.log_evidence, upper_stderr=upper.stderr)

    def diagnose(self, posterior: Posterior) -> list[Diagnostic]:
        """Return what the standard errors say."""
        assert isinstance(posterior.config, TemperedConfig)
        about, rollouts = EVALUATED_EXACTLY, posterior.config.rollouts
        if rollouts is not None:
            about = fact(
                "judged-by-rollouts",
                f"Each policy was judged by {rollouts:,} rollouts: with fewer, luck counts as evidence, and "
                "log Z is that of so many rollouts.",
            )
        return diagnose_sample(posterior, about, "use more policies or islands")


def _table_for(problem: Problem, config: TemperedConfig) -> TabularMDP:
    try:
        return need_table(problem)
    except PolinferError as error:
        if config.rollouts is None:
            raise
        raise PolinferError(
            f"{error}; without a table, polinfer.annealing.pseudo_marginal gives marginals of visited states"
        ) from None
