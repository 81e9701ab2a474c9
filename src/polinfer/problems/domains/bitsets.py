"""Bit sets in non-negative 32-bit words, 31 members per word."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

BITS = 31


def num_words(size: int) -> int:
    """Return the number of words of a set of numbers below `size`; at least one.

    Examples
    --------
    >>> num_words(31), num_words(32)
    (1, 2)
    """
    return max(1, -(-size // BITS))


def as_words(members: Iterable[int], size: int) -> NDArray[np.int32]:
    """Return the words ``[W]`` of a set of numbers below `size`.

    Examples
    --------
    >>> as_words([0, 2, 31], 40).tolist()
    [5, 1]
    """
    words = np.zeros(num_words(size), np.int32)
    for member in members:
        words[member // BITS] |= np.int32(1 << member % BITS)
    return words


def as_flags(words: Array, size: int) -> Array:
    """Return for each number below `size` whether it is in the set, ``[size] bool``."""
    number = np.arange(size)
    return (jnp.asarray(words)[number // BITS] >> jnp.asarray(number % BITS, jnp.int32)) & 1 != 0


def members(words: Any, size: int) -> list[int]:
    """Return the numbers below `size` that are in a concrete set, in order.

    Examples
    --------
    >>> members(as_words([0, 2, 31], 40), 40)
    [0, 2, 31]
    """
    bits = [int(word) for word in words]
    return [number for number in range(size) if bits[number // BITS] >> number % BITS & 1]


def pack_flags(flags: Array) -> Array:
    """Return the words ``[W] int32`` of the set that `flags` ``[size] bool`` describes.

    Examples
    --------
    >>> pack_flags(jnp.array([True, False, True])).tolist()
    [5]
    """
    size = flags.shape[0]
    count = num_words(size)
    padded = jnp.concatenate([flags, jnp.zeros(count * BITS - size, jnp.bool_)]).reshape(count, BITS)
    weights = jnp.asarray(np.int32(1) << np.arange(BITS, dtype=np.int32))
    return jnp.sum(jnp.where(padded, weights, 0), axis=1, dtype=jnp.int32)
