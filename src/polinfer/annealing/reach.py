"""The probability of ever visiting a state, and the reach policy that is weighted by it."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from polinfer.annealing.buckets import capacity
from polinfer.annealing.enumerate import BATCH, compile_visits
from polinfer.annealing.problem import Problem
from polinfer.annealing.rows import make_rows
from polinfer.exact.solution import Floats

_MOST_WORK = 4e9  # multiplications


def affordable(problem: Problem) -> int:
    """Return for how many policies the probability of visits can be computed."""
    if problem.width:
        return 1 << 30
    size, actions = problem.gain.shape
    branches = problem.successor.shape[2] + problem.origin.shape[1]
    return int(_MOST_WORK / (float(size) ** 2 * actions * branches * problem.horizon))


def visit_probability(problem: Problem, policy: NDArray[np.int16], visits: Floats) -> Floats:
    """Return the probability ``[N, M]`` with which policies ``[N, M]`` come to each state with a choice.

    Without loops these are the expected visits ``[N, M]``; elsewhere a policy that stops where it first comes
    is followed for each state.  Where that is too much work, visits up to one stand in for it.
    """
    if affordable(problem) < policy.shape[1] or (problem.width and problem.discount == 1):
        return np.minimum(visits, 1.0)
    chance = np.minimum(visits, 1.0)
    with jax.enable_x64(True):
        rows = make_rows(problem.undiscounted(), np.float64)
        evaluate = compile_visits(*problem.gain.shape, problem.width, capacity(problem))
        for slot in np.flatnonzero(problem.legal.sum(axis=1) > 1):
            for first in range(0, policy.shape[1], BATCH):
                some = policy[:, first : first + BATCH].copy()
                count = some.shape[1]
                some[slot] = -1
                padded = np.pad(some, ((0, 0), (0, BATCH - count)), mode="edge")
                found = np.asarray(evaluate(rows, jnp.asarray(padded))[1])
                chance[slot, first : first + count] = found[slot, :count]
    return chance


def reach_policy(problem: Problem, policy: NDArray[np.int16], chance: Floats) -> Floats:
    """Return the action frequencies ``[N, A]`` where one policy plays an episode.

    `chance` ``[N, M]`` is each policy's weight times its probability of coming to the state; zero where none
    of the policies comes.
    """
    actions = range(problem.legal.shape[1])
    mass = np.stack([np.where(policy == action, chance, 0.0).sum(axis=1) for action in actions], axis=1)
    return np.asarray(mass / np.maximum(mass.sum(axis=1, keepdims=True), 1e-300))
