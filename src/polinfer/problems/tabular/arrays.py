"""The forms in which other libraries hold an MDP: arrays, sparse lists, pairs, Gymnasium's ``P``, frames.

Each becomes `OutcomeRows` with the number of states and of actions, and what the form itself says of names,
terminal states and legal actions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from polinfer.core.errors import TableError, is_whole
from polinfer.problems.tabular.endings import Listed, end_in_states
from polinfer.problems.tabular.rows import OutcomeRows, as_floats, resolve_initial, rows_from_arrays

Layout = Literal["SAS", "ASS"]
_COLUMNS = {
    "state": ("state", "s", "from"),
    "action": ("action", "a"),
    "successor": ("next_state", "successor", "next", "s_next", "to"),
    "probability": ("probability", "prob", "p"),
    "reward": ("reward", "r"),
    "terminated": ("terminated", "terminal", "done"),
}


class Read(NamedTuple):
    """What a form says."""

    rows: OutcomeRows
    num_states: int
    num_actions: int
    initial: Any = None
    absorbing: NDArray[np.bool_] | None = None  # [S]; None where the form does not tell
    legal: NDArray[np.bool_] | None = None  # [S, A]
    state_names: tuple[str, ...] | None = None
    action_names: tuple[str, ...] | None = None


def read_form(
    transitions: Any,
    rewards: Any,
    layout: Layout | None,
    s_indices: Any,
    a_indices: Any,
    initial: Any,
) -> Read:
    """Read any of the forms."""
    if layout not in (None, "SAS", "ASS"):
        raise TableError(f"layout must be 'SAS' or 'ASS', got {layout!r}")
    if hasattr(transitions, "columns") and hasattr(transitions, "iloc"):
        return _from_frame(transitions, initial)
    if isinstance(transitions, Mapping):
        return _from_dict(transitions, initial)
    if rewards is None:
        raise TableError("rewards are missing; only Gymnasium's P and data frames hold them themselves")
    if (s_indices is None) != (a_indices is None):
        raise TableError("s_indices and a_indices go together: the state and the action of each pair")
    if s_indices is not None:
        read = _from_pairs(transitions, rewards, s_indices, a_indices)
    else:
        read = _from_arrays(transitions, rewards, layout)
    return read._replace(initial=initial)


def _from_arrays(transitions: Any, rewards: Any, layout: Layout | None) -> Read:
    if _is_sparse_list(transitions):
        states, actions = transitions[0].shape[0], len(transitions)
        legal, rewards = _legal_of(_by_state(rewards, states, actions, "ASS"), states, actions)
        return Read(*rows_from_arrays(list(transitions), rewards), legal=legal)
    dense = as_floats("transitions", transitions)
    chosen = layout or _recognise(dense.shape)
    if chosen == "ASS":
        if dense.ndim != 3 or dense.shape[1] != dense.shape[2] or 0 in dense.shape:
            raise TableError(f"transitions must have shape [A, S, S], got {list(dense.shape)}")
        dense = dense.transpose(1, 0, 2)
    if dense.ndim != 3:
        raise TableError(f"transitions must have shape [S, A, S] or [A, S, S], got {list(dense.shape)}")
    states, actions = dense.shape[:2]
    legal, rewards = _legal_of(_by_state(rewards, states, actions, chosen), states, actions)
    return Read(*rows_from_arrays(dense, rewards), legal=legal)


def _recognise(shape: tuple[int, ...]) -> Layout:
    if len(shape) == 3 and shape[0] == shape[1] == shape[2] and shape[0] > 1:
        raise TableError(
            f"transitions of shape {list(shape)} may be [S, A, S] or [A, S, S]; say which with "
            "layout='SAS' or layout='ASS' (pymdptoolbox has 'ASS')"
        )
    return "ASS" if len(shape) == 3 and shape[1] == shape[2] and shape[0] != shape[2] else "SAS"


def _by_state(rewards: Any, states: int, actions: int, layout: Layout) -> Any:
    """Return rewards as ``[S, A]`` or ``[S, A, S]``, or the list of sparse matrices that they are."""
    if _is_sparse_list(rewards):
        return list(rewards)
    dense = as_floats("rewards", rewards)
    if dense.shape == (states,):  # of the state, whatever is done there
        return np.repeat(dense[:, None], actions, axis=1)
    if layout == "ASS" and dense.shape == (actions, states, states):
        return dense.transpose(1, 0, 2)
    return dense


def _legal_of(rewards: Any, states: int, actions: int) -> tuple[NDArray[np.bool_] | None, Any]:
    """Read rewards of minus infinity ``[S, A]`` as actions that are not legal, as QuantEcon does."""
    if not isinstance(rewards, np.ndarray) or rewards.shape != (states, actions):
        return None, rewards
    barred = np.isneginf(rewards)
    return (~barred, np.where(barred, 0.0, rewards)) if barred.any() else (None, rewards)


def _from_pairs(transitions: Any, rewards: Any, s_indices: Any, a_indices: Any) -> Read:
    """Read QuantEcon's state-action pairs: transitions ``[L, S]``, rewards ``[L]``, and what each pair is."""
    state, action = (_indices(name, of) for name, of in (("s_indices", s_indices), ("a_indices", a_indices)))
    reward = as_floats("rewards", rewards)
    matrix = transitions if scipy.sparse.issparse(transitions) else as_floats("transitions", transitions)
    if matrix.ndim != 2 or not len(state) == len(action) == matrix.shape[0] == reward.size > 0:
        raise TableError(
            f"pairs need transitions [L, S] and L each of rewards, s_indices and a_indices, got shapes "
            f"{list(matrix.shape)}, {list(reward.shape)}, {list(state.shape)} and {list(action.shape)}"
        )
    states, actions = int(matrix.shape[1]), int(action.max()) + 1
    if int(state.max()) >= states:
        raise TableError(f"s_indices holds {int(state.max())}, and transitions has {states} states")
    legal = np.zeros((states, actions), np.bool_)
    if len({*zip(state.tolist(), action.tolist(), strict=True)}) < len(state):
        raise TableError("s_indices and a_indices list a pair twice")
    legal[state, action] = True
    entries = scipy.sparse.coo_array(matrix)
    keep = entries.data != 0
    pair, successor = entries.coords[0][keep], entries.coords[1][keep]
    rows = OutcomeRows(
        state[pair], action[pair], successor.astype(np.int64), entries.data[keep], reward.ravel()[pair]
    )
    return Read(rows, states, actions, legal=legal)


