"""Time to an answer within 0.01 of the posterior: annealing, its old form, and what one would write in NumPy.

    python benchmarks/annealing.py [--grids 4 8] [--limit 600]

The reference is a long run of the new method and, where it ends in time, one of the old method from the
uniform measure; their distance is printed first.  The NumPy program is single-site Metropolis on the policy,
with backward induction for J: it is looked at every second, and has until the limit.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from numpy.typing import NDArray

import polinfer
from polinfer import TabularMDP, TemperedConfig
from polinfer.analysis.comparison import policy_distance
from polinfer.exact import evaluate_policy, uniform_policy

Floats = NDArray[np.float64]
CLOSE = 0.01


def grid(side: int) -> TabularMDP:
    """Return a slippery grid with gravel in the middle, start and goal in opposite corners."""
    rows = [["."] * side for _ in range(side)]
    for y in range(side // 4, side - side // 4):
        for x in range(side // 4, side - side // 4):
            rows[y][x] = "R"
    rows[0][-1], rows[-1][0] = "G", "S"
    text = "\n".join(map("".join, rows))
    return polinfer.tabulate(polinfer.make("gridworld", map=text, horizon=5 * side))


def answer(table: TabularMDP, config: TemperedConfig, seed: int = 0) -> tuple[Floats, float]:
    started = time.perf_counter()
    probs = polinfer.infer(table, config, seed=seed).table_probs()
    assert probs is not None
    return probs[0].astype(np.float64), time.perf_counter() - started


def metropolis(table: TabularMDP, truth: Floats, weight: Floats, limit: float) -> tuple[float, float]:
    """Return the seconds until the running mean is close to `truth`, or the limit, and the distance then."""
    random = np.random.default_rng(0)
    states = np.flatnonzero((table.legal_actions.sum(axis=1) > 1) & ~table.absorbing)
    every = np.arange(table.num_states)
    gain = (table.probability * table.reward).sum(axis=-1)

    def value(policy: NDArray[np.int64]) -> float:
        follow, odds = table.successor[every, policy], table.probability[every, policy]
        immediate = gain[every, policy]
        worth = np.zeros(table.num_states)
        for _ in range(table.horizon):
            worth = immediate + (odds * worth[follow]).sum(axis=1)
        return float(table.initial @ worth)

    policy = np.array([random.choice(np.flatnonzero(row)) for row in table.legal_actions])
    now = value(policy)
    counts = np.zeros((table.num_states, table.num_actions))
    started = looked = time.perf_counter()
    distance = 1.0
    while time.perf_counter() - started < limit:
        state = int(random.choice(states))
        tried = policy.copy()
        tried[state] = random.choice(np.flatnonzero(table.legal_actions[state]))
        worth = value(tried)
        if np.log(random.random()) < worth - now:
            policy, now = tried, worth
        counts[every, policy] += 1
        if time.perf_counter() - looked > 1:
            looked = time.perf_counter()
            distance = policy_distance(counts / counts.sum(axis=1, keepdims=True), truth, weight)
            if distance < CLOSE:
                break
    return time.perf_counter() - started, distance


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--grids", type=int, nargs="*", default=[4, 8])
    parser.add_argument("--limit", type=float, default=600.0)
    given = parser.parse_args()
    for side in given.grids:
        table = grid(side)
        truth, seconds = answer(table, TemperedConfig(tolerance=0.001, evidence_tolerance=0.01), seed=99)
        weight = np.where(table.absorbing, 0.0, evaluate_policy(table, truth).occupancy)
        check, slow = answer(table, TemperedConfig(start="uniform"), seed=98)
        even = policy_distance(uniform_policy(table), truth, weight)
        print(f"{side}x{side}: reference in {seconds:.0f} s; the uniform policy is {even:.3f} from it")
        print(f"  from the uniform measure: {slow:6.1f} s, {policy_distance(check, truth, weight):.4f}")
        # Once more: what was compiled for this problem is not paid for again.
        for label in ("cold", "warm"):
            found, quick = answer(table, TemperedConfig(), seed=1 if label == "cold" else 2)
            print(f"  tempered, {label}: {quick:6.1f} s, {policy_distance(found, truth, weight):.4f}")
        took, distance = metropolis(table, truth, weight, given.limit)
        more = "" if distance < CLOSE else " (limit)"
        print(f"  NumPy Metropolis: {took:6.0f} s{more}, {distance:.4f}: {took / quick:.0f} times as long")


if __name__ == "__main__":
    main()
