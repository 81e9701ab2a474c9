"""Abstractions of observations: a hashable state, its name and its features.

Observations that a view maps to the same state are one state to the planner.
"""

from __future__ import annotations

import importlib
import itertools
import math
import sys
from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from polinfer.core.errors import DomainError, is_number, is_whole
from polinfer.problems.adapters import minigrid
from polinfer.problems.adapters.spaces import Factors, finite_factors, parts

Edges = tuple[tuple[float, ...], ...]
Function = Callable[[Any], Any]
Features = NDArray[np.float32]

MAX_FEATURES = 1 << 16


class View(NamedTuple):
    """How observations become states."""

    identify: Callable[[Any], Hashable]
    encode: Callable[[Any], Features]
    state_name: Callable[[Any], str]


def make_view(
    name: str, space: Any, *, abstraction: Function | None, edges: Edges | None, encode: Function | None
) -> View:
    """Return the view that the options ask for, or the one that the space of observations suggests."""
    if edges is not None:
        view = _bins(space, edges)
    elif abstraction is not None:
        view = View(abstraction, _numbers_as_features(name), str)
    else:
        view = _as_observed(name, space)
    return view if encode is None else view._replace(encode=_checked(name, encode))


def by_identity(name: str, encode: Function | None, of_minigrid: bool) -> View:
    """Return the view of states that a function of the environment tells apart."""
    own = minigrid.encode if of_minigrid else None
    given = encode or own
    return View(
        lambda observation: observation,
        _numbers_as_features(name) if given is None else _checked(name, given),
        minigrid.describe if of_minigrid else str,
    )


def read_function(option: str, value: Any) -> Function | None:
    """Return a callable, given as such or as ``"package.module:function"``."""
    if value is None or (callable(value) and not isinstance(value, str)):
        return value
    module, colon, attribute = value.partition(":") if isinstance(value, str) else ("", "", "")
    if not (module and colon and attribute):
        raise DomainError(f"{option} must be a function or 'package.module:function', got {value!r}")
    try:
        with importing_here():
            found: Callable[..., Any] = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise DomainError(f"{option} {value!r} cannot be imported: {error}") from error
    if not callable(found):
        raise DomainError(f"{option} {value!r} is a {type(found).__name__}, not a function")
    return found


@contextmanager
def importing_here() -> Iterator[None]:
    """Let modules in the current folder be imported, as ``python -m`` does and a script does not."""
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        yield
    finally:
        sys.path.remove(here)


def read_edges(name: str, space: Any, edges: Any) -> Edges:
    """Return checked cut points, one tuple per number of an observation."""
    if not isinstance(space, spaces.Box):
        raise DomainError(f"edges cut a Box, and {name} observes {space}; use abstraction instead")
    count = int(np.prod(space.shape))
    form = f"edges must be {count} lists of cut points, one for each number that {name} observes"
    if not isinstance(edges, Sequence | np.ndarray) or isinstance(edges, str):
        raise DomainError(f"{form}, got {edges!r}")
    if len(edges) != count:
        raise DomainError(f"{form}, got {len(edges)}; write [] for one to ignore")
    read: list[tuple[float, ...]] = []
    for index, cuts in enumerate(edges):
        if isinstance(cuts, str) or not isinstance(cuts, Sequence | np.ndarray):
            raise DomainError(f"edges[{index}] must be a list of cut points, got {cuts!r}")
        for cut in cuts:
            if not is_number(cut) or not math.isfinite(cut):
                raise DomainError(f"edges[{index}] holds {cut!r}; cut points are finite numbers")
        points = tuple(float(cut) for cut in cuts)
        if any(one >= other for one, other in itertools.pairwise(points)):
            raise DomainError(f"edges[{index}] must increase, got {list(points)}")
        read.append(points)
    if not any(read):
        raise DomainError("edges ignores every number of the observation; cut at least one")
    return tuple(read)


def edges_from_bins(name: str, space: Any, bins: Any) -> list[list[float]]:
    """Return the cut points of bins that are named by the number that they cut: ``{"x2": [-0.1, 0.1]}``.

    A whole number stands for so many bins of equal width between the bounds of the space; numbers that are
    not named are ignored.

    Examples
    --------
    >>> edges_from_bins("Box", spaces.Box(0.0, 4.0, (2,)), {"x0": 4, "x1": [1.5]})
    [[1.0, 2.0, 3.0], [1.5]]
    """
    if not isinstance(space, spaces.Box):
        raise DomainError(f"bins cut a Box, and {name} observes {space}; use abstraction instead")
    low, high = (np.ravel(bound).astype(np.float64) for bound in (space.low, space.high))
    if not isinstance(bins, Mapping) or not bins:
        raise DomainError(f"bins must name what they cut, such as {{'x0': 8}}, got {bins!r}")
    edges: list[list[float]] = [[] for _ in low]
    for key, value in bins.items():
        word = str(key).removeprefix("x")
        if not word.isdigit() or int(word) >= len(low):
            raise DomainError(f"bins name x0 to x{len(low) - 1} in {name}, got {key!r}")
        index = int(word)
        if not is_whole(value):
            edges[index] = [float(cut) for cut in np.ravel(value)]
            continue
        if value < 2 or not np.isfinite([low[index], high[index]]).all() or high[index] > 1e30:
            raise DomainError(
                f"bins of x{index} in {name}: {value!r} bins need to be at least 2, between finite bounds "
                f"(here {low[index]:g} to {high[index]:g}); write cut points instead: x{index}=-0.5,0,0.5"
            )
        edges[index] = np.linspace(low[index], high[index], int(value) + 1)[1:-1].tolist()
    return edges


