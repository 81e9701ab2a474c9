"""Genealogy of a sweep: the ancestors of the final particles."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from jax import Array

from polinfer.smc.record import Sweep


def lineages(sweep: Sweep) -> Array:
    """Return the ancestor of each final particle at every step, ``[T, N] int32``.

    Nothing is resampled after the last step, so its own ancestors are not looked at.
    """
    last = jnp.arange(sweep.ancestor.shape[1], dtype=sweep.ancestor.dtype)

    def back(line: Array, ancestor: Array) -> tuple[Array, Array]:
        return ancestor[line], ancestor[line]

    _, earlier = jax.lax.scan(back, last, sweep.ancestor[:-1], reverse=True)
    return jnp.concatenate([earlier, last[None]])


@partial(jax.jit, static_argnames="num_states")
def committed_actions(sweep: Sweep, num_states: int) -> Array:
    """Return the actions that each final particle's lineage has drawn, ``[N, S]``; -1 where it drew none."""
    slot = jnp.arange(sweep.ancestor.shape[1])[None, :, None]
    # One draw per state and particle, so no two of them meet.
    row = jnp.where(along(sweep, sweep.drawn), along(sweep, sweep.state), num_states)
    actions = jnp.full((sweep.ancestor.shape[1], num_states), -1, jnp.int32)
    return actions.at[slot, row].set(along(sweep, sweep.action), mode="drop")


def along(sweep: Sweep, field: Array) -> Array:
    """Return a field of the record along the lineages of the final particles, ``[T, N, M]``."""
    steps, count = sweep.ancestor.shape
    return jnp.take_along_axis(field.reshape(steps, count, -1), lineages(sweep)[:, :, None], axis=1)
