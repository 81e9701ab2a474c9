"""Blackjack: Table bj and the outcome probabilities."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from polinfer.reproduce.choices import BLACKJACK_RATE
from polinfer.reproduce.claims import Claim, judge
from polinfer.reproduce.drawing import outcome_bars
from polinfer.reproduce.experiment import (
    Column,
    Experiment,
    Printed,
    Results,
    Row,
    evidence_claim,
    sac,
    soft,
    vsmc,
    wake,
)

_PLACE = "Section Blackjack, Table bj, Figure bj"
_RATE = float(BLACKJACK_RATE.value)
_SCALES = (1, 10, 100)
_ALPHAS = (1.0, 0.1, 0.01)
_FIELDS = ("base_mean", "ending.loss", "ending.draw", "ending.win")
# Return, loss, draw, win: mean and spread of Table bj.
_PRINTED = {
    "vsmc 1": ((-0.19, 0.04), (0.57, 0.02), (0.05, 0.01), (0.38, 0.02)),
    "vsmc 10": ((-0.14, 0.03), (0.54, 0.01), (0.05, 0.01), (0.41, 0.01)),
    "vsmc 100": ((-0.12, 0.04), (0.53, 0.02), (0.06, 0.01), (0.41, 0.02)),
    "sac 1": ((-0.32, 0.01), (0.63, 0.01), (0.06, 0.01), (0.31, 0.01)),
    "sac 0.1": ((-0.15, 0.01), (0.54, 0.02), (0.07, 0.01), (0.39, 0.02)),
    "sac 0.01": ((-0.08, 0.03), (0.50, 0.05), (0.08, 0.02), (0.42, 0.03)),
    "optimal": ((-0.06, None), (0.49, None), (0.09, None), (0.42, None)),
}


def _printed(key: str) -> dict[str, Printed]:
    return {field: Printed(*numbers) for field, numbers in zip(_FIELDS, _PRINTED[key], strict=True)}


def _scaled(scale: int) -> tuple[Row, ...]:
    options = {} if scale == 1 else {"reward_scale": float(scale)}
    name = "" if scale == 1 else f", {scale} r"
    shared: dict[str, Any] = {"domain": "blackjack", "options": options, "group": f"rewards x{scale}"}
    fitted: dict[str, Any] = {**shared, "rate": _RATE}
    statewise = f"statewise {scale}"
    return (
        vsmc(f"vsmc {scale}", f"VSMC{name}", printed=_printed(f"vsmc {scale}"), aim=statewise, **fitted),
        vsmc(
            f"own {scale}",
            f"VSMC{name}, own deals",
            settings={"start": "independent"},
            extra=True,
            **fitted,
        ),
        wake(f"wake {scale}", f"wake{name}", aim=statewise, **fitted),
        Row(statewise, f"posterior given the hand{name}", method="statewise", extra=True, **shared),
        Row(f"averaged {scale}", f"posterior over deals{name}", method="posterior", extra=True, **shared),
    )


def _entropic(alpha: float) -> tuple[Row, ...]:
    name = "" if alpha == 1 else f", alpha={alpha:g}"
    shared: dict[str, Any] = {"domain": "blackjack", "alpha": alpha, "group": "entropy-regularised"}
    key = f"sac {alpha:g}"
    return (
        sac(key, f"SAC{name}", printed=_printed(key), aim=f"soft {alpha:g}", **shared),
        soft(f"soft {alpha:g}", f"exact soft policy{name}", **shared),
    )


_ROWS = (
    *(row for scale in _SCALES for row in _scaled(scale)),
    *(row for alpha in _ALPHAS for row in _entropic(alpha)),
    Row("optimal", "optimal", "blackjack", "optimal", group="known", printed=_printed("optimal")),
    Row("uniform", "uniform", "blackjack", "uniform", group="known", extra=True),
)


def claims(results: Results) -> list[Claim]:
    """Judge the section's observations."""

    def shares(ending: str, keys: tuple[str, ...]) -> tuple[str, list[float]]:
        values = [results[key].mean(f"ending.{ending}") for key in keys]
        text = ", ".join(f"{results[key].row.label} {v:.3f}" for key, v in zip(keys, values, strict=True))
        return text, values

    draws, (mine, theirs, tenth, hundredth) = shares("draw", ("vsmc 1", "sac 1", "sac 0.1", "sac 0.01"))
    wins, won = shares("win", ("vsmc 1", "vsmc 10", "vsmc 100", "optimal"))
    losses, lost = shares("loss", ("vsmc 10", "sac 0.1", "vsmc 100", "sac 0.01"))
    best = results["optimal"]
    neither = max(results[key].mean("base_mean") for key in ("vsmc 1", "sac 1"))
    return [
        judge(
            "Neither VSMC nor SAC at the default temperature matches the optimal policy.",
            _PLACE,
            f"return: optimal {best.mean('base_mean'):.3f}, the better of the two {neither:.3f}",
            holds=neither < best.mean("base_mean") - 0.02,
        ),
        judge(
            "VSMC has a lower draw probability than SAC at alpha 1; SAC needs alpha 0.1 or 0.01 to match it.",
            _PLACE,
            f"draw probability: {draws}",
            holds=mine < theirs and min(abs(tenth - mine), abs(hundredth - mine)) < abs(theirs - mine),
            in_kind=mine < theirs,
        ),
        judge(
            "With rewards x10 and x100 VSMC approaches the optimal win probability.",
            _PLACE,
            f"win probability: {wins}",
            holds=won[0] < won[1] <= won[2] + 0.01 and won[3] - won[2] < 0.03,
            in_kind=won[2] > won[0],
        ),
        judge(
            "Scaled VSMC still loses more often than SAC with the corresponding regularisation.",
            _PLACE,
            f"loss probability: {losses}",
            # As far as two printed digits tell.
            holds=lost[0] > lost[1] - 0.005 and lost[2] > lost[3],
        ),
        evidence_claim(results, {f"wake {scale}": f"vsmc {scale}" for scale in _SCALES}),
    ]


def figure(results: Results) -> Figure:
    """Draw the outcome probabilities of the table's rows."""
    rows = [results[key] for key in _PRINTED]
    return outcome_bars({found.row.label: found for found in rows}, ("loss", "draw", "win"))


def our_figure(results: Results) -> Figure:
    """Draw the same for the posteriors and for wake."""
    kinds = ("wake", "statewise", "averaged")
    rows = [results[f"{kind} {scale}"] for scale in _SCALES for kind in kinds]
    return outcome_bars({found.row.label: found for found in rows}, ("loss", "draw", "win"))


EXPERIMENT = Experiment(
    name="blackjack",
    title="Blackjack",
    place=_PLACE,
    about="Gymnasium's Blackjack-v1: returns and how games end.  Returns are in the game's own stakes.",
    rows=_ROWS,
    columns=(
        Column("return", "base_mean", 3),
        Column("loss", "ending.loss", 3),
        Column("draw", "ending.draw", 3),
        Column("win", "ending.win", 3),
        Column("log Z-hat", "log_evidence", 2),
    ),
    claims=claims,
    figures={"outcomes.png": figure, "outcomes-ours.png": our_figure},
)