def bins_of(edges: Edges) -> Factors:
    """Return the ranges of the bin numbers; a number without cut points has none."""
    sizes = tuple(len(cuts) + 1 for cuts in edges if cuts)
    return Factors((0,) * len(sizes), sizes)


def check_features(name: str, factors: Factors) -> int:
    """Return the number of one-hot features of `factors`; refuse too many."""
    total = sum(factors.size)
    if total > MAX_FEATURES:
        raise DomainError(
            f"the observations of {name} would have {total:,} one-hot features; "
            "pass encode=, a function from a state to fewer"
        )
    return total


def name_bins(edges: Edges, bins: Sequence[int]) -> str:
    """Name bins by the intervals that they are.

    Examples
    --------
    >>> name_bins(((), (-0.5, 0.5), (0.0,)), (1, 0))
    'x1 in -0.5..0.5, x2 < 0'
    """
    cut = [(index, cuts) for index, cuts in enumerate(edges) if cuts]
    names = []
    for (index, cuts), bin_ in zip(cut, bins, strict=True):
        if bin_ == 0:
            names.append(f"x{index} < {cuts[0]:g}")
        elif bin_ == len(cuts):
            names.append(f"x{index} >= {cuts[-1]:g}")
        else:
            names.append(f"x{index} in {cuts[bin_ - 1]:g}..{cuts[bin_]:g}")
    return ", ".join(names)


def _bins(space: Any, edges: Edges) -> View:
    def identify(observation: Any) -> tuple[int, ...]:
        numbers = np.ravel(observation).tolist()
        return tuple(bisect_right(cuts, x) for cuts, x in zip(edges, numbers, strict=True) if cuts)

    return View(identify, _one_hot("edges", bins_of(edges)), lambda bins: name_bins(edges, bins))


def _as_observed(name: str, space: Any) -> View:
    factors = finite_factors(space)
    if factors is None and isinstance(space, spaces.Box):
        raise DomainError(
            f"{name} observes {space}, which is not discrete; cut it into bins (--bins x0=8 x1=-0.5,0.5; "
            "bins= or edges= in Python), or pass abstraction=, a function from an observation to a hashable "
            "state"
        )
    if factors is None:
        return View(lambda observation: observation, _numbers_as_features(name), str)

    def identify(observation: Any) -> int | tuple[int, ...]:
        numbers = np.concatenate([np.ravel(part) for part in parts(space, observation)])
        whole = tuple(int(number) for number in numbers.tolist())
        return whole[0] if isinstance(space, spaces.Discrete) else whole

    return View(identify, _one_hot(name, factors), str)


def _one_hot(name: str, factors: Factors) -> Callable[[Any], Features]:
    low = np.array(factors.low, object)
    first = np.array([0, *itertools.accumulate(factors.size)][:-1], object)

    def encode(state: Any) -> Features:
        features = np.zeros(check_features(name, factors), np.float32)
        numbers = np.array([state] if isinstance(state, int) else state, object) - low
        if not all(0 <= number < size for number, size in zip(numbers, factors.size, strict=True)):
            raise DomainError(f"{name} gave the observation {state}, outside its own observation space")
        features[(first + numbers).astype(np.int64)] = 1.0
        return features

    return encode


def _numbers_as_features(name: str) -> Callable[[Any], Features]:
    def encode(state: Any) -> Features:
        numbers = state if isinstance(state, tuple) else (state,)
        if not numbers or not all(isinstance(number, bool) or is_number(number) for number in numbers):
            raise DomainError(
                f"the state {state!r} of {name} is neither a number nor a flat tuple of numbers; pass "
                "encode=, a function from a state to a list of numbers"
            )
        return np.array(numbers, np.float32)

    return encode


def _checked(name: str, function: Function) -> Callable[[Any], Features]:
    def encode(state: Any) -> Features:
        features = np.asarray(function(state), np.float32)
        if features.ndim != 1 or features.size == 0 or not np.isfinite(features).all():
            raise DomainError(
                f"encode must give a list of finite numbers, got {function(state)!r} for {state!r}"
            )
        return features

    return encode


def encode_all(view: View, count: int) -> Features:
    """Return the features of the states ``0 .. count-1``, ``[S, F]``."""
    return np.stack([view.encode(state) for state in range(count)])
