"""Ours: how near each method comes to the posterior that it is meant to find."""

from __future__ import annotations

from functools import partial
from typing import Any

from polinfer.annealing import TemperedConfig
from polinfer.reproduce.assumptions import GRID_RATE, TIREWORLD_RATE
from polinfer.reproduce.claims import Claim, judge, judge_each
from polinfer.reproduce.experiment import Column, Experiment, Results, Row, vsmc
from polinfer.reproduce.tables import distances

_PLACE = "ours: docs/methods"
_SWAMP = "..G\n.W.\nS.."
_PROBLEMS: dict[str, tuple[str, dict[str, Any], float]] = {
    "gridworld/ablation": ("gridworld/ablation", {}, float(GRID_RATE.value)),
    "3x3 with a swamp": ("gridworld", {"map": _SWAMP}, float(GRID_RATE.value)),
    "tireworld/1": ("tireworld/1", {}, float(TIREWORLD_RATE.value)),
    "tireworld/4": ("tireworld/4", {}, float(TIREWORLD_RATE.value)),
    "gridworld/flat": ("gridworld/flat", {}, float(GRID_RATE.value)),
    "gridworld/unimodal": ("gridworld/unimodal", {}, float(GRID_RATE.value)),
    "gridworld/multimodal": ("gridworld/multimodal", {}, float(GRID_RATE.value)),
}
_LARGE = ("gridworld/flat", "gridworld/unimodal", "gridworld/multimodal")
_EXACT = {"weights": "exact", "worlds": 1, "resample_below": 0.0}  # as `polinfer plan` has it on tables
_BOUNDS = {"wake": 0.02, "tempered": 0.01, "particles": 0.01}
_LARGE_BOUND = 0.03  # the reference posterior is itself a sample there


def _rows(name: str) -> tuple[Row, ...]:
    domain, options, rate = _PROBLEMS[name]
    where: dict[str, Any] = {"domain": domain, "options": options, "group": name, "extra": True}
    aim = f"{name} posterior"

    def ours(method: str, settings: dict[str, Any] | None = None, **growing: int) -> Row:
        size = ", ".join(f"{number:,} {what}" for what, number in growing.items())
        return Row(
            f"{name} {method}",
            f"{method}, {size}",
            method=method,
            settings=settings or {},
            growing=growing,
            aim=aim,
            certified=True,
            **where,
        )

    return (
        vsmc(f"{name} vsmc", "VSMC, 10 particles", rate=rate, aim=aim, **where),
        Row(f"{name} uniform", "uniform", method="uniform", aim=aim, **where),
        ours("wake", _EXACT, sweeps=1000, particles=200),
        ours("tempered", policies=TemperedConfig.policies),
        ours("particles", sweeps=40, particles=2000),
        Row(aim, "posterior", method="posterior", **where),
    )


def _apart(results: Results, name: str, method: str) -> float:
    """Return how far a method is from the posterior on one problem, mean over runs."""
    return float(distances(results[f"{name} {method}"], results[f"{name} posterior"]).mean())


def _vsmc_claim(results: Results) -> Claim:
    apart = {name: [_apart(results, name, method) for method in ("vsmc", "uniform")] for name in _PROBLEMS}
    return judge(
        "The learned proposal approximates the posterior-induced policy, and is executed as such.",
        "Section Inference, Proposition Policy-VSMC target",
        "distance to the posterior, mean over runs, of VSMC / of uniform choices (near: 0.05, in kind: less "
        "than half of uniform's): "
        + ", ".join(f"{name} {mine:.3f} / {even:.3f}" for name, (mine, even) in apart.items()),
        holds=all(mine < 0.05 for mine, _ in apart.values()),
        in_kind=all(mine < 0.5 * even for mine, even in apart.values()),
    )


def _distance_claim(results: Results, method: str, bound: float) -> Claim:
    """Judge our own claim: how far a method is from the posterior, mean over runs, problem by problem."""
    apart = {name: _apart(results, name, method) for name in _PROBLEMS}
    kept = [value <= (_LARGE_BOUND if name in _LARGE else bound) for name, value in apart.items()]
    return judge_each(
        f"The method {method} ends within {bound} of the posterior on small problems and within "
        f"{_LARGE_BOUND} on the 4x4 grids.",
        _PLACE,
        "distance, mean over runs: " + ", ".join(f"{name} {value:.4f}" for name, value in apart.items()),
        kept,
    )


EXPERIMENT = Experiment(
    name="accuracy",
    title="How near the posterior",
    place=_PLACE,
    about=(
        "Ours: every method that estimates the posterior, beside the posterior itself.  The sizes in its "
        "rows are those of the paper's budget; smaller budgets have smaller ones.  Wake and particles weigh "
        "policies by their exact J.  The bounds on log Z are estimates from the first seed: each is a bound "
        "on average (but for tempered's from above), and may be on the wrong side by its own error."
    ),
    rows=tuple(row for name in _PROBLEMS for row in _rows(name)),
    columns=(
        Column("return", "mean"),
        Column("bound below", "log_evidence_lower", 3),
        Column("bound above", "log_evidence_upper", 3),
        Column("log Z or log Z-hat", "log_evidence", 3),
        Column("seconds a run", "seconds", 1),
    ),
    claims=(_vsmc_claim, *(partial(_distance_claim, method=m, bound=b) for m, b in _BOUNDS.items())),
    figures={},
)
