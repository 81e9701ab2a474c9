"""How training went: one row per chunk, one column per seed."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray


class Trace(NamedTuple):
    """How fitting a proposal went: one row per chunk of sweeps, one column per seed."""

    sweeps: NDArray[np.int64]  # [C] sweeps done at the end of the chunk
    log_evidence: NDArray[np.float32]  # [C, seeds] mean log Z-hat
    ess: NDArray[np.float32]  # [C, seeds] mean effective sample size, share of the particles
    gradient_norm: NDArray[np.float32]  # [C, seeds]
    gradient_snr: NDArray[np.float32]  # [C, seeds]
    unique_ancestors: NDArray[np.float32]  # [C, seeds] share of the particles


class SacTrace(NamedTuple):
    """How soft actor-critic learned: one row per segment of steps, one column per seed."""

    steps: NDArray[np.int64]  # [C] steps done at the end of the segment
    episode_return: NDArray[np.float32]  # [C, seeds] mean over the episodes that came to an end; NaN without
    entropy: NDArray[np.float32]  # [C, seeds] of the policy in replayed states, nats; 0 before learning
    critic_loss: NDArray[np.float32]  # [C, seeds]
    alpha: NDArray[np.float32]  # [C, seeds]


AnyTrace = Trace | SacTrace
T = TypeVar("T", bound=AnyTrace)


def trace_type(method: str) -> type[Trace] | type[SacTrace]:
    """Return what a method's training is traced by."""
    return SacTrace if method == "sac" else Trace


def empty_trace(seeds: int, method: str = "vsmc") -> Any:
    """Return the trace of training that has not begun."""
    kind = trace_type(method)
    columns = [np.zeros((0, seeds), np.float32) for _ in kind._fields[1:]]
    return kind(np.zeros(0, np.int64), *columns)


def extend_trace(trace: T, done: int, metrics: Any) -> T:
    """Add a row: `metrics` has an attribute ``[seeds]`` for each column."""
    rows = [np.asarray(getattr(metrics, name), np.float32)[None] for name in trace._fields[1:]]
    columns = [np.concatenate([old, new]) for old, new in zip(trace[1:], rows, strict=True)]
    return type(trace)(np.append(trace[0], done), *columns)


def pick_seed(trace: T, member: int) -> T:
    """Return the trace of one seed."""
    return type(trace)(trace[0], *(column[:, [member]] for column in trace[1:]))
