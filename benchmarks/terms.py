"""What a problem without terms pays for them: nothing.  And what one with terms pays.

Usage: python benchmarks/terms.py
"""

from __future__ import annotations

import time

import jax
import numpy as np

import polinfer
from polinfer.core.noise import seed_words
from polinfer.exact import bounds
from polinfer.smc import SweepConfig, run_sweep


def best_of(run, repeats: int = 5) -> float:
    run()  # compiles
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        run()
        times.append(time.perf_counter() - started)
    return min(times)


def sweeps(table: polinfer.TabularMDP):
    config = SweepConfig(particles=10)
    log_q = np.log(np.maximum(polinfer.exact.uniform_policy(table), 1e-30)).astype(np.float32)
    run = jax.jit(
        jax.vmap(lambda words: run_sweep(words, table, lambda s: jax.numpy.asarray(log_q)[s], config))
    )
    words = jax.vmap(seed_words)(np.arange(2000, dtype=np.uint32))
    return lambda: jax.block_until_ready(run(words))


def main() -> None:
    plain = polinfer.tabulate(polinfer.make("gridworld/multimodal", horizon=20))
    small = polinfer.tabulate(polinfer.make("gridworld/ablation"))
    rng = np.random.default_rng(0)

    def with_terms(table: polinfer.TabularMDP) -> polinfer.TabularMDP:
        prior = rng.dirichlet(np.ones(table.num_actions), size=table.num_states)
        return table.with_problem(prior=prior, discount=0.95)

    rows = {
        "enumeration": (small, lambda t: lambda: polinfer.exact.policy_posterior(t)),
        "2,000 sweeps of 10": (plain, sweeps),
        "bounds": (plain, lambda t: lambda: bounds.evidence_bounds(t, leaves=1)),
        "optimum": (plain, lambda t: lambda: polinfer.exact.finite_horizon_optimum(t).policy),
    }
    print(f"{'milliseconds':20} {'without terms':>14} {'with':>14}")
    for name, (table, make) in rows.items():
        without, with_them = best_of(make(table)), best_of(make(with_terms(table)))
        print(f"{name:20} {1000 * without:14.1f} {1000 * with_them:14.1f}")


if __name__ == "__main__":
    main()
