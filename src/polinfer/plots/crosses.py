"""The shapes of a policy map: squares, frames and crosses, in units of cells."""

from __future__ import annotations

import numpy as np
from matplotlib.collections import PathCollection
from matplotlib.path import Path
from numpy.typing import NDArray

from polinfer.exact.solution import Floats

BEAM = 0.43  # the length of a beam of probability one
_CHUNK = 256  # cells whose crosses are drawn as one shape
# Right, up, down, left, as the actions; the normal is a quarter turn to the left of each.
_DIRECTION = np.array([(1.0, 0.0), (0.0, 1.0), (0.0, -1.0), (-1.0, 0.0)])
_NORMAL = np.array([(0.0, 1.0), (-1.0, 0.0), (1.0, 0.0), (0.0, -1.0)])
_CORNERS = np.array([(-1.0, -1.0), (1.0, -1.0), (1.0, 1.0), (-1.0, 1.0)])


def crosses(policies: Floats, centre: Floats, *, hub: float, beam: float) -> PathCollection:
    """Draw white crosses, the average over seeds.

    The beams of a cell and direction are sorted, and the k-th longest of n is laid over the longer ones with
    opacity ``1 / (n - k + 1)``, k from 1.  What shines through is then the share ``1 - k/n`` where k seeds
    reach: the picture is the average of n pictures of one seed each.

    Parameters
    ----------
    policies
        ``[seeds, n, 4]`` probabilities of right, up, down, left.
    centre
        ``[n, 2]``
    hub, beam
        Half the width of the square in the centre, and of the beams.
    """
    seeds = len(policies)
    reach = BEAM * np.sort(policies, axis=0)[::-1]
    chunks = [slice(first, first + _CHUNK) for first in range(0, len(centre), _CHUNK)]
    paths = [cross_path(centre[chunk], layer[chunk], hub, beam) for layer in reach for chunk in chunks]
    white = np.ones((seeds, len(chunks), 4))
    white[..., 3] = 1.0 / np.arange(seeds, 0, -1)[:, None]
    # As vectors, the beams of many seeds on a large map would make a file of many megabytes.
    many = reach.size > 100_000
    return PathCollection(
        paths, facecolors=white.reshape(-1, 4), linewidths=0.0, label="policy", rasterized=many
    )


def cross_path(centre: Floats, reach: Floats, hub: float, beam: float) -> Path:
    """Return crosses as one shape: a square of half width `hub` each, and beams that begin at its edge.

    Parts touch but do not overlap: at smoothed edges the coverage of overlapping parts would add up.  `reach`
    ``[n, 4]`` is from the centre; a beam that ends within the hub is hidden in it and not drawn.
    """
    long = reach > hub
    middle = np.broadcast_to(centre[:, None], (*reach.shape, 2))[long]
    direction = np.broadcast_to(_DIRECTION, (*reach.shape, 2))[long]
    side = beam * np.broadcast_to(_NORMAL, (*reach.shape, 2))[long]
    root, tip = middle + hub * direction, middle + reach[long][:, None] * direction
    beams = np.stack([root - side, tip - side, tip + side, root + side], axis=1)
    return _join(np.concatenate([squares(centre, hub), beams]))


def squares(centre: Floats, half: float) -> Floats:
    """Return the corners ``[n, 4, 2]`` of squares, counter-clockwise."""
    return np.asarray(centre[:, None] + half * _CORNERS)


def frames(centre: Floats, thickness: float) -> PathCollection:
    """Draw black inner borders of cells: squares with a hole that turns the other way."""
    outer, inner = squares(centre, 0.5), squares(centre, 0.5 - thickness)
    path = _join(np.concatenate([outer, inner[:, ::-1]]))
    return PathCollection([path], facecolors="black", linewidths=0.0, label="start")


def _join(corners: Floats) -> Path:
    """Join quadrilaterals ``[n, 4, 2]`` into one path."""
    closed = np.concatenate([corners, corners[:, :1]], axis=1)
    codes = [Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY]
    return Path(closed.reshape(-1, 2), np.tile(np.array(codes, np.uint8), len(corners)))


def cell_centres(width: int, height: int) -> NDArray[np.float64]:
    """Return the centres ``[C, 2]`` by cell number: cell ``(x,y)`` has its at x, y."""
    cell = np.arange(width * height)
    return np.stack([cell % width, cell // width], axis=-1).astype(np.float64) + 1.0
