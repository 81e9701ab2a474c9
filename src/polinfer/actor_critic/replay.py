"""The replay store: packed transitions, constant while a segment of training runs.

A store that is written to at every step would be copied at every step.  So a segment reads the store and
writes to a small block of its own, and between segments the block is laid into the store, in place.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from polinfer.core.protocol import State


class Experience(NamedTuple):
    """One step in the environment."""

    state: State
    action: Array  # [] int32
    reward: Array  # [] float32
    successor: State
    terminated: Array  # [] bool; false where the episode was only cut off by the horizon, or goes on


class Packing(NamedTuple):
    """How one `Experience` becomes a row of 32-bit words, and back."""

    width: int
    pack: Callable[[Experience], Array]  # -> [width] int32
    unpack: Callable[[Array], Experience]


def make_packing(state: State) -> Packing:
    """Return the packing for states of the same shape and types as `state` (arrays or their shapes)."""

    def example() -> Experience:
        one = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), state)
        action, reward = jnp.zeros((), jnp.int32), jnp.zeros((), jnp.float32)
        return Experience(one, action, reward, one, jnp.zeros((), jnp.bool_))

    leaves, structure = jax.tree.flatten(jax.eval_shape(example))
    sizes = [leaf.size for leaf in leaves]

    def pack(experience: Experience) -> Array:
        return jnp.concatenate([_to_words(leaf).reshape(-1) for leaf in jax.tree.leaves(experience)])

    def unpack(row: Array) -> Experience:
        parts, first = [], 0
        for leaf, size in zip(leaves, sizes, strict=True):
            parts.append(_from_words(row[first : first + size], leaf.dtype).reshape(leaf.shape))
            first += size
        experience: Experience = jax.tree.unflatten(structure, parts)
        return experience

    return Packing(sum(sizes), pack, unpack)


def _to_words(leaf: Array) -> Array:
    if jnp.issubdtype(leaf.dtype, jnp.floating):
        return jax.lax.bitcast_convert_type(leaf.astype(jnp.float32), jnp.int32)
    return leaf.astype(jnp.int32)


def _from_words(words: Array, dtype: Any) -> Array:
    if jnp.issubdtype(dtype, jnp.floating):
        return jax.lax.bitcast_convert_type(words, jnp.float32).astype(dtype)
    return words.astype(dtype)


@partial(jax.jit, donate_argnums=0)
def lay_in(store: Array, block: Array, position: Array, count: Array) -> Array:
    """Write `count` rows of `block` ``[seeds, K, W]`` into `store` ``[seeds, capacity + K, W]``, in place."""
    size = block.shape[1]
    before = jax.lax.dynamic_slice_in_dim(store, position, size, axis=1)
    rows = jnp.where((jnp.arange(size) < count)[:, None], block, before)
    return jax.lax.dynamic_update_slice_in_dim(store, rows, position, axis=1)


def pick_rows(store: Array, block: Array, index: Array, stored: Array) -> Array:
    """Return rows by number: the first `stored` numbers are those of the store, the next are the block's."""
    fresh = index >= stored
    # Each number is good for one of the two; the other read is clamped and thrown away.
    return jnp.where(
        fresh[:, None], block[jnp.where(fresh, index - stored, 0)], store[jnp.where(fresh, 0, index)]
    )
