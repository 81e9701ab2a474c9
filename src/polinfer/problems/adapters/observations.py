"""Observations as environments give them: one or a batch of them, and a hash of one."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from gymnasium import spaces


class SeenOnly:
    """An observation from which the state cannot be computed, by a hash of it."""

    __slots__ = ("digest",)

    def __init__(self, digest: bytes) -> None:
        self.digest = digest


def digest_of(observation: Any) -> bytes:
    """Return 16 bytes that depend on the content of an observation, however it is nested.

    Examples
    --------
    >>> digest_of({"a": np.array([1, 2]), "b": 3}) == digest_of({"b": np.int64(3), "a": [1, 2]})
    True
    """
    return hashlib.blake2b(repr(_plain(observation)).encode(), digest_size=16).digest()


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return sorted((str(key), _plain(part)) for key, part in value.items())
    if isinstance(value, str):
        return value
    array = np.asarray(value)
    if array.dtype.kind in "biu":
        return array.astype(np.int64).tolist()
    if array.dtype.kind == "f":
        return array.astype(np.float64).tolist()
    return [_plain(part) for part in value] if isinstance(value, list | tuple) else str(value)


def split_batch(space: Any, observation: Any) -> list[Any] | None:
    """Return the observations of a batch, as vectorised environments stack them; None for a single one."""
    if isinstance(space, spaces.Dict) and isinstance(observation, dict):
        parts = {name: split_batch(part, observation[name]) for name, part in space.spaces.items()}
        known = [part for part in parts.values() if part is not None]
        if len(known) != len(parts) or not known:
            return None
        return [
            {name: part[i] for name, part in parts.items() if part is not None} for i in range(len(known[0]))
        ]
    if isinstance(space, spaces.Tuple) and isinstance(observation, tuple | list):
        columns = [split_batch(p, o) for p, o in zip(space.spaces, observation, strict=False)]
        known = [column for column in columns if column is not None]
        if len(observation) != len(space.spaces) or len(known) != len(columns):
            return None
        return list(zip(*known, strict=True))
    if isinstance(space, spaces.Text):
        return list(observation) if isinstance(observation, list | tuple | np.ndarray) else None
    if space.shape is None or isinstance(observation, dict):
        return None
    array = np.asarray(observation)
    return list(array) if array.ndim == len(space.shape) + 1 else None
