"""The weighted policies of large sweeps, without a network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import jax.numpy as jnp
import numpy as np

from polinfer.annealing.soft import soft_start
from polinfer.core.errors import PolinferError
from polinfer.core.files import Arrays
from polinfer.core.progress import Progress, Report
from polinfer.core.stopping import stop_requested
from polinfer.exact.solution import Floats
from polinfer.methods.base import Method, Needs, need_table, table_posterior
from polinfer.methods.cost import check_sweeps, needs_double
from polinfer.methods.sampled import EVALUATED_EXACTLY, diagnose_sample
from polinfer.posterior.checkpoint import Checkpoint, Snapshot
from polinfer.posterior.config import MethodConfig
from polinfer.posterior.diagnostics import Diagnostic, fact
from polinfer.posterior.estimand import PAPER, Estimand, Target
from polinfer.posterior.evidence import EvidenceBounds, bound_by_sweeps
from polinfer.posterior.posterior import Posterior
from polinfer.problems.registry import Problem
from polinfer.problems.tabular.table import TabularMDP
from polinfer.smc.config import DynamicsFields, ResamplingScheme, SweepConfig
from polinfer.smc.particles import ParticleConfig, WeightedPolicies, combine, run_population
from polinfer.smc.proposal import TableProposal


@dataclass(frozen=True, kw_only=True)
class ParticlesConfig(DynamicsFields, MethodConfig):
    """How large the sweeps are whose weighted policies are the answer."""

    method: ClassVar[str] = "particles"
    weights: Literal["auto", "worlds", "exact"] = "auto"
    """What a policy is weighed by at the end of a sweep: its exact J, or its return in the sweep's worlds;
    'auto' is exact unless worlds are given."""
    particles: int | None = None
    """Policies per sweep (2000 with exact weights, 500 with worlds)."""
    worlds: int | None = None
    """Realisations of the dynamics that each policy is rolled through (1 with exact weights, 200 with
    worlds)."""
    resample_below: float | None = None
    """Resample when the effective sample size falls below this share of the particles (never with exact
    weights, 0.5 with worlds)."""
    resampling: ResamplingScheme = "systematic"
    """How resampled particles are picked."""
    initial: Literal["uniform", "soft"] = "soft"
    """The policy that actions are drawn from: the prior (uniform), or the reach-weighted soft one, which sees
    rewards that come late."""
    sweeps: int = 40
    """Independent sweeps whose answers are averaged."""

    def __post_init__(self) -> None:
        if self.weights not in ("auto", "worlds", "exact"):
            raise PolinferError(f"weights must be auto, worlds or exact, got {self.weights!r}")
        if self.initial not in ("uniform", "soft"):
            raise PolinferError(f"initial must be uniform or soft, got {self.initial!r}")
        self.filled()._settings()

    def filled(self) -> ParticlesConfig:
        """Return the configuration with what 'auto' and None stand for."""
        weights = self.weights
        if weights == "auto":
            weights = "exact" if self.worlds is None else "worlds"
        particles, worlds, below = (2000, 1, 0.0) if weights == "exact" else (500, 200, 0.5)
        values: dict[str, Any] = {
            "weights": weights,
            "particles": particles if self.particles is None else self.particles,
            "worlds": worlds if self.worlds is None else self.worlds,
            "resample_below": below if self.resample_below is None else self.resample_below,
        }
        if all(getattr(self, name) == value for name, value in values.items()):
            return self
        return replace(self, **values)

    def settings(self) -> ParticleConfig:
        """Return the settings of the sweeps."""
        return self.filled()._settings()

    def _settings(self) -> ParticleConfig:
        sweep: dict[str, Any] = {name: getattr(self, name) for name in _SWEEP}
        return ParticleConfig(
            SweepConfig(**sweep), self.sweeps, "worlds" if self.weights == "worlds" else "exact"
        )


_LEAST_SWEEPS = 2  # for a standard error
_SWEEP = ("particles", "worlds", "resample_below", "resampling", "coupled", "start")


class Particles(Method[ParticlesConfig]):
    """Large sweeps from the uniform policy."""

    name = "particles"
    summary = "The weighted policies of large sweeps, without a network, on tables."
    needs = Needs.TABLE
    resumable = True
    whole_policies = True
    Config = ParticlesConfig

    def complete(self, problem: Problem, config: ParticlesConfig) -> ParticlesConfig:
        """Fill in what depends on how policies are weighed."""
        return config.filled()

    def check(self, problem: Problem, config: ParticlesConfig, *, seed: int, seeds: int) -> None:
        """Refuse what would take too long, or too much memory."""
        super().check(problem, config, seed=seed, seeds=seeds)
        settings = config.settings()
        check_sweeps(problem, settings.sweep.particles, settings.sweep.worlds, settings.sweeps, 1)

    def run(
        self,
        problem: Problem,
        config: ParticlesConfig,
        *,
        seed: int = 0,
        seeds: int = 1,
        progress: Progress | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> Posterior:
        """Run the sweeps one by one; each is kept as soon as it is there."""
        del seeds
        table, settings = need_table(problem), config.settings()
        saved = checkpoint.read() if checkpoint is not None else None
        blocks: Mapping[str, Arrays] = {} if saved is None else saved.blocks
        populations = [_read(blocks, number) for number in range(0 if saved is None else saved.done)]
        start, double = _start(table, config), needs_double(table)
        for number in range(len(populations), settings.sweeps):
            populations.append(run_population(table, settings, seed, number, start, double=double))
            if checkpoint is not None:
                done = number + 1
                checkpoint.write(Snapshot(done, {}, None, {_name(number): _arrays(populations[-1])}))
            if progress is not None:
                progress(Report(number + 1, settings.sweeps, "sweeps"))
            if number + 1 < settings.sweeps and len(populations) >= _LEAST_SWEEPS and stop_requested():
                break
        policy, whole = combine(table, settings, populations, seed)
        return table_posterior(problem, table, config, policy, whole, seed=seed)

    def estimand(self, config: ParticlesConfig) -> Estimand:
        """Return the paper's definition, or what worlds make of it."""
        settings = config.settings()
        return PAPER if settings.weights == "exact" else estimand_of_worlds(settings.sweep.worlds)

    def bounds(self, posterior: Posterior, sweeps: int, seed: int) -> EvidenceBounds:
        """Return bounds by fresh sweeps from the same start."""
        table, config = posterior.view, posterior.config
        assert isinstance(config, ParticlesConfig)
        assert isinstance(table, TabularMDP)
        settings, start = config.settings(), _start(table, config)
        rows = np.log(np.maximum(start, np.finfo(np.float32).tiny))
        return bound_by_sweeps(
            table,
            TableProposal(jnp.asarray(rows[None], jnp.float32)),
            settings.sweep,
            exact_weights=settings.weights == "exact",
            sweeps=sweeps,
            seed=seed,
            double=needs_double(table),
        )

    def diagnose(self, posterior: Posterior) -> list[Diagnostic]:
        """Return what the standard errors say."""
        assert isinstance(posterior.config, ParticlesConfig)
        settings, about = posterior.config.settings(), EVALUATED_EXACTLY
        if settings.weights == "worlds":
            about = fact(
                "judged-by-worlds",
                f"Each policy was judged in {settings.sweep.worlds:,} worlds: with fewer, luck counts as "
                "evidence, and log Z is that of so many worlds.",
            )
        return diagnose_sample(posterior, about, "use more particles or sweeps")


def estimand_of_worlds(worlds: int) -> Estimand:
    """Return what sweeps through so many worlds tend to."""
    if worlds == 1:
        return Estimand(Target.EXPECTED_SOFTMAX, "one world per sweep")
    return Estimand(Target.EXP_EXPECTED_RETURN, f"as the {worlds} worlds per sweep grow", True)


def _start(table: TabularMDP, config: ParticlesConfig) -> Floats:
    return soft_start(table) if config.initial == "soft" else table.prior


def _name(number: int) -> str:
    return f"{number:06d}"


def _arrays(population: WeightedPolicies) -> Arrays:
    return {
        "actions": population.actions,
        "weight": population.weight,
        "log_evidence": np.asarray(population.log_evidence),
    }


def _read(blocks: Mapping[str, Arrays], number: int) -> WeightedPolicies:
    found = blocks.get(_name(number))
    if found is None or found.keys() != {"actions", "weight", "log_evidence"}:
        raise PolinferError(f"sweep {number} of the checkpoint is missing or damaged; start the run again")
    return WeightedPolicies(found["actions"], found["weight"], float(found["log_evidence"]))
