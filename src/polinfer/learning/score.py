"""The gradient of a weighted log-likelihood over states few of which have a weight."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from polinfer.core.batching import largest_in_batch
from polinfer.smc.proposal import Proposal

_ROWS = 32  # evaluated at once


def score_gradient(
    log_likelihood: Callable[[Proposal, Any], Array], proposal: Proposal, rows: Any, wanted: Array
) -> Proposal:
    """Return the gradient of the summed ``log_likelihood(proposal, row)`` of the `wanted` ``[R]`` of `rows`.

    In a sweep's record most entries are revisits, or come after the end, and have no weight: a network is
    evaluated only on blocks of those that have one.
    """
    count = jnp.cumsum(wanted)  # [R]
    size = min(_ROWS, wanted.shape[0])

    def total(proposal: Proposal, index: Array, valid: Array) -> Array:
        block = jax.tree.map(lambda leaf: leaf[index], rows)
        each = jax.vmap(log_likelihood, in_axes=(None, 0))(proposal, block)
        return jnp.where(valid, each, 0.0).sum()

    def add(block: Array, sums: Proposal) -> Proposal:
        number = block * size + jnp.arange(size)
        valid = number < count[-1]
        # Compare and sum: the row with that number among the wanted ones.
        index = (count[None, :] <= number[:, None]).sum(axis=1)
        # Past the last of them, the first row stands in: what it gives is finite, and not counted.
        index = jnp.where(valid, index, 0)
        return jax.tree.map(jnp.add, sums, jax.grad(total)(proposal, index, valid))

    blocks = largest_in_batch(-(-count[-1] // size))
    return jax.lax.fori_loop(0, blocks, add, jax.tree.map(jnp.zeros_like, proposal))
