"""Make the reference posteriors: ``python -m polinfer.analysis.references [NAME ...] [--policies N]``.

Finished ones are kept, so a run that was stopped goes on; ``--again`` makes them anew.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from polinfer.analysis.references import INDEX
from polinfer.annealing import TemperedConfig, anneal
from polinfer.core.files import write_arrays, write_json
from polinfer.problems.registry import make
from polinfer.problems.tabular import tabulate

DATA = Path(__file__).parent / "data"
# Domain, options, and the reward scales that the paper uses.
PROBLEMS: list[tuple[str, dict[str, Any], tuple[float, ...]]] = [
    ("gridworld/ablation", {}, (1.0,)),
    ("gridworld/flat", {}, (1.0,)),
    ("gridworld/unimodal", {}, (1.0,)),
    ("gridworld/multimodal", {}, (1.0,)),
    ("blackjack", {}, (1.0, 10.0, 100.0)),
    *((f"tireworld/{i}", {}, (0.2, 1.0)) for i in range(1, 11)),
    ("advising/1", {"relevant_only": True}, (1.0,)),
]


def main() -> None:
    """Make what is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("names", nargs="*", help="domains; all by default")
    parser.add_argument("--policies", type=int, default=500)
    parser.add_argument("--islands", type=int, default=16)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--again", action="store_true")
    given = parser.parse_args()
    for domain, options, scales in PROBLEMS:
        name = domain.replace("/", "-") + ".safetensors"
        if (given.names and domain not in given.names) or ((DATA / name).exists() and not given.again):
            continue
        started = time.perf_counter()
        config = TemperedConfig(policies=given.policies, islands=given.islands)
        table = tabulate(make(domain, **options))
        path = anneal(table, config, scales=scales, seed=given.seed)
        points = path.points
        arrays = {
            field: np.array([getattr(point, field) for point in points])
            for field in ("log_evidence", "log_evidence_stderr", "entropy")
        }
        # Returns in the rewards of the scaled problem.
        for field in ("expected_return", "expected_return_stderr"):
            arrays[field] = np.array([getattr(point, field) * point.scale for point in points])
        for field in ("policy", "policy_stderr", "reach_policy"):
            arrays[field] = np.stack([getattr(point, field) for point in points]).astype(np.float32)
        write_arrays(DATA / name, arrays)
        seconds = time.perf_counter() - started
        _note(
            {
                "domain": domain,
                "options": options,
                "scales": list(scales),
                "file": name,
                "states": table.num_states,
                "policies": given.policies,
                "islands": given.islands,
                "seed": given.seed,
                "command": "python -m polinfer.analysis.references "
                + f"{domain} --policies {given.policies} --islands {given.islands} --seed {given.seed}",
            }
        )
        worst = float(max(point.policy_stderr.max() for point in points))
        print(f"{domain}: {table.num_states} states, {seconds:.0f} s, largest standard error {worst:.4f}")


def _note(entry: dict[str, Any]) -> None:
    path = DATA / INDEX
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    others = [other for other in known if other["domain"] != entry["domain"]]
    write_json(path, sorted([*others, entry], key=lambda one: str(one["domain"])))


if __name__ == "__main__":
    main()
