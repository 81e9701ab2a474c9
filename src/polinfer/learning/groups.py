"""Seeds in two threads: operations as small as those of a sweep leave all but one core idle."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import wraps
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from polinfer.core.threads import thread_limit

_SPLIT = 8  # seeds, from which on they are trained in two groups
_GROUPS = 2
_CONFIG: Any = jax.config

Run = Callable[[Any, Array, Array], tuple[Any, Any]]
"""From a state, every leaf with a leading seed axis, and two numbers to a state and metrics."""


def run_in_groups(run: Any) -> Run:
    """Return the compiled function `run` with many seeds divided into two groups of equal size.

    An odd seed out is computed twice, so that one program serves both groups.  The division depends on the
    number of seeds only: the bits of a result do not depend on the number of cores.
    """
    programs: dict[int, Run] = {}  # by the size of a group

    @wraps(run)
    def in_groups(state: Any, first: Array, last: Array) -> tuple[Any, Any]:
        seeds = jax.tree.leaves(state)[0].shape[0]
        if seeds < _SPLIT:
            found: tuple[Any, Any] = run(state, first, last)
            return found
        members, double = _members(seeds), bool(_CONFIG.jax_enable_x64)
        host = jax.tree.map(np.asarray, state)
        # NumPy divides and joins: operations one by one would each be compiled.
        parts = [jax.tree.map(lambda leaf, own=own: jnp.array(leaf[own]), host) for own in members]
        size = len(members[0])
        if size not in programs:
            # Before the threads start, or both would compile it.
            programs[size] = run.lower(parts[0], first, last).compile()

        def advance(part: Any) -> Any:
            # The precision in force is a thread's own.
            with jax.enable_x64(double):
                found = programs[size](part, first, last)
                jax.tree.leaves(found)[0].block_until_ready()
                return found

        with ThreadPoolExecutor(min(_GROUPS, thread_limit())) as threads:
            pieces = list(threads.map(advance, parts))
        joined: tuple[Any, Any] = jax.tree.map(
            lambda *leaves: jnp.array(np.concatenate([np.asarray(leaf) for leaf in leaves])[:seeds]), *pieces
        )
        return joined

    return in_groups


def _members(seeds: int) -> list[NDArray[np.int64]]:
    """Return the places of the seeds of each group."""
    size = -(-seeds // _GROUPS)
    places = np.minimum(np.arange(_GROUPS * size), seeds - 1)
    return list(places.reshape(_GROUPS, size))
