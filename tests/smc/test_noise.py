"""The hash behind a sweep's randomness is as good as random wherever a sweep looks."""

from __future__ import annotations

import itertools
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from polinfer.core.noise import as_uniform, derive_words, particle_words, query_words, seed_words

from .engines import make_noise

SEEDS, STATES, ACTIONS, VISITS = 32, 32, 8, 16


def assert_uniform(values: np.ndarray, bins: int = 256) -> None:
    """Chi-square within five standard deviations of its mean."""
    expected = values.size / bins
    chi = (
        (np.bincount((values.ravel() * bins).astype(int), minlength=bins) - expected) ** 2 / expected
    ).sum()
    assert abs(chi - (bins - 1)) < 5 * np.sqrt(2 * (bins - 1))


def assert_independent(one: np.ndarray, other: np.ndarray, bins: int = 16) -> None:
    """Pairs are uncorrelated, and fill the unit square evenly."""
    one, other = one.ravel(), other.ravel()
    assert abs(np.corrcoef(one, other)[0, 1]) < 5 / np.sqrt(one.size)
    cells = (one * bins).astype(int) * bins + (other * bins).astype(int)
    assert_uniform((cells + 0.5) / bins**2, bins**2)


def assert_transposes_independent(square: np.ndarray) -> None:
    """State 2 by action 1 is not state 1 by action 2: ``[seed, n, n, ...]``."""
    below, above = np.tril_indices(square.shape[1], -1)
    assert_independent(square[:, below, above], square[:, above, below])


def neighbours(values: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
    return np.delete(values, -1, axis), np.delete(values, 0, axis)


@cache
def query_table(words_of_identity: int) -> np.ndarray:
    """Both words of every query, ``[seed, state, action, visit, 2]`` uint32."""

    def one(seed: Any, state: Any, action: Any, visit: Any) -> Any:
        words = derive_words(seed_words(jnp.uint32(1)), seed)
        identity = [state] if words_of_identity == 1 else [state // 4, state % 4]
        return query_words(words, jnp.stack(identity), action, visit)

    grids = jnp.meshgrid(*map(jnp.arange, (SEEDS, STATES, ACTIONS, VISITS)), indexing="ij")
    flat = jax.jit(jax.vmap(one))(*(grid.ravel() for grid in grids))
    return np.asarray(flat).reshape(SEEDS, STATES, ACTIONS, VISITS, 2)


@pytest.mark.parametrize("identity", [1, 2])
def test_queries_are_uniform_and_independent(identity: int) -> None:
    words = query_table(identity)
    uniform = np.asarray(jax.vmap(as_uniform)(words.reshape(-1, 2))).reshape(words.shape[:-1])
    assert uniform.min() >= 0
    assert uniform.max() < 1
    assert_uniform(uniform)
    for axis in range(4):  # next sweep, state, action, visit
        assert_independent(*neighbours(uniform, axis))
    assert_independent(uniform, words[..., 1] / 2**32)
    assert_uniform(words[..., 1] / 2**32)
    assert_transposes_independent(uniform[:, :ACTIONS])


@pytest.mark.parametrize("identity", [1, 2])
def test_queries_rarely_collide(identity: int) -> None:
    """Of n words of 32 bits, about n^2 / 2^33 pairs are equal by chance; no pair shares both words."""
    words = query_table(identity).reshape(-1, 2)
    for column in words.T:
        equal = len(column) - len(np.unique(column))
        expected = len(column) ** 2 / 2**33
        assert abs(equal - expected) < 5 * np.sqrt(expected) + 1
    assert len(np.unique(words, axis=0)) == len(words)


def test_uncoupled_moves_are_uniform_and_independent() -> None:
    def one(seed: Any, particle: Any, step: Any) -> Any:
        return as_uniform(particle_words(derive_words(seed_words(jnp.uint32(2)), seed), particle, step))

    shape = (512, 10, 20)
    grids = jnp.meshgrid(*map(jnp.arange, shape), indexing="ij")
    uniform = np.asarray(jax.jit(jax.vmap(one))(*(g.ravel() for g in grids))).reshape(shape)
    assert_uniform(uniform)
    for axis in range(3):
        assert_independent(*neighbours(uniform, axis))
    assert_transposes_independent(uniform[:, :, :10])


def test_a_sweeps_uniforms_are_uniform_and_independent() -> None:
    noise = make_noise(6, 512, 20, 10)
    parts = [np.asarray(part) for part in (noise.action, noise.refresh, noise.resample)]
    for part in parts:
        assert part.shape == (512, 20, 10)
        assert part.min() >= 0
        assert part.max() < 1
        assert_uniform(part)
        for axis in range(3):  # next sweep, step, particle
            assert_independent(*neighbours(part, axis))
        assert_transposes_independent(part[:, :10])
    for one, other in itertools.combinations(parts, 2):
        assert_independent(one, other)
    assert len({tuple(row) for row in np.concatenate([noise.words, noise.start]).tolist()}) == 2 * 512
