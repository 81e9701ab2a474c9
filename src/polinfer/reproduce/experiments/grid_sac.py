"""VSMC against soft actor-critic on a grid world."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from polinfer.exact.solution import Floats
from polinfer.problems.registry import make
from polinfer.reproduce.claims import Claim, clearly_above, judge
from polinfer.reproduce.experiment import Column, Experiment, Found, Results, sac, soft
from polinfer.reproduce.experiments.grids import rows_of
from polinfer.reproduce.figures import map_figure, return_distributions
from polinfer.reproduce.problems import table_for
from polinfer.reproduce.readings import both

_PLACE = "Section Grid Worlds, Figure 3 (gw-vsmc-sac)"
_DOMAIN = "gridworld/multimodal"
_ROWS = (
    *rows_of("multimodal"),
    *both(sac("sac", "SAC, alpha=1", _DOMAIN, 1.0, group="multimodal", aim="soft")),
    *both(soft("soft", "exact soft policy, alpha=1", _DOMAIN, 1.0, group="multimodal")),
)
_STEPS = {"right": (1, 0), "up": (0, 1), "down": (0, -1), "left": (-1, 0)}


def wall_share(found: Found) -> Floats:
    """Return the share of steps at which a run aims at the edge of the grid, by run."""
    grid = make(found.row.domain, **found.row.options)
    table = table_for(grid)
    x, y = table.identities[:, 0] % grid.width, table.identities[:, 0] // grid.width
    into = np.stack(
        [
            (x + dx < 0) | (x + dx >= grid.width) | (y + dy < 0) | (y + dy >= grid.height)
            for dx, dy in (_STEPS[name] for name in table.action_names)
        ],
        axis=1,
    )
    weight = np.where(table.absorbing, 0.0, np.asarray(found["occupancy"], np.float64))
    aimed = (found.policy * into).sum(axis=-1)
    return np.asarray((weight * aimed).sum(axis=1) / weight.sum(axis=1))


def _walls_claim(results: Results) -> Claim:
    keys = ("multimodal vsmc", "sac", "soft", "multimodal posterior", "multimodal uniform")
    shares = {key: wall_share(results[key]) for key in keys}
    told = ", ".join(f"{results[key].row.label} {value.mean():.3f}" for key, value in shares.items())
    mine, theirs = shares["multimodal vsmc"].mean(), shares["sac"].mean()
    return judge(
        "SAC aims at the edges of the grid to raise its entropy; VSMC does not.",
        _PLACE,
        f"share of steps aimed at an edge: {told}",
        holds=bool(theirs > 2 * mine),
        in_kind=bool(theirs > mine),
    )


def _returns_claim(results: Results) -> Claim:
    mine, theirs = results["multimodal vsmc"], results["sac"]
    apart = abs(mine.mean("mean") - theirs.mean("mean"))
    width = max(mine.mean("std"), theirs.mean("std"))
    different = any(clearly_above(a["mean"], b["mean"]) for a, b in ((mine, theirs), (theirs, mine)))
    return judge(
        "The return distributions of VSMC and SAC are close but different.",
        _PLACE,
        f"mean return VSMC {mine.mean('mean'):.2f} ± {mine.spread('mean'):.2f}, SAC "
        f"{theirs.mean('mean'):.2f} ± {theirs.spread('mean'):.2f}; an episode's deviation is {width:.2f}; "
        f"the goal is reached with probability {mine.mean('success'):.3f} and {theirs.mean('success'):.3f}",
        holds=bool(apart < 0.5 * width) and different,
        in_kind=bool(apart < width) and different,
    )


def maps(results: Results) -> Figure:
    """Draw the two maps, and beside them what each aims at."""
    titles = {
        "multimodal vsmc": "VSMC",
        "sac": "SAC",
        "multimodal posterior": "posterior (ours)",
        "soft": "exact soft policy (ours)",
    }
    return map_figure({title: results[key] for key, title in titles.items()})


def returns(results: Results) -> Figure:
    """Draw the return distributions."""
    keys = ("multimodal vsmc", "sac", "multimodal wake", "multimodal posterior")
    return return_distributions({results[key].row.label: results[key] for key in keys})


EXPERIMENT = Experiment(
    name="grid-sac",
    title="Grid worlds: VSMC and SAC",
    place=_PLACE,
    about="Two policies on the multimodal world, and the returns that they lead to.",
    rows=_ROWS,
    columns=(
        Column("return", "mean"),
        Column("deviation of an episode", "std"),
        Column("success", "success", 3),
        Column("entropy", "entropy", 3),
    ),
    claims=(_walls_claim, _returns_claim),
    figures={"maps.png": maps, "returns.png": returns},
)
