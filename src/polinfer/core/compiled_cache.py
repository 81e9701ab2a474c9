"""Compiled programs kept between runs, in the user's own cache folder.

JAX reads compiled programs back as machine code, so the folder must belong to the user alone: anybody who
could write there could run code as this user.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import jax
import platformdirs

from polinfer.core.errors import PolinferError

VARIABLE = "POLINFER_CACHE"
"""``off`` keeps nothing, neither programs nor tables; a path is used instead of the user's cache folder."""
MOST_BYTES = 512 * 2**20
"""The size to which the folder is cut back when a run begins, the programs used longest ago first."""
_CONFIG: Any = jax.config
_OFF = ("off", "0", "no", "false", "none")


def keep_compiled_programs(folder: str | Path | None = None) -> Path | None:
    """Keep compiled programs in a folder, so that the second run of a problem starts at once.

    The command line does this by itself; in a notebook, call it first.

    Parameters
    ----------
    folder
        Where; the user's cache folder by default, or what the environment variable ``POLINFER_CACHE`` says
        (``off`` keeps nothing).  A folder that JAX was already given (``JAX_COMPILATION_CACHE_DIR``) stays.

    Returns
    -------
    folder
        The folder; None where nothing is kept.
    """
    if folder is None:
        wanted = os.environ.get(VARIABLE, "")
        if wanted.strip().lower() in _OFF:
            return None
        if not wanted and _CONFIG.jax_compilation_cache_dir:
            return Path(_CONFIG.jax_compilation_cache_dir)
        folder = Path(wanted or platformdirs.user_cache_path("polinfer", appauthor=False)) / "compiled"
    path = Path(folder)
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        _check_private(path)
        _cut_back(path)
    except OSError as error:
        raise PolinferError(
            f"compiled programs cannot be kept in {path} ({error.strerror or error}); set {VARIABLE}=off, or "
            "to another folder"
        ) from None
    _CONFIG.update("jax_compilation_cache_dir", str(path))
    _CONFIG.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    _CONFIG.update("jax_persistent_cache_min_entry_size_bytes", -1)
    return path


def _check_private(path: Path) -> None:
    """Refuse a folder that another user owns or may write to."""
    found = path.stat()
    if hasattr(os, "getuid") and found.st_uid != os.getuid():
        raise PermissionError(0, "it belongs to another user")
    if os.name == "posix" and found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError(0, "others may write there: chmod 700")


def _cut_back(path: Path, most: int = MOST_BYTES) -> None:
    """Remove the files used longest ago until the rest fits."""
    files = []
    for file in path.iterdir():
        try:
            found = file.stat()
        except FileNotFoundError:
            continue  # another run was quicker
        if stat.S_ISREG(found.st_mode):
            files.append((max(found.st_atime, found.st_mtime), found.st_size, file))
    total = sum(size for _, size, _ in files)
    for _, size, file in sorted(files):
        if total <= most:
            return
        file.unlink(missing_ok=True)
        total -= size
