"""Policies from elsewhere: an action or action probabilities for each state of a table, read from a file.

``.npy`` and ``.npz`` hold one array, ``[S]`` actions or ``[S, A]`` probabilities.  ``.json`` holds the same
as lists, or an object from states to an action or to probabilities by action.  ``.csv`` has columns
``state``, ``action`` and, for stochastic policies, ``probability``.  States and actions are numbers or
names.  Nothing in a file is ever executed.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polinfer.core.errors import PolinferError, TableError, is_number, shorten
from polinfer.core.files import MOST_ARRAYS, read_regular
from polinfer.core.strict_json import parse_json
from polinfer.problems.tabular.files import check_archive, check_text
from polinfer.problems.tabular.rows import numbered, resolve_index
from polinfer.problems.tabular.table import TabularMDP

POLICY_SUFFIXES = (".npy", ".npz", ".json", ".csv")


def read_policy(path: str | Path, table: TabularMDP) -> NDArray[np.float64]:
    """Return the probabilities ``[S, A]`` that a file gives to the actions of `table`.

    Rows of terminal states may be missing; those of other states may not.

    Raises
    ------
    TableError
        With one sentence that says what is wrong with the file.
    """
    path = Path(path)
    if path.suffix not in POLICY_SUFFIXES:
        raise TableError(
            f"{path}: a policy file ends in {', '.join(POLICY_SUFFIXES)}, not in {path.suffix!r}"
        )
    try:
        contents = _READERS[path.suffix](path)
    except TableError as error:
        raise TableError(f"{path}: {error}") from None
    except PolinferError as error:
        raise TableError(str(error)) from None
    except Exception as error:  # zlib, zipfile, json, csv and NumPy raise about everything on a damaged file
        reason = shorten(str(error)) or type(error).__name__
        raise TableError(f"{path}: not a readable {path.suffix} file ({reason})") from error
    try:
        return as_probabilities(contents, table)
    except TableError as error:
        raise TableError(f"{path}: {error}") from None
    except (ValueError, OverflowError) as error:  # ragged lists, numbers that are too large
        raise TableError(f"{path}: {shorten(str(error))}") from error


def as_probabilities(given: Any, table: TabularMDP) -> NDArray[np.float64]:
    """Return a policy as probabilities ``[S, A]``: from ``[S]`` actions, ``[S, A]`` numbers, or a mapping.

    Examples
    --------
    >>> import polinfer
    >>> table = polinfer.tabulate(polinfer.make("continuation", rho=0.5))
    >>> as_probabilities({0: 1}, table)[0].tolist()
    [0.0, 1.0]
    """
    if isinstance(given, Mapping):
        return _checked(_from_mapping(given, table), table)
    try:
        array = np.asarray(given)
    except ValueError:
        array = np.asarray(None)
    shape = (table.num_states, table.num_actions)
    if array.shape == shape[:1] and array.dtype.kind in "iu":
        outside = (array < 0) | (array >= table.num_actions)
        if (outside & ~table.absorbing).any():
            state = int(np.argmax(outside & ~table.absorbing))
            raise TableError(
                f"action {array[state]} in state {table.state_names[state]!r} is outside "
                f"0..{table.num_actions - 1}"
            )
        array = np.eye(table.num_actions)[np.where(outside, 0, array)]
    if array.shape != shape or array.dtype.kind not in "fiu":
        raise TableError(
            f"a policy is {shape[0]} whole numbers (an action for each state) or {list(shape)} "
            f"probabilities, got {array.dtype} of shape {list(array.shape)}"
        )
    return _checked(array.astype(np.float64), table)


def _checked(probs: NDArray[np.float64], table: TabularMDP) -> NDArray[np.float64]:
    legal = table.legal_actions
    even = legal / legal.sum(axis=1, keepdims=True)
    probs = np.where(table.absorbing[:, None], even, probs)
    for wrong, what in (
        (~np.isfinite(probs).all(axis=1) | (probs < -1e-9).any(axis=1), "must be probabilities, 0 to 1"),
        ((np.where(legal, 0.0, probs) > 1e-9).any(axis=1), "give probability to an illegal action"),
        (np.abs(probs.sum(axis=1) - 1) > 1e-6, "must sum to one"),
    ):
        if wrong.any():
            state = int(np.argmax(wrong))
            raise TableError(
                f"the numbers of state {table.state_names[state]!r} {what}, got {probs[state].tolist()}"
            )
    return np.asarray(probs / probs.sum(axis=1, keepdims=True))


def _from_mapping(given: Mapping[Any, Any], table: TabularMDP) -> NDArray[np.float64]:
    probs = np.zeros((table.num_states, table.num_actions))
    named, seen = np.array(table.absorbing), np.zeros(table.num_states, np.bool_)
    states, actions = numbered(table.state_names), numbered(table.action_names)
    for key, choice in given.items():
        state = _index("state", key, table.num_states, states)
        if seen[state]:
            raise TableError(f"state {table.state_names[state]!r} is there twice")
        seen[state] = named[state] = True
        if isinstance(choice, Mapping):
            for action, share in choice.items():
                if not is_number(share):
                    raise TableError(
                        f"state {table.state_names[state]!r}: {shorten(repr(share))} is not a probability"
                    )
                probs[state, _index("action", action, table.num_actions, actions)] += float(share)
        elif isinstance(choice, list | tuple | np.ndarray):
            row = np.asarray(choice)
            if row.shape != (table.num_actions,) or row.dtype.kind not in "fiu":
                raise TableError(
                    f"state {table.state_names[state]!r} needs {table.num_actions} probabilities, "
                    f"got {shorten(repr(choice))}"
                )
            probs[state] = row
        else:
            probs[state, _index("action", choice, table.num_actions, actions)] += 1.0
    if not named.all():
        raise TableError(f"state {table.state_names[int(np.argmin(named))]!r} is missing")
    return probs


def _index(what: str, key: Any, count: int, numbers: Mapping[str, int]) -> int:
    """Return the number of a state or action that is given by name, by number, or by a number as text."""
    if isinstance(key, str) and key not in numbers and key.isdecimal():
        key = int(key)
    return resolve_index(what, key, count, numbers)


def _read_array(path: Path) -> Any:
    content = read_regular(path, most=MOST_ARRAYS)
    check_archive(content, path)
    with io.BytesIO(content) as file:
        loaded = np.load(file, allow_pickle=False)
        if not isinstance(loaded, np.lib.npyio.NpzFile):
            return check_text(loaded)
        with loaded as archive:
            names = archive.files
            if len(names) != 1 and "policy" not in names:
                raise TableError(f"holds {len(names)} arrays and none is named 'policy'")
            return check_text(archive[names[0] if len(names) == 1 else "policy"])


def _read_json(path: Path) -> Any:
    contents = parse_json(read_regular(path).decode("utf-8"))
    if isinstance(contents, dict) and set(contents) == {"policy"}:
        return contents["policy"]
    return contents


def _read_csv(path: Path) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    # Spreadsheets begin their files with a mark of the encoding.
    with io.StringIO(read_regular(path).decode("utf-8-sig"), newline="") as file:
        rows = csv.DictReader(file)
        names = rows.fieldnames or ()
        if not {"state", "action"} <= set(names):
            raise TableError("needs the columns state and action, and probability where it is stochastic")
        for name in ("state", "action", "probability"):
            if names.count(name) > 1:
                raise TableError(f"the column {name} is there twice; which one counts?")
        for number, row in enumerate(rows, start=2):
            if None in row:
                raise TableError(f"line {number} has more cells than there are columns, {len(names)}")
            state, action, share = row["state"], row["action"], row.get("probability") or "1"
            if action in found.setdefault(state, {}):
                raise TableError(f"line {number}: action {action!r} of state {state!r} is given twice")
            try:
                found[state][action] = float(share)
            except ValueError:
                raise TableError(f"line {number}: {shorten(repr(share))} is not a probability") from None
    return found


_READERS = {".npy": _read_array, ".npz": _read_array, ".json": _read_json, ".csv": _read_csv}
