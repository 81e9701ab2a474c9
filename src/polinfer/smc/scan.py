"""Scan that stops once every particle has terminated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from polinfer.core.batching import largest_in_batch
from polinfer.smc.record import Sweep


def scan_until_idle(step: Callable[[Any, Any], tuple[Any, Sweep]], carry: Any, inputs: Any) -> Sweep:
    """Return the records that ``lax.scan(step, carry, inputs)`` stacks, without computing repeated steps.

    After a step in which no particle was active or resampled, every further step has the same record.
    """
    horizon = jax.tree.leaves(inputs)[0].shape[0]
    shapes = jax.eval_shape(step, carry, _at(inputs, 0))[1]
    blank = jax.tree.map(lambda leaf: jnp.zeros((horizon, *leaf.shape), leaf.dtype), shapes)

    def goes_on(loop: Any) -> Any:
        t, busy, _, _ = loop
        return (t < horizon) & busy

    def advance(loop: Any) -> Any:
        t, _, carry, records = loop
        carry, record = step(carry, _at(inputs, t))
        records = jax.tree.map(
            lambda rows, row: jax.lax.dynamic_update_index_in_dim(rows, row, t, 0), records, record
        )
        busy = record.active.any() | record.resampled
        return t + 1, largest_in_batch(busy), carry, records

    start = (jnp.zeros((), jnp.int32), jnp.ones((), jnp.bool_), carry, blank)
    steps, _, _, records = jax.lax.while_loop(goes_on, advance, start)
    rows = jnp.minimum(jnp.arange(horizon), steps - 1)
    found: Sweep = _at(records, rows)
    return found


def _at(tree: Any, t: Any) -> Any:
    return jax.tree.map(lambda leaf: leaf[t], tree)
