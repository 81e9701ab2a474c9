"""Cost of annealing over the size of a problem: lattices, trees, grid maps, random sparse cyclic problems.

    python benchmarks/scaling.py OUT.jsonl [--families lattice tree grid cyclic] [--states 100 1000 ...]
    python benchmarks/scaling.py OUT.jsonl --figure scaling.png

Every point is a line of OUT as soon as it is there.  Distances are to closed forms where there are any;
beyond --limit seconds (180) the answer is taken as it is.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import polinfer
from polinfer import TabularMDP
from polinfer.problems.tabular import OutcomeRows

sys.path.insert(0, str(Path(__file__).parents[1] / "studies"))
import truth

FAMILIES = ("lattice", "tree", "grid", "cyclic")
STATES = (100, 1_000, 10_000, 100_000)


def grid(states: int) -> TabularMDP:
    """Return a slippery square map with gravel in the middle; episodes may take four ways across."""
    side = round(states**0.5)
    rows = [["."] * side for _ in range(side)]
    for y in range(side // 4, side - side // 4):
        for x in range(side // 4, side - side // 4):
            rows[y][x] = "R"
    rows[0][-1], rows[-1][0] = "G", "S"
    return polinfer.tabulate(polinfer.make("gridworld", map="\n".join(map("".join, rows)), horizon=4 * side))


def cyclic(states: int, seed: int = 0) -> TabularMDP:
    """Return random moves to three of all states, four actions, 100 steps."""
    random = np.random.default_rng(seed)
    state, action, slot = (a.ravel() for a in np.indices((states, 4, 3)))
    odds = random.dirichlet(np.ones(3), (states, 4)).ravel()
    reward = np.repeat(random.normal(0, 0.2, (states, 4)).ravel(), 3)
    del slot
    rows = OutcomeRows(state, action, random.integers(states, size=state.size), odds, reward)
    return TabularMDP.from_outcomes(rows, states, 4, 0, None, 100)


def measure(family: str, states: int, limit: float) -> dict[str, Any]:
    case = truth.large(family, states) if family in ("lattice", "tree") else None
    table = case.table if case is not None else {"grid": grid, "cyclic": cyclic}[family](states)
    began = time.perf_counter()
    posterior = polinfer.infer(table, "tempered", time_limit=limit)
    seconds = time.perf_counter() - began
    whole, probs = posterior.policies, posterior.table_probs()
    assert whole is not None
    assert probs is not None
    began = time.perf_counter()
    certificate = polinfer.certify(posterior)
    return {
        "family": family,
        "states": table.num_states,
        "seconds": seconds,
        "certificate_seconds": time.perf_counter() - began,
        "verdict": str(certificate.verdict),
        "log_evidence": whole.log_evidence,
        "log_evidence_stderr": whole.log_evidence_stderr,
        "log_evidence_error": None if case is None else whole.log_evidence - case.log_evidence,
        "distance": None if case is None else truth.distance(case, probs[0]),
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.2, 3.6), layout="constrained")
    axes = figure.add_subplot()
    for mark, family in zip("osD^", FAMILIES, strict=True):
        own = sorted((row["states"], row["seconds"]) for row in rows if row["family"] == family)
        if own:
            axes.loglog(*zip(*own, strict=True), marker=mark, label=family)
    sizes = np.array([row["states"] for row in rows])
    ends = np.array([sizes.min(), sizes.max()])
    axes.loglog(ends, ends * 1e-3, ":", color="0.5", label="1 ms a state")
    axes.set_xlabel("states")
    axes.set_ylabel("seconds")
    axes.legend(frameon=False)
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--families", nargs="*", default=FAMILIES)
    parser.add_argument("--states", nargs="*", type=int, default=STATES)
    parser.add_argument("--figure", type=Path)
    parser.add_argument("--limit", type=float, default=180.0)
    given = parser.parse_args()
    known = [json.loads(line) for line in given.out.read_text().splitlines()] if given.out.exists() else []
    if given.figure is not None:
        draw(known, given.figure)
        return
    for states in given.states:
        for family in given.families:
            if any(row["family"] == family and row.get("asked") == states for row in known):
                continue
            row = measure(family, states, given.limit)
            with given.out.open("a") as file:
                file.write(json.dumps({**row, "asked": states}) + "\n")
            print({key: round(v, 4) if isinstance(v, float) else v for key, v in row.items()}, flush=True)


if __name__ == "__main__":
    main()
