"""Microseconds per sweep and seed: compiled, reference, and a plain PyTorch loop, in one run.

    python benchmarks/sweep.py [--quick]

4x4 multimodal grid, 10 particles, horizon 20, network 2x64, training included.  The PyTorch row needs
`pip install -e '.[bench]'`.  Also printed: the ratio to the arithmetic bound of the per-step network, and how
the cost grows with particles and seeds.
"""

import argparse
import json
import platform
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

import polinfer
from polinfer.learning.train import make_trainer

GRID = polinfer.tabulate(polinfer.make("gridworld/multimodal"))


def compiled(seeds: int, by_table: bool, sweeps: int, particles: int = 10) -> float:
    """Return microseconds per sweep and seed, the best of three."""
    config = polinfer.VsmcConfig(particles=particles, sweeps=50_000).training()
    trainer = make_trainer(GRID, config, by_table)
    state = trainer.init(range(seeds))
    state, _ = trainer.run(state, jnp.asarray(0), jnp.asarray(2))
    times = []
    for _ in range(3):
        started = time.perf_counter()
        state, metrics = trainer.run(state, jnp.asarray(0), jnp.asarray(sweeps))
        jax.block_until_ready(metrics)
        times.append(time.perf_counter() - started)
    return min(times) / sweeps / seeds * 1e6


def reference(sweeps: int) -> float:
    """Return microseconds per sweep of the reference engine, without the update."""
    from polinfer.smc import SweepRandomness, as_simulator, run_reference_sweep
    from polinfer.smc.config import SweepConfig

    simulator = as_simulator(GRID)
    even = [float(np.log(0.25))] * 4
    started = time.perf_counter()
    for seed in range(sweeps):
        run_reference_sweep(simulator, lambda _: even, SweepConfig(), SweepRandomness(seed))
    return (time.perf_counter() - started) / sweeps * 1e6


def pytorch(sweeps: int) -> float:
    """Return microseconds per sweep of the practitioner's loop."""
    import torch

    from torch_vsmc import train

    torch.manual_seed(0)
    train(2)
    started = time.perf_counter()
    train(sweeps)
    return (time.perf_counter() - started) / sweeps * 1e6


def arithmetic_bound(seeds: int, particles: int = 10) -> float:
    """Return the microseconds that the networks' multiply-adds of one sweep take as plain matmuls.

    A sweep evaluates the network once per particle and step, and its gradient costs a forward and two
    backward passes over the same rows: four passes of [rows, in] x [in, out] for the three layers, here by
    NumPy's BLAS with the shapes that batching over seeds allows.
    """
    rows = particles * GRID.horizon
    shapes = [(8, 64), (64, 64), (64, 4)]
    random = np.random.default_rng(0)
    pairs = [
        (
            random.normal(size=(seeds, rows, i)).astype(np.float32),
            random.normal(size=(seeds, i, o)).astype(np.float32),
        )
        for i, o in shapes
    ]

    def once() -> None:
        for _ in range(4):
            for left, right in pairs:
                np.matmul(left, right)

    once()
    return best_of(once, 5) / seeds * 1e6


def best_of(run: Callable[[], None], times: int) -> float:
    taken = []
    for _ in range(times):
        started = time.perf_counter()
        run()
        taken.append(time.perf_counter() - started)
    return min(taken)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the sweeps")
    scale = 0.1 if parser.parse_args().quick else 1.0
    sweeps = int(2_000 * scale)
    result: dict[str, float | str] = {"machine": platform.machine(), "jax": jax.__version__}
    for seeds in (1, 25):
        result[f"compiled, table, {seeds} seeds"] = compiled(seeds, True, sweeps)
        result[f"compiled, network per step, {seeds} seeds"] = compiled(seeds, False, max(20, sweeps // 5))
        result[f"arithmetic bound, {seeds} seeds"] = arithmetic_bound(seeds)
    result["reference, sweep only"] = reference(max(5, int(100 * scale)))
    for particles in (20, 40):
        result[f"compiled, table, 25 seeds, {particles} particles"] = compiled(
            25, True, sweeps // 2, particles
        )
    for seeds in (50, 100):
        result[f"compiled, table, {seeds} seeds"] = compiled(seeds, True, sweeps // 4)
    try:
        result["PyTorch"] = pytorch(max(5, int(200 * scale)))
    except ImportError:
        print("PyTorch is not installed: pip install -e '.[bench]'")
    for name, value in result.items():
        print(f"{name:48} {value:12.1f}" if isinstance(value, float) else f"{name:48} {value:>12}")
    if "PyTorch" in result:
        base = float(result["PyTorch"])
        for seeds in (1, 25):
            ratio = base / float(result[f"compiled, table, {seeds} seeds"])
            print(f"PyTorch / compiled, {seeds} seeds: {ratio:.0f}x")
    for seeds in (1, 25):
        ratio = float(result[f"compiled, network per step, {seeds} seeds"]) / float(
            result[f"arithmetic bound, {seeds} seeds"]
        )
        print(f"network per step / arithmetic bound, {seeds} seeds: {ratio:.1f}x")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
