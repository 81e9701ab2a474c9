"""Records as flat dictionaries of arrays, for checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, get_type_hints

import numpy as np
from numpy.typing import NDArray

R = TypeVar("R")


def pack(name: str, record: Any) -> dict[str, NDArray[Any]]:
    """Write a named tuple of arrays, numbers and named tuples under ``name.field``.

    Examples
    --------
    >>> from polinfer.annealing.classes import Classes, no_classes
    >>> sorted(pack("found", no_classes()))[:2]
    ['found.code', 'found.heavy']
    >>> unpack("found", Classes, pack("found", no_classes())).code.dtype
    dtype('uint64')
    """
    arrays: dict[str, NDArray[Any]] = {}
    for field, value in record._asdict().items():
        key = f"{name}.{field}"
        arrays |= pack(key, value) if hasattr(value, "_asdict") else {key: np.asarray(value)}
    return arrays


def unpack(name: str, kind: type[R], arrays: Mapping[str, NDArray[Any]]) -> R:
    """Read a record back."""
    fields: dict[str, Any] = {}
    for field, annotation in get_type_hints(kind).items():
        key = f"{name}.{field}"
        if hasattr(annotation, "_fields"):
            fields[field] = unpack(key, annotation, arrays)
        elif annotation in (int, float, bool):
            fields[field] = annotation(arrays[key])
        else:
            fields[field] = np.asarray(arrays[key])
    return kind(**fields)
