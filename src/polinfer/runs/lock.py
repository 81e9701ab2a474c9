"""One process at a time in a run folder, by a lock on the folder itself, which a kill releases.

The lock is the operating system's (``flock`` on the open folder): there is no file to leave behind, and it is
gone with the process that held it, however that ended.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from polinfer.core.errors import PolinferError
from polinfer.core.files import PART

_held: dict[Path, int] = {}  # descriptors of this process, by folder


def hold(folder: Path, *parts: str) -> None:
    """Make `folder` if need be and lock it until `release_all`; remove what was left half written in it.

    A folder that was removed and made anew since this process locked it is locked anew.

    Parameters
    ----------
    folder
        The folder of a run.
    parts
        Folders inside it that the run writes to, too.

    Raises
    ------
    PolinferError
        Where another process holds it.
    """
    if folder.exists() and not folder.is_dir():
        raise PolinferError(f"{folder} is a file; name a folder")
    folder.mkdir(parents=True, exist_ok=True)
    place = folder.resolve()
    if place in _held:
        if os.path.samestat(os.fstat(_held[place]), place.stat()):
            return
        os.close(_held.pop(place))
    descriptor = os.open(place, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise PolinferError(
            f"another process is at work in {folder}; wait for it, or name another folder"
        ) from None
    except OSError:
        pass  # A file system without locks: go on as before there were any.
    _held[place] = descriptor
    for part in parts:
        # Files are removed in there, which must be the run's own.
        if (place / part).is_symlink():
            raise PolinferError(f"{folder / part}: a link; a run writes to folders of its own only")
    for inside in (place, *(place / part for part in parts)):
        remove_parts(inside)


def remove_parts(folder: Path) -> None:
    """Remove files that were being written when their process was killed; whoever calls holds the folder."""
    if folder.is_dir():
        for path in folder.glob(f".*{PART}"):
            if not path.is_dir():
                path.unlink(missing_ok=True)


def release_all() -> None:
    """Let go of all folders that this process holds."""
    while _held:
        os.close(_held.popitem()[1])
