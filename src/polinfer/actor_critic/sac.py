"""The acting half of soft actor-critic: episodes, replay, and segments of training as one compiled call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from polinfer.actor_critic.agent import Learner, SacAgent
from polinfer.actor_critic.config import SacConfig
from polinfer.actor_critic.replay import Experience, Packing, make_packing, pick_rows
from polinfer.core.noise import as_uniform, derive_words, seed_words
from polinfer.core.protocol import MDP, State, invert_cumulative
from polinfer.smc.proposal import log_policy
from polinfer.smc.transitions import move_by_words, start_from_words

_START, _ACTION, _MOVE, _RESTART, _BATCH = range(5)


class Walk(NamedTuple):
    """Where the episode stands."""

    state: State
    steps: Array  # [] int32, taken so far
    gained: Array  # [] float32


class SacState(NamedTuple):
    """All that training carries from one update to the next; every leaf has a leading seed axis."""

    learner: Learner
    walk: Walk
    words: Array  # [2] uint32, the seed's; an update derives its own from them and its number


class SacMetrics(NamedTuple):
    """Averages over a segment, each ``[seeds]``."""

    episode_return: Array  # of the episodes that ended or were cut off; NaN without any
    entropy: Array  # of the policy in the states replayed, nats
    critic_loss: Array
    alpha: Array
    finite: Array  # bool


Segment = Callable[[SacState, Array, Array, Array, Array], tuple[SacState, Array, SacMetrics]]
"""From state, store, rows stored, first and last update to state, the new rows, and metrics."""


class SacTrainer(NamedTuple):
    """The compiled functions that train one configuration on one MDP."""

    init: Callable[[Sequence[int]], SacState]  # from seeds
    width: int  # words per stored transition
    collect: Segment  # act uniformly, learn nothing
    learn: Segment


@lru_cache(maxsize=16)
def make_sac_trainer(mdp: MDP, config: SacConfig, by_table: bool, block: int) -> SacTrainer:
    """Compile soft actor-critic on `mdp`, in segments of at most `block` steps; equal arguments share it."""
    if block % config.steps_per_update:
        raise ValueError(f"a block of {block} is no whole number of {config.steps_per_update} steps")
    agent = SacAgent(mdp, config, by_table)
    packing = make_packing(jax.eval_shape(mdp.init, jax.random.key(0)))
    stride = config.steps_per_update

    def init(seeds: Sequence[int]) -> SacState:
        def one(seed: int) -> SacState:
            words = seed_words(jnp.asarray(seed, jnp.uint32))
            start = start_from_words(mdp, derive_words(words, jnp.asarray(_START)))
            walk = Walk(jax.tree.map(jnp.asarray, start), jnp.zeros((), jnp.int32), jnp.zeros(()))
            return SacState(agent.initial(seed), walk, words)

        state: SacState = jax.tree.map(lambda *leaves: jnp.stack(leaves), *map(one, seeds))
        return state

    def uniformly(state: State) -> Array:
        return jnp.exp(log_policy(jnp.zeros(mdp.num_actions), mdp.legal(state)))

    def segment(
        learning: bool, state: SacState, store: Array, stored: Array, first: Array, last: Array
    ) -> tuple[SacState, Array, SacMetrics]:
        def update(number: Array, carry: Any, bootstrap: Callable[[State], Array]) -> Any:
            state, known, rows, sums = carry
            words = derive_words(state.words, number)
            probs_in = agent.behaviour(state.learner.actor, known) if learning else uniformly
            walk, new, ended = _act(mdp, config, packing, state.walk, words, probs_in)
            done = (number - first) * stride
            rows = jax.lax.dynamic_update_slice_in_dim(rows, new, done, axis=0)
            learner, loss, entropy = state.learner, jnp.zeros(()), jnp.zeros(())
            if learning:
                own = derive_words(words, jnp.asarray(_BATCH))[:, None]
                draw = derive_words(own, jnp.arange(config.batch))[0]
                index = (draw % (stored + done + stride).astype(jnp.uint32)).astype(jnp.int32)
                batch = jax.vmap(packing.unpack)(pick_rows(store, rows, index, stored))
                learner, known, loss, entropy = agent.learn(learner, batch, bootstrap, known)
            sums = sums + jnp.concatenate([ended, jnp.stack([entropy, loss])])
            return SacState(learner, walk, state.words), known, rows, sums

        def until_targets_move(progress: Any) -> Any:
            number, carry = progress
            upto = jnp.minimum(agent.next_move(number), last)
            # Constant in the inner loop, the targets are neither copied nor evaluated by each update.
            bootstrap = agent.bootstrap(carry[0].learner.targets)
            state, *others = jax.lax.fori_loop(number, upto, partial(update, bootstrap=bootstrap), carry)
            state = state._replace(learner=agent.move_targets(state.learner, upto))
            return upto, (state, *others)

        known = agent.known(state.learner) if learning else None
        start = (first, (state, known, jnp.zeros((block, packing.width), jnp.int32), jnp.zeros(4)))
        _, (state, _, rows, sums) = jax.lax.while_loop(lambda now: now[0] < last, until_targets_move, start)
        episodes, gained, entropy, loss = sums
        count = (last - first).astype(jnp.float32)
        metrics = SacMetrics(
            episode_return=gained / episodes,
            entropy=entropy / count,
            critic_loss=loss / count,
            alpha=jnp.exp(state.learner.log_alpha),
            finite=jnp.isfinite(sums).all(),
        )
        return state, rows, metrics

    def compiled(learning: bool) -> Segment:
        batched = jax.vmap(lambda *inputs: segment(learning, *inputs), in_axes=(0, 0, None, None, None))
        run: Segment = jax.jit(batched, donate_argnums=0)
        return run

    return SacTrainer(init, packing.width, compiled(False), compiled(True))


def _act(
    mdp: MDP,
    config: SacConfig,
    packing: Packing,
    walk: Walk,
    words: Array,
    probs_in: Callable[[State], Array],
) -> Any:
    """Take the steps between updates; return them packed, and what episodes that ended gained."""

    def step(walk: Walk, index: Array) -> Any:
        action_words, move_words, restart_words = (
            derive_words(words, index, jnp.asarray(use)) for use in (_ACTION, _MOVE, _RESTART)
        )
        action = invert_cumulative(as_uniform(action_words), probs_in(walk.state))
        moved = move_by_words(mdp, move_words, walk.state, action)
        reward = jnp.asarray(moved.reward, jnp.float32)
        ends = moved.terminated & (config.absorbing == "end")
        row = packing.pack(Experience(walk.state, action, reward, moved.state, ends))
        # Cut off by the horizon, an episode starts anew, but its last step is stored as one that goes on.
        over = ends | (walk.steps + 1 >= mdp.horizon)
        fresh = Walk(start_from_words(mdp, restart_words), jnp.zeros_like(walk.steps), jnp.zeros(()))
        later = Walk(moved.state, walk.steps + 1, walk.gained + reward)
        ended = jnp.stack([over.astype(jnp.float32), jnp.where(over, later.gained, 0.0)])
        return jax.tree.map(lambda a, b: jnp.where(over, a, b), fresh, later), (row, ended)

    walk, (rows, ended) = jax.lax.scan(step, walk, jnp.arange(config.steps_per_update))
    return walk, rows, ended.sum(axis=0)
