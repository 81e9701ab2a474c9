"""The compiled engine with several worlds: each particle is one partial policy, rolled through all of them.

The log weight grows by the *mean* reward over the worlds, which tends to the expected reward as worlds grow.
The worlds of a particle are processed in order: an action that one of them draws is used by the next ones in
the same step.  With one world this is `polinfer.smc.compiled`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.scipy.special import logsumexp

from polinfer.core.noise import WorldNoise, derive_words, particle_words, query_words, world_words
from polinfer.core.protocol import MDP, State, discounted, invert_cumulative, log_prior_of
from polinfer.problems.tabular.table import TabularMDP
from polinfer.smc.config import SweepConfig
from polinfer.smc.record import Sweep
from polinfer.smc.resampling import choose_ancestors
from polinfer.smc.transitions import LogProposal, is_terminal_start, move_by_words, start_from_words


class _Particles(NamedTuple):
    """The carry of the scan; all of it is copied when particles are resampled."""

    state: State  # [N, M, ...]
    over: Array  # [N, M] bool
    seen: Array  # [T, N, M, K] int32, identities of the states visited so far
    taken: Array  # [T, N, M] int32, the actions taken there; -1 where none was
    memo: Array  # [N, S] int32, the action of each state of a table, -1 where none is; [N, 0] otherwise


def run_world_sweep(noise: WorldNoise, mdp: MDP, log_proposal: LogProposal, config: SweepConfig) -> Sweep:
    """Run one sweep; the record's fields of a visit have a last axis for the worlds, ``[T, N, M]``."""
    horizon, count, worlds = mdp.horizon, config.particles, config.worlds
    own_words = jax.vmap(lambda world: world_words(noise.words, world))(jnp.arange(worlds))  # [M, 2]
    start = _starts(noise, mdp, config)
    size = mdp.identity(jax.tree.map(lambda leaf: leaf[0, 0], start)).shape[0]
    table = mdp if isinstance(mdp, TabularMDP) else None
    particles = _Particles(
        state=start,
        over=_each_visit(lambda state: is_terminal_start(mdp, state))(start),
        seen=jnp.zeros((horizon, count, worlds, size), jnp.int32),
        taken=jnp.full((horizon, count, worlds), -1, jnp.int32),
        memo=jnp.full((count, 0 if table is None else table.num_states), -1, jnp.int32),
    )
    slot = jnp.arange(count)

    def step(carry: tuple[_Particles, Array], inputs: Any) -> Any:
        particles, log_weight = carry
        t, uniform_action, uniform_refresh, uniform_resample = inputs
        identity = _each_visit(mdp.identity)(particles.state)  # [N, M, K]
        log_q = _each_visit(log_proposal)(particles.state)  # [N, M, A]
        log_prior = _each_visit(lambda state: log_prior_of(mdp, state))(particles.state)
        active = ~particles.over

        fresh = _each_visit(invert_cumulative)(uniform_action, jnp.exp(log_q))
        if table is not None and config.refresh == 0:
            action, drawn, memo = _decide_by_table(particles, fresh)
        else:
            redraw = uniform_refresh < config.refresh
            action, drawn, memo = _decide(particles, identity, fresh, redraw, table, mdp.num_actions)
        picked = jnp.take_along_axis(log_q, action[..., None], axis=-1)[..., 0]
        log_p = jnp.where(drawn, jnp.take_along_axis(log_prior, action[..., None], axis=-1)[..., 0], 0.0)
        log_q_action = jnp.where(drawn, picked, 0.0)

        before = (particles.seen == identity).all(axis=-1) & (particles.taken == action)
        visit = before.sum(axis=0)  # [N, M]: each world counts its own visits
        words = (
            jax.vmap(jax.vmap(query_words), in_axes=(None, 0, 0, 0))(own_words, identity, action, visit)
            if config.coupled
            else jax.vmap(jax.vmap(particle_words, in_axes=(0, None, None)), in_axes=(None, 0, None))(
                own_words, slot, t
            )
        )
        moved = jax.vmap(jax.vmap(move_by_words, in_axes=(None, 0, 0, 0)), in_axes=(None, 0, 0, 0))(
            mdp, words, particles.state, action
        )
        reward = discounted(mdp, jnp.where(active, moved.reward, 0.0), t)

        log_before = logsumexp(log_weight)
        log_weight = log_weight + reward.mean(axis=-1) + (log_p - log_q_action).sum(axis=-1)
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
                lambda new, old: jnp.where(active.reshape(*active.shape, *([1] * (new.ndim - 2))), new, old)[
                    ancestor
                ],
                moved.state,
                particles.state,
            ),
            over=over[ancestor],
            seen=jax.lax.dynamic_update_index_in_dim(particles.seen, identity, t, 0)[:, ancestor],
            taken=jax.lax.dynamic_update_index_in_dim(particles.taken, jnp.where(active, action, -1), t, 0)[
                :, ancestor
            ],
            memo=memo[ancestor],
        )
        return (after, jnp.where(resampled, 0.0, log_weight)), record

    inputs = (jnp.arange(horizon), noise.action, noise.refresh, noise.resample)
    record: Sweep
    _, record = jax.lax.scan(step, (particles, jnp.zeros(count)), inputs)
    return record._replace(ended=record.ended[-1])


