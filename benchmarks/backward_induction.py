"""Seconds of `exact.finite_horizon_optimum` beside QuantEcon's `backward_induction`, in one run.

    python benchmarks/backward_induction.py [--states 1000 10000 100000] [--repeat 7]

Random tables with 4 actions, 3 outcomes and 100 steps; the best of several calls that take turns.  QuantEcon
gets its sparse matrix ready made and returns values and actions; ours begins at the table.  *value* is the
solution, *actions* what its policies are made from when they are asked for.
"""

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse

import polinfer
from polinfer import exact
from polinfer.exact.passes import greedy_actions

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from quantecon.markov import DiscreteDP
    from quantecon.markov.ddp import backward_induction

ACTIONS, OUTCOMES, HORIZON = 4, 3, 100


def random_problem(states: int) -> tuple[polinfer.TabularMDP, Any]:
    """Return the same problem for us and for QuantEcon."""
    rng = np.random.default_rng(0)
    shape = (states, ACTIONS, OUTCOMES)
    successor = rng.integers(states, size=shape)
    probability = rng.dirichlet(np.ones(OUTCOMES), size=shape[:2])
    reward = rng.normal(size=shape[:2])
    ends = np.arange(0, states * ACTIONS * OUTCOMES + 1, OUTCOMES)
    moves = scipy.sparse.csr_matrix(
        (probability.ravel(), successor.ravel(), ends), shape=(states * ACTIONS, states)
    )
    theirs = DiscreteDP(
        reward.ravel(), moves, 1.0, np.repeat(np.arange(states), ACTIONS), np.tile(np.arange(ACTIONS), states)
    )
    by_action = [moves[a::ACTIONS] for a in range(ACTIONS)]
    return polinfer.TabularMDP(by_action, reward, 0, None, HORIZON), theirs


def best_seconds(calls: list[Callable[[], Any]], repeat: int) -> list[float]:
    """Return the shortest time of each call; they take turns, so that a busy machine slows all."""
    taken = np.empty((repeat + 1, len(calls)))
    for row in taken:
        for i, call in enumerate(calls):
            began = time.perf_counter()
            call()
            row[i] = time.perf_counter() - began
    return taken[1:].min(axis=0).tolist()  # the first round compiles


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--states", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--repeat", type=int, default=9)
    args = parser.parse_args()
    warnings.simplefilter("ignore")  # QuantEcon warns of a discount of one
    print("| states | QuantEcon | value | ratio | actions | ratio |")
    print("|---|---|---|---|---|---|")
    for states in args.states:
        table, theirs = random_problem(states)
        values, _ = backward_induction(theirs, HORIZON)
        np.testing.assert_allclose(exact.finite_horizon_optimum(table).value, values[0], rtol=1e-10)
        other, value, actions = best_seconds(
            [
                lambda theirs=theirs: backward_induction(theirs, HORIZON),
                lambda table=table: exact.finite_horizon_optimum(table),
                lambda table=table: greedy_actions(table, HORIZON, 1.0),
            ],
            args.repeat,
        )
        print(
            f"| {states:,} | {1000 * other:.1f} ms | {1000 * value:.1f} ms | {other / value:.2f} | "
            f"{1000 * actions:.1f} ms | {other / actions:.2f} |"
        )


if __name__ == "__main__":
    main()
