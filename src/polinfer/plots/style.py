"""The style that all figures share.

Sizes and colours are given to each artist by name: matplotlib's own way, `rcParams`, is one global table, and
figures are drawn from several threads.
"""

from __future__ import annotations

import textwrap

from matplotlib.axes import Axes

INK = "#222222"
FRAME = "#8a8a8a"
RULE = "#e4e4e4"
TITLE_SIZE = 9.0
TEXT_SIZE = 8.0
SMALL_SIZE = 7.0
# Okabe and Ito's colours, told apart by the colour-blind; their yellow is left out, too pale for a line.
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#222222")


def line_colour(index: int) -> str:
    """Return the colour of line number `index`; colours repeat after seven."""
    return PALETTE[index % len(PALETTE)]


def style_axes(ax: Axes) -> None:
    """Leave two spines, small tick labels and a faint horizontal grid."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set(color=FRAME, linewidth=0.7)
    ax.tick_params(labelsize=SMALL_SIZE, color=FRAME, labelcolor=INK, width=0.7, length=3)
    ax.grid(axis="y", color=RULE, linewidth=0.6)
    ax.set_axisbelow(True)


def set_title(ax: Axes, title: str) -> None:
    """Put `title` above `ax`."""
    ax.set_title(title, fontsize=TITLE_SIZE, color=INK, pad=5)


def text_width(letters: int, size: float) -> float:
    """Return about how many inches `letters` letters of `size` points are wide."""
    return letters * 0.57 * size / 72


def wrap_text(text: str, width: float, size: float) -> str:
    """Break `text` into lines that fit into `width` inches."""
    return textwrap.fill(text, max(6, int(width / text_width(1, size))))
