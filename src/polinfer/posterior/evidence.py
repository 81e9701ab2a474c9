"""Stochastic bounds on ``log Z``, and those that fresh sweeps give.

With exact weights a sweep speaks of the paper's ``Z``, the mean of ``exp(J)``.  Sweeps through M worlds speak
of ``E_w[log Z_w]``, the mean log evidence over draws of M worlds, which lies above ``log Z`` and comes down
to it as M grows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from polinfer.core.noise import derive_words, seed_words
from polinfer.core.protocol import MDP
from polinfer.exact.solution import Floats
from polinfer.problems.encoded import EncodedView
from polinfer.problems.tabular.table import TabularMDP
from polinfer.smc.compiled import run_sweep
from polinfer.smc.conditional import bracket_evidence, can_condition
from polinfer.smc.config import SweepConfig
from polinfer.smc.proposal import Proposal, log_proposal_of
from polinfer.smc.weights import draw_fill, make_weigher

_LARGE, _WORTH = 1000, 10  # a sweep with more visits a step than this counts as so many small ones


class EvidenceBounds(NamedTuple):
    """Stochastic bounds on ``log Z`` with standard errors; None where one cannot be had."""

    lower: float | None = None
    lower_stderr: float | None = None
    upper: float | None = None
    upper_stderr: float | None = None
    weights: Floats | None = None  # [sweeps, N] final weights, where there were sweeps


def bound_by_sweeps(
    view: MDP,
    proposal: Proposal,
    config: SweepConfig,
    *,
    exact_weights: bool,
    sweeps: int,
    seed: int,
    double: bool = False,
) -> EvidenceBounds:
    """Sweep from each seed's `proposal`, and again in the same worlds with one policy kept.

    A sweep of very many particles and worlds counts as several small ones.  In `double` precision where
    returns are so large that single would not do.
    """
    if isinstance(view, EncodedView):
        return EvidenceBounds()
    both, seeds = can_condition(config), len(jax.tree.leaves(proposal)[0])
    if config.particles * config.worlds > _LARGE:
        sweeps = sweeps // _WORTH
    each = max(2, -(-sweeps // seeds))

    @jax.jit
    def run(member: Any, words: Any) -> tuple[Any, Any, Any]:
        log_proposal = log_proposal_of(view, member, isinstance(view, TabularMDP))

        def one(number: Any) -> tuple[Any, Any, Any]:
            own = derive_words(words, number)
            if both:
                found = bracket_evidence(own, view, log_proposal, config, exact_weights=exact_weights)
                return found.lower, found.upper, jax.nn.softmax(found.log_weight)
            sweep = run_sweep(own, view, log_proposal, config)
            if exact_weights:
                assert isinstance(view, TabularMDP)
                weighed = make_weigher(view)(sweep, draw_fill(own, config.particles, view.num_states))
                return weighed.log_evidence, jnp.nan, jnp.exp(weighed.log_weight)
            return sweep.log_evidence, jnp.nan, jax.nn.softmax(sweep.log_weight[-1])

        found: tuple[Any, Any, Any] = jax.lax.map(one, jnp.arange(each))
        return found

    with jax.enable_x64(double):
        base = seed_words(jnp.asarray(seed % 2**32, jnp.uint32))
        found = [
            run(
                jax.tree.map(lambda leaf, i=i: leaf[i], proposal),
                derive_words(base, jnp.asarray(i)),
            )
            for i in range(seeds)
        ]
    lower, upper, weights = (
        np.concatenate([np.asarray(part, np.float64) for part in parts]) for parts in zip(*found, strict=True)
    )
    bounds = EvidenceBounds(*_mean(lower), weights=weights)
    return bounds._replace(upper=_mean(upper)[0], upper_stderr=_mean(upper)[1]) if both else bounds


def _mean(values: Floats) -> tuple[float, float]:
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))
