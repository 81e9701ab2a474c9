"""Loops whose length is shared by a batch.

A loop under `vmap` runs until its last member is done, but where members differ in length JAX also selects,
at every turn, between old and new values of everything that it carries.  Where a turn too many changes
nothing, the length can be the batch's own: then nothing is selected.
"""

from __future__ import annotations

from typing import Any

import jax
from jax import Array


@jax.custom_batching.custom_vmap
def largest_in_batch(value: Array) -> Array:
    """Return the largest `value` ``[]`` of all batches that this is mapped over, the same for each member."""
    return value


@largest_in_batch.def_vmap
def _over_one_axis(size: int, batched: list[bool], value: Array) -> tuple[Any, bool]:
    del size
    return largest_in_batch(value.max(axis=0) if batched[0] else value), False
