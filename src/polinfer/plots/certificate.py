"""The certificate as a picture: what is proven of log Z, and what was estimated."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from polinfer.plots.picture import Picture
from polinfer.plots.style import INK, PALETTE, SMALL_SIZE, TEXT_SIZE, style_axes

_ERRORS = 2  # standard errors that a bar shows


def evidence_figure(record: dict[str, Any]) -> Figure | None:
    """Draw the interval that is proven to hold ``log Z`` with the estimates in it, from a run's record.

    None where nothing is proven, or where the bounds say nothing beside the estimate.
    """
    certificate = record["certificate"]
    lower, upper = certificate["proven_lower"], certificate["proven_upper"]
    if lower is None or upper is None:
        return None
    bars = _estimates(record)
    figure = Picture(figsize=(6.4, 0.9 + 0.32 * (1 + len(bars))), layout="constrained", facecolor="white")
    axes = figure.add_subplot()
    style_axes(axes)
    axes.barh(
        0, upper - lower, left=lower, height=0.5, color=PALETTE[0], alpha=0.25, hatch="//", edgecolor=INK
    )
    axes.text((lower + upper) / 2, 0, "proven", ha="center", va="center", fontsize=SMALL_SIZE, color=INK)
    for row, (_, value, error) in enumerate(bars, start=1):
        axes.errorbar(value, row, xerr=_ERRORS * error, fmt="o", color=PALETTE[1], capsize=3, markersize=5)
        axes.axvline(value, color=PALETTE[1], linewidth=0.6, alpha=0.5)
    axes.set_yticks(range(1 + len(bars)), ["interval", *(name for name, _, _ in bars)], fontsize=SMALL_SIZE)
    axes.set_xlabel(f"log Z; bars are {_ERRORS} standard errors", fontsize=TEXT_SIZE, color=INK)
    ends = [lower, upper, *(value + sign * _ERRORS * error for _, value, error in bars for sign in (-1, 1))]
    margin = 0.06 * max(max(ends) - min(ends), 1e-6 * max(1.0, *map(abs, ends)))
    axes.set_xlim(min(ends) - margin, max(ends) + margin)
    axes.set_ylim(-0.6, len(bars) + 0.6)
    axes.set_title(
        f"{certificate['verdict']}: {certificate['reason']}", fontsize=SMALL_SIZE, color=INK, wrap=True
    )
    return figure


def _estimates(record: dict[str, Any]) -> list[tuple[str, float, float]]:
    certificate, facts = record["certificate"], record.get("posterior")
    above = ("log_evidence_upper", "log_evidence_upper_stderr")
    found = []
    if facts is not None and record["log_evidence"] is not None:
        found.append(("answer", float(record["log_evidence"]), float(facts["log_evidence_stderr"] or 0.0)))
        others = [("from above", *above)] if certificate[above[1]] else []
    else:
        others = [
            ("fresh sweeps", "log_evidence_lower", "log_evidence_stderr"),
            ("conditional sweeps", *above),
        ]
    for name, value, error in others:
        if certificate[value] is not None and np.isfinite(certificate[value]):
            found.append((name, float(certificate[value]), float(certificate[error] or 0.0)))
    return found
