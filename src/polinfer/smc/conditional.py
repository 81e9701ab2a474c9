"""Conditional SMC: upper and lower bounds on the evidence of a sweep's worlds.

By Jensen's inequality ``E[log Z-hat]`` is at most ``log Z_w``, the evidence in the worlds w of the sweep.  A
*conditional* sweep (Andrieu, Doucet and Holenstein 2010) keeps one policy through all resampling.  If that
policy is a draw from the posterior in the same worlds, ``p(pi | w) ∝ exp(R_w(pi))``, ``E[log Z-hat]`` of the
conditional sweep is at least ``log Z_w`` (Grosse, Ghahramani and Adams 2015).

The draw is approximated by particle Gibbs: a particle of the first sweep, then conditional sweeps in its
worlds, each of which leaves the posterior invariant.  The upper bound depends on how well these few rounds
mix; a policy that no sweep finds is missing from both bounds.

With exact weights (`polinfer.smc.weights`) the posterior is the same in all worlds, and the bounds are on the
paper's ``log Z``.

Worlds and proposals are fixed, so the uniforms that drew its actions determine a particle.  A policy is kept
by sweeping on noise whose first particle has these uniforms; the engines are unchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from polinfer.core.noise import WorldNoise, as_uniform, derive_words, draw_world_noise
from polinfer.core.protocol import MDP, invert_cumulative
from polinfer.problems.tabular.table import TabularMDP
from polinfer.smc.config import SweepConfig
from polinfer.smc.lineage import lineages
from polinfer.smc.record import Sweep
from polinfer.smc.transitions import LogProposal
from polinfer.smc.weights import Weighed, draw_fill, make_weigher
from polinfer.smc.worlds import run_world_sweep

PARTICLES = 100
"""A conditional sweep has at least so many: with few, the kept policy would never be exchanged."""
ROUNDS = 4
"""Conditional sweeps in the same worlds."""
_AGAIN, _PICK = 0xA6A1, 0x91C4  # what words are derived for: fresh noise in old worlds, a final particle


class Bracket(NamedTuple):
    """The evidence of one draw of worlds."""

    lower: Array  # [] log Z-hat of a sweep
    conditional: Array  # [rounds] log Z-hat of each conditional sweep
    log_weight: Array  # [N] the sweep's final weights; with exact weights, those

    @property
    def upper(self) -> Array:
        """The upper bound, ``[]``: the mean over the second half of the rounds."""
        return self.conditional[self.conditional.shape[0] // 2 :].mean()


class Lineage(NamedTuple):
    """The random numbers that determine a particle's actions."""

    action: Array  # [T, M] uniform
    refresh: Array  # [T, M] uniform
    fill: Array  # [S] uniform, for the actions that it has not drawn; [0] without exact weights


def can_condition(config: SweepConfig) -> bool:
    """Return whether conditional sweeps are possible: particles must share worlds and starts."""
    return config.coupled and config.start != "independent"


def bracket_evidence(
    words: Array,
    mdp: MDP,
    log_proposal: LogProposal,
    config: SweepConfig,
    *,
    particles: int = PARTICLES,
    rounds: int = ROUNDS,
    exact_weights: bool = False,
) -> Bracket:
    """Sweep once, then `rounds` times more in the same worlds with a policy kept."""
    weigh = _make_final(mdp) if exact_weights else _by_worlds
    states = mdp.num_states if exact_weights and isinstance(mdp, TabularMDP) else 0
    # Exchangeable particles are what makes the bound valid: offspring are drawn independently.
    wide = replace(config, particles=max(config.particles, particles), resampling="multinomial")
    noise = draw_world_noise(words, mdp.horizon, config.particles, config.worlds)
    sweep = run_world_sweep(noise, mdp, log_proposal, config)
    fill = draw_fill(words, config.particles, states)
    final = weigh(sweep, fill)

    def again(lineage: Lineage, number: Array) -> tuple[Lineage, Array]:
        own = derive_words(words, jnp.asarray(_AGAIN), number)
        fresh = draw_world_noise(own, mdp.horizon, wide.particles, wide.worlds)
        kept = keep_lineage(fresh._replace(words=noise.words, start=noise.start), lineage)
        conditional = run_world_sweep(kept, mdp, log_proposal, wide)
        fill = draw_fill(own, wide.particles, states).at[0].set(lineage.fill)
        final = weigh(conditional, fill)
        return pick_lineage(own, kept, conditional, final.log_weight, fill), final.log_evidence

    first = pick_lineage(words, noise, sweep, final.log_weight, fill)
    _, evidence = jax.lax.scan(again, first, jnp.arange(rounds))
    return Bracket(final.log_evidence, evidence, final.log_weight)


class _Final(NamedTuple):
    """The final weights of a sweep."""

    log_weight: Array  # [N]
    log_evidence: Array  # []


def _by_worlds(sweep: Sweep, _: Array) -> _Final:
    return _Final(sweep.log_weight[-1], sweep.log_evidence)


def _make_final(mdp: MDP) -> Callable[[Sweep, Array], _Final]:
    assert isinstance(mdp, TabularMDP)
    weigh = make_weigher(mdp)

    def final(sweep: Sweep, fill: Array) -> _Final:
        weighed: Weighed = weigh(sweep, fill)
        return _Final(weighed.log_weight, weighed.log_evidence)

    return final


def keep_lineage(noise: WorldNoise, lineage: Lineage) -> WorldNoise:
    """Return noise on which multinomial sweeps have the lineage as their first particle throughout."""
    return noise._replace(
        action=noise.action.at[:, 0].set(lineage.action),
        refresh=noise.refresh.at[:, 0].set(lineage.refresh),
        # Below every cumulative weight, even one that has underflowed: the first descends from the first.
        resample=noise.resample.at[:, 0].set(-1.0),
    )


def pick_lineage(words: Array, noise: WorldNoise, sweep: Sweep, log_weight: Array, fill: Array) -> Lineage:
    """Draw one of the final particles in proportion to its weight, and follow it back to the first step."""
    uniform = as_uniform(derive_words(words, jnp.asarray(_PICK)))
    last = invert_cumulative(uniform, jax.nn.softmax(log_weight))

    line, step = lineages(sweep)[:, last], jnp.arange(sweep.ancestor.shape[0])
    return Lineage(noise.action[step, line], noise.refresh[step, line], fill[last])
