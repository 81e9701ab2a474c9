"""Discrete soft actor-critic, the baseline."""

from __future__ import annotations

from polinfer.actor_critic.config import SacConfig
from polinfer.actor_critic.fit import fit_actor
from polinfer.actor_critic.oracle import soft_oracle
from polinfer.core.errors import PolinferError
from polinfer.core.progress import Progress
from polinfer.core.protocol import MDP, discount_of, has_prior
from polinfer.learning.fit import check_seeds
from polinfer.methods.base import Method, Needs
from polinfer.methods.cost import check_network, check_steps
from polinfer.posterior.checkpoint import Checkpoint
from polinfer.posterior.diagnostics import Diagnostic, Severity, fact, warning
from polinfer.posterior.estimand import Estimand, Target
from polinfer.posterior.oracle import Oracle
from polinfer.posterior.posterior import Posterior
from polinfer.problems.conformance import check_shapes
from polinfer.problems.registry import Problem

_CLOSE = 0.05  # to exact soft value iteration, mean total variation over states


class Sac(Method[SacConfig]):
    """A policy that is paid for its entropy."""

    name = "sac"
    summary = "Discrete soft actor-critic, the baseline: a policy that is paid for its entropy; no posterior."
    needs = Needs.JAX
    many_seeds = True
    resumable = True
    is_posterior = False
    Config = SacConfig

    def check(self, problem: Problem, config: SacConfig, *, seed: int, seeds: int) -> None:
        """Refuse what is not compiled."""
        check_seeds(seed, seeds)
        if not isinstance(problem, MDP):
            raise PolinferError(
                "method 'sac' is compiled and cannot play a simulator in plain Python; use vsmc, or write "
                "the problem with JAX (polinfer.MDP)"
            )
        check_shapes(problem)
        check_steps(config.steps, config.buffer, config.batch, seeds)
        check_network(config.width, config.depth, seeds)
        if config.autotune and has_prior(problem):
            raise PolinferError(
                "autotune keeps a share of the uniform policy's entropy, which a prior has no use for; give "
                "alpha instead"
            )

    def run(
        self,
        problem: Problem,
        config: SacConfig,
        *,
        seed: int = 0,
        seeds: int = 1,
        progress: Progress | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> Posterior:
        """Train each seed."""
        assert isinstance(problem, MDP)
        found = fit_actor(problem, config, seed=seed, seeds=seeds, progress=progress, checkpoint=checkpoint)
        return Posterior(problem, found.view, config, found.actor, seeds, seed, found.trace)

    def estimand(self, config: SacConfig) -> Estimand:
        """Return that it is no posterior."""
        return Estimand(Target.RETURN_PLUS_ENTROPY, "")

    def oracle(self, posterior: Posterior) -> Oracle | None:
        """Return soft value iteration with the same alpha and gamma."""
        return soft_oracle(posterior)

    def diagnose(self, posterior: Posterior) -> list[Diagnostic]:
        """Return how far it is from what it tends to."""
        config = posterior.config
        assert isinstance(config, SacConfig)
        tuned = config.autotune and len(posterior.trace)
        alpha = float(posterior.trace["alpha"][-1].mean()) if tuned else config.alpha
        about = fact(
            "no-posterior",
            f"This is no posterior: the policy maximises return {_regulariser(posterior, alpha)}, "
            f"discounted by {_discounts(posterior, config.gamma)}{_reading(config)}.",
        )
        if len(posterior.trace) and int(posterior.trace.done[-1]) < config.steps:
            done = int(posterior.trace.done[-1])
            short = f"Training was stopped after {done:,} of {config.steps:,} steps: train on (--resume)."
            return [warning("stopped-early", short), about]
        oracle = self.oracle(posterior)
        if oracle is None:
            none = "The problem has no table, so there is no exact answer beside it."
            return [fact("no-table", none), about]
        if oracle.distances is None:
            found = Diagnostic(
                "no-fixed-point",
                Severity.ERROR,
                f"With alpha {alpha:g} and gamma {config.gamma:g} {_endless(config)}",
            )
            return [found, about]
        mean, worst = float(oracle.distances.mean()), float(oracle.distances.max())
        sentence = (
            f"Exact soft value iteration is {mean:.3f} away (mean total variation over states"
            + (f"; {worst:.3f} for the worst of {posterior.seeds} seeds" if posterior.seeds > 1 else "")
            + ")."
        )
        if worst <= _CLOSE:
            return [fact("near-soft-values", sentence), about]
        remedy = " Train for more steps, or with preset b if it was a."
        return [warning("far-from-soft-values", sentence + remedy), about]


def _endless(config: SacConfig) -> str:
    if config.absorbing == "continue":
        return "absorbing states pay entropy for ever: there is no answer to find; use gamma below 1."
    return "staying alive pays for ever: there is no answer to find; use gamma below 1 or a smaller alpha."


def _regulariser(posterior: Posterior, alpha: float) -> str:
    if has_prior(posterior.view):
        return f"minus {alpha:g} times its divergence from the prior"
    return f"plus {alpha:g} times its entropy"


def _reading(config: SacConfig) -> str:
    """Say what is done in absorbing states where that is not to end."""
    return "" if config.absorbing == "end" else "; episodes go on in absorbing states, which pay entropy"


def _discounts(posterior: Posterior, gamma: float) -> str:
    discount = discount_of(posterior.view)
    return (
        f"{gamma:g}" if discount == 1 else f"{gamma:g} (sac's gamma) times {discount:g} (the problem's own)"
    )
