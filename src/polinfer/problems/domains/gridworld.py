"""Slippery grid worlds, written as text maps with one letter per cell.

``.`` pavement, ``R`` gravel (red), ``G`` goal, ``W`` swamp, ``S`` start (on pavement), ``#`` wall.  The top
line is the highest row; cells are named ``(x,y)``, x to the right and y up, both counted from 1.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from polinfer.core.errors import (
    DomainError,
    PolinferError,
    check_at_least,
    check_finite,
    check_share,
    shorten,
)
from polinfer.core.files import read_regular
from polinfer.core.protocol import (
    Ending,
    Outcomes,
    Starts,
    Transition,
    constant,
    sample_outcome,
    sample_start,
)

FLAT = "...G\n....\n....\nS..."
UNIMODAL = "RR.G\nR...\n...R\nS.RR"
MULTIMODAL = "...G\n.RR.\n.RR.\nS..."
ABLATION = "WG\nS.\n.."

ACTIONS = ("right", "up", "down", "left")
_MOVES = np.array([(1, 0), (0, 1), (0, -1), (-1, 0)])
# The action itself, then the two directions it can slip to.
_SLIPS = np.array([(0, 1, 2), (1, 0, 3), (2, 0, 3), (3, 1, 2)])
_LETTERS = ".RGWS#"
CELL_COLOURS = {
    ".": "#a9a9a9",
    "S": "#a9a9a9",
    "R": "#cf5b52",
    "G": "#f0cb3c",
    "W": "#2e9e6b",
    "#": "#434b56",
}
_MAX_CELLS = 1 << 20
_MOST_BYTES = 4 * _MAX_CELLS  # of a map file


@dataclass(frozen=True)
class GridWorld:
    """A slippery grid world.

    An action moves the agent in its direction with probability `success_prob`, and otherwise in one of the
    two perpendicular directions, half each.  A move out of the grid or into a wall leaves the agent where it
    is.  The reward is `step_reward` plus that of the cell in which the agent is after the move.  Goal and
    swamp are terminal.

    The paper prints neither its maps' red cells nor what bumping into the edge pays: those are our choices.
    """

    rows: tuple[str, ...]
    success_prob: float = 0.8
    horizon: int = 20
    reward_scale: float = 1.0
    gravel_reward: float = -1.0
    goal_reward: float = 5.0
    swamp_reward: float = -5.0
    step_reward: float = -0.1

    def __post_init__(self) -> None:
        _check_map(self.rows)
        object.__setattr__(self, "horizon", check_at_least("horizon", self.horizon, 1))
        check_share("success_prob", self.success_prob)
        for name in ("reward_scale", "gravel_reward", "goal_reward", "swamp_reward", "step_reward"):
            check_finite(name, getattr(self, name))

    @property
    def width(self) -> int:
        """The number of columns."""
        return len(self.rows[0])

    @property
    def height(self) -> int:
        """The number of rows."""
        return len(self.rows)

    @property
    def num_actions(self) -> int:
        """Four: right, up, down, left."""
        return len(ACTIONS)

    @property
    def num_states_bound(self) -> int:
        """The number of cells that are no wall."""
        return int((self.letters != "#").sum())

    @property
    def action_names(self) -> tuple[str, ...]:
        """The directions."""
        return ACTIONS

    @property
    def endings(self) -> tuple[Ending, ...]:
        """Goal and swamp."""
        return (Ending("goal", True), Ending("swamp", False))

    @cached_property
    def letters(self) -> NDArray[np.str_]:
        """The map by cell number, ``[C]``: row by row from the bottom, left to right."""
        return np.array([letter for row in reversed(self.rows) for letter in row])

    @cached_property
    def _neighbour(self) -> NDArray[np.int32]:
        """The cell ``[C, 4]`` that a move leads to."""
        cell = np.arange(self.width * self.height)
        x, y = cell % self.width, cell // self.width
        to_x, to_y = x[:, None] + _MOVES[:, 0], y[:, None] + _MOVES[:, 1]
        inside = (to_x >= 0) & (to_x < self.width) & (to_y >= 0) & (to_y < self.height)
        target = np.where(inside, to_y * self.width + to_x, cell[:, None])
        blocked = self.letters[target] == "#"
        return np.where(blocked, cell[:, None], target).astype(np.int32)

    @cached_property
    def _terminal(self) -> NDArray[np.bool_]:
        return np.isin(self.letters, ["G", "W"])

    @cached_property
    def _pay(self) -> NDArray[np.float64]:
        """The reward ``[C]`` of being in a cell after a move."""
        of_letter = {"R": self.gravel_reward, "G": self.goal_reward, "W": self.swamp_reward}
        pay = np.array([of_letter.get(str(letter), 0.0) for letter in self.letters]) + self.step_reward
        return np.asarray(pay * self.reward_scale)

    def starts(self) -> Starts:
        """List the start cells, all equally likely."""
        (cells,) = np.nonzero(self.letters == "S")
        return Starts(constant(np.full(len(cells), 1.0 / len(cells))), jnp.asarray(cells, jnp.int32))

    def outcomes(self, state: Array, action: Array) -> Outcomes:
        """List the move and its two slips."""
        slip = (1.0 - self.success_prob) / 2
        reached = jnp.asarray(self._neighbour)[state, jnp.asarray(_SLIPS)[action]]
        terminal = jnp.asarray(self._terminal)
        over = terminal[state]
        reached = jnp.where(over, state, reached)
        reward = jnp.where(over, 0.0, constant(self._pay)[reached])
        probability = constant([self.success_prob, slip, slip])
        return Outcomes(probability, Transition(reached, reward, terminal[reached]))

    def init(self, key: Array) -> Array:
        """Draw a start cell."""
        state: Array = sample_start(key, self.starts())
        return state

    def step(self, key: Array, state: Array, action: Array) -> Transition:
        """Move, or slip."""
        return sample_outcome(key, self.outcomes(state, action))

    def encode(self, state: Array) -> Array:
        """Return column and row, each one-hot."""
        column = jax.nn.one_hot(state % self.width, self.width, dtype=jnp.float32)
        row = jax.nn.one_hot(state // self.width, self.height, dtype=jnp.float32)
        return jnp.concatenate([column, row])

    def identity(self, state: Array) -> Array:
        """Return the cell number."""
        return jnp.asarray(state, jnp.int32)[None]

    def legal(self, state: Array) -> Array:
        """All four directions, walls or not."""
        del state
        return jnp.ones(self.num_actions, jnp.bool_)

    def ending(self, state: Array) -> Array:
        """0 in the goal, 1 in the swamp, -1 elsewhere."""
        letters = self.letters
        index = np.select([letters == "G", letters == "W"], [0, 1], -1).astype(np.int32)
        return jnp.asarray(index)[state]

    def state_name(self, state: Any) -> str:
        """Name a cell ``(x,y)``."""
        cell = int(state)
        return f"({cell % self.width + 1},{cell // self.width + 1})"


def gridworld(
    map: str | Path,
    *,
    success_prob: float = 0.8,
    horizon: int | None = None,
    reward_scale: float = 1.0,
    gravel_reward: float = -1.0,
    goal_reward: float = 5.0,
    swamp_reward: float = -5.0,
    step_reward: float = -0.1,
) -> GridWorld:
    r"""Grid world from a text map: its lines, or the path of a file that holds them.

    The horizon is five times the longer side by default: 20 on the paper's 4x4 maps.

    Examples
    --------
    >>> gridworld("S.G\n.W.").horizon
    15
    """
    rows = parse_map(map)
    if horizon is None:
        horizon = 5 * max(len(rows), len(rows[0]))
    return GridWorld(
        rows,
        success_prob=success_prob,
        horizon=horizon,
        reward_scale=reward_scale,
        gravel_reward=gravel_reward,
        goal_reward=goal_reward,
        swamp_reward=swamp_reward,
        step_reward=step_reward,
    )


def parse_map(map: str | Path) -> tuple[str, ...]:
    """Return the checked lines of a map, given as text or as the path of a text file."""
    if not isinstance(map, str | Path):
        raise DomainError(f"map must be text or the path of a text file, got {type(map).__name__}")
    text = map = str(map)
    # One line with other letters than a map's can only be a path.
    if "\n" not in map and not set(map) <= set(_LETTERS):
        shown = shorten(repr(map))
        if "\0" in map or not os.path.exists(map[:4096]):
            raise DomainError(f"map {shown} is neither a file nor a map (letters {_LETTERS})")
        try:
            # With or without the mark that some editors write.
            text = read_regular(map, most=_MOST_BYTES).decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise DomainError(f"map file {shown} cannot be read as text ({error})") from None
        except PolinferError as error:
            raise DomainError(f"map file {error}") from None
    rows = tuple(line.rstrip() for line in text.strip("\n").split("\n"))
    _check_map(rows)
    return rows


def _check_map(rows: tuple[str, ...]) -> None:
    if not rows or not rows[0]:
        raise DomainError("the map is empty; write one line per row, one letter per cell")
    if len(rows) * len(rows[0]) > _MAX_CELLS:
        raise DomainError(f"the map has more than {_MAX_CELLS:,} cells")
    for number, row in enumerate(rows, start=1):
        if len(row) != len(rows[0]):
            raise DomainError(
                f"line {number} of the map has {len(row)} cells, line 1 has {len(rows[0])}; make them equal"
            )
        for column, letter in enumerate(row, start=1):
            if letter not in _LETTERS:
                raise DomainError(
                    f"line {number}, column {column} of the map: unknown letter {letter!r}; "
                    ". pavement, R gravel, G goal, W swamp, S start, # wall"
                )
    if not any("S" in row for row in rows):
        raise DomainError("the map has no start; write S in one cell")
