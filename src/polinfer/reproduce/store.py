"""Finished units on disk: written whole or not at all, and checked when they are read."""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import safetensors.numpy
from numpy.typing import NDArray

from polinfer.core.errors import PolinferError
from polinfer.core.files import (
    MOST_ARRAYS,
    Arrays,
    check_length,
    read_record,
    read_regular,
    write_atomically,
    write_json,
)
from polinfer.reproduce.unit import Unit

UNITS, TIMES, SCRATCH = "units", "times", "scratch"
_NAME = "polinfer"


@dataclass(frozen=True)
class Outcome:
    """What a unit found; arrays with a seed axis first, but for `values` and `shares`."""

    arrays: Mapping[str, NDArray[Any]]

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.arrays[name]

    def __contains__(self, name: object) -> bool:
        return name in self.arrays


class Times(msgspec.Struct, frozen=True):
    """What a unit took, compilation and evaluation included."""

    seconds: float
    cpu_seconds: float  # of the process, while it ran


class Store:
    """A folder of results.

    ``units/KEY.safetensors`` are the outcomes, the same for every run of the same unit; ``times/KEY.json``
    says how long they took; ``scratch/KEY`` is where a unit is being worked on.
    """

    def __init__(self, folder: Path) -> None:
        if folder.exists() and not folder.is_dir():
            raise PolinferError(f"{folder} is a file; name a folder")
        self.folder = folder

    def scratch(self, unit: Unit) -> Path:
        """Return the folder in which a unit keeps its checkpoints."""
        return self.folder / SCRATCH / unit.key

    def read(self, unit: Unit) -> Outcome | None:
        """Return the outcome of `unit`; None where it is missing or damaged."""
        return read_outcome(self._path(unit), unit.describe())

    def read_times(self, unit: Unit) -> Times | None:
        """Return how long `unit` took; None where that is not known."""
        try:
            return read_record(self.folder / TIMES / f"{unit.key}.json", Times)
        except PolinferError:
            return None

    def write(self, unit: Unit, outcome: Outcome, times: Times) -> None:
        """Keep an outcome, and clear away what the unit was working with."""
        write_json(self.folder / TIMES / f"{unit.key}.json", msgspec.to_builtins(times))
        data = pack(unit.describe(), outcome)
        write_atomically(self._path(unit), lambda file: file.write(data))
        shutil.rmtree(self.scratch(unit), ignore_errors=True)
        lock_of(self.scratch(unit)).unlink(missing_ok=True)

    def clear(self, units: Iterable[Unit]) -> None:
        """Clear away what finished units were worked on with, and the folder for that once it is empty."""
        for unit in units:
            if self._path(unit).exists():
                shutil.rmtree(self.scratch(unit), ignore_errors=True)
                lock_of(self.scratch(unit)).unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            (self.folder / SCRATCH).rmdir()

    def _path(self, unit: Unit) -> Path:
        return self.folder / UNITS / f"{unit.key}.safetensors"


def lock_of(scratch: Path) -> Path:
    """Return the file that whoever works in a scratch folder holds; beside it, as it outlives it."""
    return scratch.with_name(scratch.name + ".lock")


def pack(described: dict[str, Any], outcome: Outcome) -> bytes:
    """Return the content of a unit's file: the arrays, what was run, and a digest of both."""
    arrays = {name: np.asarray(outcome[name], order="C") for name in sorted(outcome.arrays)}
    head = {"unit": described, "digest": _digest(described, arrays)}
    # One entry: safetensors does not keep the order of several.
    return bytes(safetensors.numpy.save(arrays, {_NAME: json.dumps(head, sort_keys=True)}))


def read_outcome(path: Path, described: dict[str, Any]) -> Outcome | None:
    """Read a unit's file; None where it is missing, damaged, or of another unit."""
    try:
        check_length(path)
        content = read_regular(path, inside=True, most=MOST_ARRAYS)
        size = int.from_bytes(content[:8], "little")
        head = json.loads(json.loads(content[8 : 8 + size])["__metadata__"][_NAME])
        arrays: Arrays = dict(safetensors.numpy.load(content))
        whole = head["unit"] == described and head["digest"] == _digest(described, arrays)
    # A header may hold anything, and the library may then raise anything.
    except Exception:
        return None
    return Outcome(arrays) if whole else None


def _digest(described: dict[str, Any], arrays: Arrays) -> str:
    digest = hashlib.sha256(json.dumps(described, sort_keys=True).encode())
    for name in sorted(arrays):
        digest.update(f"{name} {arrays[name].dtype} {arrays[name].shape}".encode())
        digest.update(np.ascontiguousarray(arrays[name]).tobytes())
    return digest.hexdigest()
