"""Figures on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from polinfer.core.errors import PolinferError
from polinfer.core.files import write_atomically

# Metadata that differ from run to run are omitted: the same figure gives the same PNG and PDF, byte for byte.
# An SVG still has random identifiers in it, unless the global `svg.hashsalt` of matplotlib is set.
_OPTIONS: dict[str, dict[str, Any]] = {
    ".png": {"dpi": 160, "metadata": {"Software": None}},
    ".svg": {"dpi": 300, "metadata": {"Date": None}},
    ".pdf": {"dpi": 300, "metadata": {"CreationDate": None}},
}


def save_figure(figure: Figure, path: str | Path) -> None:
    """Write `figure` as PNG, SVG or PDF, whichever the suffix of `path` says, atomically.

    Examples
    --------
    >>> save_figure(Figure(), "figure.gif")
    Traceback (most recent call last):
    polinfer.core.errors.PolinferError: a figure's name must end in .png, .svg or .pdf, got 'figure.gif'
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in _OPTIONS:
        raise PolinferError(f"a figure's name must end in .png, .svg or .pdf, got {path.name!r}")
    write_atomically(path, lambda file: figure.savefig(file, format=suffix[1:], **_OPTIONS[suffix]))
