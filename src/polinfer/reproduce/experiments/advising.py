"""Academic Advising: Table aa and the return distributions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from polinfer.exact.solution import Floats
from polinfer.reproduce.assumptions import ADVISING_HORIZON, ADVISING_RATE
from polinfer.reproduce.claims import Claim, clearly_above, judge, judge_each, most
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
from polinfer.reproduce.figures import return_distributions
from polinfer.reproduce.readings import both

_PLACE = "Section Academic Advising, Table 3 (aa), Figure 6 (aa)"
_RATE = float(ADVISING_RATE.value)
INSTANCES = (1, 2, 3)
HARDER = (4, 5, 6)  # of which uniform choices are asked, and some methods
_TRAINED = ((4, "vsmc"), (5, "vsmc"), (5, "sac"))
_RELIABLE = 0.1  # probability of completion from which on a run counts as finding the way
_WIDE = 0.1  # of the mean return: a deviation over runs that is called wide
_FIELDS = ("mean", "q05", "cvar05", "q95", "cvar95")
_PRINTED = {
    (1, "vsmc"): ((-65.3, 1.3), (-141.1, 3.6), (-175.7, 5.0), (-20.4, 0.5), (-18.4, 0.4)),
    (1, "sac"): ((-48.6, 0.8), (-84.0, 2.8), (-97.1, 2.6), (-24.8, 1.2), (-21.9, 0.9)),
    (2, "vsmc"): ((-98.5, 1.8), (-184.2, 5.2), (-222.1, 7.1), (-45.0, 1.2), (-39.5, 1.0)),
    (2, "sac"): ((-106.7, 3.6), (-184.6, 8.2), (-216.1, 11.1), (-52.8, 1.4), (-45.7, 1.2)),
    (3, "vsmc"): ((-86.7, 1.1), (-174.1, 3.0), (-207.5, 3.4), (-32.6, 0.2), (-28.1, 0.5)),
    (3, "sac"): ((-84.4, 2.2), (-147.7, 4.5), (-174.6, 5.3), (-39.0, 1.6), (-34.2, 0.7)),
}
# The program without the courses that do not matter fits a small table: the optimum is the same.
_REDUCED = (1, 3)
_WHOLE = (1, 2)  # 59,049 states, so what SAC aims at can be computed
_KNOWN = (1,)  # there is a reference posterior of the reduced program


def _instance(number: int) -> tuple[Row, ...]:
    assert ADVISING_HORIZON.value == 40
    where = _where(number)
    told = {
        method: {f: Printed(*n) for f, n in zip(_FIELDS, _PRINTED[number, method], strict=True)}
        for method in ("vsmc", "sac")
    }
    reduced: dict[str, Any] = {**where, "options": {"relevant_only": True}, "extra": True}
    solved = reduced if number in _REDUCED else {**where, "extra": True, "lengthy": True}
    rows = [
        _vsmc(number, told["vsmc"]),
        wake(f"{number} wake", "wake", rate=_RATE, **where),
        *_sac(number, told["sac"]),
        _uniform(number),
    ]
    if number in _WHOLE:
        label = "exact soft policy, alpha=1"
        rows += both(soft(_aim(number), label, alpha=1.0, lengthy=True, **where))
    rows.append(Row(f"{number} optimal", "optimal", method="optimal", **solved))
    if number in _KNOWN:
        label = "posterior, relevant courses"
        rows.append(Row(f"{number} posterior", label, method="posterior", **reduced))
    return tuple(rows)


def _where(number: int) -> dict[str, Any]:
    return {"domain": f"advising/{number}", "group": f"instance {number}"}


def _vsmc(number: int, printed: Mapping[str, Printed]) -> Row:
    return vsmc(f"{number} vsmc", "VSMC", rate=_RATE, printed=printed, extra=not printed, **_where(number))


def _sac(number: int, printed: Mapping[str, Printed]) -> tuple[Row, Row]:
    told: dict[str, Any] = {"printed": printed, "aim": _aim(number), "extra": not printed}
    return both(sac(f"{number} sac", "SAC", alpha=1.0, **told, **_where(number)))


def _aim(number: int) -> str:
    return f"{number} soft" if number in _WHOLE else ""


def _uniform(number: int) -> Row:
    growing = {"episodes": 20_000}
    return Row(f"{number} uniform", "uniform", method="chance", growing=growing, extra=True, **_where(number))


def _harder(number: int) -> tuple[Row, ...]:
    """Return the rows of an instance of which the paper prints no numbers."""
    trained = [method for n, method in _TRAINED if n == number]
    rows = [_vsmc(number, {})] if "vsmc" in trained else []
    return (*rows, *(_sac(number, {}) if "sac" in trained else ()), _uniform(number))


def _told(results: Results, n: int, key: str, *fields: str, digits: int = 0) -> str:
    return f"{key} " + " … ".join(f"{results[f'{n} {key}'].mean(field):.{digits}f}" for field in fields)


def _complete_claim(results: Results) -> Claim:
    least = {(n, m): results[f"{n} {m}"]["success"].min() for n in INSTANCES for m in ("vsmc", "sac")}
    told = "; ".join(
        f"{n}: vsmc {least[n, 'vsmc']:.2f}, sac {least[n, 'sac']:.2f}, "
        + _told(results, n, "uniform", "success", digits=2)
        for n in INSTANCES
    )
    return judge(
        "VSMC and SAC reliably find policies that complete instances 1-3 with some probability.",
        _PLACE,
        f"probability of completion, of the worst run and of uniform choices: {told}",
        holds=bool(min(least.values()) > _RELIABLE),
    )


def _means_claim(results: Results) -> Claim:
    pairs = {n: [results[f"{n} {key}"].mean("mean") for key in ("vsmc", "sac")] for n in INSTANCES}
    close = [abs(mine - theirs) < 0.2 * abs(theirs) for mine, theirs in pairs.values()]
    return judge(
        "VSMC and SAC often have comparable mean returns.",
        _PLACE,
        "mean return of VSMC and SAC (comparable: within a fifth; often: on most instances): "
        + "; ".join(f"{n}: {mine:.0f} and {theirs:.0f}" for n, (mine, theirs) in pairs.items()),
        holds=most(close),
    )


def _tails_claim(results: Results) -> Claim:
    wider = [clearly_above(_width(results[f"{n} vsmc"]), _width(results[f"{n} sac"])) for n in INSTANCES]
    told = "; ".join(
        f"{n}: " + ", ".join(_told(results, n, key, "cvar05", "cvar95") for key in ("vsmc", "sac"))
        for n in INSTANCES
    )
    return judge_each(
        "VSMC's returns have heavier tails than SAC's.",
        _PLACE,
        f"mean of the lowest and of the highest 5% (heavier: clearly further apart): {told}",
        wider,
    )


def _width(found: Found) -> Floats:
    """Return how far the means of both tails are apart, by run."""
    return np.asarray(found["cvar95"] - found["cvar05"], np.float64)


def _harder_claim(results: Results) -> Claim:
    told, fails = [], []
    for n, method in _TRAINED:
        found = results[f"{n} {method}"]
        success, mean, spread = found["success"], found.mean("mean"), found.spread("mean")
        told.append(f"{n} {method} {success.min():.2f} to {success.max():.2f}, {mean:.1f} ± {spread:.1f}")
        fails.append(bool(success.min() < _RELIABLE or spread > _WIDE * abs(mean)))
    chance = ", ".join(f"{results[f'{n} uniform'].mean('success'):.3f} ({n})" for n in HARDER)
    return judge_each(
        "From instance 4 on, runs vary widely or end in a random walk that does not complete the program "
        "(tried here: VSMC on 4 and 5, SAC on 5).",
        _PLACE,
        f"probability of completion of the worst run (it fails below {_RELIABLE}) and of the best, and the "
        f"return with its deviation over runs (wide: more than a tenth): {'; '.join(told)}; completion by "
        f"random choices, under our reading of the domain: {chance}",
        fails,
    )


def figure_of(number: int) -> Callable[[Results], Figure]:
    """Return the function that draws one instance's return distributions."""

    def draw(results: Results) -> Figure:
        keys = [f"{number} {name}" for name in ("vsmc", "sac", "wake", "uniform")]
        return return_distributions({results[key].row.label: results[key] for key in keys})

    return draw


EXPERIMENT = Experiment(
    name="advising",
    title="Academic Advising",
    place=_PLACE,
    about="Instances 1 to 3 of IPPC 2014 as the paper tells them: the spread of returns.",
    rows=(
        *(row for number in INSTANCES for row in _instance(number)),
        *(row for number in HARDER for row in _harder(number)),
    ),
    columns=(
        Column("return", "mean", 1),
        Column("0.05 quantile", "q05", 1),
        Column("0.05 tail mean", "cvar05", 1),
        Column("0.95 quantile", "q95", 1),
        Column("0.95 tail mean", "cvar95", 1),
        Column("completed", "success", 2),
        Column("log Z-hat", "log_evidence", 2),
    ),
    claims=(_complete_claim, _means_claim, _tails_claim, _harder_claim),
    figures={f"returns-{number}.png": figure_of(number) for number in INSTANCES},
)
