"""Environments that publish their transition table, as Gymnasium's toy texts do: exact tables of them.

``P[s][a]`` lists ``(probability, successor, reward, terminated)``, ``initial_state_distrib`` the first
states.  State numbers stay those of the environment, so its observations index the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces
from gymnasium.envs.toy_text.cliffwalking import CliffWalkingEnv
from gymnasium.envs.toy_text.frozen_lake import FrozenLakeEnv
from gymnasium.envs.toy_text.taxi import TaxiEnv

from polinfer.core.protocol import Ending
from polinfer.problems.tabular.endings import end_in_states
from polinfer.problems.tabular.table import TabularMDP

_STOPS = ("red", "green", "yellow", "blue")  # in the order of TaxiEnv.locs


class _Words(NamedTuple):
    """The names of an environment's parts."""

    actions: Sequence[str] | None = None
    states: Sequence[str] | None = None
    endings: tuple[Ending, ...] = ()
    ending_of: Sequence[int] | None = None  # for each state, which ending it is if it is one


def has_table(core: Any) -> bool:
    """Return whether the innermost environment `core` publishes a table that says all that it does."""
    for known in (FrozenLakeEnv, CliffWalkingEnv, TaxiEnv):
        if isinstance(core, known):
            same = type(core).step is known.step and type(core).reset is known.reset
            # A fickle passenger changes the destination, which the table does not show.
            return same and not getattr(core, "fickle_passenger", False)
    return (
        isinstance(core.observation_space, spaces.Discrete)
        and isinstance(core.action_space, spaces.Discrete)
        and core.observation_space.start == core.action_space.start == 0
        and np.asarray(getattr(core, "initial_state_distrib", None)).shape == (core.observation_space.n,)
        and _is_table(getattr(core, "P", None), int(core.observation_space.n), int(core.action_space.n))
    )


def read_table(core: Any, horizon: int, reward_scale: float, features: Any) -> TabularMDP:
    """Return the table of `core`; `features` are those of the states, one-hot if None."""
    count, actions = int(core.observation_space.n), int(core.action_space.n)
    listed = [
        (s, a, int(successor), float(probability), float(reward) * reward_scale, bool(terminated))
        for s in range(count)
        for a in range(actions)
        for probability, successor, reward, terminated in core.P[s][a]
        if probability > 0
    ]
    initial = np.asarray(core.initial_state_distrib, np.float64)
    ended = end_in_states(listed, count, np.nonzero(initial)[0].tolist())
    absorbing, original = ended.absorbing, ended.original
    words = _words(core)
    options: dict[str, Any] = {"action_names": words.actions, "features": features}
    if words.states is not None:
        options["state_names"] = [words.states[s] + " (end)" * (i >= count) for i, s in enumerate(original)]
    if words.ending_of is not None:
        ending = np.array([words.ending_of[s] for s in original])
        options |= {
            "endings": words.endings,
            "ending_of": np.where(absorbing, ending, -1).astype(np.int32),
        }
    if features is not None:
        options["features"] = features[original]
    return TabularMDP.from_outcomes(
        ended.rows,
        len(original),
        actions,
        np.concatenate([initial, np.zeros(len(original) - count)]),
        absorbing,
        horizon,
        **options,
    )


def _is_table(table: Any, states: int, actions: int) -> bool:
    try:
        return len(table) == states and all(
            len(table[s]) == actions
            and all(len(table[s][a]) and all(len(row) == 4 for row in table[s][a]) for a in range(actions))
            for s in range(states)
        )
    except (TypeError, KeyError, IndexError):
        return False


def _words(core: Any) -> _Words:
    if isinstance(core, FrozenLakeEnv):
        letters = np.ravel(np.asarray(core.desc, np.str_)).tolist()
        return _Words(
            ("left", "down", "right", "up"),
            _cells(core.nrow, core.ncol),
            (Ending("goal", True), Ending("hole", False)),
            [{"G": 0, "H": 1}.get(letter, -1) for letter in letters],
        )
    if isinstance(core, CliffWalkingEnv):
        cells = _cells(*core.shape)
        return _Words(("up", "right", "down", "left"), cells, (Ending("goal", True),), [0] * len(cells))
    if isinstance(core, TaxiEnv):
        riders = [*(f"passenger at {stop}" for stop in _STOPS), "passenger in taxi"]
        decoded = [tuple(core.decode(s)) for s in range(len(core.P))]
        return _Words(
            ("south", "north", "east", "west", "pickup", "dropoff"),
            [f"row {r} column {c}, {riders[who]}, to {_STOPS[to]}" for r, c, who, to in decoded],
            (Ending("delivered", True),),
            [0] * len(decoded),
        )
    return _Words()


def _cells(rows: int, columns: int) -> list[str]:
    return [f"row {row} column {column}" for row in range(rows) for column in range(columns)]
