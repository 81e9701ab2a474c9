"""Outcomes that end an episode on a transition, as Gymnasium lists them, written with terminal states."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polinfer.problems.tabular.rows import OutcomeRows

Listed = tuple[int, int, int, float, float, bool]
"""State, action, successor, probability, reward, terminated."""


class EndedRows(NamedTuple):
    """Rows whose ends are states of their own."""

    rows: OutcomeRows
    absorbing: NDArray[np.bool_]  # [S]
    original: list[int]  # for each state, which state of the source it is; copies stand behind the others


def end_in_states(listed: Sequence[Listed], count: int, first: Sequence[int]) -> EndedRows:
    """Let states end an episode where transitions did.

    Where a state is also passed through, its end is another state, added behind the others.
    """
    ends = {row[2] for row in listed if row[5]}
    passed = ends & _passed_through(listed, first)
    copy = {s: count + i for i, s in enumerate(sorted(passed))}
    absorbing = np.zeros(count + len(copy), np.bool_)
    absorbing[[copy.get(s, s) for s in ends]] = True
    kept = [(s, a, copy.get(n, n) if over else n, p, r) for s, a, n, p, r, over in listed if not absorbing[s]]
    return EndedRows(rows_of(kept), absorbing, [*range(count), *sorted(copy)])


def rows_of(rows: Sequence[tuple[int, int, int, float, float]]) -> OutcomeRows:
    """Return tuples as columns."""
    columns: Any = list(zip(*rows, strict=True)) if rows else [()] * 5
    kinds: Any = (np.int64, np.int64, np.int64, np.float64, np.float64)
    return OutcomeRows(*(np.array(c, kind) for c, kind in zip(columns, kinds, strict=True)))


def _passed_through(rows: Sequence[Listed], first: Sequence[int]) -> set[int]:
    """Return the states from which an episode can go on."""
    onward: dict[int, set[int]] = {}
    for s, _, successor, _, _, over in rows:
        if not over:
            onward.setdefault(s, set()).add(successor)
    seen, queue = set(first), list(first)
    while queue:
        for successor in onward.get(queue.pop(), set()) - seen:
            seen.add(successor)
            queue.append(successor)
    return seen
