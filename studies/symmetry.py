"""Symmetry as an oracle: on maps that are their own mirror image, the posterior is, too.

    python studies/symmetry.py OUT.jsonl [--sides 4 6 8] [--scales 2 4 6] [--seeds 3]

A square of gravel lies between start and goal, so that there are two ways round it which are worth the same.
An answer that leans to one of them has missed the other, however small its standard errors are.  Printed is
the distance of each answer to its own mean with its mirror image (by occupancy), at least how far it is off,
and the verdict.  Every case is a line of OUT; run again, it goes on.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import polinfer
from polinfer.analysis.comparison import policy_distance
from polinfer.exact import evaluate_policy

Floats = NDArray[np.float64]
MIRRORED = {"right": "up", "up": "right", "left": "down", "down": "left"}


def ring(side: int, scale: float) -> polinfer.TabularMDP:
    """Return a slippery grid with gravel in the middle, start and goal in opposite corners."""
    rows = [["."] * side for _ in range(side)]
    for y in range(side // 4, side - side // 4):
        for x in range(side // 4, side - side // 4):
            rows[y][x] = "R"
    rows[0][-1], rows[-1][0] = "G", "S"
    text = "\n".join(map("".join, rows))
    return polinfer.tabulate(polinfer.make("gridworld", map=text, horizon=5 * side, reward_scale=scale))


def mirror(table: polinfer.TabularMDP, policy: Floats) -> Floats:
    """Return a policy ``[S, A]`` as it looks in the mirror along the line from start to goal."""
    number = {name: state for state, name in enumerate(table.state_names)}
    state = np.arange(table.num_states)
    for name, own in number.items():
        x, comma, y = name.strip("()").partition(",")
        if comma:
            state[own] = number[f"({y},{x})"]
    names = list(table.action_names)
    return policy[state][:, [names.index(MIRRORED[name]) for name in names]]


def asymmetry(table: polinfer.TabularMDP, policy: Floats) -> float:
    """Return the distance of a policy to its mean with its mirror image: it is at least as far off."""
    mean = (policy + mirror(table, policy)) / 2
    occupancy = np.where(table.absorbing, 0.0, evaluate_policy(table, mean).occupancy)
    return float(policy_distance(policy, mean, occupancy))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--sides", type=int, nargs="+", default=[4, 6, 8])
    parser.add_argument("--scales", type=float, nargs="+", default=[2.0, 4.0, 6.0])
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    lines = given.out.read_text().splitlines() if given.out.exists() else []
    done = {(row["side"], row["scale"], row["seed"]) for row in map(json.loads, lines)}
    for case in [(a, b, c) for a in given.sides for b in given.scales for c in range(given.seeds)]:
        if case in done:
            continue
        side, scale, seed = case
        table = ring(side, scale)
        began = time.process_time()
        posterior = polinfer.infer(table, "tempered", seed=seed)
        certificate = polinfer.certify(posterior)
        probs, whole = posterior.table_probs(), posterior.policies
        assert probs is not None
        assert whole is not None
        row = {
            "side": side,
            "scale": scale,
            "seed": seed,
            "asymmetry": asymmetry(table, probs[0].astype(np.float64)),
            "log_evidence": whole.log_evidence,
            "log_evidence_stderr": whole.log_evidence_stderr,
            "verdict": str(certificate.verdict),
            "reason": certificate.reason,
            "cpu_seconds": time.process_time() - began,
        }
        with given.out.open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(row, flush=True)


if __name__ == "__main__":
    main()
