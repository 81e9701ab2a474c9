"""Annealing of whole policies that are judged by episodes: the pseudo-marginal method."""

from __future__ import annotations

from polinfer.annealing.pseudo_marginal import RolloutsConfig, rollout_posterior
from polinfer.core.errors import PolinferError
from polinfer.core.progress import Progress, Report
from polinfer.methods.base import Method, Needs, need_table, table_posterior
from polinfer.methods.cost import check_population
from polinfer.methods.sampled import diagnose_sample
from polinfer.posterior.checkpoint import Checkpoint
from polinfer.posterior.diagnostics import Diagnostic, fact
from polinfer.posterior.estimand import Estimand, Target
from polinfer.posterior.evidence import EvidenceBounds
from polinfer.posterior.posterior import Posterior
from polinfer.problems.registry import Problem


class Rollouts(Method[RolloutsConfig]):
    """What annealing gives where J can only be estimated."""

    name = "rollouts"
    summary = "Anneal whole policies from the uniform measure, each judged by some episodes."
    needs = Needs.TABLE
    whole_policies = True
    Config = RolloutsConfig

    def check(self, problem: Problem, config: RolloutsConfig, *, seed: int, seeds: int) -> None:
        """Refuse a population that does not fit into memory."""
        super().check(problem, config, seed=seed, seeds=seeds)
        check_population(problem, config.policies * config.islands)

    def run(
        self,
        problem: Problem,
        config: RolloutsConfig,
        *,
        seed: int = 0,
        seeds: int = 1,
        progress: Progress | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> Posterior:
        """Anneal."""
        del seeds, checkpoint
        try:
            table = need_table(problem)
        except PolinferError as error:
            raise PolinferError(
                f"{error}; without a table, polinfer.annealing.pseudo_marginal gives marginals of the states "
                "that are visited"
            ) from None

        def report(scale: float, last: float) -> None:
            if progress is not None:
                progress(Report(scale, last, "reward scale"))

        policy, whole = rollout_posterior(table, config, seed=seed, progress=report)
        return table_posterior(problem, table, config, policy, whole, seed=seed)

    def estimand(self, config: RolloutsConfig) -> Estimand:
        """Return what so many rollouts make the target."""
        if config.rollouts == 1:
            return Estimand(Target.EXPECTED_EXP, "one rollout per policy")
        detail = f"as the {config.rollouts:,} rollouts per policy grow"
        return Estimand(Target.EXP_EXPECTED_RETURN, detail, in_the_limit=True)

    def bounds(self, posterior: Posterior, sweeps: int, seed: int) -> EvidenceBounds:
        """Return the estimate, which is a bound from below on average, on the log Z of so many rollouts."""
        assert posterior.policies is not None
        return EvidenceBounds(posterior.policies.log_evidence, posterior.policies.log_evidence_stderr)

    def diagnose(self, posterior: Posterior) -> list[Diagnostic]:
        """Return what the standard errors say."""
        assert isinstance(posterior.config, RolloutsConfig)
        about = fact(
            "judged-by-rollouts",
            f"Each policy was judged by {posterior.config.rollouts:,} rollouts: with fewer, luck counts as "
            "evidence, and log Z is that of so many rollouts.",
        )
        return diagnose_sample(posterior, about, "use more policies or islands")
