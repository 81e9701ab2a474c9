"""Cost of training over particles, seeds, horizon and states, and of units over workers of a Dask cluster.

    python benchmarks/growth.py OUT.jsonl [--axes particles seeds horizon states workers]
    python benchmarks/growth.py OUT.jsonl --figure growth.png

Every point is computed in a process of its own, for its memory, and is a line of OUT as soon as it is there,
so a run that was stopped goes on.  The last command prints the fitted exponents and draws the figure.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

AXES: dict[str, tuple[int, ...]] = {
    "particles": (10, 100, 1_000, 10_000),
    "seeds": (1, 10, 100, 1_000),
    "horizon": (10, 30, 100, 300, 1_000),
    "states": (16, 100, 1_024, 10_000, 99_856),
    "workers": (1, 2, 4),
}
LEAST = 2.0  # processor seconds that a point is measured for, where a sweep is short
UNITS = 8  # done by the workers of a cluster
MACHINES = 100


def grid_map(states: int) -> str:
    """Return a square map with the start and the goal in opposite corners."""
    side = round(states**0.5)
    rows = [["."] * side for _ in range(side)]
    rows[0][-1], rows[-1][0] = "G", "S"
    return "\n".join(map("".join, rows))


def measure_training(axis: str, value: int) -> dict[str, Any]:
    """Return processor microseconds per sweep and seed of one setting, in this process."""
    import jax
    import jax.numpy as jnp

    import polinfer
    from polinfer.learning.fit import trainer_for

    at = {"particles": 10, "seeds": 1, "horizon": 20, "states": 16, axis: value}
    mdp = polinfer.make("gridworld", map=grid_map(at["states"]), horizon=at["horizon"])
    config = polinfer.VsmcConfig(particles=at["particles"], sweeps=50_000).training()
    began = time.process_time()
    trainer = trainer_for(mdp, config)
    state = trainer.init(range(at["seeds"]))
    state, _ = trainer.run(state, jnp.asarray(0), jnp.asarray(1))
    compiled, done, size, spent = time.process_time() - began, 1, 1, 0.0
    while spent < LEAST:
        first, last = done, done + size
        clock = time.process_time()
        state, metrics = trainer.run(state, jnp.asarray(first), jnp.asarray(last))
        jax.block_until_ready(metrics)  # type: ignore[no-untyped-call]
        spent, done, size = time.process_time() - clock, last, 2 * size
    sweeps = last - first
    return {
        "microseconds": spent / sweeps / at["seeds"] * 1e6,
        "compile_seconds": compiled,
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }


def measure_workers(count: int) -> dict[str, Any]:
    """Return seconds that some units of equal size take on so many local workers."""
    from distributed import LocalCluster

    from polinfer.reproduce.runner import run_units
    from polinfer.reproduce.store import Store
    from polinfer.reproduce.unit import Unit

    settings = {"sweeps": 4_000, "particles": 10}
    units = [Unit("gridworld/multimodal", "vsmc", {}, settings, 10 * n, 10, 100) for n in range(UNITS)]
    warm = [
        Unit("gridworld/multimodal", "vsmc", {}, settings, 900 + 10 * n, 10, 100) for n in range(2 * count)
    ]
    with (
        tempfile.TemporaryDirectory() as folder,
        LocalCluster(n_workers=count, threads_per_worker=1, dashboard_address=None) as cluster,
    ):
        store = Store(Path(folder))
        # Every worker has compiled before the clock starts, as in a long run.
        run_units(warm, store, cluster=cluster.scheduler_address)
        began = time.perf_counter()
        failed = run_units(units, store, cluster=cluster.scheduler_address)
        seconds = time.perf_counter() - began
        alone = [found.seconds for unit in units if (found := store.read_times(unit)) is not None]
    return {"seconds": seconds, "unit_seconds": float(np.mean(alone)), "failed": len(failed)}


def fit_exponent(points: list[tuple[float, float]]) -> float:
    """Return the slope of the upper half of a log-log line, where fixed costs matter least."""
    upper = sorted(points)[len(points) // 2 - (len(points) > 2) :]
    x, y = np.log(np.array(upper)).T
    return float(np.polyfit(x, y, 1)[0])


def summarise(rows: list[dict[str, Any]], figure: Path) -> None:
    from matplotlib.figure import Figure

    axes_known = [axis for axis in AXES if axis != "workers" and any(row["axis"] == axis for row in rows)]
    drawn = Figure(figsize=(9, 4.8), layout="constrained")
    places = drawn.subplots(2, len(axes_known), squeeze=False)
    for column, axis in enumerate(axes_known):
        own = sorted((row for row in rows if row["axis"] == axis), key=lambda row: row["value"])
        of_all = [row["microseconds"] * (row["value"] if axis == "seeds" else 1) for row in own]
        values = [row["value"] for row in own]
        places[0, column].loglog(values, of_all, "o-")
        places[1, column].loglog(values, [row["memory"] for row in own], "s-", color="C1")
        places[1, column].set_xlabel(axis)
        exponent = fit_exponent(list(zip(values, of_all, strict=True)))
        places[0, column].set_title(f"exponent {exponent:.2f}")
        print(f"{axis:10} exponent {exponent:.2f}")
        for row, time_of in zip(own, of_all, strict=True):
            print(f"    {row['value']:7,}  {time_of:12,.0f} µs a sweep  {row['memory']:6.2f} GB")
    places[0, 0].set_ylabel("µs a sweep, all seeds")
    places[1, 0].set_ylabel("peak memory, GB")
    drawn.savefig(figure, dpi=130)
    workers = sorted((row for row in rows if row["axis"] == "workers"), key=lambda row: row["value"])
    if workers:
        tell_workers(workers)


def tell_workers(rows: list[dict[str, Any]]) -> None:
    """Print efficiency, and what a simple model says of many machines.

    The scheduler's share of a unit is what one worker takes beyond the unit's own time.  It is serial, so
    ``seconds = units * (own / workers + share)``.
    """
    one = next(row for row in rows if row["value"] == 1)
    share = max(0.0, one["seconds"] / UNITS - one["unit_seconds"])
    for row in rows:
        efficiency = one["seconds"] / row["seconds"] / row["value"]
        own = row["unit_seconds"]
        print(
            f"{row['value']} workers {row['seconds']:6.1f} s  efficiency {efficiency:.2f}  unit {own:.2f} s"
        )
    print(f"serial share of a unit: {share:.3f} s")
    for own in (one["unit_seconds"], 300.0):
        bound = 1 / (1 / MACHINES + share / own)
        print(
            f"model, units of {own:.0f} s: {MACHINES} machines are {bound:.0f} times one, given units enough"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--axes", nargs="*", default=list(AXES))
    parser.add_argument("--figure", type=Path)
    parser.add_argument("--limit", type=float, default=120.0, help="seconds a point may take")
    parser.add_argument("--point", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.point:
        axis, value = given.point[0], int(given.point[1])
        found = measure_workers(value) if axis == "workers" else measure_training(axis, value)
        with given.out.open("a") as file:
            file.write(json.dumps({"axis": axis, "value": value, **found}) + "\n")
        return
    known = [json.loads(line) for line in given.out.read_text().splitlines()] if given.out.exists() else []
    if given.figure is not None:
        summarise(known, given.figure)
        return
    for axis in given.axes:
        for value in AXES[axis]:
            if any((row["axis"], row["value"]) == (axis, value) for row in known):
                continue
            command = [sys.executable, __file__, str(given.out), "--point", axis, str(value)]
            try:
                subprocess.run(command, check=True, timeout=given.limit, env={**os.environ, "NPROC": "1"})
                print(axis, value, flush=True)
            except subprocess.SubprocessError as error:
                print(f"{axis} {value}: {error}", flush=True)


if __name__ == "__main__":
    main()
