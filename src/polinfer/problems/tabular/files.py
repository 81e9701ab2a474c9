"""Table files: ``.npz`` and ``.json`` with the names of `TabularMDP`'s arguments.

Instead of ``transitions`` and ``rewards`` a file may hold ``outcomes``: rows of state, action, next state,
probability, reward (in JSON, states and actions by index or by name).  That form is sparse and lets a reward
be random.  Nothing in a file is ever executed.
"""

from __future__ import annotations

import io
import json
import sys
import zipfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from polinfer.core.errors import PolinferError, TableError, is_number, is_whole, shorten, suggest
from polinfer.core.files import MOST_ARRAYS, read_regular, write_atomically
from polinfer.core.limits import check_bytes
from polinfer.core.protocol import Ending
from polinfer.core.strict_json import parse_json
from polinfer.problems.tabular.rows import OutcomeRows, as_floats, numbered, resolve_index
from polinfer.problems.tabular.table import MAX_PAIRS, TabularMDP

SUFFIXES = (".npz", ".json")
_REQUIRED = ("initial", "horizon")
_OPTIONAL = ("absorbing", "legal", "state_names", "action_names", "success", "prior", "discount")
_ENDINGS = ("ending_names", "ending_success", "ending_of")
_ORIGIN = ("features", "identities")  # of the MDP that the table was made from
_LARGEST = {"features": np.finfo(np.float32).max, "identities": np.iinfo(np.int32).max}
_OBSERVED = "observed"  # rows of five: four numbers that are the hash of an observation, and a state
_KEYS = "state_keys"  # what the states of a simulator are, as Python literals
_DRAWN = ("draws", "initial_draws", "averaged")  # what probabilities were estimated from
_DENSE = ("transitions", "rewards")
_FEW = 1000  # actions that a file may have without an outcome for each
_READING = 100  # bytes that each number takes while a table is made of it, as a double and in rows
_SMALL = 1 << 20  # bytes of an array whose header is not looked at first
_SPARSE = ("outcomes", "num_states", "num_actions")


def load_table(path: str | Path) -> TabularMDP:
    """Read a `TabularMDP` from a ``.npz`` or ``.json`` file.

    Raises
    ------
    TableError
        With one sentence that says what is wrong with the file.
    """
    path = Path(path)
    if not path.exists():
        raise TableError(f"{path}: no such file")
    if path.suffix not in SUFFIXES:
        raise TableError(f"{path}: a table file ends in .npz or .json, not in {path.suffix!r}")
    constants: list[str] = []
    try:
        contents = _read_npz(path) if path.suffix == ".npz" else _read_json(path, constants)
    except PolinferError as error:
        raise TableError(str(error)) from None
    except Exception as error:  # zlib, zipfile, json and NumPy raise about everything on a damaged file
        raise TableError(f"{path}: not a readable {path.suffix} file ({_one_line(error)})") from error
    try:
        table = table_from_mapping(contents)
    except TableError as error:
        raise TableError(f"{path}: {error}") from None
    except ValueError as error:
        raise TableError(f"{path}: {_one_line(error)}") from error
    if constants:
        raise TableError(f"{path}: {constants[0]} stands where it means nothing; write a finite number")
    return table


