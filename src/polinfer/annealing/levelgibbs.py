"""Exact Gibbs passes over all states where no episode comes back to one that it has left.

From the last level to the first, the visits to a level are those of the policy before the pass and the values
of all that follows are known.  Given the other levels, ``J`` is a sum over the states of one level, so all of
them are drawn at once, each from its exact conditional: a whole pass costs one evaluation and refuses
nothing.  States that are not reached are drawn from the prior, and in the end from the fill: any
distribution that sums to one leaves the posterior over reached choices as it is.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from polinfer.annealing.moves import Target, columns_of, draw_actions, pick, softmax
from polinfer.annealing.noise import fold, uniform
from polinfer.annealing.passes import level_visits, level_worth
from polinfer.annealing.rows import Rows


class Drawn(NamedTuple):
    """Policies after a pass, and what they were drawn from."""

    policy: Array  # [N, P]
    conditional: Array  # [N, A, P], zero where the policy does not come


def gibbs_pass(key: Array, rows: Rows, width: int, target: Target, policy: Array) -> Drawn:
    """Draw every state's action from its conditional under ``exp(scale J) prod_s prior(pi(s)|s)``.

    In the end, states that are not reached are drawn from the target's fill.
    """
    size, actions = rows.gain.shape
    count, dtype = policy.shape[1], rows.gain.dtype
    visits = level_visits(rows, policy, width)
    chance = uniform(fold(key, 0), policy.shape)
    prior = jnp.exp(target.log_prior).astype(dtype)
    # What was not reached is drawn anew first: the values of unreached states must come from the prior.
    fresh = draw_actions(chance, columns_of(prior, dtype), policy.dtype)
    policy = jnp.where(visits > 0, policy, fresh)
    chance = uniform(fold(key, 1), policy.shape)
    scale = target.scale.astype(dtype)

    def back(carry: Any, number: Array) -> tuple[Any, None]:
        value, drawn, shares = carry
        first = number * width
        worth = level_worth(rows, value, first, width)
        here = jax.lax.dynamic_slice_in_dim(visits, first, width)
        log_prior = jax.lax.dynamic_slice_in_dim(target.log_prior, first, width).astype(dtype)
        share = softmax([log_prior[:, a, None] + scale * here * worth[:, a] for a in range(actions)])
        own = draw_actions(jax.lax.dynamic_slice_in_dim(chance, first, width), share, policy.dtype)
        come = [jnp.where(here > 0, part, 0.0) for part in share]
        new = pick([worth[:, a] for a in range(actions)], own)
        return (
            jax.lax.dynamic_update_slice_in_dim(value, new, first, 0),
            jax.lax.dynamic_update_slice_in_dim(drawn, own, first, 0),
            jax.lax.dynamic_update_slice_in_dim(shares, jnp.stack(come, axis=1), first, 0),
        ), None

    carry = (jnp.zeros((size + 1, count), dtype), policy, jnp.zeros((size, actions, count), dtype))
    (_, drawn, shares), _ = jax.lax.scan(back, carry, jnp.arange(size // width)[::-1])
    fill = columns_of(jnp.exp(target.log_fill), dtype)
    fresh = draw_actions(uniform(fold(key, 2), policy.shape), fill, policy.dtype)
    return Drawn(jnp.where(level_visits(rows, drawn, width) > 0, drawn, fresh), shares)
