"""The paper's *policy and occupancy maps* of grid worlds (Section Grid Worlds).

A cell is grey (pavement), red (gravel), yellow (goal), green (swamp) or dark (wall); a black border marks a
start.  The darker the middle of a cell, the more often it is visited.  The beams of the white cross are as
long as the probabilities of their directions; on maps of more than 16 cells a side an arrow shows the most
probable one.  Letters say what colours say: R gravel, W swamp, G goal.

All is drawn in units of cells, so that a map looks the same at any size.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray

from polinfer.core.errors import PolinferError
from polinfer.exact.solution import Floats
from polinfer.plots.crosses import arrows, cell_centres, crosses, frames, letters, squares
from polinfer.plots.legend import Kind, add_legend
from polinfer.plots.panels import PolicyPanel, check_panels, panel_figure
from polinfer.plots.style import set_title
from polinfer.problems.domains.gridworld import CELL_COLOURS, GridWorld
from polinfer.problems.tabular.table import TabularMDP

DARKEST = 0.75  # the opacity of the middle of the most visited cell
_MIDDLE = 0.35  # half the side of the middle part
_LARGE = 16  # cells a side; beyond, an arrow stands for the likeliest action, and borders are hairlines
_KINDS = {
    ".": Kind("pavement", CELL_COLOURS["."]),
    "R": Kind("gravel", CELL_COLOURS["R"], "R"),
    "W": Kind("swamp", CELL_COLOURS["W"], "W"),
    "G": Kind("goal", CELL_COLOURS["G"], "G"),
    "#": Kind("wall", CELL_COLOURS["#"]),
    "S": Kind("start", CELL_COLOURS["S"], framed=True),
}


def by_cell(table: TabularMDP, grid: GridWorld, values: ArrayLike, *, axis: int | None = None) -> Floats:
    r"""Put values given by state of `table` in the order of the cells of `grid`.

    Parameters
    ----------
    values
        ``[S, ...]`` or ``[n, S, ...]``.
    axis
        Which axis is `S`, 0 or 1; by default the one of that length.  If both are, a matrix is read as
        ``[S, A]`` and anything larger as ``[n, S, ...]``.

    Returns
    -------
    array
        ``[C, ...]`` or ``[n, C, ...]``; NaN in cells that the table does not have.

    Examples
    --------
    >>> import polinfer
    >>> grid = polinfer.make("gridworld", map="G#\nS.")
    >>> by_cell(polinfer.tabulate(grid), grid, [1.0, 2.0, 3.0]).tolist()
    [1.0, 2.0, 3.0, nan]
    """
    array = np.asarray(values, np.float64)
    fitting = [i for i in range(min(2, array.ndim)) if array.shape[i] == table.num_states]
    if axis is None and fitting:
        axis = fitting[-1] if array.ndim > 2 else fitting[0]
    if axis not in fitting:
        raise PolinferError(
            f"values must have shape [S, ...] or [n, S, ...] with S = {table.num_states}, "
            f"got {list(array.shape)}"
        )
    cell, cells = table.identities[:, 0], grid.width * grid.height
    if table.identities.shape[1] != 1 or cell.min() < 0 or cell.max() >= cells:
        raise PolinferError(f"the table is not one of this {grid.width}x{grid.height} grid world")
    shape = list(array.shape)
    shape[axis] = cells
    out = np.full(shape, np.nan)
    out[(slice(None),) * axis + (cell,)] = array
    return out


def policy_map_figure(grid: GridWorld, panels: Sequence[PolicyPanel]) -> Figure:
    """Draw one map per panel, four in a row; policies and occupancies are by cell (see `by_cell`).

    Examples
    --------
    >>> import polinfer
    >>> grid = polinfer.make("gridworld/ablation")
    >>> table = polinfer.tabulate(grid)
    >>> policy = polinfer.exact.soft_value_iteration(table).policy
    >>> visits = polinfer.exact.evaluate_policy(table, policy).occupancy
    >>> panel = PolicyPanel("soft", by_cell(table, grid, policy), by_cell(table, grid, visits))
    >>> len(policy_map_figure(grid, [panel]).axes)
    1
    """
    side = max(grid.width, grid.height)
    # Inches: a 4x4 map is 2.4 wide, a 20x20 map 4.8, a 64x64 map 7.4, and none is larger than 16.
    cell = min(max(min(0.6, 4.8 / side), 0.115), 16 / side)
    titles = [panel.title for panel in check_panels(panels)]
    figure, axes = panel_figure(titles, max(1.5, grid.width * cell), grid.height * cell)
    for ax, panel in zip(axes, panels, strict=True):
        draw_policy_map(ax, grid, panel.policy, panel.occupancy)
    present = [kind for letter, kind in _KINDS.items() if (grid.letters == letter).any()]
    mark = "arrow: likeliest action" if side > _LARGE else "beam: probability"
    add_legend(figure, present, f"{mark}; darker: more visits")
    return figure


def draw_policy_map(
    ax: Axes, grid: GridWorld, policy: ArrayLike, occupancy: ArrayLike, *, title: str | None = None
) -> None:
    """Draw a policy and occupancy map on `ax`; cell ``(x,y)`` has its centre at x, y.

    Parameters
    ----------
    policy
        ``[C, 4]`` probabilities of right, up, down, left, or ``[seeds, C, 4]``: the crosses of all seeds are
        then averaged, so that a beam is opaque as far as all seeds reach and fades out where they differ.
        Cells with a NaN, walls and terminal cells get no cross.
    occupancy
        ``[C]``, drawn relative to its largest value over the cells that are not terminal.
    """
    cells = grid.width * grid.height
    policies, visits = _check(cells, policy, occupancy)
    large = max(grid.width, grid.height) > _LARGE
    centre = cell_centres(grid.width, grid.height)
    terminal, wall = np.isin(grid.letters, ["G", "W"]), grid.letters == "#"
    ground = PolyCollection(
        list(squares(centre, 0.5)),
        facecolors=[CELL_COLOURS[str(letter)] for letter in grid.letters],
        edgecolors="#c2c2c2" if large else "white",
        linewidths=0.25 if large else 1.0,
        label="ground",
    )
    opacity = _darkness(visits, terminal)
    dark = opacity > 0
    shade = np.zeros((int(dark.sum()), 4))
    shade[:, 3] = opacity[dark]
    middle = PolyCollection(
        list(squares(centre[dark], _MIDDLE)), facecolors=shade, linewidths=0.0, label="occupancy"
    )
    acting = ~terminal & ~wall & np.isfinite(policies).all(axis=(0, 2))
    marked = np.isin(grid.letters, ["R", "G", "W"])
    # In the corner, out of the way of the policy.
    marks = letters(
        [str(letter) for letter in grid.letters[marked]],
        centre[marked],
        size=0.42 if large else 0.24,
        offset=(-0.24, 0.24) if large else (-0.36, 0.36),
    )
    cross = (
        arrows(policies[:, acting], centre[acting])
        if large
        else crosses(policies[:, acting], centre[acting], hub=0.027, beam=0.027)
    )
    start = frames(centre[grid.letters == "S"], 0.14 if large else 0.07)
    for collection in (ground, middle, marks, cross, start):
        collection.set_snap(False)  # snapping to pixels would round the lengths of short beams
        ax.add_collection(collection, autolim=False)
    ax.set(xlim=(0.5, grid.width + 0.5), ylim=(0.5, grid.height + 0.5), aspect="equal")
    ax.set_axis_off()
    if title is not None:
        set_title(ax, title)


def _check(cells: int, policy: ArrayLike, occupancy: ArrayLike) -> tuple[Floats, Floats]:
    """Return policies ``[seeds, C, 4]`` and visits ``[C]``."""
    policies = np.asarray(policy, np.float64)
    if policies.ndim not in (2, 3) or policies.shape[-2:] != (cells, 4) or policies.size == 0:
        raise PolinferError(
            f"policy must have shape [C, 4] = {[cells, 4]} or [seeds, C, 4], got {list(policies.shape)}; "
            "by_cell puts values in the order of cells"
        )
    visits = np.asarray(occupancy, np.float64)
    if visits.shape != (cells,):
        raise PolinferError(
            f"occupancy must have shape [C] = {[cells]}, got {list(visits.shape)}; "
            "by_cell puts values in the order of cells"
        )
    return policies.reshape(-1, cells, 4), visits


def _darkness(visits: Floats, terminal: NDArray[np.bool_]) -> Floats:
    """Return the opacity ``[C]`` of the middle of each cell."""
    visits = np.nan_to_num(visits)
    most = visits[~terminal].max(initial=0.0)
    return DARKEST * np.clip(visits / most, 0.0, 1.0) if most > 0 else np.zeros_like(visits)
