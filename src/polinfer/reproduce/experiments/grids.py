"""Three 4x4 grid worlds: where the policies go."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.special import entr

from polinfer.exact.solution import Floats
from polinfer.problems.domains.gridworld import GridWorld
from polinfer.problems.registry import make
from polinfer.reproduce.assumptions import GRID_RATE
from polinfer.reproduce.claims import Claim, judge
from polinfer.reproduce.experiment import Column, Experiment, Found, Results, Row, vsmc, wake
from polinfer.reproduce.figures import grid_panel, map_figure
from polinfer.reproduce.problems import table_for

_PLACE = "Section Grid Worlds, Figure 1 (gw)"
_RATE = float(GRID_RATE.value)
WORLDS = ("flat", "unimodal", "multimodal")


def rows_of(world: str) -> tuple[Row, ...]:
    """Return VSMC, wake and what they estimate on one world."""
    domain = f"gridworld/{world}"
    posterior = f"{world} posterior"
    return (
        vsmc(f"{world} vsmc", "VSMC", domain, _RATE, group=world, aim=posterior),
        wake(f"{world} wake", "wake", domain, _RATE, group=world, aim=posterior),
        Row(posterior, "posterior", domain, "posterior", group=world, extra=True),
        Row(f"{world} uniform", "uniform", domain, "uniform", group=world, extra=True),
    )


def visits_by_cell(found: Found) -> tuple[GridWorld, Floats]:
    """Return the steps spent in each cell, mean over runs, zero where the episode has ended."""
    grid = make(found.row.domain, **found.row.options)
    visits = np.nan_to_num(grid_panel(found, grid).occupancy)
    return grid, np.where(_between(grid), visits, 0.0)


def _share(found: Found, kind: str) -> float:
    """Return the share of the steps between start and end that is spent in the named cells."""
    grid, visits = visits_by_cell(found)
    return float(visits[_cells(grid, kind)].sum() / visits.sum())


def _alike(found: Found, kind: str) -> float:
    """Return the share that the named cells would have if all cells had the same."""
    grid, _ = visits_by_cell(found)
    return float(_cells(grid, kind)[_between(grid)].mean())


def _between(grid: GridWorld) -> NDArray[np.bool_]:
    return ~np.isin(grid.letters, ["G", "W", "S"])


def _cells(grid: GridWorld, kind: str) -> NDArray[np.bool_]:
    number = np.arange(len(grid.letters))
    x, y = number % grid.width, number // grid.width
    cells: NDArray[np.bool_] = {
        # From corner to corner, start to goal, and one cell beside.
        "diagonal": np.abs(x - y) <= 1 if _rising(grid) else np.abs(x + y - (grid.width - 1)) <= 1,
        "edge": (x == 0) | (x == grid.width - 1) | (y == 0) | (y == grid.height - 1),
    }[kind]
    return cells


def _rising(grid: GridWorld) -> bool:
    """Whether the goal is across the start along x = y."""
    start, goal = (int(np.flatnonzero(grid.letters == letter)[0]) for letter in "SG")
    return (start % grid.width == start // grid.width) and (goal % grid.width == goal // grid.width)


def _unevenness(found: Found) -> float:
    """Return the total variation between where the steps are spent and all cells alike."""
    grid, visits = visits_by_cell(found)
    between = _between(grid)
    return float(0.5 * np.abs(visits[between] / visits.sum() - 1.0 / between.sum()).sum())


def _cover_claim(results: Results) -> Claim:
    apart = _unevenness(results["flat vsmc"])
    known = _unevenness(results["flat posterior"])
    return judge(
        "In the flat world trajectories cover the grid evenly.",
        _PLACE,
        "total variation between the cells visited between start and goal and all of them alike: VSMC "
        f"{apart:.3f}, the posterior {known:.3f}",
        holds=apart < 0.1,
        in_kind=apart < 0.25,
    )


def _diagonal_claim(results: Results) -> Claim:
    return _pushed_claim(
        results,
        "In the unimodal world trajectories are pushed to the diagonal.",
        "share of steps on the diagonal or beside it: ",
        "diagonal",
        "unimodal",
    )


def _edge_claim(results: Results) -> Claim:
    return _pushed_claim(
        results,
        "In the multimodal world trajectories pass along the edges.",
        "share of steps on the edge: ",
        "edge",
        "multimodal",
    )


def _pushed_claim(results: Results, statement: str, told: str, kind: str, world: str) -> Claim:
    shares = {
        name: _share(results[name], kind) for name in ("flat vsmc", f"{world} vsmc", f"{world} posterior")
    }
    shares["all cells alike"] = _alike(results["flat vsmc"], kind)
    gain = shares[f"{world} vsmc"] - shares["flat vsmc"]
    return judge(
        statement,
        _PLACE,
        told + ", ".join(f"{name} {value:.3f}" for name, value in shares.items()),
        holds=gain > 0.05,
        in_kind=gain > 0,
    )


def _several_claim(results: Results) -> Claim:
    least = min(_least_entropy(results[f"{world} vsmc"]) for world in WORLDS)
    return judge(
        "Several actions have non-zero probability in each cell, as a distribution is inferred.",
        _PLACE,
        f"entropy of the actions, mean over runs, nats: at least {least:.3f} in any cell of the three worlds",
        holds=least > 0.1,
    )


def _least_entropy(found: Found) -> float:
    """Return the entropy of the cell that has the least."""
    acting = ~table_for(make(found.row.domain, **found.row.options)).absorbing
    policy = found.policy[:, acting]
    return float(entr(policy).sum(axis=-1).mean(axis=0).min())


def maps(results: Results) -> Figure:
    """Draw the paper's figure."""
    return map_figure({f"{world} world": results[f"{world} vsmc"] for world in WORLDS})


def wake_maps(results: Results) -> Figure:
    """Draw what the same sweeps give with our objective."""
    return map_figure({f"{world}, wake": results[f"{world} wake"] for world in WORLDS})


def posterior_maps(results: Results) -> Figure:
    """Draw the posterior itself."""
    return map_figure({f"{world}, posterior": results[f"{world} posterior"] for world in WORLDS})


EXPERIMENT = Experiment(
    name="grids",
    title="Grid worlds",
    place=_PLACE,
    about="Policy and occupancy maps of VSMC on three 4x4 grid worlds, horizon 20.",
    rows=tuple(row for world in WORLDS for row in rows_of(world)),
    columns=(
        Column("return", "mean"),
        Column("success", "success", 3),
        Column("entropy", "entropy", 3),
        Column("log Z-hat", "log_evidence", 2),
    ),
    claims=(_cover_claim, _diagonal_claim, _edge_claim, _several_claim),
    figures={"maps.png": maps, "maps-wake-ours.png": wake_maps, "maps-posterior-ours.png": posterior_maps},
)
