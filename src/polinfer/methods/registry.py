"""The methods by name, open to more: `register_method`, or the entry-point group ``polinfer.methods``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.metadata import entry_points
from typing import Any

from polinfer.core.errors import PolinferError, suggest
from polinfer.core.files import as_record
from polinfer.methods.base import Method
from polinfer.posterior.config import MethodConfig

GROUP = "polinfer.methods"


class _Methods(Mapping[str, Method[Any]]):
    """Registered methods, and those of installed packages, which are looked for when first asked."""

    def __init__(self) -> None:
        self._known: dict[str, Method[Any]] = {}
        self._searched = False

    def add(self, method: Method[Any]) -> None:
        self._known[method.name] = method

    def __getitem__(self, name: str) -> Method[Any]:
        if name not in self._known:
            self._search()
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        self._search()
        return iter(self._known)

    def __len__(self) -> int:
        self._search()
        return len(self._known)

    def _search(self) -> None:
        if self._searched:
            return
        self._searched = True
        for found in entry_points(group=GROUP):
            if found.name not in self._known:
                register_method(found.load())


METHODS = _Methods()
"""All methods by name: a read-only mapping; `register_method` adds to it."""


def register_method(method: Method[Any] | type[Method[Any]]) -> None:
    """Make a method known by its name, to `infer` and to the command line.

    A package does the same by being installed, with an entry point in the group ``polinfer.methods``.

    Parameters
    ----------
    method
        A subclass of `polinfer.methods.Method`, or an instance of one.
    """
    made = method() if isinstance(method, type) else method
    if not isinstance(made, Method):
        raise PolinferError(f"{made!r} is not a polinfer.methods.Method; derive from that class")
    if not (isinstance(made.Config, type) and issubclass(made.Config, MethodConfig)):
        raise PolinferError(f"method {made.name!r}: Config must derive from polinfer.methods.MethodConfig")
    if made.Config.method != made.name:
        raise PolinferError(
            f"method {made.name!r}: its Config says method = {made.Config.method!r}; write the same name"
        )
    if made.name in METHODS._known:
        raise PolinferError(f"the name {made.name!r} is taken by another method; choose another")
    METHODS.add(made)


def list_methods() -> dict[str, Method[Any]]:
    """Return all methods by name: what each does is its `summary`, what it takes its `needs`.

    Examples
    --------
    >>> import polinfer
    >>> polinfer.list_methods()["exact"].summary
    'Enumerate every deterministic policy: the posterior, exactly, for small problems.'
    """
    return dict(METHODS)


def method_named(name: str) -> Method[Any]:
    """Return a method, or say which there are."""
    try:
        return METHODS[name]
    except KeyError:
        raise PolinferError(
            f"unknown method {name!r}{suggest(name, METHODS)}; there are {', '.join(METHODS)}"
        ) from None


def make_config(method: Method[Any], fields: Mapping[str, Any]) -> MethodConfig:
    """Return the configuration with some fields set; a field of another method is refused by name."""
    known = method.Config.field_names()
    for name in fields:
        if name not in known:
            raise PolinferError(_foreign(method, name, known))
    made: MethodConfig = method.Config(**fields)
    return made


def read_config(name: str, fields: Mapping[str, Any]) -> MethodConfig:
    """Return a configuration that was written as JSON, every field checked against its type."""
    method = method_named(name)
    unknown = [field for field in fields if field not in method.Config.field_names()]
    if unknown:
        raise PolinferError(_foreign(method, unknown[0], method.Config.field_names()))
    made: MethodConfig = as_record(dict(fields), method.Config, f"the configuration of method {name!r}")
    return made


def owners(field: str) -> list[str]:
    """Return the methods that have a field of that name."""
    return [name for name, method in METHODS.items() if field in method.Config.field_names()]


def _foreign(method: Method[Any], field: str, known: tuple[str, ...]) -> str:
    whose = owners(field)
    if whose:
        return f"method {method.name!r} has no setting {field!r}; it belongs to {_enumerate(whose)}"
    names = f"it has {', '.join(known)}" if known else "it has no settings"
    return f"method {method.name!r} has no setting {field!r}{suggest(field, known)}; {names}"


def _enumerate(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
