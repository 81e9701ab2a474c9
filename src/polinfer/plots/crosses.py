"""The shapes of a policy map: squares, frames, crosses, arrows and letters, in units of cells."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.collections import PathCollection
from matplotlib.font_manager import FontProperties
from matplotlib.path import Path
from matplotlib.textpath import TextPath
from numpy.typing import NDArray

from polinfer.exact.solution import Floats
from polinfer.plots.style import INK

BEAM = 0.43  # the length of a beam of probability one
_DOT = 0.08  # half the length of the shortest arrow
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


def arrows(policies: Floats, centre: Floats) -> PathCollection:
    """Draw one white arrow a cell, for its most probable direction: for cells too small for crosses.

    The arrow is as long as the action is probable; one quarter, which is nothing known, gives a dot.

    Parameters
    ----------
    policies
        ``[seeds, n, 4]`` probabilities of right, up, down, left; the mean over seeds is drawn.
    centre
        ``[n, 2]``
    """
    return arrow_collection(policies.mean(axis=0), centre, _DIRECTION)


def arrow_collection(policy: Floats, centre: Floats, direction: Floats) -> PathCollection:
    """Draw an arrow for the likeliest of some actions ``[n, D]`` in each cell, along its ``[D, 2]``."""
    best = policy.argmax(axis=1)
    chance = np.take_along_axis(policy, best[:, None], axis=1)
    half = np.clip((chance - 0.25) / 0.75, 0.0, 1.0) * (BEAM - _DOT) + _DOT  # [n, 1]
    along = direction[best]
    side = np.stack([-along[:, 1], along[:, 0]], axis=-1)
    head, shaft = np.minimum(0.26, 1.2 * half), 0.055
    neck = half - head
    points = [
        (-half, -shaft),
        (neck, -shaft),
        (neck, -0.75 * head),
        (half, 0.0),
        (neck, 0.75 * head),
        (neck, shaft),
        (-half, shaft),
    ]
    corners = np.stack([centre + forth * along + aside * side for forth, aside in points], axis=1)
    closed = np.concatenate([corners, corners[:, :1]], axis=1)
    codes = np.array([Path.MOVETO, *[Path.LINETO] * 6, Path.CLOSEPOLY], np.uint8)
    paths = [Path(closed.reshape(-1, 2), np.tile(codes, len(corners)))] if len(corners) else []
    return PathCollection(paths, facecolors="white", linewidths=0.0, label="policy")


def letters(
    words: Sequence[str], centre: Floats, *, size: float, offset: tuple[float, float] = (0.0, 0.0)
) -> PathCollection:
    """Draw a letter in each cell, so that kinds of cells are told apart without colour."""
    bold = FontProperties(weight="bold")
    # A dollar sign would begin a formula.
    shapes = {word: TextPath((0, 0), word.replace("$", r"\$"), size=size, prop=bold) for word in set(words)}
    paths = []
    for word, middle in zip(words, centre, strict=True):
        extent = shapes[word].get_extents()
        shift = middle + np.array(offset) - (np.asarray(extent.min) + np.asarray(extent.max)) / 2
        paths.append(Path(shapes[word].vertices + shift, shapes[word].codes))
    return PathCollection(paths, facecolors=INK, linewidths=0.0, alpha=0.85, label="marks")


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
