"""Both readings of absorbing states: twins of rows, verdicts that name the reading, the nearer one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from polinfer.reproduce.budgets import BUDGETS
from polinfer.reproduce.claims import Claim, Verdict, judge
from polinfer.reproduce.experiment import Column, Experiment, Found, Printed, Results, sac, soft, vsmc
from polinfer.reproduce.experiments import EXPERIMENTS
from polinfer.reproduce.findings import as_json, gather
from polinfer.reproduce.markdown import as_markdown
from polinfer.reproduce.readings import both, compare_readings, judge_readings
from polinfer.reproduce.store import Outcome, Store, Times
from polinfer.reproduce.tables import make_table

PAPER = BUDGETS["paper"]
ROWS = (
    vsmc("vsmc", "VSMC", "bandit", 3e-4),
    *both(sac("sac", "SAC", "bandit", 1.0, aim="soft", printed={"mean": Printed(-1.0, 0.3)})),
    *both(soft("soft", "exact", "bandit", 1.0)),
)


def _close(results: Results) -> Claim:
    gap = abs(results["vsmc"].mean("mean") - results["sac"].mean("mean"))
    return judge("Close.", "here", f"{gap:.2f}", holds=gap < 1)


def _low(results: Results) -> Claim:
    return judge("Low.", "here", "", holds=results["vsmc"].mean("mean") < 0)


EXPERIMENT = Experiment("x", "X", "", "", ROWS, (Column("return", "mean"),), (_close, _low), {})


def found(**means: float) -> dict[str, Found]:
    rows = {row.key: row for row in ROWS}
    runs = np.array([-0.4, 0.0, 0.4])  # a deviation of 0.4
    keys = {key: key.replace("_", " ") for key in means}
    return {keys[k]: Found(rows[keys[k]], Outcome({"mean": m + runs}), None) for k, m in means.items()}


def test_every_row_of_sac_and_of_what_it_aims_at_has_a_twin() -> None:
    for experiment in EXPERIMENTS.values():
        rows = {row.key: row for row in experiment.rows}
        for row in experiment.rows:
            if row.method == "sac" or (row.method == "soft" and experiment.name != "worked"):
                key = row.key.removesuffix(" continue")
                one, other = rows[key], rows[f"{key} continue"]
                assert (one.reading, other.reading) == ("end", "continue")
                assert "absorbing" not in one.settings
                assert other.settings == {**one.settings, "absorbing": "continue"}
                assert (other.printed, other.domain) == (one.printed, one.domain)
                assert other.aim == (f"{one.aim} continue" if one.aim else "")
                assert {u.key for u in one.units(PAPER)}.isdisjoint(u.key for u in other.units(PAPER))


def test_a_claim_is_judged_under_each_reading_for_all_of_its_rows() -> None:
    results = found(vsmc=0.5, sac=-3.0, sac_continue=0.2)
    judged = judge_readings(EXPERIMENT, results, _close)
    assert [(c.reading, c.verdict, c.evidence) for c in judged if c] == [
        ("end", Verdict.NOT_HERE, "3.50"),
        ("continue", Verdict.HOLDS, "0.30"),
    ]
    (alone,) = judge_readings(EXPERIMENT, results, _low)
    assert alone is not None
    assert alone.reading == ""
    # A twin that is not there yet leaves the usual verdict, and is never taken for it.
    judged = judge_readings(EXPERIMENT, found(vsmc=0.5, sac=-3.0), _close)
    assert judged[0] is not None
    assert judged[1] is None
    assert judge_readings(EXPERIMENT, found(vsmc=0.5, sac_continue=0.2), _close)[0] is None


@pytest.mark.parametrize(
    ("means", "nearer", "sizes"),
    [((-3.0, 0.2), "continue", (4.0, 2.4)), ((-1.5, 0.5), "end", (1.0, 3.0)), ((-1.2, -0.9), "", (0.4, 0.2))],
)
def test_nearer_is_told_in_deviations_of_both(
    means: tuple[float, float], nearer: str, sizes: tuple[float, float]
) -> None:
    (one,) = compare_readings(EXPERIMENT, found(sac=means[0], sac_continue=means[1]))
    # The paper's 0.3 and our 0.4 together are 0.5.
    assert [one.size["end"], one.size["continue"]] == pytest.approx(list(sizes))
    assert one.reading == nearer
    assert one.cells()[-1] == (nearer or "level")
    assert not compare_readings(EXPERIMENT, found(sac=means[0]))


def test_the_papers_line_is_shown_once() -> None:
    lines = make_table(EXPERIMENT, found(sac=-3.0, sac_continue=0.2)).lines
    assert [(line.policy, line.source) for line in lines] == [
        ("SAC", "paper"),
        ("SAC", "measured"),
        ("SAC, continuing", "measured"),
    ]


def test_the_report_counts_under_either_reading(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for key, one in found(vsmc=0.5, sac=-3.0, sac_continue=0.2).items():
        (row,) = [row for row in ROWS if row.key == key]
        store.write(row.units(PAPER)[0], one.outcome, Times(60.0, 30.0))
    EXPERIMENTS["x"] = EXPERIMENT
    try:
        findings = gather(store, PAPER, ["x"])
    finally:
        del EXPERIMENTS["x"]
    assert findings.counts("end")[Verdict.NOT_HERE] == 2
    assert (findings.counts("continue")[Verdict.HOLDS], findings.counts("continue")[Verdict.NOT_HERE]) == (
        1,
        1,
    )
    told = as_markdown(findings, "made so")
    assert "- Absorbing states end episodes: 2 does not hold here." in told
    assert "- Absorbing states continue: 1 holds, 1 does not hold here." in told
    assert "| Close. | continue | **holds** |" in told
    assert "| x | SAC | return | -1 | -3 (4.0) | 0.2 (2.4) | continue |" in told
    assert [claim["reading"] for claim in as_json(findings)["claims"]] == ["end", "continue", ""]
