"""Ours: how high each objective brings the mean log Z-hat, which the paper's surrogate ascends."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from polinfer.reproduce.assumptions import MIX_BASELINE, MIX_SHARE
from polinfer.reproduce.claims import Claim, judge_each
from polinfer.reproduce.experiment import Column, Experiment, Results, Row
from polinfer.reproduce.experiments import advising, blackjack, grids, tireworld

_PLACE = "ours: docs/methods"
# Where the rows of VSMC and of wake stand that have the problem's own rewards: module, and the keys of both.
_KEYS = {
    **{f"gridworld/{world}": (grids, f"{world} vsmc", f"{world} wake") for world in grids.WORLDS},
    "blackjack": (blackjack, "vsmc 1", "wake 1"),
    **{f"tireworld/{n}": (tireworld, f"{n} vsmc 1", f"{n} wake 1") for n in tireworld.INSTANCES},
    **{f"advising/{n}": (advising, f"{n} vsmc", f"{n} wake") for n in advising.INSTANCES},
}
_MIX = {"surrogate_share": float(MIX_SHARE.value), "baseline": str(MIX_BASELINE.value)}


def _rows(problem: str) -> tuple[Row, ...]:
    module, *keys = _KEYS[problem]
    known = {row.key: row for row in module.EXPERIMENT.rows}
    common: dict[str, Any] = {"group": problem, "printed": {}, "aim": "", "extra": True}
    surrogate, wake = (known[key] for key in keys)
    return (
        replace(surrogate, key=f"{problem} vsmc", label="VSMC", **common),
        replace(wake, key=f"{problem} wake", label="wake", **common),
        replace(
            wake,
            key=f"{problem} mix",
            label="mix, running baseline",
            settings={**wake.settings, **_MIX},
            **common,
        ),
    )


def _claim(results: Results, method: str, what: str) -> Claim:
    """Judge our own claim that a method does at least as well on what VSMC ascends."""
    gains, told = [], []
    for problem in _KEYS:
        ours, theirs = results[f"{problem} {method}"], results[f"{problem} vsmc"]
        noise = float(np.hypot(ours.stderr("log_evidence"), theirs.stderr("log_evidence")))
        gains.append(ours.mean("log_evidence") >= theirs.mean("log_evidence") - 2 * noise)
        told.append(f"{problem} {ours.mean('log_evidence'):.3f} / {theirs.mean('log_evidence'):.3f}")
    return judge_each(
        f"From the same sweeps, {what} reaches the mean log Z-hat of the surrogate, or is above it.",
        _PLACE,
        f"10 particles, 1 world, {method} / surrogate (level within two standard errors): " + "; ".join(told),
        gains,
    )


EXPERIMENT = Experiment(
    name="evidence",
    title="The surrogate's own objective",
    place=_PLACE,
    about=(
        "Ours: the mean log Z-hat of ten particles in one world, which the paper's surrogate ascends, at the "
        "end of training with the surrogate, with wake, and with a mix of both.  The mix has a running "
        "baseline, which the paper's surrogate has not."
    ),
    rows=tuple(row for problem in _KEYS for row in _rows(problem)),
    columns=(Column("log Z-hat", "log_evidence", 3), Column("return", "mean")),
    claims=(
        partial(_claim, method="wake", what="wake"),
        partial(_claim, method="mix", what="their mix with a running baseline"),
    ),
    figures={},
)