def _indices(name: str, values: Any) -> NDArray[np.int64]:
    array = as_floats(name, values).ravel()
    if not (np.isfinite(array) & (array >= 0) & (array == np.floor(array))).all():
        raise TableError(f"{name} must hold whole numbers from 0 on")
    return array.astype(np.int64)


def _from_dict(table: Mapping[Any, Any], initial: Any) -> Read:
    """Read ``P[s][a]``, lists of ``(probability, successor, reward, terminated)``."""
    count = len(table)
    listed: list[Listed] = []
    actions = 0
    for s in range(count):
        if s not in table:
            raise TableError(f"P has {count} states, and none is {s}; number them from 0 on")
        offered = table[s]
        pairs = offered.items() if isinstance(offered, Mapping) else enumerate(offered)
        for a, outcomes in pairs:
            if not is_whole(a) or a < 0:
                raise TableError(f"P[{s}] has the action {a!r}; number them from 0 on")
            actions = max(actions, int(a) + 1)
            for row in outcomes:
                if len(row) != 4:
                    raise TableError(f"P[{s}][{a}] must list (probability, successor, reward, terminated)")
                probability, successor, reward, over = row
                if not is_whole(successor) or not 0 <= successor < count:
                    raise TableError(f"P[{s}][{a}] leads to {successor!r}, outside 0..{count - 1}")
                if probability > 0:
                    listed.append((s, int(a), int(successor), float(probability), float(reward), bool(over)))
    return _ended(listed, count, actions, None, initial)


def _from_frame(frame: Any, initial: Any) -> Read:
    """Read a data frame with one row per outcome."""
    found: dict[str, str] = {}
    known = {str(column).lower(): column for column in frame.columns}
    for role, words in _COLUMNS.items():
        match = next((known[word] for word in words if word in known), None)
        if match is not None:
            found[role] = match
        elif role != "terminated":
            raise TableError(
                f"the data frame has no column {words[0]!r}; it needs state, action, next_state, probability "
                "and reward, and may have terminated"
            )
    columns = {role: frame[column].tolist() for role, column in found.items()}
    state_names, states = _numbered(columns["state"], columns["successor"])
    action_names, actions = _numbered(columns["action"], [])
    over = columns.get("terminated", [False] * len(columns["state"]))
    listed: list[Listed] = [
        (states[s], actions[a], states[n], float(p), float(r), bool(o))
        for s, a, n, p, r, o in zip(
            columns["state"],
            columns["action"],
            columns["successor"],
            columns["probability"],
            columns["reward"],
            over,
            strict=True,
        )
    ]
    read = _ended(listed, len(states), len(actions), state_names, initial)
    return read._replace(action_names=action_names)


def _numbered(values: list[Any], more: list[Any]) -> tuple[tuple[str, ...] | None, dict[Any, int]]:
    """Number names in the order in which they come; whole numbers stand for themselves."""
    everything = [*values, *more]
    if all(is_whole(value) for value in everything):
        count = int(max(everything, default=-1)) + 1
        return None, {number: number for number in range(count)}
    order = dict.fromkeys(everything)
    return tuple(map(str, order)), {name: number for number, name in enumerate(order)}


def _ended(
    listed: list[Listed], count: int, actions: int, names: tuple[str, ...] | None, initial: Any
) -> Read:
    start = resolve_initial(initial, count, names)
    ended = end_in_states(listed, count, np.nonzero(start)[0].tolist())
    total = len(ended.original)
    legal = np.zeros((total, actions), np.bool_)
    legal[ended.rows.state, ended.rows.action] = True
    # A state without rows is an end, as far as the rows tell.
    silent = ~legal.any(axis=1)
    legal[silent] = True
    labels = None
    if names is not None:
        labels = tuple(names[s] + " (end)" * (i >= count) for i, s in enumerate(ended.original))
    return Read(
        ended.rows,
        total,
        actions,
        initial=np.concatenate([start, np.zeros(total - count)]),
        absorbing=ended.absorbing | silent,
        legal=legal,
        state_names=labels,
    )


def _is_sparse_list(values: Any) -> bool:
    return isinstance(values, Sequence) and len(values) > 0 and all(scipy.sparse.issparse(m) for m in values)


def find_absorbing(rows: OutcomeRows, num_states: int) -> NDArray[np.bool_]:
    """Return the states ``[S]`` that no action leaves and in which nothing is earned, or without any row."""
    used = rows.probability > 0
    stays = np.ones(num_states, np.bool_)
    stays[rows.state[used & ((rows.successor != rows.state) | (rows.reward != 0))]] = False
    return stays
