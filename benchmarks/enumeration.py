"""Policies per minute that `exact.policy_posterior` enumerates, and value iteration on a 64x64 grid.

    python benchmarks/enumeration.py

The grids are slippery, 3x3 with horizon 20 (65,536 policies), and 3x4 with horizon 20 (4,194,304 policies).
"""

import resource
import time

import numpy as np

import polinfer
from polinfer import exact


def rate(text: str, reach: bool) -> tuple[int, float]:
    """Return the number of policies and how many are done per minute, compilation aside."""
    table = polinfer.tabulate(polinfer.make("gridworld", map=text, horizon=20))
    exact.policy_posterior(table, reach=reach)
    started = time.perf_counter()
    solution = exact.policy_posterior(table, reach=reach)
    seconds = time.perf_counter() - started
    assert solution.posterior is not None
    return solution.posterior.num_policies, solution.posterior.num_policies / seconds * 60


def large_grid(size: int) -> str:
    """Return a random map of gravel and pavement with the start and the goal in opposite corners."""
    cells = np.random.default_rng(0).choice([".", "R"], (size, size), p=[0.8, 0.2])
    cells[-1, 0], cells[0, -1] = "S", "G"
    return "\n".join("".join(row) for row in cells)


def main() -> None:
    for name, text in (("3x3", "..G\n.R.\nS.."), ("3x4", "..G\n.R.\n.R.\nS..")):
        for reach in (True, False):
            count, per_minute = rate(text, reach)
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
            kind = "with reach policy" if reach else "without"
            print(
                f"{name}, {count:>9,} policies, {kind:18} {per_minute / 1e6:8.1f} M/min, peak {peak:,.0f} MiB"
            )
    started = time.perf_counter()
    table = polinfer.tabulate(polinfer.make("gridworld", map=large_grid(64), goal_reward=100))
    print(f"64x64 grid: tabulated in {time.perf_counter() - started:.1f} s")
    for solve in (exact.finite_horizon_optimum, exact.stationary_value_iteration, exact.soft_value_iteration):
        started = time.perf_counter()
        solution = solve(table)
        print(f"  {solve.__name__:28} {time.perf_counter() - started:5.1f} s, {solution.result}")


if __name__ == "__main__":
    main()
