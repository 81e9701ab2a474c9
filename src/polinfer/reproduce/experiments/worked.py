"""The worked examples: a bandit, and an action that may lead back."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
from matplotlib.figure import Figure

from polinfer.plots.style import INK, SMALL_SIZE, TEXT_SIZE, line_colour, style_axes
from polinfer.reproduce.claims import Claim, judge
from polinfer.reproduce.experiment import Column, Experiment, Printed, Results, Row, vsmc

_PLACE = "Section Worked Tabular Examples"
_RATES = (0.0, 0.25, 0.5, 0.75, 0.9)
_RATE = 3e-4
_E = math.e
_ENTROPIC = {"alpha": 1.0, "gamma": 1.0}

_BANDIT = (
    Row("bandit posterior", "posterior", "bandit", "posterior", group="bandit"),
    Row("bandit soft", "soft, alpha=1", "bandit", "soft", settings=_ENTROPIC, group="bandit"),
    Row("bandit cai", "control as inference", "bandit", "inference", group="bandit"),
    vsmc("bandit vsmc", "VSMC", "bandit", _RATE, group="bandit", aim="bandit posterior", extra=True),
)


def _continuation(rho: float) -> tuple[Row, ...]:
    group, options = f"continuation, rho={rho:g}", {"rho": rho}
    printed = {0.5: (0.73, 0.55)}.get(rho)
    told: list[dict[str, Printed]] = (
        [{"second": Printed(number)} for number in printed] if printed else [{}, {}]
    )
    key = f"rho {rho:g}"
    posterior = Row(f"{key} posterior", "posterior", "continuation", "posterior", options, {}, group, told[0])
    soft = Row(f"{key} soft", "soft, alpha=1", "continuation", "soft", options, _ENTROPIC, group, told[1])
    return posterior, soft


_TRAINED = Row(
    "rho 0.5 svi",
    "VSMC, one particle",
    "continuation",
    "svi",
    options={"rho": 0.5},
    settings={"learning_rate": _RATE},
    group="continuation, rho=0.5",
    aim="rho 0.5 posterior",
    extra=True,
)


def _second(results: Results, key: str) -> float:
    return results[key].mean("second")


def _bandit_claim(results: Results) -> Claim:
    first, soft, inference = (_second(results, f"bandit {name}") for name in ("posterior", "soft", "cai"))
    return judge(
        "In a one-step bandit the posterior and entropy-regularised control agree, and control as inference "
        "differs.",
        _PLACE,
        f"probability of the second arm: posterior {first:.6f}, soft {soft:.6f}, control as inference "
        f"{inference:.6f}",
        holds=abs(first - soft) < 1e-6 and abs(first - inference) > 1e-3,
    )


def _continuation_claim(results: Results) -> Claim:
    mine, theirs = (
        [_second(results, f"rho {rho:g} {name}") for rho in _RATES] for name in ("posterior", "soft")
    )
    gaps = [a - b for a, b in zip(mine, theirs, strict=True)]
    rising = all(later > earlier for earlier, later in pairwise(gaps))
    closed = ((1 + math.sqrt(1 + 4 * _E)) / 2) ** 2
    at_half = _second(results, "rho 0.5 posterior"), _second(results, "rho 0.5 soft")
    exact = np.allclose(at_half, (_E / (1 + _E), _E / closed), atol=1e-6)
    return judge(
        "With a continuation the soft policy takes the rewarded action less often than the posterior, for "
        "every rho > 0; at rho = 1/2 the two are 0.55 and 0.73.",
        _PLACE,
        f"at rho = 1/2: soft {at_half[1]:.4f}, posterior {at_half[0]:.4f}; difference at rho = "
        + ", ".join(f"{rho:g}: {gap:.4f}" for rho, gap in zip(_RATES, gaps, strict=True)),
        holds=bool(exact) and abs(gaps[0]) < 1e-6 and rising,
    )


def figure(results: Results) -> Figure:
    """Draw both policies over the probability of coming back."""
    drawn = Figure(figsize=(4.2, 2.7), layout="constrained", facecolor="white")
    ax = drawn.add_subplot()
    style_axes(ax)
    for index, name in enumerate(("posterior", "soft")):
        values = [_second(results, f"rho {rho:g} {name}") for rho in _RATES]
        ax.plot(_RATES, values, "o-", color=line_colour(index), label=name, markersize=4)
    ax.set_xlabel("probability ρ of coming back", fontsize=TEXT_SIZE, color=INK)
    ax.set_ylabel("probability of the rewarded action", fontsize=TEXT_SIZE, color=INK)
    ax.set_ylim(0, 1)
    ax.legend(fontsize=SMALL_SIZE, frameon=False, labelcolor=INK)
    return drawn


EXPERIMENT = Experiment(
    name="worked",
    title="Worked examples",
    place=_PLACE,
    about="Where the policy posterior and entropy-regularised control agree, and where they do not.",
    rows=(*_BANDIT, *(row for rho in _RATES for row in _continuation(rho)), _TRAINED),
    columns=(Column("P(second action)", "second", 3), Column("return", "mean", 3)),
    claims=(_bandit_claim, _continuation_claim),
    figures={"continuation.png": figure},
)
