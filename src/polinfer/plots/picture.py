"""Figures that notebooks show as pictures, although they belong to no window."""

from __future__ import annotations

import io
from typing import Any

from matplotlib.figure import Figure
from matplotlib.text import Text

_DOTS = 110  # per inch


class Picture(Figure):
    """A figure; the last line of a notebook's cell shows it, with or without pyplot."""

    def draw(self, renderer: Any) -> None:
        """Draw names as they are: a dollar sign in the name of a state begins no formula."""
        for text in self.findobj(Text):
            text.set_parse_math(False)
        for ax in self.axes:
            for axis in (ax.xaxis, ax.yaxis):
                if axis.get_scale() == "log":  # powers of ten are formulas of matplotlib's own
                    for label in axis.get_ticklabels(which="both"):
                        label.set_parse_math(True)
        super().draw(renderer)

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        self.savefig(buffer, format="png", dpi=_DOTS, metadata={"Software": None})
        return buffer.getvalue()