def table_from_mapping(contents: Mapping[str, Any]) -> TabularMDP:
    """Make a `TabularMDP` from the contents of a table file."""
    known = (*_DENSE, *_SPARSE, *_REQUIRED, *_OPTIONAL, *_ENDINGS, *_ORIGIN, *_DRAWN, _OBSERVED, _KEYS)
    for name in contents:
        if name not in known:
            said = f"unknown name {shorten(repr(name))}{suggest(name, known)}"
            raise TableError(f"{said}; known are {', '.join(known)}")
    for name in _REQUIRED:
        if name not in contents:
            raise TableError(f"{name!r} is missing")
    horizon = contents["horizon"]
    if isinstance(horizon, str | list | tuple) or getattr(horizon, "ndim", 0) != 0:
        raise TableError("horizon must be one whole number")
    if isinstance(horizon, np.ndarray):
        horizon = horizon.item()
    if horizon is not None and not is_whole(horizon):
        raise TableError(f"horizon must be a whole number, got {horizon!r}")
    steps = None if horizon is None else int(horizon)
    options = {name: contents[name] for name in _OPTIONAL if name in contents}
    absorbing = options.pop("absorbing", None)
    for name in ("state_names", "action_names"):
        if name in options and not _is_flat_list(options[name]):
            raise TableError(f"{name} must be a list of names")
    if any(name in contents for name in _ENDINGS):
        if "success" in contents:
            raise TableError("give either 'success' or 'ending_names', not both")
        if "outcomes" not in contents:
            raise TableError("ending_names go with 'outcomes'; with 'transitions' use 'success'")
        options |= _endings(contents)
    if "outcomes" in contents:
        if any(name in contents for name in _DENSE):
            raise TableError("give either 'outcomes' or 'transitions' with 'rewards', not both")
        rows, num_states, num_actions = _outcome_rows(contents)
        options |= _origin(contents, num_states) | _drawn(contents, num_states, num_actions)
        table = TabularMDP.from_outcomes(
            rows, num_states, num_actions, contents["initial"], absorbing, steps, **options
        )
        keys = contents.get(_KEYS)
        if keys is not None:
            if not _is_flat_list(keys) or len(keys) != num_states:
                raise TableError(f"{_KEYS} must be a list of {num_states} texts")
            table.with_state_keys(tuple(str(key) for key in keys))
        return table.with_observed(_observed(contents, num_states))
    for name in _DENSE:
        if name not in contents:
            raise TableError(f"{name!r} is missing (or 'outcomes' in place of transitions and rewards)")
    return TabularMDP(
        contents["transitions"], contents["rewards"], contents["initial"], absorbing, steps, **options
    )


def save_table(table: TabularMDP, path: str | Path) -> None:
    """Write `table` as a ``.npz`` or ``.json`` file that `load_table` reads back, whole or not at all."""
    path = Path(path)
    if path.suffix not in SUFFIXES:
        raise TableError(f"{path}: a table file ends in .npz or .json, not in {path.suffix!r}")
    state, action, slot = np.nonzero((table.probability > 0) & ~table.absorbing[:, None, None])
    where = (state, action, slot)
    contents: dict[str, Any] = {
        "outcomes": np.stack(
            [state, action, table.successor[where], table.probability[where], table.reward[where]], axis=1
        ),
        "num_states": table.num_states,
        "num_actions": table.num_actions,
        "initial": table.initial,
        "absorbing": table.absorbing,
        "legal": table.legal_actions,
        "horizon": table.horizon,
        "state_names": np.array(table.state_names),
        "action_names": np.array(table.action_names),
    }
    if table.draws is not None:
        contents["draws"] = table.draws
    if table.state_keys is not None:
        contents[_KEYS] = np.array(table.state_keys)
    if table.observed:
        contents["observed"] = np.array(
            [
                [*np.frombuffer(digest, np.int32), row]
                for digest, rows in table.observed.items()
                for row in rows
            ],
            np.int32,
        ).reshape(-1, 5)
    if table.initial_draws:
        contents["initial_draws"] = table.initial_draws
    if table.averaged:
        contents["averaged"] = True
    if table.has_prior:
        contents["prior"] = table.prior
    if table.discount != 1:
        contents["discount"] = table.discount
    if table.endings:
        contents["ending_names"] = np.array([ending.name for ending in table.endings])
        contents["ending_success"] = np.array([ending.success for ending in table.endings])
        contents["ending_of"] = table.ending_of
    if table.features is not None:
        contents["features"] = table.features
        contents["identities"] = table.identities
    if path.suffix == ".npz":
        write_atomically(path, lambda file: np.savez_compressed(file, **contents))
        return
    plain = {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in contents.items()}
    write_atomically(path, lambda file: file.write((json.dumps(plain) + "\n").encode()))


def _read_npz(path: Path) -> dict[str, Any]:
    content = read_regular(path, most=MOST_ARRAYS)
    check_archive(content, path)
    # Opened here: np.load forgets to close what it cannot read.
    with io.BytesIO(content) as file:
        loaded = np.load(file, allow_pickle=False)
        if not isinstance(loaded, np.lib.npyio.NpzFile):
            raise ValueError("a single array, not an archive of named arrays")
        with loaded as archive:
            return {name: check_text(archive[name]) for name in archive.files}


def check_text(array: Any) -> Any:
    """Return an array of a file; refuse texts with letters that do not exist, on which Python fails."""
    if isinstance(array, np.ndarray) and array.dtype.kind == "U":
        letters = np.frombuffer(array.astype(array.dtype.newbyteorder("=")).tobytes(), np.uint32)
        if ((letters > sys.maxunicode) | ((letters >= 0xD800) & (letters < 0xE000))).any():
            raise ValueError("an array of texts holds letters that do not exist")
    return array


