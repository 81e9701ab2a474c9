"""One panel per method, next to each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from polinfer.core.errors import PolinferError
from polinfer.exact.solution import Floats
from polinfer.plots.picture import Picture
from polinfer.plots.style import TITLE_SIZE, set_title, wrap_text

PER_ROW = 4
_GAP = 0.12  # inches between panels
_TITLE = 0.23  # inches above a panel, for one line


class PolicyPanel(NamedTuple):
    """One policy to draw, with the visits that it leads to.

    Both are in the order of the figure they are for: by cell number for `policy_map_figure` (see `by_cell`),
    by state for `policy_table_figure`.
    """

    title: str
    policy: Floats  # [S, A], or [seeds, S, A] for several runs
    occupancy: Floats  # [S]


def panel_figure(
    titles: Sequence[str], width: float, height: float, *, margin: tuple[float, float] = (0.0, 0.0)
) -> tuple[Figure, list[Axes]]:
    """Return a figure with one axes of `width` by `height` inches per title, wrapped after `PER_ROW`.

    `margin` is the room for labels: inches once at the left, and below each row.
    """
    if not titles:
        raise PolinferError("there is nothing to draw: give at least one panel")
    lines = [wrap_text(title, width, TITLE_SIZE) for title in titles]
    above = _TITLE + max(text.count("\n") for text in lines) * 1.2 * TITLE_SIZE / 72
    columns = min(len(titles), PER_ROW)
    rows = -(-len(titles) // columns)
    size = (columns * (width + _GAP) + margin[0], rows * (height + above + _GAP + margin[1]))
    layout = ConstrainedLayoutEngine(w_pad=_GAP / 2, h_pad=_GAP / 2, wspace=0.0, hspace=0.0)
    figure = Picture(figsize=size, layout=layout, facecolor="white")
    axes = [figure.add_subplot(rows, columns, index + 1) for index in range(len(titles))]
    for ax, text in zip(axes, lines, strict=True):
        set_title(ax, text)
    return figure, axes


def check_panels(panels: Sequence[PolicyPanel]) -> Sequence[PolicyPanel]:
    """Return `panels` if each is one; refuse a single panel that is not in a sequence."""
    if isinstance(panels, PolicyPanel):
        raise PolinferError("panels must be a sequence of PolicyPanel, got a single one: write [panel]")
    return panels
