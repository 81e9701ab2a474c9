"""Loops with one length for a whole batch.

Under `vmap` a loop with a length per member runs to the longest, and JAX selects between the old and the new
carry in every iteration.  If superfluous iterations change nothing, all members can use the largest length,
and the selection is not needed.
"""

from __future__ import annotations

from typing import Any

import jax
from jax import Array


@jax.custom_batching.custom_vmap
def largest_in_batch(value: Array) -> Array:
    """Return the maximum of `value` ``[]`` over all axes that `vmap` maps over."""
    return value


@largest_in_batch.def_vmap
def _over_one_axis(size: int, batched: list[bool], value: Array) -> tuple[Any, bool]:
    del size
    return largest_in_batch(value.max(axis=0) if batched[0] else value), False
