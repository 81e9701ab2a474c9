"""Stopping and resuming: what a run hands out so that it can go on from there, bit for bit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np

from polinfer.core.errors import PolinferError
from polinfer.core.files import Arrays
from polinfer.core.progress import Progress, Report
from polinfer.core.stopping import stop_requested
from polinfer.posterior.trace import Trace


@dataclass(frozen=True)
class Snapshot:
    """A point from which a run can be resumed."""

    done: int  # in the unit of the run's own counting
    arrays: Arrays  # all that the run carries, by name
    trace: Trace | None = None
    blocks: Mapping[str, Arrays] = field(default_factory=dict)
    """Append-only data: when written, what came in since the last snapshot; when read, all that is kept."""
    kept: frozenset[str] | None = None
    """The names of the blocks that are still needed; None where all are."""


class Checkpoint(Protocol):
    """Where snapshots are kept; `polinfer.runs` keeps them in a folder."""

    def read(self) -> Snapshot | None:
        """Return the last snapshot, None where there is none."""
        ...

    def write(self, snapshot: Snapshot) -> None:
        """Keep a snapshot in place of the last one, whole or not at all."""
        ...


class Piece(NamedTuple):
    """What one piece of training leaves behind."""

    done: int  # in the unit of the trace
    state: Any  # what the run carries
    metrics: Any  # an attribute [seeds] for each column of the trace, and `finite` [seeds]
    snapshot: Callable[[Trace], Snapshot]  # made only where it is kept


def run_in_pieces(
    pieces: Iterator[Piece],
    state: Any,
    trace: Trace,
    *,
    seed: int,
    total: int,
    note: Callable[[Trace], str],
    progress: Progress | None,
    checkpoint: Checkpoint | None,
) -> tuple[Any, Trace]:
    """Run to the end, or until asked to stop; after each piece extend the trace, keep a snapshot and report.

    Returned are the last state, which is `state` where nothing was left to do, and the whole trace.
    """
    for piece in pieces:
        _check_finite(piece.metrics, seed)
        state, trace = piece.state, trace.extend(piece.done, piece.metrics)
        if checkpoint is not None:
            checkpoint.write(piece.snapshot(trace))
        if progress is not None:
            progress(Report(min(piece.done, total), total, trace.unit, note(trace)))
        if piece.done < total and stop_requested():
            break
    return state, trace


def _check_finite(metrics: Any, seed: int) -> None:
    bad = ~np.asarray(metrics.finite)
    if bad.any():
        raise PolinferError(
            f"seed {seed + int(np.argmax(bad))}: a reward or weight is not a finite number; "
            "check the simulator's rewards (polinfer.testing.check_mdp) and the reward scale"
        )
