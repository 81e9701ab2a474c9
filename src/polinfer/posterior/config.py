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

    def to_dict(self) -> dict[str, Any]:
        """Return the fields by name."""
        return asdict(self)

    @classmethod
    def field_names(cls) -> tuple[str, ...]:
        """Return the names of the fields."""
        return tuple(member.name for member in fields(cls))
