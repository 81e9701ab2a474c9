"""A class of one's own, by its file: ``path/to/file.py:Class``."""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
from gymnasium.experimental.functional import FuncEnv

from polinfer.core.errors import DomainError, suggest
from polinfer.problems.adapters.gym import from_gymnasium, wrap
from polinfer.problems.rescaled import rescaled

_OF_ENVIRONMENTS = (
    "horizon",
    "abstraction",
    "edges",
    "bins",
    "identity",
    "encode",
    "reset_seed",
    "reward_scale",
)
_OF_ALL = ("reward_scale", "horizon")


def make_own(address: str, *, wrappers: Any = (), gym_kwargs: Any = None, **options: Any) -> Any:
    """Make the class at `address`: a Gymnasium environment, a JAX problem, or a simulator in plain Python.

    For an environment, options that say what a state is are those of `polinfer.from_gymnasium`; all others
    go to the constructor, as all do for the other kinds.  There a constructor that takes no ``reward_scale``
    or ``horizon`` is left alone, and the problem changed (`polinfer.rescaled`).
    """
    path, _, name = address.rpartition(":")
    found = getattr(load_module(Path(path)), name, None)
    if found is None:
        known = [n for n, v in vars(load_module(Path(path))).items() if inspect.isclass(v)]
        raise DomainError(f"{path} has no {name!r}{suggest(name, known)}")
    if not callable(found):
        raise DomainError(f"{name!r} in {path} is a {type(found).__name__}, not a class")
    environment = inspect.isclass(found) and issubclass(found, gymnasium.Env | FuncEnv)
    own = {k: v for k, v in options.items() if not (environment and k in _OF_ENVIRONMENTS)}
    own |= gym_kwargs or {}
    # Its rewards are scaled for a class that does not do it by itself, likewise the horizon.
    ours = {k: own.pop(k) for k in _OF_ALL if not environment and k in own and not _takes(found, k)}
    try:
        made = found(**own)
    except TypeError as error:
        raise DomainError(
            f"{address} cannot be made with {', '.join(own) or 'no options'}: {error}"
        ) from error
    except Exception as error:
        raise DomainError(f"{address} cannot be made ({type(error).__name__}: {error})") from error
    if not isinstance(made, gymnasium.Env | FuncEnv):
        if wrappers:
            raise DomainError(f"{address} is no Gymnasium environment, so wrappers do not go around it")
        return rescaled(made, **ours) if ours else made
    told = {k: v for k, v in options.items() if k in _OF_ENVIRONMENTS} | ours
    limit = getattr(made, "max_episode_steps", None)
    if "horizon" not in told and isinstance(limit, int):
        told["horizon"] = limit
    return from_gymnasium(wrap(made, wrappers), **told)


def _takes(kind: Callable[..., Any], option: str) -> bool:
    """Whether calling `kind` accepts an option."""
    try:
        inspect.signature(kind).bind_partial(**{option: None})
    except (TypeError, ValueError):
        return False
    return True


def load_module(path: Path) -> Any:
    """Import a file; modules that lie beside it can be imported from it."""
    if not path.is_file():
        raise DomainError(f"{path}: no such file")
    source = path.resolve()
    key = (
        "polinfer_own_"
        + hashlib.blake2b(str(source).encode() + source.read_bytes(), digest_size=8).hexdigest()
    )
    if key in sys.modules:
        return sys.modules[key]
    spec = importlib.util.spec_from_file_location(key, source)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[key] = module
    sys.path.insert(0, str(source.parent))
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[key]
        raise DomainError(f"{path} cannot be imported ({type(error).__name__}: {error})") from error
    finally:
        sys.path.remove(str(source.parent))
    return module
