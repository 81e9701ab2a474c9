"""The fields of a method's configuration as flags of the command line."""

from __future__ import annotations

import dataclasses
from types import NoneType
from typing import Annotated, Any, get_args, get_type_hints

import tyro

from polinfer.methods.base import Method
from polinfer.methods.registry import make_config
from polinfer.posterior.config import MethodConfig

OF_EVERY_METHOD = ("time_limit",)
"""Settings that `plan` has a flag for, whichever the method."""


def flags_of(config: Any) -> Any:
    """Return a dataclass with the fields of a method's `config`, for the parser to fill.

    It checks nothing: a bad value is then one sentence of ours, like any other mistake, and not a box of the
    parser's.  A default of None stands for one that depends on other settings, which the field's help names.
    """
    hints = get_type_hints(config)
    names: dict[str, Any] = {
        "__post_init__": lambda self: None,
        "__doc__": f"Settings of method {config.method!r}.",
        "__module__": config.__module__,
        "__annotations__": {},
    }
    for field in dataclasses.fields(config):
        if field.name in OF_EVERY_METHOD:
            names["__annotations__"][field.name] = Annotated[hints[field.name], tyro.conf.Suppress]
            names[field.name] = field.default
        elif field.default is None:
            kind = next(
                one for one in get_args(hints[field.name]) or (hints[field.name],) if one is not NoneType
            )
            shown = tyro.conf.arg(metavar=kind.__name__.upper(), help_behavior_hint="")
            names["__annotations__"][field.name] = Annotated[kind | None, shown]
            names[field.name] = None
    flags = type(config.__name__, (config,), names)
    return dataclasses.dataclass(frozen=True, kw_only=True)(flags)


def config_of_flags(method: Method[Any], flags: Any) -> MethodConfig:
    """Return the checked configuration that the flags describe."""
    return make_config(method, {name: getattr(flags, name) for name in method.Config.field_names()})


def flag_of(field: str) -> str:
    """Return how a field is typed."""
    return "--" + field.replace("_", "-")
