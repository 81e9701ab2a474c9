"""How results show themselves in notebooks: by a viewer that is loaded when it is first needed.

Results do not know figures; the viewer does.  It is named when `polinfer` is imported and loaded when a
notebook shows something, so that nobody else waits for matplotlib.
"""

from __future__ import annotations

import importlib
from typing import Any

_VIEWER: list[str] = []


def set_viewer(module: str) -> None:
    """Name the module whose `card`, `plot`, `to_frame` and `to_arviz` show results."""
    _VIEWER[:] = [module]


def viewer() -> Any:
    """Return the module that shows results."""
    return importlib.import_module(_VIEWER[0])


class Shown:
    """A result with a card in notebooks."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return str(viewer().card(self))
