"""How near the truth, and how honest: answers and verdicts on problems with a known posterior.

    python studies/accuracy.py OUT.jsonl [--method tempered] [--seeds 18] [--first 0] [--certify] [--large]
    python studies/accuracy.py OUT.jsonl --table

Every case is a line of OUT as soon as it is there; run again, it goes on with what is missing.  With
`tempered` nothing is enumerated: parts that are small enough for it are annealed, too, and the certificate
has no enumeration to look at.  Otherwise small problems would say nothing about large ones.  With `auto`
parts are taken as users have them, which is meant for `--large`.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np

import polinfer
import truth
from families import SMALL
from polinfer.analysis import verdict

LARGE = [
    ("tree", 300),
    ("tree", 3000),
    ("lattice", 144),
    ("lattice", 2025),
    ("union", 266),
    ("union", 1000),
    ("rooms", 60),
    ("rooms", 400),
]
CLOSE, FALSE = 0.01, 0.03
METHODS: dict[str, dict[str, Any]] = {
    "tempered": {"enumerate_up_to": 0},
    "auto": {},
    "wake": {},
    "particles": {},
}
_FORGET = 400  # cases after which compiled programs are dropped


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--method", default="tempered", choices=METHODS)
    parser.add_argument("--seeds", type=int, default=18)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--families", nargs="+", choices=SMALL, default=list(SMALL), metavar="FAMILY")
    parser.add_argument("--certify", action="store_true")
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args()
    if not given.table:
        seeds = range(given.first, given.first + given.seeds)
        study(given.out, given.method, cases(seeds, given.large, given.families), given.certify)
    print(table(read(given.out)))


def cases(seeds: range, large: bool, families: list[str]) -> Iterator[tuple[str, Any]]:
    """Yield names and functions that make cases: making one takes time, too."""
    for seed in seeds:
        if large:
            for family, states in LARGE:
                yield f"{family} {states} {seed}", lambda f=family, n=states, s=seed: truth.large(f, n, s)
        else:
            for family in families:
                yield f"{family} {seed}", lambda f=family, s=seed: truth.small(f, s)


def study(out: Path, method: str, todo: Iterator[tuple[str, Any]], certify: bool) -> None:
    verdict._ENUMERATED = 0
    done = {(row["method"], row["name"]) for row in read(out)}
    for number, (name, make) in enumerate(todo):
        if (method, name) in done:
            continue
        if number % _FORGET == _FORGET - 1:
            jax.clear_caches()
        row = judge(make(), method, certify)
        with out.open("a") as file:
            file.write(json.dumps(row | {"name": name, "method": method}) + "\n")
        print(name, {key: value for key, value in row.items() if key != "family"}, flush=True)


def judge(case: truth.Case, method: str, certify: bool) -> dict[str, Any]:
    began = time.perf_counter()
    posterior = polinfer.infer(case.table, method, seed=1, **METHODS[method])
    row: dict[str, Any] = {"family": case.family, "seconds": time.perf_counter() - began}
    probs = posterior.table_probs()
    assert probs is not None
    row["distance"] = truth.distance(case, probs[0])
    whole = posterior.policies
    if whole is not None:
        row["log_evidence_error"] = whole.log_evidence - case.log_evidence
        row["log_evidence_stderr"] = whole.log_evidence_stderr
        if whole.policy_stderr is not None:
            row["covered"] = _coverage(case, probs[0], whole.policy_stderr)
    if certify:
        began = time.perf_counter()
        certificate = polinfer.certify(posterior)
        row |= {
            "certificate_seconds": time.perf_counter() - began,
            "verdict": str(certificate.verdict),
            "reason": certificate.reason,
            "bound_error": max(
                0.0,
                (certificate.proven_lower or -np.inf) - case.log_evidence,
                case.log_evidence - (certificate.proven_upper or np.inf),
            ),
        }
    return row


def _coverage(case: truth.Case, probs: Any, stderr: Any) -> float:
    """Return the share of 90% intervals that hold the exact marginal, where it is neither 0 nor 1."""
    open_ = (case.policy > 0.01) & (case.policy < 0.99) & (case.occupancy[:, None] > 0.01)
    # Islands are few: Student's quantile for eight of them, and single precision of what is stored.
    inside = np.abs(probs - case.policy) <= 1.895 * stderr + 1e-5
    return float(inside[open_].mean()) if open_.any() else float("nan")


def read(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []


def table(rows: list[dict[str, Any]]) -> str:
    """Return a Markdown table by method and family, and the worst cases by name."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        groups[row["method"], row["family"]].append(row)
        groups[row["method"], "all"].append(row)
    lines = [
        "| method | family | cases | median | 99% | worst | log Z error, median | seconds | "
        "trusted when near | falsely trusted |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for (method, family), found in sorted(groups.items(), key=lambda item: (item[0][0], item[0][1] == "all")):
        apart = np.array([row["distance"] for row in found])
        errors = [abs(row["log_evidence_error"]) for row in found if "log_evidence_error" in row]
        judged = [row for row in found if "verdict" in row]
        near = [row for row in judged if row["distance"] <= CLOSE]
        trusted = sum(row["verdict"] == "trust" for row in near)
        false = [row for row in judged if row["verdict"] == "trust" and row["distance"] > FALSE]
        error = np.median(errors) if errors else float("nan")
        lines.append(
            f"| {method} | {family} | {len(found)} | {np.median(apart):.4f} | "
            f"{np.quantile(apart, 0.99):.4f} | {apart.max():.4f} | {error:.3f} | "
            f"{np.median([row['seconds'] for row in found]):.1f} | "
            f"{f'{trusted} of {len(near)}' if near else ''} | {len(false) if judged else ''} |"
        )
    worst = sorted(rows, key=lambda row: -row["distance"])[:8]
    lines += [
        "",
        "Worst: " + ", ".join(f"{r['method']} {r['name']} {r['distance']:.4f}" for r in worst) + ".",
    ]
    covered = [
        row["covered"] for row in rows if row.get("covered") == row.get("covered") and "covered" in row
    ]
    if covered:
        lines.append(f"90% intervals of marginals hold the truth in {100 * np.mean(covered):.0f}% of cases.")
    scores = [
        abs(row["log_evidence_error"]) / row["log_evidence_stderr"]
        for row in rows
        if row.get("log_evidence_stderr", 0) > 0
    ]
    if scores:
        lines.append(f"90% intervals of log Z: {100 * np.mean(np.array(scores) < 1.895):.0f}%.")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
