"""Uniform random numbers as a hash of a key and a position.

The state of a run is then two words and a counter, and a number costs a few multiplications (JAX's own
threefry costs about ten times as much, in run time and in compilation).  The mixing steps are those of
MurmurHash3 (Appleby 2011).
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

_GOLDEN = 0x9E3779B9


def make_key(seed: int, stream: int = 0) -> NDArray[np.uint32]:
    """Return a key, ``[2] uint32``; streams of one seed are independent."""
    return np.asarray(np.random.SeedSequence([seed, stream]).generate_state(2), np.uint32)


def _mix(word: Array) -> Array:
    word = (word ^ (word >> 16)) * jnp.uint32(0x85EBCA6B)
    word = (word ^ (word >> 13)) * jnp.uint32(0xC2B2AE35)
    return word ^ (word >> 16)


def fold(key: Array, number: Array | int) -> Array:
    """Return the key, ``[2] uint32``, that `key` gives to `number`."""
    counter = jnp.asarray(number).astype(jnp.uint32) * jnp.uint32(_GOLDEN) + jnp.uint32(1)
    first = _mix(key[0] ^ counter)
    second = _mix(key[1] + first)
    return jnp.stack([_mix(first ^ (second >> 3)), second])


def uniform(key: Array, shape: tuple[int, ...]) -> Array:
    """Draw numbers strictly between 0 and 1, ``float32``.

    Examples
    --------
    >>> draws = uniform(jnp.asarray(make_key(1)), (10_000,))
    >>> bool(abs(float(draws.mean()) - 0.5) < 5 * 12**-0.5 / 100)
    True
    """
    count = int(np.prod(shape))
    place = jnp.arange(count, dtype=jnp.uint32) * jnp.uint32(_GOLDEN)
    word = _mix(_mix(place ^ key[0]) + key[1])
    # 23 bits and a half: neither 0 nor 1 can come out.
    return (((word >> 9).astype(jnp.float32) + 0.5) * 2.0**-23).reshape(shape)
