"""What every method's configuration is: a frozen dataclass that knows which method it configures."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar


@dataclass(frozen=True, kw_only=True)
class MethodConfig:
    """Base of the configurations of methods.

    A field is documented by the string below it, which the command line shows, and checked in
    ``__post_init__``, which raises a `polinfer.PolinferError` that names the field.
    """

    method: ClassVar[str]
    later_fields: ClassVar[frozenset[str]] = frozenset()
    """Fields that are younger than results which are kept by a configuration's digest."""

    def to_dict(self) -> dict[str, Any]:
        """Return the fields by name."""
        return asdict(self)

    def to_key(self) -> dict[str, Any]:
        """Return the fields that a digest is made of: all, but for later ones that have their default.

        A run with the default of a field that did not exist yet is the run that it was.
        """
        defaults = {member.name: member.default for member in fields(self)}
        named = self.to_dict()
        return {
            name: value
            for name, value in named.items()
            if name not in self.later_fields or value != defaults[name]
        }

    @classmethod
    def field_names(cls) -> tuple[str, ...]:
        """Return the names of the fields."""
        return tuple(member.name for member in fields(cls))
