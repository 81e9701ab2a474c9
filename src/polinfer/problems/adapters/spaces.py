"""Gymnasium's spaces: the ranges of finite observations, and the actions."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

from polinfer.core.errors import DomainError

MAX_ACTIONS = 4096


class Factors(NamedTuple):
    """A finite space as numbers side by side, each in a range of its own; Python's integers, of any size."""

    low: tuple[int, ...]
    size: tuple[int, ...]


class Actions(NamedTuple):
    """The actions of an environment: `size` whole numbers from `start` on, or several such at once."""

    start: int
    size: int
    shape: tuple[int, ...]  # () almost always; an integer Box may want its one number in an array
    factors: Factors | None = None  # of choices that are made together, flattened in row-major order

    def native(self, action: Any, xp: Any = np) -> Any:
        """Return what the environment takes for action number `action`; `xp` is NumPy or JAX's."""
        if self.factors is None:
            return xp.reshape(action + self.start, self.shape)
        chosen = xp.stack(xp.unravel_index(action, self.factors.size))
        return xp.reshape(chosen + xp.asarray(self.factors.low), self.shape)

    @property
    def names(self) -> tuple[str, ...]:
        """The numbers that an action is in the environment, as text."""
        if self.factors is None:
            return tuple(str(self.start + a) for a in range(self.size))
        return tuple(" ".join(map(str, np.ravel(self.native(a)).tolist())) for a in range(self.size))


def finite_factors(space: Any) -> Factors | None:
    """Return the ranges of the numbers that `parts` of a finite space hold, None if it is not finite.

    Examples
    --------
    >>> finite_factors(spaces.Tuple([spaces.Discrete(3, start=1), spaces.MultiBinary(2)]))
    Factors(low=(1, 0, 0), size=(3, 2, 2))
    """
    if isinstance(space, spaces.Discrete):
        return Factors((int(space.start),), (int(space.n),))
    if isinstance(space, spaces.MultiDiscrete):
        return Factors(_whole(space.start), _whole(space.nvec))
    if isinstance(space, spaces.MultiBinary):
        count = int(np.prod(space.shape))
        return Factors((0,) * count, (2,) * count)
    if isinstance(space, spaces.Box) and space.dtype is not None and space.dtype.kind in "iub":
        low, high = _whole(space.low), _whole(space.high)
        return Factors(low, tuple(h - lo + 1 for lo, h in zip(low, high, strict=True)))
    if isinstance(space, spaces.Tuple | spaces.Dict):
        parts = space.spaces.values() if isinstance(space, spaces.Dict) else space.spaces
        found = [finite_factors(part) for part in parts]
        known = [factors for factors in found if factors is not None]
        if len(known) == len(found):
            return Factors(sum((f.low for f in known), ()), sum((f.size for f in known), ()))
    return None


def parts(space: Any, observation: Any) -> list[Any]:
    """Return the arrays and numbers that an observation of a nested space consists of, in order."""
    if isinstance(space, spaces.Dict):
        pairs = [(part, observation[name]) for name, part in space.spaces.items()]
    elif isinstance(space, spaces.Tuple):
        pairs = list(zip(space.spaces, observation, strict=True))
    else:
        return [observation]
    return [leaf for part, value in pairs for leaf in parts(part, value)]


def read_actions(name: str, space: Any) -> Actions:
    """Return the actions of `space`; refuse all but one choice among finitely many."""
    if isinstance(space, spaces.Discrete):
        return Actions(int(space.start), int(space.n), ())
    factors = finite_factors(space)
    if isinstance(space, spaces.Box) and factors is not None and len(factors.size) == 1:
        return Actions(factors.low[0], factors.size[0], space.shape)
    if isinstance(space, spaces.MultiDiscrete | spaces.MultiBinary) and factors is not None:
        count = math.prod(factors.size)
        if count <= MAX_ACTIONS:
            return Actions(0, count, space.shape, factors)
        raise DomainError(
            f"{name} has the action space {space}, {count:,} actions; at most {MAX_ACTIONS:,} can be planned "
            "with: wrap it in gymnasium.wrappers.TransformAction"
        )
    kind = "several at once" if factors is not None else "not finitely many"
    raise DomainError(
        f"{name} has the action space {space}, {kind}; planning needs a Discrete or MultiDiscrete choice: "
        "wrap it in gymnasium.wrappers.TransformAction"
    )


def _whole(values: Any) -> tuple[int, ...]:
    return tuple(int(value) for value in np.ravel(values))
