"""Ablations on grid worlds: without deterministic policies, and without shared dynamics."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from polinfer.exact.solution import Floats
from polinfer.problems.registry import make
from polinfer.reproduce.assumptions import GRID_RATE
from polinfer.reproduce.claims import Claim, clearly_above, judge
from polinfer.reproduce.experiment import Column, Experiment, Found, Results, Row, vsmc, wake
from polinfer.reproduce.experiments.grids import rows_of
from polinfer.reproduce.figures import map_figure, outcome_bars
from polinfer.reproduce.problems import table_for

_PLACE = "Section Grid Worlds, Figure 2 (ablation)"
_RATE = float(GRID_RATE.value)
_SMALL = "gridworld/ablation"
_DYNAMICS = ("shared", "independent", "posterior")
_ROWS = (
    *(row for row in rows_of("multimodal") if row.method in ("vsmc", "posterior")),
    vsmc(
        "any policies",
        "VSMC, not deterministic",
        "gridworld/multimodal",
        _RATE,
        settings={"deterministic": False},
        group="multimodal",
    ),
    vsmc("shared", "VSMC, shared dynamics", _SMALL, _RATE, group="ablation", aim="posterior"),
    vsmc(
        "independent",
        "VSMC, independent dynamics",
        _SMALL,
        _RATE,
        settings={"coupled": False},
        group="ablation",
        aim="posterior",
    ),
    wake("wake", "wake, shared dynamics", _SMALL, _RATE, group="ablation", aim="posterior"),
    Row("posterior", "posterior", _SMALL, "posterior", group="ablation", extra=True),
    Row("optimal", "optimal", _SMALL, "optimal", group="ablation", extra=True),
)


def _start(found: Found, action: str) -> Floats:
    """Return the probability of an action in the start, by run."""
    table = table_for(make(_SMALL))
    policies: Floats = found.policy[:, int(table.initial.argmax()), table.action_names.index(action)]
    return policies


def _entropy_claim(results: Results) -> Claim:
    with_it, without = results["multimodal vsmc"], results["any policies"]
    gap = without.mean("entropy") - with_it.mean("entropy")
    noise = np.hypot(with_it.stderr("entropy"), without.stderr("entropy"))
    return judge(
        "Without enforcing deterministic policies the policy distribution has a higher entropy.",
        _PLACE,
        f"entropy per step, nats: without {without.mean('entropy'):.3f} ± {without.spread('entropy'):.3f}, "
        f"with {with_it.mean('entropy'):.3f} ± {with_it.spread('entropy'):.3f}",
        holds=bool(gap > 3 * noise),
        in_kind=gap > 0,
    )


def _down_claim(results: Results) -> Claim:
    odds = {key: _start(results[key], "down") for key in _DYNAMICS}
    return judge(
        "With shared dynamics the agent mostly moves down in the start.",
        _PLACE,
        f"probability of down, {_told(odds)}; of ending in the swamp, "
        + _told({key: results[key]["ending.swamp"] for key in _DYNAMICS}),
        holds=bool(odds["shared"].mean() > 0.5),
        in_kind=clearly_above(odds["shared"], odds["independent"]),
    )


def _right_claim(results: Results) -> Claim:
    odds = {key: _start(results[key], "right") for key in _DYNAMICS}
    return judge(
        "With independent dynamics the agent often moves right in the start, the shortest way.",
        _PLACE,
        f"probability of right (often: clearly more than with shared dynamics), {_told(odds)}",
        holds=clearly_above(odds["independent"], odds["shared"]),
    )


def _told(odds: dict[str, Floats]) -> str:
    return "shared / independent / the posterior: " + " / ".join(
        f"{runs.mean():.3f}" for runs in odds.values()
    )


def maps(results: Results) -> Figure:
    """Draw the three maps of the paper's figure, and the posterior's."""
    titles = {
        "any policies": "deterministic policies not enforced",
        "shared": "shared dynamics",
        "independent": "independent dynamics",
        "posterior": "posterior (ours)",
    }
    return map_figure({title: results[key] for key, title in titles.items()})


def bars(results: Results) -> Figure:
    """Draw how episodes end with shared and with independent dynamics."""
    rows = {results[key].row.label: results[key] for key in ("shared", "independent", "wake", "posterior")}
    return outcome_bars(rows, ("goal", "swamp"), width=6.4)


EXPERIMENT = Experiment(
    name="ablations",
    title="Ablations",
    place=_PLACE,
    about="What enforcing deterministic policies and sharing the dynamics do.",
    rows=_ROWS,
    columns=(
        Column("return", "mean"),
        Column("goal", "ending.goal", 3),
        Column("swamp", "ending.swamp", 3),
        Column("entropy", "entropy", 3),
    ),
    claims=(_entropy_claim, _down_claim, _right_claim),
    figures={"maps.png": maps, "outcomes.png": bars},
)
