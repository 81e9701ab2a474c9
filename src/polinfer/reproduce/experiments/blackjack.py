"""Blackjack: Table bj and the outcome probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from polinfer.exact.solution import Floats
from polinfer.reproduce.assumptions import BLACKJACK_RATE
from polinfer.reproduce.claims import Claim, judge
from polinfer.reproduce.experiment import (
    Column,
    Experiment,
    Printed,
    Results,
    Row,
    sac,
    soft,
    vsmc,
    wake,
)
from polinfer.reproduce.figures import outcome_bars
from polinfer.reproduce.readings import both

_PLACE = "Section Blackjack, Table 1 (bj), Figure 4 (bj)"
_RATE = float(BLACKJACK_RATE.value)
_SCALES = (1, 10, 100)
_ALPHAS = (1.0, 0.1, 0.01)
_ENDINGS = ("loss", "draw", "win")
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
        *both(sac(key, f"SAC{name}", printed=_printed(key), aim=f"soft {alpha:g}", **shared)),
        *both(soft(f"soft {alpha:g}", f"exact soft policy{name}", **shared)),
    )


_ROWS = (
    *(row for scale in _SCALES for row in _scaled(scale)),
    *(row for alpha in _ALPHAS for row in _entropic(alpha)),
    Row("optimal", "optimal", "blackjack", "optimal", group="known", printed=_printed("optimal")),
    Row("uniform", "uniform", "blackjack", "uniform", group="known", extra=True),
)


def _shares(results: Results, ending: str, *keys: str) -> tuple[str, list[float]]:
    """Return the probabilities of an ending, in words and as numbers."""
    values = [results[key].mean(f"ending.{ending}") for key in keys]
    told = (f"{results[key].row.label} {value:.3f}" for key, value in zip(keys, values, strict=True))
    return f"{ending} probability: " + ", ".join(told), values


def _optimum_claim(results: Results) -> Claim:
    earned = {key: results[key].mean("base_mean") for key in ("optimal", "vsmc 1", "sac 1")}
    return judge(
        "Neither VSMC nor SAC at the default temperature matches the optimal policy.",
        _PLACE,
        "return: " + ", ".join(f"{results[key].row.label} {value:.3f}" for key, value in earned.items()),
        holds=max(earned["vsmc 1"], earned["sac 1"]) < earned["optimal"] - 0.02,
    )


def _draws_claim(results: Results) -> Claim:
    told, (mine, theirs, _) = _shares(results, "draw", "vsmc 1", "sac 1", "uniform")
    return judge(
        "VSMC has a lower draw probability than SAC at alpha 1.",
        _PLACE,
        told,
        holds=mine < theirs - 0.005,
        in_kind=mine < theirs,
    )


def _match_claim(results: Results) -> Claim:
    def outcomes(key: str) -> Floats:
        return np.array([results[key].mean(f"ending.{ending}") for ending in _ENDINGS])

    keys = [f"sac {alpha:g}" for alpha in _ALPHAS]
    apart = [0.5 * np.abs(outcomes(key) - outcomes("vsmc 1")).sum() for key in keys]
    told = (f"{results[key].row.label} {value:.3f}" for key, value in zip(keys, apart, strict=True))
    return judge(
        "SAC needs alpha 0.1 or 0.01 to match VSMC (read so: in how games end; in draws alone, the paper's "
        "own table moves away).",
        _PLACE,
        "total variation to VSMC's loss, draw and win probabilities: " + ", ".join(told),
        holds=bool(min(apart[1:]) < apart[0]),
    )


def _wins_claim(results: Results) -> Claim:
    told, (one, ten, hundred, best) = _shares(results, "win", "vsmc 1", "vsmc 10", "vsmc 100", "optimal")
    others = (
        f"{name} " + " / ".join(f"{results[f'{kind} {scale}'].mean('ending.win'):.3f}" for scale in _SCALES)
        for kind, name in (
            ("own", "VSMC with own deals"),
            ("statewise", "posterior given the hand"),
            ("averaged", "posterior over deals"),
        )
    )
    return judge(
        "With rewards x10 and x100 VSMC approaches the optimal win probability.",
        _PLACE,
        f"{told}; at r / 10 r / 100 r: " + ", ".join(others),
        holds=one < ten <= hundred + 0.01 and best - hundred < 0.03,
        in_kind=hundred > one,
    )


def _losses_claim(results: Results) -> Claim:
    keys = ("vsmc 10", "sac 0.1", "vsmc 100", "sac 0.01")
    lost, (ten, tenth, hundred, hundredth, _) = _shares(results, "loss", *keys, "uniform")
    drew, drawn = _shares(results, "draw", *keys)
    return judge(
        "Scaled VSMC still loses more often than SAC with the corresponding regularisation, and draws less.",
        _PLACE,
        f"{lost}; {drew}",
        # As far as two printed digits tell.
        holds=ten > tenth - 0.005 and hundred > hundredth and drawn[0] < drawn[1] and drawn[2] < drawn[3],
    )


def figure(results: Results) -> Figure:
    """Draw the outcome probabilities of the table's rows."""
    rows = [results[key] for key in _PRINTED]
    return outcome_bars({found.row.label: found for found in rows}, _ENDINGS)


def our_figure(results: Results) -> Figure:
    """Draw the same for the posteriors and for wake."""
    kinds = ("wake", "statewise", "averaged")
    rows = [results[f"{kind} {scale}"] for scale in _SCALES for kind in kinds]
    return outcome_bars({found.row.label: found for found in rows}, _ENDINGS)


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
    claims=(_optimum_claim, _draws_claim, _match_claim, _wins_claim, _losses_claim),
    figures={"outcomes.png": figure, "outcomes-ours.png": our_figure},
)
