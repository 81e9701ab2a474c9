"""The legend of maps: what colours, letters, frames and shades stand for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.figure import Figure
from matplotlib.patches import Patch

from polinfer.plots.style import FRAME, INK, SMALL_SIZE, text_width

_LINE = 0.17  # inches of one line of the legend


class Kind(NamedTuple):
    """A kind of cell."""

    name: str
    colour: str
    letter: str = ""  # drawn in the cell
    framed: bool = False


def add_legend(figure: Figure, kinds: Sequence[Kind], remark: str) -> None:
    """Put a legend below all panels, and make room for it."""
    names = [f"{kind.letter}: {kind.name}" if kind.letter else kind.name for kind in kinds]
    handles = [
        Patch(
            facecolor=kind.colour,
            edgecolor="black" if kind.framed else FRAME,
            linewidth=1.6 if kind.framed else 0.5,
            label=name,
        )
        for kind, name in zip(kinds, names, strict=True)
    ]
    width, height = (float(side) for side in figure.get_size_inches())
    width = max(width, text_width(len(remark), SMALL_SIZE) + 0.2)
    longest = max(text_width(len(name), SMALL_SIZE) for name in names)
    columns = max(1, min(len(handles), int(width / (longest + 0.4))))
    lines = -(-len(handles) // columns)
    figure.set_size_inches(width, height + _LINE * (lines + 1) + 0.1)
    figure.legend(
        handles=handles,
        title=remark,
        title_fontsize=SMALL_SIZE,
        loc="outside lower center",
        ncols=columns,
        fontsize=SMALL_SIZE,
        frameon=False,
        labelcolor=INK,
        handlelength=1.1,
        handleheight=1.1,
        borderpad=0.1,
        columnspacing=1.2,
    )
