"""Ours: how high each objective brings the mean log Z-hat, which the paper's surrogate ascends."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from polinfer.reproduce.choices import MIX_BASELINE, MIX_SHARE
from polinfer.reproduce.claims import Claim, judge
from polinfer.reproduce.experiment import Column, Experiment, Results, Row
from polinfer.reproduce.experiments import advising, blackjack, grids, tireworld

_PLACE = "ours: docs/methods"
# The rows of VSMC with the paper's rewards, by problem; where they stand, so do those of wake.
_PAPER = {
    **{f"gridworld/{world}": (grids, f"{world} vsmc", f"{world} wake") for world in grids.WORLDS},
    "blackjack": (blackjack, "vsmc 1", "wake 1"),
    **{f"tireworld/{n}": (tireworld, f"{n} vsmc 1", f"{n} wake 1") for n in tireworld.INSTANCES},
    **{f"advising/{n}": (advising, f"{n} vsmc", f"{n} wake") for n in advising.INSTANCES},
}
_MIX = {"surrogate_share": float(MIX_SHARE.value), "baseline": str(MIX_BASELINE.value)}


def _rows(problem: str) -> tuple[Row, ...]:
    module, *keys = _PAPER[problem]
    known = {row.key: row for row in module.EXPERIMENT.rows}
    common: dict[str, Any] = {"group": problem, "printed": {}, "aim": "", "extra": True}
    surrogate, wake = (known[key] for key in keys)
    return (
        replace(surrogate, key=f"{problem} vsmc", label="VSMC", **common),
        replace(wake, key=f"{problem} wake", label="wake", **common),
        replace(wake, key=f"{problem} mix", label="mix", settings={**wake.settings, **_MIX}, **common),
    )


def _claim(results: Results, method: str, what: str) -> Claim:
    """Judge our own claim that a method does at least as well on what VSMC ascends."""
    gains, told = [], []
    for problem in _PAPER:
        ours, theirs = results[f"{problem} {method}"], results[f"{problem} vsmc"]
        noise = float(np.hypot(ours.stderr("log_evidence"), theirs.stderr("log_evidence")))
        gains.append(ours.mean("log_evidence") >= theirs.mean("log_evidence") - 2 * noise)
        told.append(f"{problem} {ours.mean('log_evidence'):.3f} / {theirs.mean('log_evidence'):.3f}")
    return judge(
        f"From the same sweeps, {what} reaches at least the mean log Z-hat of the paper's surrogate.",
        _PLACE,
        f"10 particles, 1 world, {method} / surrogate: " + "; ".join(told),
        holds=all(gains),
        in_kind=sum(gains) * 2 > len(gains),
    )


EXPERIMENT = Experiment(
    name="evidence",
    title="The surrogate's own objective",
    place=_PLACE,
    about=(
        "Ours: the mean log Z-hat of ten particles in one world, which the paper's surrogate ascends, at the "
        "end of training with the surrogate, with wake, and with a mix of both."
    ),
    rows=tuple(row for problem in _PAPER for row in _rows(problem)),
    columns=(Column("log Z-hat", "log_evidence", 3), Column("return", "mean")),
    claims=(
        partial(_claim, method="wake", what="wake"),
        partial(_claim, method="mix", what="the mix of wake and surrogate"),
    ),
    figures={},
)
