"""Files: atomic writes, and reads that execute nothing."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, TypeVar

import jax
import msgspec
import numpy as np
import safetensors
import safetensors.numpy
from numpy.typing import NDArray

from polinfer.core.errors import PolinferError

Arrays = dict[str, NDArray[Any]]
T = TypeVar("T")


def write_atomically(path: str | Path, write: Callable[[IO[bytes]], Any]) -> None:
    """Write a new file with `write`, then rename it to `path`.

    A reader sees the old file or the new one, never a part, even if the process is killed.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    # Not tempfile: its files are readable by the owner alone.
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}.part")
    try:
        with temporary.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def plain(value: Any) -> Any:
    """Return `value` as types that JSON has; numbers that are not finite become null."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float) and not np.isfinite(value):
        return None
    if isinstance(value, Path):
        return str(value)
    return value


def write_json(path: str | Path, value: Any) -> None:
    """Write `value` as JSON."""
    text = json.dumps(plain(value), allow_nan=False, indent=1) + "\n"
    write_atomically(path, lambda file: file.write(text.encode()))


def read_json(path: str | Path) -> dict[str, Any]:
    """Read an object written by `write_json`; anything else is refused with a sentence."""
    try:
        value = json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise PolinferError(f"{path}: no such file") from None
    except (OSError, ValueError) as error:
        raise PolinferError(f"{path}: damaged or not JSON ({' '.join(str(error).split())[:120]})") from None
    if not isinstance(value, dict):
        raise PolinferError(f"{path}: not an object with names")
    return value


def read_record(path: str | Path, kind: type[T]) -> T:
    """Read JSON as a typed record; a missing, misplaced or mistyped field is refused by file and field."""
    return as_record(read_json(path), kind, path)


def as_record(value: Any, kind: type[T], source: str | Path) -> T:
    """Return what JSON gave as a typed record; anything else is refused with the file and the field."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise PolinferError(f"{source}: {error}") from None


def write_arrays(path: str | Path, arrays: Arrays) -> None:
    """Write named arrays as a safetensors file."""
    data = safetensors.numpy.save({k: np.asarray(v, order="C") for k, v in arrays.items()})
    write_atomically(path, lambda file: file.write(data))


def read_arrays(path: str | Path) -> Arrays:
    """Read a safetensors file; a damaged or foreign one is refused with a sentence."""
    try:
        return dict(safetensors.numpy.load(Path(path).read_bytes()))
    except FileNotFoundError:
        raise PolinferError(f"{path}: no such file") from None
    except (OSError, ValueError, KeyError, safetensors.SafetensorError) as error:
        raise PolinferError(
            f"{path}: damaged or not a safetensors file ({' '.join(str(error).split())[:120]})"
        ) from None


def flatten_arrays(tree: Any, prefix: str) -> Arrays:
    """Return the leaves of a pytree by their path, each name starting with `prefix`."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {prefix + jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in leaves}


def unflatten_arrays(template: Any, arrays: Arrays, prefix: str, source: str | Path) -> Any:
    """Put arrays back into the shape of `template`; missing or misshapen ones are refused by name."""
    leaves, structure = jax.tree_util.tree_flatten_with_path(template)
    found = []
    for path, leaf in leaves:
        name = prefix + jax.tree_util.keystr(path)
        if name not in arrays:
            raise PolinferError(f"{source}: {name!r} is missing; the file belongs to another kind of run")
        array = arrays[name]
        if array.shape != leaf.shape or array.dtype != leaf.dtype:
            raise PolinferError(
                f"{source}: {name!r} is {array.dtype}{list(array.shape)}, "
                f"expected {leaf.dtype}{list(leaf.shape)}"
            )
        found.append(jax.numpy.asarray(array))
    return jax.tree.unflatten(structure, found)
