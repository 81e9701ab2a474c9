"""Variance of the surrogate's gradient under each baseline, at the start and after training.

    python benchmarks/gradient_variance.py

4x4 multimodal grid, 10 particles; the gradient is that of a table of logits, so nothing hides in a network.
The mean gradients must agree: their largest difference is printed in standard errors.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

import polinfer
from polinfer.core.noise import derive_words, seed_words
from polinfer.learning.objective import evidence_to_go, leave_one_out, vsmc_coefficients
from polinfer.smc import SweepConfig, run_sweep
from polinfer.smc.record import Sweep

GRID = polinfer.tabulate(polinfer.make("gridworld/multimodal"))
BATCH, GROUPS = 8, 2_000


@partial(jax.jit, static_argnames="kind")
def gradients(logits: jax.Array, running: jax.Array, kind: str) -> jax.Array:
    """Return the gradients of GROUPS batches of BATCH sweeps, ``[GROUPS, S * A]``."""
    log_q = jax.nn.log_softmax(logits)
    words = seed_words(jnp.asarray(11, jnp.uint32))

    def group(number: jax.Array) -> jax.Array:
        def one(index: jax.Array) -> Sweep:
            return run_sweep(derive_words(words, number, index), GRID, lambda s: log_q[s], SweepConfig())

        sweeps = jax.vmap(one)(jnp.arange(BATCH))
        to_go = jax.vmap(evidence_to_go)(sweeps)
        baseline = {
            "none": jnp.zeros_like(to_go),
            "running": jnp.broadcast_to(running, to_go.shape),
            "leave-one-out": leave_one_out(to_go),
        }[kind]
        coefficients = jax.vmap(vsmc_coefficients)(sweeps, baseline)
        weight = jnp.zeros(logits.shape).at[sweeps.state, sweeps.action].add(coefficients) / BATCH
        return (weight - weight.sum(axis=1, keepdims=True) * jnp.exp(log_q)).ravel()

    return jax.lax.map(group, jnp.arange(GROUPS), batch_size=50)


def mean_to_go(logits: jax.Array) -> jax.Array:
    """Return what a long running mean tends to, ``[T]``, from sweeps of its own."""
    log_q = jax.nn.log_softmax(logits)
    words = seed_words(jnp.asarray(12, jnp.uint32))
    sweeps = jax.vmap(lambda i: run_sweep(derive_words(words, i), GRID, lambda s: log_q[s], SweepConfig()))(
        jnp.arange(4_000)
    )
    return jax.vmap(evidence_to_go)(sweeps).mean(axis=0)


def main() -> None:
    trained = polinfer.infer(GRID, "vsmc", sweeps=10_000, proposal="table", learning_rate=3e-3)
    for name, logits in (
        ("untrained (uniform)", jnp.zeros((GRID.num_states, GRID.num_actions))),
        ("after 10,000 sweeps", trained.proposal.rows[0]),
    ):
        running = mean_to_go(logits)
        found = {
            k: np.asarray(gradients(logits, running, k), np.float64)
            for k in ("none", "running", "leave-one-out")
        }
        print(name)
        for kind, values in found.items():
            total = values.var(axis=0).sum()
            spread = np.sqrt((values.var(axis=0) + found["none"].var(axis=0)) / GROUPS) + 1e-12
            off = np.abs((values.mean(axis=0) - found["none"].mean(axis=0)) / spread).max()
            share = total / found["none"].var(axis=0).sum()
            print(f"  {kind:14} variance {total:7.3f} ({share:.3f} of none), means differ by {off:.1f} s.e.")


if __name__ == "__main__":
    main()
