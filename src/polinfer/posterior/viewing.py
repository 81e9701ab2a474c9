"""How a posterior is shown: by a viewer of a room above, which makes itself known here."""

from __future__ import annotations

from typing import Any, Protocol

from polinfer.core.errors import PolinferError


class Viewer(Protocol):
    """Shows a posterior until it is told to stop."""

    def __call__(self, posterior: Any, *, port: int | None, open_browser: bool) -> None:
        """Show it."""
        ...


_VIEWERS: list[Viewer] = []


def register_viewer(viewer: Viewer) -> None:
    """Let `Posterior.explore` call `viewer`."""
    _VIEWERS[:] = [viewer]


def the_viewer() -> Viewer:
    """Return the viewer that was registered."""
    if not _VIEWERS:
        raise PolinferError("there is no viewer; import polinfer")
    return _VIEWERS[0]
