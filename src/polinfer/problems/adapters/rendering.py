"""Pictures of one moment of an episode: text for any MDP with names, and pixels for grid worlds."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from polinfer.problems.domains.gridworld import CELL_COLOURS, GridWorld

Pixels = NDArray[np.uint8]

AGENT = "@"
_AGENT_COLOUR = "#1f4e9c"
_LARGEST, _SMALLEST, _SIDE = 64, 6, 640  # pixels of a cell at most and at least, and of a picture about
_SAMPLES = 4  # a side of a pixel, for smooth edges


def text_map(grid: GridWorld, cell: int) -> str:
    r"""Return the map with the agent in `cell`.

    Examples
    --------
    >>> import polinfer
    >>> print(text_map(polinfer.make("gridworld", map="..G\nS.W"), 4))
    .@G
    S.W
    """
    rows = [list(row) for row in grid.rows]
    rows[grid.height - 1 - cell // grid.width][cell % grid.width] = AGENT
    return "\n".join("".join(row) for row in rows)


def picture(grid: GridWorld, cell: int) -> Pixels:
    """Return the map as pixels ``[height, width, 3]``: coloured cells, starts framed, the agent a disc."""
    image = _ground(grid).copy()
    side = image.shape[0] // grid.height
    top, left = (grid.height - 1 - cell // grid.width) * side, cell % grid.width * side
    here = image[top : top + side, left : left + side]
    rim, disc = _disc(side, 0.36), _disc(side, 0.31)
    for share, colour in ((rim, "#ffffff"), (disc, _AGENT_COLOUR)):
        here[:] = np.rint(share[..., None] * _rgb(colour) + (1 - share[..., None]) * here)
    return image


@lru_cache(maxsize=8)
def _ground(grid: GridWorld) -> Pixels:
    side = int(np.clip(_SIDE // max(grid.width, grid.height), _SMALLEST, _LARGEST))
    line = max(1, side // 32)
    image = np.zeros((grid.height * side, grid.width * side, 3), np.uint8)
    for row, letters in enumerate(grid.rows):
        for column, letter in enumerate(letters):
            tile = image[row * side : (row + 1) * side, column * side : (column + 1) * side]
            tile[:] = _rgb("#ffffff")
            tile[line:-line, line:-line] = _rgb("#000000" if letter == "S" else CELL_COLOURS[letter])
            if letter == "S":
                inner = line + max(1, side // 16)
                tile[inner:-inner, inner:-inner] = _rgb(CELL_COLOURS[letter])
    return image


@lru_cache(maxsize=8)
def _disc(side: int, radius: float) -> NDArray[np.float64]:
    """Return the share of each pixel of a cell that a disc covers, ``[side, side]``."""
    count = side * _SAMPLES
    at = (np.arange(count) + 0.5) / count - 0.5
    inside = at[:, None] ** 2 + at[None] ** 2 < radius**2
    return np.asarray(inside.reshape(side, _SAMPLES, side, _SAMPLES).mean(axis=(1, 3)))


def _rgb(colour: str) -> NDArray[np.int64]:
    return np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)])
