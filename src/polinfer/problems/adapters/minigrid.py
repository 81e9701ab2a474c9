"""MiniGrid: what a state is, told from the grid and the agent, and faster copies.

MiniGrid shows the agent a part of the grid; here the whole grid counts.  It also counts steps: the goal pays
less the later it is reached, and an episode ends by itself.  Neither is a function of what is on the grid, so
the count is held at zero: the goal always pays what it pays on the first step, and the horizon ends episodes.
"""

from __future__ import annotations

import sys
from typing import Any

_DIRECTIONS = ("right", "down", "left", "up")
_FIXED = ("wall", "floor", "goal", "lava")  # objects that never change
_DOOR = ("open", "closed", "locked")


def is_minigrid(core: Any) -> bool:
    """Return whether an environment is one of MiniGrid's, without importing it."""
    module = sys.modules.get("minigrid.minigrid_env")
    return module is not None and isinstance(core, module.MiniGridEnv)


def identify(core: Any) -> tuple[Any, ...]:
    """Return column, row, direction, what is carried, the objects on the grid, and a number for its walls."""
    objects, walls = [], []
    for index, cell in enumerate(core.grid.grid):
        if cell is None:
            continue
        if cell.type in ("wall", "floor", "lava"):
            walls.append((index, cell.type))
        else:
            objects.append((index % core.width, index // core.width, *_thing(cell)))
    carried = None if core.carrying is None else _thing(core.carrying)
    x, y = (int(number) for number in core.agent_pos)
    return x, y, int(core.agent_dir), carried, tuple(objects), tuple(walls)


def _thing(cell: Any) -> tuple[Any, ...]:
    state = int(cell.encode()[2])
    inside = getattr(cell, "contains", None)
    return (
        (cell.type, cell.color, state) if inside is None else (cell.type, cell.color, state, _thing(inside))
    )


def describe(key: tuple[Any, ...]) -> str:
    """Name a state: ``column 1 row 2 facing up``, with what is carried and the doors."""
    x, y, direction, carried, objects, _ = key
    words = [f"column {x} row {y} facing {_DIRECTIONS[direction]}"]
    if carried is not None:
        words.append(f"carrying {carried[1]} {carried[0]}")
    for column, row, kind, colour, *more in objects:
        if kind == "door":
            words.append(f"{colour} door {_DOOR[more[0]]}")
        elif kind != "goal":
            words.append(f"{colour} {kind} at {column},{row}")
    return ", ".join(words)


def encode(key: tuple[Any, ...]) -> list[float]:
    """Return numbers for a network: position, direction one-hot, what is carried, states of the objects."""
    x, y, direction, carried, objects, _ = key
    doors = [float(o[4]) for o in objects if o[2] == "door"]
    return [x / 8, y / 8, *(float(direction == d) for d in range(4)), float(carried is not None), sum(doors)]


def action_names(core: Any) -> tuple[str, ...]:
    """Return MiniGrid's names of the actions."""
    return tuple(action.name for action in core.actions)


def forget_time(core: Any) -> None:
    """Hold the count of steps at zero."""
    core.step_count = 0


def constants(core: Any) -> list[Any]:
    """Return the objects that need no copying."""
    return [cell for cell in core.grid.grid if cell is not None and cell.type in _FIXED]
