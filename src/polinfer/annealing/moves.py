"""Rejuvenation: moves that leave ``exp(scale * J)`` over deterministic policies as it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from polinfer.exact.returns import Choices


class Population(NamedTuple):
    """Policies and what they are worth; islands lie one after the other along the last axis."""

    actions: Array  # [n, P] int32, in the choices
    returns: Array  # [P]


class Passed(NamedTuple):
    """What a pass of moves leaves behind, added up over islands' policies."""

    population: Population
    shares: Array  # [n, A, islands], mean probability of each action in each choice
    accepted: Array  # [] share of proposals


Scan = Callable[[Array, Population, Array], Passed]
"""From a key, a population and a scale to the population after one pass."""


def gibbs_scan(choices: Choices, returns_of: Callable[[Array], Array], islands: int) -> Scan:
    """Draw the action of every choice in turn from its conditional, given the rest of the policy.

    The conditionals are what is averaged, not the draws: the same mean, with less noise.
    """
    legal = jnp.asarray(choices.legal)
    count, actions = choices.legal.shape

    def scan(key: Array, population: Population, scale: Array) -> Passed:
        order_key, draw_key = jax.random.split(key)
        order = jax.random.permutation(order_key, count)
        size = population.returns.shape[0]

        def move(index: Array, carry: Any) -> Any:
            now, shares = carry
            at = order[index]
            # Every action in turn at the choice, all other actions as they are.
            tried = jnp.tile(now.actions, (1, actions))
            tried = tried.at[at].set(jnp.repeat(jnp.arange(actions, dtype=jnp.int32), size))
            returns = returns_of(tried).reshape(actions, size)
            log_mass = jnp.where(legal[at][:, None], scale * returns, -jnp.inf)
            drawn = jax.random.categorical(jax.random.fold_in(draw_key, index), log_mass, axis=0)
            gained = jnp.take_along_axis(returns, drawn[None], axis=0)[0]
            conditional = jax.nn.softmax(log_mass, axis=0).reshape(actions, islands, -1).mean(axis=-1)
            after = Population(now.actions.at[at].set(drawn.astype(jnp.int32)), gained)
            return after, shares.at[at].set(conditional)

        start = (population, jnp.zeros((count, actions, islands)))
        moved, shares = jax.lax.fori_loop(0, count, move, start)
        return Passed(moved, shares, jnp.ones(()))

    return scan


def block_scan(choices: Choices, returns_of: Callable[[Array], Array], islands: int) -> Scan:
    """Propose uniform actions in random sets of choices, of all sizes from one to all, and accept or not."""
    legal = jnp.asarray(choices.legal)
    count, actions = choices.legal.shape
    spread = jnp.where(legal, 0.0, -jnp.inf)
    sizes = 1 + max(0, (count - 1).bit_length())  # 1, 2, 4, ... up to all

    def scan(key: Array, population: Population, scale: Array) -> Passed:
        size = population.returns.shape[0]

        def move(index: Array, carry: Any) -> Any:
            now, seen, accepted = carry
            keys = jax.random.split(jax.random.fold_in(key, index), 4)
            wanted = 2.0 ** jax.random.randint(keys[0], (size,), 0, sizes)
            chosen = jax.random.uniform(keys[1], (count, size)) < wanted / count
            fresh = jax.random.categorical(keys[2], spread[:, None, :], axis=-1, shape=(count, size))
            tried = jnp.where(chosen, fresh.astype(jnp.int32), now.actions)
            returns = returns_of(tried)
            taken = jnp.log(jax.random.uniform(keys[3], (size,))) < scale * (returns - now.returns)
            after = Population(jnp.where(taken, tried, now.actions), jnp.where(taken, returns, now.returns))
            held = after.actions[:, None, :] == jnp.arange(actions)[:, None]
            seen = seen + held.reshape(count, actions, islands, -1).mean(axis=-1)
            return after, seen, accepted + taken.mean()

        start = (population, jnp.zeros((count, actions, islands)), jnp.zeros(()))
        moved, seen, accepted = jax.lax.fori_loop(0, count, move, start)
        return Passed(moved, seen / count, accepted / count)

    return scan
