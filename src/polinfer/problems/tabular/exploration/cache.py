"""Explored tables on disk, in the user's cache folder, by a fingerprint of what was explored and how.

Only problems that `polinfer.make` made are kept: their name, options, versions and source files say what they
are.  Files are table files, which hold numbers and text and are never executed; the folder belongs to the
user alone, and the oldest files go when it grows too large.  ``POLINFER_CACHE=off`` switches it off, another
value names the folder.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from pathlib import Path
from typing import Any

import platformdirs

from polinfer.core.errors import PolinferError
from polinfer.problems.tabular.exploration.options import Exploration
from polinfer.problems.tabular.files import load_table, save_table
from polinfer.problems.tabular.table import TabularMDP

VARIABLE = "POLINFER_CACHE"
LIMIT = 256 * 2**20  # bytes of all tables together
_SPEC = "_polinfer_spec"


def folder() -> Path | None:
    """Return where tables are kept; None where nothing is."""
    told = os.environ.get(VARIABLE, "")
    if told.lower() in ("off", "0", "no", "false"):
        return None
    root = Path(told) if told else Path(platformdirs.user_cache_dir("polinfer", appauthor=False))
    return root / "tables"


def fingerprint(problem: Any, options: Exploration) -> str | None:
    """Return a hash of the problem and of how it is explored; None where it cannot be told what it is."""
    spec = getattr(problem, _SPEC, None)
    if spec is None or not options.cache:
        return None
    try:
        told = json.dumps([spec.name, spec.options, asdict(options), version("polinfer")], sort_keys=True)
    except TypeError:  # a function, say
        return None
    whole = hashlib.blake2b(told.encode(), digest_size=16)
    for name in sorted(_parts(problem, spec.options)):
        module = sys.modules.get(name)
        if module is None:
            return None
        whole.update(_source(module).encode())
    return whole.hexdigest()


def _parts(problem: Any, options: dict[str, Any]) -> set[str]:
    """Return the modules that a problem's behaviour is written in."""
    found = {type(problem).__module__}
    env = getattr(problem, "environment", None)
    while env is not None:
        found |= {kind.__module__ for kind in type(env).__mro__ if kind is not object}
        env = getattr(env, "env", None)
    for value in options.values():
        for word in value if isinstance(value, list | tuple) else [value]:
            if isinstance(word, str) and ":" in word and word.partition(":")[0] in sys.modules:
                found.add(word.partition(":")[0])
    return found


@lru_cache(maxsize=1)
def _distributions() -> Mapping[str, list[str]]:
    return packages_distributions()


def _source(module: Any) -> str:
    """Return a module's version where it is installed, and a hash of its and its neighbours' files else."""
    top = module.__name__.partition(".")[0]
    path = getattr(module, "__file__", None)
    if path is None or top in sys.stdlib_module_names:
        return f"{module.__name__} {sys.version}"
    if "site-packages" in Path(path).parts:
        with contextlib.suppress(PackageNotFoundError, KeyError, IndexError):
            return f"{module.__name__} {version(_distributions()[top][0])}"
    near = Path(path).resolve().parent
    hashed = hashlib.blake2b(digest_size=16)
    for other in sorted(str(getattr(m, "__file__", None)) for m in list(sys.modules.values())):
        if other.endswith(".py") and (Path(other) == Path(path) or near in Path(other).resolve().parents):
            with contextlib.suppress(OSError):
                hashed.update(Path(other).read_bytes())
    return f"{module.__name__} {hashed.hexdigest()}"


def read(key: str | None) -> TabularMDP | None:
    """Return a table that was kept; None where there is none, or it is damaged or somebody else's."""
    where = folder()
    if key is None or where is None:
        return None
    path = where / f"{key}.npz"
    try:
        if not path.is_file() or not _is_own(where):
            return None
        table = load_table(path)
        os.utime(path)  # the oldest go first
        return table
    except (OSError, PolinferError):
        with contextlib.suppress(OSError):
            path.unlink()
        return None


def write(key: str | None, table: TabularMDP) -> None:
    """Keep a table; a cache that cannot be written is no error."""
    where = folder()
    if key is None or where is None:
        return
    with contextlib.suppress(OSError):
        where.mkdir(parents=True, exist_ok=True, mode=0o700)
        where.chmod(0o700)
        if _is_own(where):
            save_table(table, where / f"{key}.npz")
            _prune(where)


def _is_own(where: Path) -> bool:
    """Return whether the folder belongs to the user, and nobody else may write there."""
    if not hasattr(os, "getuid"):
        return True
    found = where.stat()
    return found.st_uid == os.getuid() and not found.st_mode & 0o022


def _prune(where: Path) -> None:
    files = sorted(where.glob("*.npz"), key=lambda path: path.stat().st_mtime, reverse=True)
    total = 0
    for path in files:
        total += path.stat().st_size
        if total > LIMIT:
            path.unlink(missing_ok=True)