def _each_visit(function: Any) -> Any:
    """Map over particles and worlds."""
    return jax.vmap(jax.vmap(function))


def _starts(noise: WorldNoise, mdp: MDP, config: SweepConfig) -> State:
    """Return the first states ``[N, M, ...]``: one for all, one for each world, or one for each visit."""
    particle, world = jnp.arange(config.particles)[:, None], jnp.arange(config.worlds)[None, :]
    shape = (config.particles, config.worlds)
    if config.start == "shared":
        start = start_from_words(mdp, noise.start)
        return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (*shape, *jnp.shape(leaf))), start)
    own = jnp.broadcast_to(world if config.start == "averaged" else particle * config.worlds + world, shape)
    started: State = _each_visit(lambda number: start_from_words(mdp, derive_words(noise.start, number)))(own)
    return started


def _decide_by_table(particles: _Particles, fresh: Array) -> tuple[Array, Array, Array]:
    """Return the actions ``[N, M]``, which of them were drawn, and the new memo: one draw per state."""
    state, (count, worlds) = particles.state, fresh.shape
    slot, world = jnp.arange(count)[:, None], jnp.arange(worlds)
    memo = jnp.take_along_axis(particles.memo, state, axis=1)
    unknown = ~particles.over & (memo < 0)
    nobody = jnp.full(particles.memo.shape, worlds, jnp.int32)
    first = nobody.at[slot, state].min(jnp.where(unknown, world, worlds))
    drawer = jnp.take_along_axis(first, state, axis=1)
    drawn = unknown & (drawer == world)
    told = jnp.take_along_axis(fresh, jnp.minimum(drawer, worlds - 1), axis=1)
    action = jnp.where(unknown, told, jnp.maximum(memo, 0))
    row = jnp.where(drawn, state, particles.memo.shape[1])
    return action, drawn, particles.memo.at[slot, row].set(action, mode="drop")


def _decide(
    particles: _Particles,
    identity: Array,
    fresh: Array,
    redraw: Array,
    table: TabularMDP | None,
    num_actions: int,
) -> tuple[Array, Array, Array]:
    """Do the same for any problem, with redraws on revisits: worlds are compared with one another."""
    active, world = ~particles.over, jnp.arange(fresh.shape[1])
    same = (identity[:, :, None] == identity[:, None, :]).all(axis=-1) & active[:, None, :]
    earlier = same & (world < world[:, None])  # [N, M, M']
    memo = _remembered(particles, identity, table, num_actions)
    known = (memo >= 0) | earlier.any(axis=-1)
    drawn = active & (~known | redraw)
    drawer = jnp.max(jnp.where(earlier & drawn[:, None, :], world, -1), axis=-1)
    told = jnp.take_along_axis(fresh, jnp.maximum(drawer, 0), axis=1)
    action = jnp.where(drawn, fresh, jnp.where(drawer >= 0, told, jnp.maximum(memo, 0)))
    return action, drawn, _write_down(particles, drawn, same, action, table)


def _remembered(particles: _Particles, identity: Array, table: TabularMDP | None, actions: int) -> Array:
    """Return the memoised action ``[N, M]`` of a particle in the states of its worlds, -1 without one."""
    if table is not None:
        return jnp.take_along_axis(particles.memo, particles.state, axis=1)
    steps, count, worlds, size = particles.seen.shape
    # All visits of a particle in the order in which they were made: steps, and worlds within a step.
    seen = jnp.moveaxis(particles.seen, 0, 1).reshape(count, steps * worlds, size)
    taken = jnp.moveaxis(particles.taken, 0, 1).reshape(count, steps * worlds)
    match = (seen[:, None] == identity[:, :, None]).all(axis=-1) & (taken >= 0)[:, None]  # [N, M, T*M]
    order = jnp.arange(steps * worlds, dtype=jnp.int32)
    latest = jnp.max(jnp.where(match, order * actions + taken[:, None], -1), axis=-1)
    return jnp.where(latest < 0, -1, latest % actions)


def _write_down(
    particles: _Particles, drawn: Array, same: Array, action: Array, table: TabularMDP | None
) -> Array:
    """Return the memo with the actions that were drawn; the last world that drew in a state wins."""
    if table is None:
        return particles.memo
    world = jnp.arange(drawn.shape[1])
    later = (same & drawn[:, None, :] & (world > world[:, None])).any(axis=-1)
    row = jnp.where(drawn & ~later, particles.state, table.num_states)
    slot = jnp.arange(drawn.shape[0])[:, None]
    return particles.memo.at[slot, row].set(action, mode="drop")
