"""Random numbers by hashing; this module alone decides which particles share noise.

A sweep is seeded by two 32-bit words.  Every random number is a hash of them and of its purpose.  The noise
of the query ``(s, a, k)``, the k-th time that action a is taken in state s, depends on nothing else, so equal
queries have equal successors without a table, for any number of particles and machines.  Without coupling
the noise depends on the particle and the step instead of the query.

The hash is MurmurHash3 (Appleby).  JAX's threefry generator costs ten times as much per number, and takes
most of the compilation time of a sweep on CPU.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

_DYNAMICS, _START, _ACTION, _REFRESH, _RESAMPLE = range(5)


class SweepNoise(NamedTuple):
    """All randomness of one sweep."""

    words: Array  # [2] uint32, the seed of the shared dynamics
    start: Array  # [2] uint32, the noise of the first state, shared by all particles
    action: Array  # [T, N] uniform, picks an action where one is drawn
    refresh: Array  # [T, N] uniform, decides whether a revisit draws
    resample: Array  # [T, N] uniform, picks ancestors


class WorldNoise(NamedTuple):
    """All randomness of one sweep with several worlds."""

    words: Array  # [2] uint32, the seed of the shared dynamics of all worlds
    start: Array  # [2] uint32, the noise of the first states
    action: Array  # [T, N, M] uniform, picks an action where one is drawn
    refresh: Array  # [T, N, M] uniform, decides whether a revisit draws
    resample: Array  # [T, N] uniform, picks ancestors


def seed_words(seed: Array) -> Array:
    """Return the two words ``[2] uint32`` that stand for a seed, ``[] uint32``."""
    return _hash(jnp.array([0x9E3779B9, 0x7F4A7C15], jnp.uint32), [seed])


def derive_words(words: Array, *numbers: Array) -> Array:
    """Return two words for the use that `numbers` name: an update, a sweep, an episode."""
    return _hash(words, list(numbers))


def draw_noise(words: Array, horizon: int, particles: int) -> SweepNoise:
    """Draw the randomness of one sweep from its two words ``[2] uint32``."""
    step = jnp.arange(horizon)[:, None]
    particle = jnp.arange(particles)[None, :]

    def uniforms(use: int) -> Array:
        own = derive_words(words, jnp.asarray(use))[:, None, None]
        return as_uniform(_hash(own, [step, particle]))

    return SweepNoise(
        derive_words(words, jnp.asarray(_DYNAMICS)),
        derive_words(words, jnp.asarray(_START)),
        uniforms(_ACTION),
        uniforms(_REFRESH),
        uniforms(_RESAMPLE),
    )


def draw_world_noise(words: Array, horizon: int, particles: int, worlds: int) -> WorldNoise:
    """Draw the randomness of one sweep with several worlds from its two words ``[2] uint32``."""
    one = draw_noise(words, horizon, particles)
    step, particle = jnp.arange(horizon)[:, None, None], jnp.arange(particles)[None, :, None]
    world = jnp.arange(worlds)[None, None, :]

    def uniforms(use: int) -> Array:
        own = derive_words(words, jnp.asarray(use))[:, None, None, None]
        return as_uniform(_hash(own, [step, particle, world]))

    return WorldNoise(one.words, one.start, uniforms(_ACTION), uniforms(_REFRESH), one.resample)


def world_words(noise_words: Array, world: Array) -> Array:
    """Return the seed ``[2] uint32`` of the dynamics of one world; world 0 has that of a single world."""
    return jnp.where(world == 0, noise_words, _hash(noise_words, [world]))


def query_words(noise_words: Array, identity: Array, action: Array, visit: Array) -> Array:
    """Return the noise ``[2] uint32`` of one query; `visit` counts earlier equal ones."""
    return _hash(noise_words, [*identity, action, visit])


def particle_words(noise_words: Array, particle: Array, step: Array) -> Array:
    """Return the noise ``[2] uint32`` of one particle at one step, for uncoupled dynamics."""
    return _hash(noise_words, [particle, step])


def as_uniform(words: Array) -> Array:
    """Return a number in ``[0, 1)`` made of the first word's upper 24 bits."""
    return jnp.multiply((words[0] >> 8).astype(jnp.float32), 2.0**-24)


def as_key(words: Array) -> Array:
    """Return a JAX key made of both words."""
    key: Array = jax.random.wrap_key_data(words, impl="threefry2x32")
    return key


def _hash(seed: Array, words: list[Array]) -> Array:
    hashed: Array = _hash_once_traced(seed, words)
    return hashed


@jax.jit
def _hash_once_traced(seed: Array, words: list[Array]) -> Array:
    state = seed
    for word in words:
        mixed = word.astype(jnp.uint32) * jnp.uint32(0xCC9E2D51)
        mixed = _rotate(mixed, 15) * jnp.uint32(0x1B873593)
        state = _rotate(state ^ mixed, 13) * jnp.uint32(5) + jnp.uint32(0xE6546B64)
    # The words are mixed into each other last, so that each depends on all 64 bits of the seed.
    first = _finish(state[0] + _rotate(state[1], 16))
    second = _finish(state[1] + first)
    return jnp.stack([first, second])


def _finish(word: Array) -> Array:
    word = (word ^ (word >> 16)) * jnp.uint32(0x85EBCA6B)
    word = (word ^ (word >> 13)) * jnp.uint32(0xC2B2AE35)
    return word ^ (word >> 16)


def _rotate(word: Array, bits: int) -> Array:
    return (word << bits) | (word >> (32 - bits))
