"""Ablations on grid worlds: without deterministic policies, and without shared dynamics."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from polinfer.registry import make
from polinfer.reproduce.choices import GRID_RATE
from polinfer.reproduce.claims import Claim, judge
from polinfer.reproduce.drawing import map_figure, outcome_bars
from polinfer.reproduce.experiment import Column, Experiment, Found, Results, Row, vsmc, wake
from polinfer.reproduce.experiments.grids import rows_of
from polinfer.reproduce.problem import table_for

_PLACE = "Section Grid Worlds, Figure ablation"
_RATE = float(GRID_RATE.value)
_SMALL = "gridworld/ablation"
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


def _down(found: Found) -> np.ndarray:
    """Return the probability of moving down in the start, by run."""
    table = table_for(make(_SMALL))
    policies: np.ndarray = found.policy[:, int(table.initial.argmax()), table.action_names.index("down")]
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


def _dynamics_claim(results: Results) -> Claim:
    shared, independent, known = (_down(results[key]) for key in ("shared", "independent", "posterior"))
    swamp = {key: results[key].mean("ending.swamp") for key in ("shared", "independent")}
    return judge(
        "With shared dynamics the agent mostly moves down in the start; with independent dynamics it often "
        "moves right, into the reach of the swamp.",
        _PLACE,
        f"probability of down: shared {shared.mean():.3f} ± {shared.std():.3f}, independent "
        f"{independent.mean():.3f} ± {independent.std():.3f}, the posterior {known.mean():.3f}; ends in the "
        f"swamp: shared {swamp['shared']:.3f}, independent {swamp['independent']:.3f}",
        holds=bool(shared.mean() > 0.5 > independent.mean()),
        in_kind=bool(shared.mean() > independent.mean()),
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
    claims=(_entropy_claim, _dynamics_claim),
    figures={"maps.png": maps, "outcomes.png": bars},
)
