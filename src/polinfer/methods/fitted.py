"""What methods that fit a proposal to sweeps have in common: VSMC, its special cases, and wake."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, TypeVar

import numpy as np

from polinfer.core.errors import check_at_least
from polinfer.core.progress import Progress
from polinfer.core.protocol import MDP
from polinfer.exact.solution import Floats
from polinfer.learning.config import TrainConfig
from polinfer.learning.fit import check_request, fit
from polinfer.methods.base import Method, Needs
from polinfer.methods.cost import check_network, check_sweeps, needs_double
from polinfer.methods.particles import estimand_of_worlds
from polinfer.posterior.checkpoint import Checkpoint
from polinfer.posterior.config import MethodConfig
from polinfer.posterior.diagnostics import Diagnostic, Severity, fact, warning
from polinfer.posterior.estimand import PAPER, Estimand, Target
from polinfer.posterior.evidence import EvidenceBounds, bound_by_sweeps
from polinfer.posterior.posterior import Posterior
from polinfer.problems.registry import Problem
from polinfer.problems.tables import table_of
from polinfer.problems.tabular.table import TabularMDP
from polinfer.smc.config import SweepConfig

_LOW_ESS = 0.3  # share of the particles, step by step
_FEW = 10  # effective policies in a sweep with exact weights: sweeps are averaged
_LOW_ANCESTORS = 0.15
_SPREAD = 0.1
_UNMOVED = 0.05


class FittedConfig(MethodConfig, ABC):
    """A configuration that stands for a way to train a proposal."""

    @abstractmethod
    def training(self) -> TrainConfig:
        """Return what is trained, completely."""


F = TypeVar("F", bound=FittedConfig)


def training_of(config: MethodConfig, **fixed: Any) -> TrainConfig:
    """Return the training that the fields of `config` describe, with those that the method fixes."""
    given = {**config.to_dict(), **fixed}
    sweep, train = SweepConfig.__dataclass_fields__, TrainConfig.__dataclass_fields__
    return TrainConfig(
        sweep=SweepConfig(**{name: value for name, value in given.items() if name in sweep}),
        **{name: value for name, value in given.items() if name in train},
    )


class FittedMethod(Method[F]):
    """Sweeps, an objective, and a proposal that ascends it."""

    needs = Needs.SIMULATOR
    many_seeds = True
    resumable = True

    def check(self, problem: Problem, config: F, *, seed: int, seeds: int) -> None:
        """Refuse what training cannot start with."""
        check_at_least("seeds", seeds, 1)
        training = config.training()
        check_request(problem, training, seed, seeds)
        sweep = training.sweep
        check_sweeps(problem, sweep.particles, sweep.worlds, training.sweeps, seeds)
        check_network(training.width, training.depth, seeds)

    def run(
        self,
        problem: Problem,
        config: F,
        *,
        seed: int = 0,
        seeds: int = 1,
        progress: Progress | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> Posterior:
        """Train each seed."""
        found = fit(
            problem,
            config.training(),
            seed=seed,
            seeds=seeds,
            progress=progress,
            checkpoint=checkpoint,
            start=self.start(problem, config),
            double=_in_double(problem),
        )
        return Posterior(problem, found.view, config, found.proposal, seeds, seed, found.trace)

    def start(self, problem: Problem, config: F) -> Floats | None:
        """Return the policy ``[S, A]`` that training starts from; None is the uniform one."""
        del problem, config
        return None

    def estimand(self, config: F) -> Estimand:
        """Return what weights and worlds make the target."""
        training = config.training()
        if training.weights == "exact":
            return PAPER
        if training.surrogate_share > 0:
            return Estimand(Target.MIXED, "the surrogate has a share in what was ascended")
        return estimand_of_worlds(training.sweep.worlds)

    def bounds(self, posterior: Posterior, sweeps: int, seed: int) -> EvidenceBounds:
        """Return bounds by fresh sweeps from the fitted proposal."""
        assert isinstance(posterior.config, FittedConfig)
        training = posterior.config.training()
        return bound_by_sweeps(
            posterior.view,
            posterior.proposal,
            training.sweep,
            exact_weights=training.weights == "exact",
            sweeps=sweeps,
            seed=seed,
            double=_in_double(posterior.view),
        )

    def diagnose(self, posterior: Posterior) -> list[Diagnostic]:
        """Return what the trace, the seeds and the policy tell."""
        assert isinstance(posterior.config, FittedConfig)
        if len(posterior.trace) == 0:
            return [Diagnostic("untrained", Severity.ERROR, "The proposal was not trained.")]
        training = posterior.config.training()
        found = [*_of_length(posterior, training)]
        found += [*_of_evidence(posterior), *_of_particles(posterior, training)]
        found += _of_policy(posterior, training)
        found.append(fact("target", _about_worlds(training.sweep.worlds, training.weights == "exact")))
        if training.surrogate_share > 0:
            found.append(
                fact(
                    "mixed-objective",
                    f"The surrogate has a share of {training.surrogate_share:g} in what was ascended: this "
                    "brings log Z-hat up, and the policy away from the posterior.",
                )
            )
        if posterior.table_probs() is None:
            found.append(
                fact("no-table", "Without a table it is not known how far the policy left the uniform one.")
            )
        return found


def _in_double(problem: Problem) -> bool:
    """Return whether weights need double precision; known where there is a table."""
    table = table_of(problem) if isinstance(problem, MDP) else None
    return table is not None and needs_double(table)


def _of_length(posterior: Posterior, training: TrainConfig) -> list[Diagnostic]:
    done, total = int(posterior.trace.done[-1]), training.updates * training.sweeps_per_update
    if done >= total:
        return []
    return [
        warning(
            "stopped-early",
            f"Training was stopped after {done:,} of {total:,} sweeps: --resume goes on with it.",
        )
    ]


def _of_evidence(posterior: Posterior) -> list[Diagnostic]:
    trace, found = posterior.trace, []
    last = max(1, len(trace) // 5)
    column = trace["log_evidence"]
    evidence = column[-last:].mean(axis=0)
    before = column[-2 * last : -last].mean(axis=0) if len(trace) >= 2 * last + 1 else evidence
    noise = column[-last:].std(axis=0) + 1e-6
    if last > 1 and ((evidence - before) > 2 * noise).mean() > 0.5:
        found.append(
            warning(
                "not-converged",
                f"log Z-hat was still rising at the end, by {float((evidence - before).mean()):.3f} over the "
                "last fifth: train for more sweeps.",
            )
        )
    if len(evidence) > 1 and evidence.std() > _SPREAD * max(1.0, abs(float(evidence.mean()))):
        found.append(
            warning(
                "seeds-differ",
                f"Seeds end at different log Z-hat ({evidence.min():.3f} to {evidence.max():.3f}): "
                "some have not found what others have.",
            )
        )
    return found


def _of_particles(posterior: Posterior, training: TrainConfig) -> list[Diagnostic]:
    trace, particles = posterior.trace, training.sweep.particles
    if particles == 1:
        return []
    found, last = [], max(1, len(trace) // 5)
    ess = float(trace["ess"][-last:].mean())
    if ess < (_FEW / particles if training.weights == "exact" else _LOW_ESS):
        found.append(
            warning(
                "low-ess",
                f"The effective sample size is {100 * ess:.0f}% of {particles} particles on average: few "
                "carry the weight; use more, or a smaller reward scale.",
            )
        )
    if float(trace["unique_ancestors"][-last:].mean()) < _LOW_ANCESTORS:
        found.append(
            warning(
                "few-ancestors",
                "Nearly all particles descend from one first choice: the early actions of a sweep are poorly "
                "represented; use more particles or resample less.",
            )
        )
    return found


def _of_policy(posterior: Posterior, training: TrainConfig) -> list[Diagnostic]:
    probs, table = posterior.table_probs(), posterior.view
    if probs is None or not isinstance(table, TabularMDP):
        return []
    found, acting, exactly = [], ~table.absorbing, training.weights == "exact"
    spread = float(np.abs(probs - probs.mean(axis=0))[:, acting].sum(axis=-1).mean() / 2)
    if posterior.seeds > 1 and spread > _SPREAD:
        found.append(
            warning(
                "seeds-disagree",
                f"Seeds disagree: their policies are {spread:.2f} (total variation) from their mean.",
            )
        )
    moved = float(np.abs(probs.mean(axis=0) - table.prior)[acting].sum(axis=-1).mean() / 2)
    if moved < _UNMOVED and not exactly:
        found.append(
            warning(
                "near-uniform",
                f"The policy has hardly left the {'prior' if table.has_prior else 'uniform one'} "
                f"(total variation {moved:.3f}): train for more "
                "sweeps or at a higher learning rate.",
            )
        )
    if (table.initial > 0).sum() > 1 and not exactly and training.sweep.start != "averaged":
        found.append(
            warning(
                "random-start",
                "The start is random: each sweep conditions on one start, so J is that of the start drawn.",
            )
        )
    return found


def _about_worlds(worlds: int, exactly: bool) -> str:
    if exactly:
        target = "Policies were weighed by their exact J: the target is exp(E[R]), the paper's definition"
    elif worlds == 1:
        target = (
            "With one world per sweep, an average over sweeps tends to E[softmax R], not to exp(E[R]) where "
            "transitions are random"
        )
    else:
        target = (
            f"Policies were judged in {worlds:,} worlds per sweep: with more, the target comes nearer to "
            "exp(E[R]) where transitions are random"
        )
    return f"{target}; and q is a mean-field answer: independent choices in different states."
