"""A file layer that fails: short writes, a full disk, errors of fsync, a crash between rename and fsync.

    POLINFER_FAULT=KIND:NUMBER python -m faulty_files plan ...

runs the command line with the NUMBER-th file operation of that kind failing.  Kinds: ``enospc`` and ``eio``
raise what the operating system would; ``short`` writes half and dies; ``rename`` dies after the renaming,
before the folder is synced; ``fsync`` dies in the middle of a file's own sync.
"""

import errno
import os
import sys
from pathlib import Path
from typing import Any

KINDS = ("enospc", "eio", "short", "rename", "fsync")


class Faults:
    """Counts operations, and lets one fail."""

    def __init__(self, kind: str, number: int) -> None:
        self.kind, self.left = kind, number

    def due(self) -> bool:
        self.left -= 1
        return self.left == 0


def install(kind: str, number: int) -> None:
    """Replace the file operations of `polinfer.core.files` by failing ones."""
    faults = Faults(kind, number)
    sync, replace, opened = os.fsync, Path.replace, Path.open

    def fsync(descriptor: int) -> None:
        if kind in ("eio", "fsync") and faults.due():
            if kind == "fsync":
                os._exit(137)
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        sync(descriptor)

    def rename(self: Path, target: Any) -> Path:
        moved = replace(self, target)
        if kind == "rename" and faults.due():
            os._exit(137)
        return moved

    def open_(self: Path, mode: str = "r", *more: Any, **named: Any) -> Any:
        file = opened(self, mode, *more, **named)
        if self.name.endswith(".part") and kind in ("enospc", "short") and faults.due():
            return _Failing(file, kind)
        return file

    os.fsync, Path.replace, Path.open = fsync, rename, open_  # type: ignore[method-assign, assignment]


class _Failing:
    """A file that takes half of what it is given."""

    def __init__(self, file: Any, kind: str) -> None:
        self._file, self._kind = file, kind

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: Any) -> None:
        self._file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def write(self, data: Any) -> int:
        self._file.write(bytes(data)[: len(data) // 2])
        self._file.flush()
        if self._kind == "short":
            os._exit(137)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


if __name__ == "__main__":
    from polinfer.cli import main

    wanted = os.environ.get("POLINFER_FAULT", "")
    if wanted:
        install(wanted.partition(":")[0], int(wanted.partition(":")[2]))
    sys.exit(main())
