"""What is known of ``log Z``: bounds from both sides, by fresh sweeps or on the way back from a sample.

Mind what they bound.  ``exact``, ``tempered`` and sweeps with exact weights speak of the paper's ``Z``, the
mean of ``exp(J)``.  Other sweeps through M worlds speak of ``E_w[log Z_w]``, the mean log evidence over draws
of M worlds, which lies above ``log Z`` and comes down to it as M grows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from polinfer.annealing.config import TemperedConfig
from polinfer.annealing.reverse import reverse_evidence
from polinfer.core.noise import derive_words, seed_words
from polinfer.exact.solution import Floats
from polinfer.learning.config import TrainConfig
from polinfer.posterior.posterior import Posterior
from polinfer.posterior.saving import config_of
from polinfer.problems.encoded import EncodedView
from polinfer.problems.tabular.table import TabularMDP
from polinfer.smc.compiled import run_sweep
from polinfer.smc.conditional import bracket_evidence, can_condition
from polinfer.smc.config import SweepConfig
from polinfer.smc.proposal import log_proposal_of
from polinfer.smc.weights import draw_fill, make_weigher

_LARGE, _WORTH = 1000, 10  # a sweep with more visits a step than this counts as so many small ones


class EvidenceBounds(NamedTuple):
    """Bounds on ``log Z`` with standard errors; None where one cannot be had."""

    lower: float | None = None
    lower_stderr: float | None = None
    upper: float | None = None
    upper_stderr: float | None = None
    weights: Floats | None = None  # [sweeps, N] final weights, where there were sweeps


def bound_evidence(posterior: Posterior, sweeps: int, seed: int) -> EvidenceBounds:
    """Return what is known of the evidence behind `posterior`; sweeps are fresh ones."""
    facts = posterior.policies
    if posterior.method == "sac" or isinstance(posterior.view, EncodedView):
        return EvidenceBounds()
    if posterior.method == "exact":
        assert facts is not None
        return EvidenceBounds(facts.log_evidence, 0.0, facts.log_evidence, 0.0)
    if posterior.method == "tempered":
        return _bound_on_the_way_back(posterior, seed)
    if posterior.method == "particles":
        made = posterior.settings["particles"]
        even = replace(posterior, proposal=jax.tree.map(jnp.zeros_like, posterior.proposal))
        exactly = made.get("weights") == "exact"
        return _bound_by_sweeps(even, SweepConfig(**made["sweep"]), exactly, sweeps, seed)
    trained = config_of(posterior.settings, posterior.method)
    assert isinstance(trained, TrainConfig)
    return _bound_by_sweeps(posterior, trained.sweep, trained.weights == "exact", sweeps, seed)


def _bound_on_the_way_back(posterior: Posterior, seed: int) -> EvidenceBounds:
    facts, table = posterior.policies, posterior.view
    assert facts is not None
    assert isinstance(table, TabularMDP)
    lower = EvidenceBounds(facts.log_evidence, facts.log_evidence_stderr)
    config = TemperedConfig(**posterior.settings["tempered"])
    if config.rollouts is not None or facts.sampled_policies is None:
        return lower  # The way back would need the rollouts that each policy was judged by.
    if len(facts.sampled_policies) < 2 * config.islands:
        return lower
    upper = reverse_evidence(table, facts.sampled_policies, config, seed=seed)
    return lower._replace(upper=upper.log_evidence, upper_stderr=upper.stderr)


def _bound_by_sweeps(
    posterior: Posterior, config: SweepConfig, exactly: bool, sweeps: int, seed: int
) -> EvidenceBounds:
    """Sweep from each seed's proposal, and again in the same worlds with a policy kept."""
    view, both = posterior.view, can_condition(config)
    if config.particles * config.worlds > _LARGE:
        sweeps = sweeps // _WORTH
    each = max(2, -(-sweeps // posterior.seeds))

    @jax.jit
    def run(proposal: Any, words: Any) -> tuple[Any, Any, Any]:
        log_proposal = log_proposal_of(view, proposal, isinstance(view, TabularMDP))

        def one(number: Any) -> tuple[Any, Any, Any]:
            own = derive_words(words, number)
            if both:
                found = bracket_evidence(own, view, log_proposal, config, exact_weights=exactly)
                return found.lower, found.upper, jax.nn.softmax(found.log_weight)
            sweep = run_sweep(own, view, log_proposal, config)
            if exactly:
                assert isinstance(view, TabularMDP)
                weighed = make_weigher(view)(sweep, draw_fill(own, config.particles, view.num_states))
                return weighed.log_evidence, jnp.nan, jnp.exp(weighed.log_weight)
            return sweep.log_evidence, jnp.nan, jax.nn.softmax(sweep.log_weight[-1])

        found: tuple[Any, Any, Any] = jax.lax.map(one, jnp.arange(each))
        return found

    with jax.enable_x64(False):
        base = seed_words(jnp.asarray(seed % 2**32, jnp.uint32))
        found = [
            run(
                jax.tree.map(lambda leaf, i=i: leaf[i], posterior.proposal),
                derive_words(base, jnp.asarray(i)),
            )
            for i in range(posterior.seeds)
        ]
    lower, upper, weights = (
        np.concatenate([np.asarray(part, np.float64) for part in parts]) for parts in zip(*found, strict=True)
    )
    bounds = EvidenceBounds(*_mean(lower), weights=weights)
    return bounds._replace(upper=_mean(upper)[0], upper_stderr=_mean(upper)[1]) if both else bounds


def _mean(values: Floats) -> tuple[float, float]:
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))
