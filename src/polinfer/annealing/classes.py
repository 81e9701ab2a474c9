"""The distinct reach classes that a run came across, and the mass that they are known to have.

Policies that agree on all states that they reach have the same ``J``; together their mass is
``exp(scale J) prod_{s reached} u(s)``.  The sum over the classes found is a lower bound of ``Z``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polinfer.exact.solution import Floats

_MOST = 500_000
_MOST_HEAVY = 2048  # classes whose policies are kept
_HEAVY_ENTRIES = 1 << 20  # of those policies


class Classes(NamedTuple):
    """Reach classes by a 64-bit hash, in ascending order, and the policies of the heaviest."""

    code: NDArray[np.uint64]  # [C]
    log_mass: Floats  # [C]
    heavy_code: NDArray[np.uint64]  # [K]
    heavy_log_mass: Floats  # [K]
    heavy_returns: Floats  # [K]
    heavy: NDArray[np.int16]  # [K, N], -1 where the class does not come


def no_classes(size: int = 0) -> Classes:
    """Return the empty set, for a problem of `size` states."""
    none, words = np.zeros(0), np.zeros(0, np.uint64)
    return Classes(words, none, words, none, none, np.zeros((0, size), np.int16))


def class_codes(size: int, actions: int) -> NDArray[np.uint64]:
    """Return a random word for each state and action, ``[N, A]``; a class hashes to the sum of its words."""
    return np.random.default_rng(17).integers(1, 2**63, (size, actions), np.uint64)


def codes_of(
    codes: NDArray[np.uint64], policy: NDArray[np.int16], reached: NDArray[np.bool_]
) -> NDArray[np.uint64]:
    """Return the hash ``[P]`` of the class of each policy ``[N, P]``."""
    words = np.take_along_axis(codes, policy.astype(np.int64), axis=1)
    with np.errstate(over="ignore"):
        hashed: NDArray[np.uint64] = np.where(reached, words, np.uint64(0)).sum(axis=0, dtype=np.uint64)
    return hashed


def add_classes(
    known: Classes,
    codes: NDArray[np.uint64],
    policy: NDArray[np.int16],
    reached: NDArray[np.bool_],
    log_mass: Floats,
    returns: Floats,
) -> Classes:
    """Add the classes of policies ``[N, P]`` with log masses and returns ``[P]``; the lightest are let go."""
    code = codes_of(codes, policy, reached)
    every, first = np.unique(np.concatenate([known.code, code]), return_index=True)
    mass = np.concatenate([known.log_mass, log_mass])[first]
    if len(every) > _MOST:
        kept = np.sort(np.argsort(-mass, kind="stable")[: _MOST // 2])
        every, mass = every[kept], mass[kept]
    return Classes(every, mass, *_heaviest(known, code, log_mass, returns, policy, reached))


def _heaviest(
    known: Classes,
    code: NDArray[np.uint64],
    log_mass: Floats,
    returns: Floats,
    policy: NDArray[np.int16],
    reached: NDArray[np.bool_],
) -> tuple[NDArray[np.uint64], Floats, Floats, NDArray[np.int16]]:
    """Return code, log mass, return and policy of the heaviest classes known, heaviest first."""
    most = min(_MOST_HEAVY, _HEAVY_ENTRIES // max(1, len(policy)))
    codes, first = np.unique(np.concatenate([known.heavy_code, code]), return_index=True)
    mass = np.concatenate([known.heavy_log_mass, log_mass])[first]
    chosen = np.argsort(-mass, kind="stable")[:most]
    first = first[chosen]
    rows = np.concatenate([known.heavy, np.where(reached, policy, -1).astype(np.int16).T])[first]
    return codes[chosen], mass[chosen], np.concatenate([known.heavy_returns, returns])[first], rows


def log_total(known: Classes) -> float:
    """Return the log of the summed mass."""
    if not len(known.log_mass):
        return -np.inf
    top = known.log_mass.max()
    return float(top + np.log(np.exp(known.log_mass - top).sum()))
