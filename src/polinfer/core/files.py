"""Files: atomic writes, and reads that execute nothing."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
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

from polinfer.core.errors import PolinferError, shorten
from polinfer.core.strict_json import parse_json

Arrays = dict[str, NDArray[Any]]
T = TypeVar("T")
_DIGEST = "polinfer digest"
MOST_TEXT = 1 << 30
"""Bytes of a text that is read; a file may claim, and be, any size without having a block on the disk."""
MOST_ARRAYS = 1 << 33
"""Bytes of a file of arrays that is read."""
_LARGE = 1 << 26  # bytes, above which a file of arrays is looked at before it is read
PART = ".part"
"""Ends the names of files that are being written."""


def write_atomically(path: str | Path, write: Callable[[IO[bytes]], Any]) -> None:
    """Write a new file with `write`, then rename it to `path`.

    A reader sees the old file or the new one, never a part, even if the process is killed.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    # Not tempfile: its files are readable by the owner alone.
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}{PART}")
    try:
        with temporary.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        _sync_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    """Make a renaming last through a power cut, where the file system can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def plain(value: Any) -> Any:
    r"""Return `value` as types that JSON has; numbers that are not finite become null.

    The name of a file may be no text: what of it is none becomes a question mark.

    Examples
    --------
    >>> plain({"b\udcff": (float("nan"), 1)})
    {'b?': [None, 1]}
    """
    if isinstance(value, str):
        return value if value.isascii() else value.encode(errors="replace").decode()
    if isinstance(value, dict):
        return {plain(str(k)): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float) and not np.isfinite(value):
        return None
    if isinstance(value, Path):
        return plain(str(value))
    return value


def write_json(path: str | Path, value: Any) -> None:
    """Write `value` as JSON."""
    text = json.dumps(plain(value), allow_nan=False, indent=1) + "\n"
    write_atomically(path, lambda file: file.write(text.encode()))


def read_regular(path: str | Path, *, inside: bool = False, most: int = MOST_TEXT) -> bytes:
    """Read a plain file; anything else, a pipe, a device, a folder, is refused with a sentence.

    Parameters
    ----------
    path
        The file.
    inside
        Whether it must lie in its own folder: a link that leads elsewhere is refused, too.  What a folder
        that someone sent holds is then all that is read.
    most
        The largest size that is read.
    """
    path = Path(path)
    try:
        if inside and path.is_symlink() and path.resolve().parent != path.parent.resolve():
            raise PolinferError(f"{path}: a link that leads out of its folder; put the file itself there")
        found = path.stat()
        kind = found.st_mode
        if not stat.S_ISREG(kind):
            what = "a folder" if stat.S_ISDIR(kind) else "a pipe or a device"
            raise PolinferError(f"{path}: {what}, not a file")
        if found.st_size > most:
            raise PolinferError(f"{path}: {_size(found.st_size)}, and at most {_size(most)} are read")
        return path.read_bytes()
    except FileNotFoundError:
        raise PolinferError(f"{path}: no such file") from None
    except (OSError, RuntimeError, ValueError) as error:
        if isinstance(error, PolinferError):
            raise
        why = getattr(error, "strerror", None) or str(error)
        raise PolinferError(f"{path}: cannot be read ({shorten(why)})") from None


def _size(count: int) -> str:
    return f"{count / 2**30:,.0f} GiB" if count >= 1 << 30 else f"{count / 2**20:,.0f} MiB"


def read_json(path: str | Path) -> dict[str, Any]:
    """Read an object written by `write_json`; anything else is refused with a sentence."""
    content = read_regular(path, inside=True)
    try:
        value = parse_json(content.decode("utf-8"))
    except ValueError as error:
        raise PolinferError(f"{path}: damaged or not JSON ({shorten(str(error))})") from None
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
    except (msgspec.ValidationError, OverflowError, RecursionError) as error:
        # A check of ours in a record's own __post_init__ arrives as a ValidationError, too.
        raise PolinferError(f"{source}: {shorten(str(error))}") from None


def write_arrays(path: str | Path, arrays: Arrays, owner: str = "") -> None:
    """Write named arrays as a safetensors file, with a digest by which damage is noticed.

    With an `owner`, such as a fingerprint of a run, the digest is of that, too, and of the file's name.
    """
    path = Path(path)
    held = {k: np.asarray(v, order="C") for k, v in arrays.items()}
    data = safetensors.numpy.save(held, {_DIGEST: _digest(held, _owned(path, owner))})
    write_atomically(path, lambda file: file.write(data))


def read_arrays(path: str | Path, owner: str = "", *, unowned: bool = True) -> Arrays:
    """Read a safetensors file; a damaged or foreign one is refused with a sentence.

    With an `owner`, a file is refused that was written with another name or for another one; one without
    any, as earlier versions wrote them, is read where `unowned` ones are.
    """
    path = Path(path)
    check_length(path)
    content = read_regular(path, inside=True, most=MOST_ARRAYS)
    try:
        arrays = dict(safetensors.numpy.load(content))
        size = int.from_bytes(content[:8], "little")
        told = json.loads(content[8 : 8 + size]).get("__metadata__", {}).get(_DIGEST)
    # A header may lie about everything, and the library may then raise anything.
    except Exception as error:
        why = shorten(str(error))
        raise PolinferError(f"{path}: damaged or not a safetensors file ({why})") from None
    right: list[str | None] = [_digest(arrays, _owned(path, owner))]
    if unowned:
        right += [_digest(arrays, ""), None]  # version 0.2 wrote no digest
    if told not in right:
        whose = ", or it was written by another run" if owner else ""
        raise PolinferError(f"{path}: damaged: its contents are not what was written{whose}")
    return arrays


def check_length(path: Path) -> None:
    """Refuse a large file whose header tells of less or more, before gigabytes of it are read."""
    if path.is_symlink() or not path.is_file() or path.stat().st_size < _LARGE:
        return
    try:
        with path.open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(min(size, _LARGE)))
        ends = [int(entry["data_offsets"][1]) for name, entry in header.items() if name != "__metadata__"]
        whole = 8 + size + max(ends, default=0) == path.stat().st_size
    except Exception:  # a header may hold anything
        whole = False
    if not whole:
        raise PolinferError(f"{path}: damaged or not a safetensors file (its header tells of another length)")


def _owned(path: Path, owner: str) -> str:
    return f"{owner} {path.name};" if owner else ""


def _digest(arrays: Arrays, owned: str) -> str:
    whole = hashlib.blake2b(owned.encode(), digest_size=16)
    for name in sorted(arrays):
        whole.update(f"{name} {arrays[name].dtype} {arrays[name].shape};".encode())
        whole.update(np.ascontiguousarray(arrays[name]).tobytes())
    return whole.hexdigest()


def check_array(
    array: NDArray[Any],
    name: str,
    shape: tuple[int | None, ...],
    kinds: str,
    source: str | Path,
    *,
    finite: bool = True,
) -> None:
    """Refuse an array of a file by name, for its shape (None: any length), its type or its values."""
    fits = len(array.shape) == len(shape) and all(
        want is None or have == want for have, want in zip(array.shape, shape, strict=True)
    )
    if not fits or array.dtype.kind not in kinds:
        wanted = ", ".join("any" if n is None else str(n) for n in shape)
        raise PolinferError(
            f"{source}: {name!r} is {array.dtype}{list(array.shape)}, expected "
            f"{' or '.join(_KINDS[kind] for kind in kinds)}[{wanted}]; the file is damaged"
        )
    if finite and array.dtype.kind == "f" and not np.isfinite(array).all():
        raise PolinferError(f"{source}: {name!r} holds a number that is not finite; the file is damaged")


_KINDS = {"f": "float", "i": "int", "u": "uint", "b": "bool"}


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
