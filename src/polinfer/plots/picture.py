"""Figures that notebooks show as pictures, although they belong to no window."""

from __future__ import annotations

import io

from matplotlib.figure import Figure

_DOTS = 110  # per inch


class Picture(Figure):
    """A figure; the last line of a notebook's cell shows it, with or without pyplot."""

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        self.savefig(buffer, format="png", dpi=_DOTS, metadata={"Software": None})
        return buffer.getvalue()