def check_archive(content: bytes, path: Path) -> None:
    """Refuse an archive that unpacks to too much, or has a name twice, before it is unpacked."""
    if not zipfile.is_zipfile(io.BytesIO(content)):
        return
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        size = sum(entry.file_size for entry in archive.infolist())
        names = Counter(name.removesuffix(".npy") for name in archive.namelist())
        if size > MOST_ARRAYS:
            raise ValueError(f"it unpacks to {size / 2**30:.0f} GiB, more than {MOST_ARRAYS / 2**30:.0f}")
        numbers = sum(_count_numbers(archive, entry) for entry in archive.infolist())
    check_bytes(f"{path}: reading {numbers:,} numbers", _READING * numbers, "make it smaller")
    for name, times in names.most_common(1):
        if times > 1:
            raise ValueError(f"the name {shorten(repr(name))} is there twice; which one counts?")


def _count_numbers(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> int:
    """Return how many numbers an array has at most: a byte may be one, and becomes a double."""
    if entry.file_size < _SMALL:
        return entry.file_size
    with archive.open(entry) as member:
        form = np.lib.format
        old = form.read_magic(member) == (1, 0)
        _, _, kind = form.read_array_header_1_0(member) if old else form.read_array_header_2_0(member)
    return entry.file_size // max(1, kind.itemsize)


def _read_json(path: Path, constants: list[str]) -> dict[str, Any]:
    contents = parse_json(read_regular(path).decode("utf-8"), constants)
    if not isinstance(contents, dict):
        raise ValueError("the top level must be an object with names")
    return contents


def _outcome_rows(contents: Mapping[str, Any]) -> tuple[OutcomeRows, int, int]:
    names = [contents.get("state_names"), contents.get("action_names")]
    labels = [None if n is None else tuple(str(x) for x in n) for n in names]
    table = contents["outcomes"]
    rows = table.tolist() if isinstance(table, np.ndarray) else table
    if not isinstance(rows, list) or any(not isinstance(r, list) or len(r) != 5 for r in rows):
        raise TableError("outcomes must be rows of five: state, action, next state, probability, reward")
    counts = [
        _count(contents, "num_states", labels[0], [x for row in rows for x in (row[0], row[2])]),
        _count(contents, "num_actions", labels[1], [row[1] for row in rows]),
    ]
    if counts[0] * counts[1] > MAX_PAIRS:
        raise TableError(f"num_states times num_actions of the outcomes may be at most {MAX_PAIRS:,}")
    # Before anything of that size is made: a short file may claim a hundred million states.
    ends: Any = contents.get("absorbing", ())
    named = len(rows) + (len(ends) if isinstance(ends, list | tuple) else int(np.size(ends)))
    if counts[0] > named:
        raise TableError(
            f"num_states is {counts[0]:,}, but outcomes and absorbing name at most {named:,}; every state "
            "has an outcome or is absorbing"
        )
    if counts[1] > max(len(rows), _FEW, *(_width(contents.get(name)) for name in ("legal", "prior"))):
        raise TableError(f"num_actions is {counts[1]:,}, but outcomes name at most {len(rows):,}")
    columns: list[list[Any]] = [[], [], [], [], []]
    states, actions = map(numbered, labels)
    for number, row in enumerate(rows):
        try:
            columns[0].append(resolve_index("state", row[0], counts[0], states))
            columns[1].append(resolve_index("action", row[1], counts[1], actions))
            columns[2].append(resolve_index("state", row[2], counts[0], states))
        except TableError as error:
            raise TableError(f"row {number} of outcomes: {error}") from None
        for column, value in zip(columns[3:], row[3:], strict=True):
            if not is_number(value):
                raise TableError(f"row {number} of outcomes: {value!r} is not a number")
            try:
                column.append(float(value))
            except OverflowError:
                raise TableError(f"row {number} of outcomes: a number is too large") from None
    return (
        OutcomeRows(
            np.array(columns[0], np.int64),
            np.array(columns[1], np.int64),
            np.array(columns[2], np.int64),
            np.array(columns[3], np.float64),
            np.array(columns[4], np.float64),
        ),
        counts[0],
        counts[1],
    )


def _width(matrix: Any) -> int:
    """Return the length of the first row of what may be a matrix; 0 for anything else."""
    if isinstance(matrix, np.ndarray):
        return int(matrix.shape[1]) if matrix.ndim == 2 else 0
    first = matrix[0] if isinstance(matrix, list | tuple) and matrix else None
    return len(first) if isinstance(first, list | tuple) else 0


def _endings(contents: Mapping[str, Any]) -> dict[str, Any]:
    """Read the names of the endings, which of them are success, and the ending that each state is."""
    for name in _ENDINGS:
        if name not in contents or not _is_flat_list(contents[name]):
            raise TableError(f"{' and '.join(_ENDINGS)} must be given together, each as a list")
    names, wins, of = (np.asarray(contents[name]) for name in _ENDINGS)
    if len(names) == 0 or len(names) != len(wins) or wins.dtype != np.bool_:
        raise TableError("ending_success must hold true or false for each of ending_names")
    if of.dtype.kind not in "iu" or ((of < -1) | (of >= len(names))).any():
        raise TableError(f"ending_of must hold -1 or an index of the {len(names)} ending_names per state")
    endings = tuple(Ending(str(name), bool(win)) for name, win in zip(names, wins, strict=True))
    return {"endings": endings, "ending_of": of.astype(np.int32)}


def _origin(contents: Mapping[str, Any], num_states: int) -> dict[str, Any]:
    """Read what a table kept of the MDP that it was made from: one row of numbers per state each."""
    found: dict[str, Any] = {}
    for name, dtype in zip(_ORIGIN, (np.float32, np.int32), strict=True):
        if name in contents:
            array = as_floats(name, contents[name])
            within = np.abs(array) <= _LARGEST[name]
            if array.ndim != 2 or len(array) != num_states or not within.all():
                raise TableError(f"{name} must be finite numbers, one row per state, [{num_states}, ...]")
            found[name] = array.astype(dtype)
    return found


def _observed(contents: Mapping[str, Any], num_states: int) -> dict[bytes, list[int]]:
    """Read which states an observation may stand for."""
    if _OBSERVED not in contents:
        return {}
    array = as_floats(_OBSERVED, contents[_OBSERVED])
    if array.ndim != 2 or array.shape[1] != 5 or not (np.abs(array) <= 2**31).all():
        raise TableError("observed must be rows of five whole numbers")
    if ((array[:, 4] < 0) | (array[:, 4] >= num_states)).any():
        raise TableError(f"observed names a state outside 0..{num_states - 1}")
    found: dict[bytes, list[int]] = {}
    for row in array.astype(np.int64).tolist():
        found.setdefault(np.array(row[:4], np.int64).astype(np.int32).tobytes(), []).append(row[4])
    return found


def _drawn(contents: Mapping[str, Any], num_states: int, num_actions: int) -> dict[str, Any]:
    """Read how many draws probabilities were estimated from."""
    found: dict[str, Any] = {}
    if "draws" in contents:
        draws = as_floats("draws", contents["draws"])
        whole = np.isfinite(draws) & (draws >= 0) & (draws < 2**31) & (draws == np.floor(draws))
        if draws.shape != (num_states, num_actions) or not whole.all():
            raise TableError(f"draws must be whole numbers of shape [S, A] = {[num_states, num_actions]}")
        found["draws"] = draws.astype(np.int32)
    if "initial_draws" in contents:
        number = np.asarray(contents["initial_draws"])
        if number.ndim != 0 or not is_whole(number.item()) or number < 0:
            raise TableError(f"initial_draws must be a whole number, got {contents['initial_draws']!r}")
        found["initial_draws"] = int(number)
    if "averaged" in contents:
        flag = np.asarray(contents["averaged"])
        if flag.ndim != 0 or flag.dtype != np.bool_:
            raise TableError(f"averaged must be true or false, got {contents['averaged']!r}")
        found["averaged"] = bool(flag)
    return found


def _count(contents: Mapping[str, Any], key: str, names: tuple[str, ...] | None, seen: list[Any]) -> int:
    if key in contents:
        value = contents[key]
        value = value.item() if isinstance(value, np.ndarray) and value.ndim == 0 else value
        if not is_whole(value) or value < 1:
            raise TableError(f"{key} must be one whole number of at least 1")
        return int(value)
    if names is not None:
        return len(names)
    numbers = [x for x in seen if is_whole(x)]
    return int(max(numbers, default=0)) + 1


def _is_flat_list(values: Any) -> bool:
    if isinstance(values, np.ndarray):
        return values.ndim == 1
    plain = (str, bool, int, float, np.generic)
    return isinstance(values, list | tuple) and all(isinstance(v, plain) for v in values)


def _one_line(error: BaseException) -> str:
    return shorten(str(error), 200) or type(error).__name__
