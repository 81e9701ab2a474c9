"""The compiled engine: Algorithm 1 as a scan over steps, with fixed shapes and no tables.

A particle's memo is its history: at most `horizon` identities and actions, compared with the current state.
Unbatched over sweeps and seeds; callers `vmap`.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.scipy.special import logsumexp

from polinfer.core.noise import SweepNoise, draw_noise, draw_world_noise, particle_words, query_words
from polinfer.core.protocol import MDP, State, discounted, invert_cumulative, log_prior_of
from polinfer.problems.tabular.table import TabularMDP
from polinfer.smc.config import SweepConfig
from polinfer.smc.record import Sweep
from polinfer.smc.resampling import choose_ancestors
from polinfer.smc.scan import scan_until_idle
from polinfer.smc.transitions import LogProposal, is_terminal_start, move_by_words, start_from_words
from polinfer.smc.worlds import run_world_sweep

_UNUSED = -1  # an entry of a history without a visit


class _Particles(NamedTuple):
    """The carry of the scan; all of it is copied when particles are resampled."""

    state: State  # [N, ...]
    over: Array  # [N] bool
    seen: Array  # [N, K, T] int32, the states visited so far
    taken: Array  # [N, T] int32, earlier visits of the state times the number of actions, plus the action


def run_sweep(words: Array, mdp: MDP, log_proposal: LogProposal, config: SweepConfig) -> Sweep:
    """Run one sweep of `config.particles` particles over `mdp.horizon` steps, seeded by two words."""
    if config.worlds > 1 or config.start == "independent":
        noise = draw_world_noise(words, mdp.horizon, config.particles, config.worlds)
        return run_world_sweep(noise, mdp, log_proposal, config)
    return run_sweep_from_noise(draw_noise(words, mdp.horizon, config.particles), mdp, log_proposal, config)


def run_sweep_from_noise(
    noise: SweepNoise, mdp: MDP, log_proposal: LogProposal, config: SweepConfig
) -> Sweep:
    """Run one sweep in one world on given randomness."""
    horizon, count = mdp.horizon, config.particles
    start = start_from_words(mdp, noise.start)
    size = _memo_key(mdp, start).shape[0]
    particles = _Particles(
        state=jax.tree.map(lambda x: jnp.broadcast_to(x, (count, *jnp.shape(x))), start),
        over=jnp.broadcast_to(is_terminal_start(mdp, start), (count,)),
        seen=jnp.zeros((count, size, horizon), jnp.int32),
        taken=jnp.full((count, horizon), _UNUSED, jnp.int32),
    )

    def step(carry: tuple[_Particles, Array], inputs: Any) -> Any:
        particles, log_weight = carry
        t, uniform_action, uniform_refresh, uniform_resample = inputs
        identity = jax.vmap(mdp.identity)(particles.state)
        key = jax.vmap(partial(_memo_key, mdp))(particles.state)  # [N, K]
        match = (particles.seen == key[:, :, None]).all(axis=1)  # [N, T]
        log_q = jax.vmap(log_proposal)(particles.state)  # [N, A]
        log_prior = jax.vmap(lambda state: log_prior_of(mdp, state))(particles.state)

        # The latest visit has the largest number; an entry that was not written yet has none.
        latest = jnp.max(jnp.where(match, particles.taken, _UNUSED), axis=1)
        memo = jnp.where(latest < 0, _UNUSED, latest % mdp.num_actions)
        visits = jnp.where(latest < 0, 0, latest // mdp.num_actions + 1)
        active = ~particles.over
        drawn = active & ((memo < 0) | (uniform_refresh < config.refresh))
        fresh = jax.vmap(invert_cumulative)(uniform_action, jnp.exp(log_q))
        action = jnp.where(drawn, fresh, jnp.maximum(memo, 0))
        picked = jnp.take_along_axis(log_q, action[:, None], axis=1)[:, 0]
        log_p = jnp.where(drawn, jnp.take_along_axis(log_prior, action[:, None], axis=1)[:, 0], 0.0)
        log_q_action = jnp.where(drawn, picked, 0.0)

        # Without refreshing, a state has one action, and its visits are those of the action.
        visit = (
            visits if config.refresh == 0 else _visits_with(match, particles.taken, action, mdp.num_actions)
        )
        slot = jnp.arange(count)
        words = (
            jax.vmap(query_words, in_axes=(None, 0, 0, 0))(noise.words, identity, action, visit)
            if config.coupled
            else jax.vmap(particle_words, in_axes=(None, 0, None))(noise.words, slot, t)
        )
        moved = jax.vmap(move_by_words, in_axes=(None, 0, 0, 0))(mdp, words, particles.state, action)
        reward = discounted(mdp, jnp.where(active, moved.reward, 0.0), t)

        log_before = logsumexp(log_weight)
        log_weight = log_weight + reward + (log_p - log_q_action)
        ess, resampled, ancestor = choose_ancestors(uniform_resample, log_weight, t == horizon - 1, config)
        over = particles.over | moved.terminated
        record = Sweep(
            state=particles.state,
            action=action,
            drawn=drawn,
            active=active,
            log_prior=log_p,
            log_proposal=log_q_action,
            reward=reward,
            log_weight=log_weight,
            ess=ess,
            resampled=resampled,
            ancestor=ancestor,
            log_mean=logsumexp(log_weight) - log_before,
            ended=over,
        )
        after = _Particles(
            state=jax.tree.map(
                lambda new, old: jnp.where(active.reshape(-1, *([1] * (new.ndim - 1))), new, old)[ancestor],
                moved.state,
                particles.state,
            ),
            over=over[ancestor],
            seen=_put(particles.seen, key, t)[ancestor],
            # After the end of an episode there is no visit to remember.
            taken=_put(particles.taken, jnp.where(active, visits * mdp.num_actions + action, _UNUSED), t)[
                ancestor
            ],
        )
        return (after, jnp.where(resampled, 0.0, log_weight)), record

    inputs = (jnp.arange(horizon), noise.action, noise.refresh, noise.resample)
    record = scan_until_idle(step, (particles, jnp.zeros(count)), inputs)
    return record._replace(ended=record.ended[-1])


def _memo_key(mdp: MDP, state: State) -> Array:
    """Return what a memo knows a state by, ``[K] int32``: its number on a table, which is one word."""
    return jnp.asarray(state, jnp.int32)[None] if isinstance(mdp, TabularMDP) else mdp.identity(state)


def _visits_with(match: Array, taken: Array, action: Array, num_actions: int) -> Array:
    """Return how many of the matching visits ``[N, T]`` took `action` ``[N]``."""
    return (match & (taken >= 0) & (taken % num_actions == action[:, None])).sum(axis=1)


def _put(history: Array, entry: Array, t: Array) -> Array:
    written: Array = jax.lax.dynamic_update_index_in_dim(history, entry, t, history.ndim - 1)
    return written
