"""The compiled functions of annealing, shared by problems of one shape."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from polinfer.annealing.bridge import log_weights
from polinfer.annealing.buckets import capacity
from polinfer.annealing.moves import columns_of, draw_actions
from polinfer.annealing.noise import uniform
from polinfer.annealing.passes import make_evaluate, with_returns
from polinfer.annealing.problem import Problem
from polinfer.annealing.stage import make_stage


class Kernels(NamedTuple):
    """The compiled functions of a problem's shape."""

    evaluate: Any
    stage: Any
    log_weights: Any
    draw: Any


class Shape(NamedTuple):
    """What the compiled code of one group of islands depends on."""

    size: int
    actions: int
    width: int
    horizon: int  # the most steps
    policies: int
    islands: int
    itemsize: int

    @classmethod
    def of(cls, problem: Problem, policies: int, islands: int, itemsize: int) -> Shape:
        """Return the shape of a problem with so many policies on so many islands."""
        size, actions = problem.gain.shape
        return cls(size, actions, problem.width, capacity(problem), policies, islands, itemsize)


@lru_cache(maxsize=64)
def compile_kernels(shape: Shape) -> Kernels:
    """Return the compiled functions; evaluation and stage take one group of islands at a time."""
    evaluate = make_evaluate(
        shape.size, shape.actions, shape.width, shape.horizon, shape.policies, shape.itemsize
    )

    def draw(key: Array, log_start: Array, count: int) -> Array:
        chance = uniform(key, (shape.size, count))
        return draw_actions(chance, columns_of(jnp.exp(log_start), jnp.float32), jnp.int16)

    return Kernels(
        evaluate=jax.jit(evaluate),
        stage=jax.jit(make_stage(with_returns(evaluate), shape.islands, shape.width)),
        log_weights=jax.jit(log_weights),
        draw=jax.jit(draw, static_argnames="count"),
    )
