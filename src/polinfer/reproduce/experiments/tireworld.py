"""Triangle Tireworld: Table tw and the success probabilities."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from polinfer.reproduce.choices import TIREWORLD_HORIZON, TIREWORLD_RATE
from polinfer.reproduce.claims import Claim, judge
from polinfer.reproduce.drawing import success_figure
from polinfer.reproduce.experiment import (
    Column,
    Experiment,
    Found,
    Printed,
    Results,
    Row,
    sac,
    soft,
    vsmc,
    wake,
)

_PLACE = "Section Triangle Tireworld, Table tw, Figure tw"
_RATE = float(TIREWORLD_RATE.value)
INSTANCES = (1, 4, 7, 10)
# Return and success of Table tw, mean and spread.
_PRINTED = {
    1: {
        "vsmc 1": ((-0.80, 0.52), (0.47, 0.03)),
        "vsmc 0.2": ((1.07, 0.32), (0.57, 0.02)),
        "sac 1": ((1.27, 0.11), (0.58, 0.01)),
        "sac 0.2": ((-0.26, 0.62), (0.50, 0.03)),
    },
    4: {
        "vsmc 1": ((-4.51, 0.32), (0.29, 0.02)),
        "vsmc 0.2": ((-1.64, 0.10), (0.44, 0.01)),
        "sac 1": ((-1.90, 0.17), (0.43, 0.01)),
        "sac 0.2": ((-7.25, 1.08), (0.15, 0.06)),
    },
    7: {
        "vsmc 1": ((-2.91, 0.26), (0.39, 0.02)),
        "vsmc 0.2": ((-1.04, 0.20), (0.49, 0.01)),
        "sac 1": ((-1.35, 0.09), (0.48, 0.01)),
        "sac 0.2": ((-7.49, 0.38), (0.28, 0.03)),
    },
    10: {
        "vsmc 1": ((-6.14, 0.19), (0.22, 0.02)),
        "vsmc 0.2": ((-5.02, 0.06), (0.30, 0.01)),
        "sac 1": ((-5.27, 0.04), (0.28, 0.01)),
        "sac 0.2": ((-8.83, 0.29), (0.14, 0.03)),
    },
}
_ORDER = tuple(_PRINTED[1])


def _instance(number: int) -> tuple[Row, ...]:
    told = {
        key: {"base_mean": Printed(*earned), "success": Printed(*arrived)}
        for key, (earned, arrived) in _PRINTED[number].items()
    }
    where: dict[str, Any] = {"domain": f"tireworld/{number}", "group": f"instance {number}"}
    # As it is by default, and so that the reference files apply.
    assert TIREWORLD_HORIZON.value == 20
    rows: list[Row] = []
    for scale in (1.0, 0.2):
        options: dict[str, Any] = {} if scale == 1 else {"reward_scale": scale}
        name = "" if scale == 1 else f" ({scale:g} r)"
        key, known = f"{number} vsmc {scale:g}", f"{number} posterior {scale:g}"
        fitted: dict[str, Any] = {**where, "options": options, "rate": _RATE, "aim": known}
        rows += [
            vsmc(key, f"VSMC{name}", printed=told[f"vsmc {scale:g}"], **fitted),
            wake(f"{number} wake {scale:g}", f"wake{name}", **fitted),
            Row(known, f"posterior{name}", method="posterior", options=options, extra=True, **where),
        ]
    for alpha in (1.0, 0.2):
        name = "" if alpha == 1 else f" (alpha={alpha:g})"
        key, known = f"{number} sac {alpha:g}", f"{number} soft {alpha:g}"
        rows += [
            sac(key, f"SAC{name}", alpha=alpha, printed=told[f"sac {alpha:g}"], aim=known, **where),
            soft(known, f"exact soft policy{name}", alpha=alpha, **where),
        ]
    rows += [
        Row(f"{number} uniform", "uniform", method="uniform", extra=True, **where),
        Row(f"{number} optimal", "optimal", method="optimal", extra=True, **where),
    ]
    return tuple(rows)


def _per_instance(results: Results, *keys: str, field: str = "base_mean", spread: bool = False) -> str:
    def one(row: Found) -> str:
        return f"{row.mean(field):.2f}" + (f" ± {row.spread(field):.2f}" if spread else "")

    return "; ".join(f"{n}: " + " / ".join(one(results[f"{n} {key}"]) for key in keys) for n in INSTANCES)


def _earned(results: Results, key: str) -> list[float]:
    return [results[f"{n} {key}"].mean("base_mean") for n in INSTANCES]


def _more(first: list[float], second: list[float], room: float = 0.0) -> list[bool]:
    return [a > b + room for a, b in zip(first, second, strict=True)]


def _low_claim(results: Results) -> Claim:
    low = _more(_earned(results, "sac 1"), _earned(results, "vsmc 1"))
    full, scaled = (
        [results[f"{n} {key}"].spread("base_mean") for n in INSTANCES] for key in ("vsmc 1", "vsmc 0.2")
    )
    return judge(
        "With the original rewards VSMC has a low mean return and a high variance over runs.",
        _PLACE,
        "return of VSMC / of SAC at alpha 1, ± deviation over runs: "
        + _per_instance(results, "vsmc 1", "sac 1", spread=True),
        holds=all(low) and all(_more(full, scaled)),
        in_kind=sum(low) * 2 > len(low),
    )


def _peaked_claim(results: Results) -> Claim:
    above = _more(_earned(results, "posterior 1"), _earned(results, "vsmc 1"))
    return judge(
        "The low return is because the posterior is highly peaked.",
        _PLACE,
        "return of executing the posterior / of VSMC: " + _per_instance(results, "posterior 1", "vsmc 1"),
        holds=not any(above),
    )


def _scaled_claim(results: Results) -> Claim:
    scaled, sac_earned = _earned(results, "vsmc 0.2"), _earned(results, "sac 1")
    gain = _more(scaled, _earned(results, "vsmc 1"))
    near = [abs(a - b) < 1.0 for a, b in zip(scaled, sac_earned, strict=True)]
    return judge(
        "With rewards scaled by 0.2 VSMC earns more, comparable to SAC.",
        _PLACE,
        "return of VSMC at 0.2 r / at r / of SAC: " + _per_instance(results, "vsmc 0.2", "vsmc 1", "sac 1"),
        holds=all(gain) and all(near),
        in_kind=sum(gain) * 2 > len(gain),
    )


def _struggle_claim(results: Results) -> Claim:
    worse = _more(_earned(results, "sac 1"), _earned(results, "sac 0.2"), room=0.5)
    return judge(
        "SAC at alpha 0.2 struggles: a lower return and a higher variance than at alpha 1.",
        _PLACE,
        "return of SAC at alpha 0.2 / 1: " + _per_instance(results, "sac 0.2", "sac 1", spread=True),
        holds=all(worse),
        in_kind=sum(worse) * 2 > len(worse),
    )


def figure(results: Results) -> Figure:
    """Draw the success probabilities of the table's rows."""
    return success_figure(_panels(results, _ORDER))


def our_figure(results: Results) -> Figure:
    """Draw them for wake, the posterior and the exact soft policy."""
    return success_figure(_panels(results, ("wake 1", "posterior 1", "wake 0.2", "posterior 0.2", "soft 1")))


def _panels(results: Results, keys: tuple[str, ...]) -> dict[str, dict[str, Found]]:
    rows = {n: [results[f"{n} {key}"] for key in keys] for n in INSTANCES}
    return {f"instance {n}": {found.row.label: found for found in those} for n, those in rows.items()}


EXPERIMENT = Experiment(
    name="tireworld",
    title="Triangle Tireworld",
    place=_PLACE,
    about="Instances 1, 4, 7 and 10 of IPPC 2014 as the paper tells them, returns in the original rewards.",
    rows=tuple(row for number in INSTANCES for row in _instance(number)),
    columns=(
        Column("return", "base_mean"),
        Column("success", "success", 3),
        Column("log Z-hat", "log_evidence", 2),
    ),
    claims=(_low_claim, _peaked_claim, _scaled_claim, _struggle_claim),
    figures={"success.png": figure, "success-ours.png": our_figure},
)
