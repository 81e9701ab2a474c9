"""Fitting a proposal in pieces: between two pieces the run reports, and can be stopped and resumed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from numpy.typing import NDArray

from polinfer.core.errors import PolinferError, check_at_least
from polinfer.core.files import flatten_arrays, unflatten_arrays
from polinfer.core.progress import Progress
from polinfer.core.protocol import MDP
from polinfer.learning.config import TrainConfig
from polinfer.learning.host import check_simulator, make_host_trainer
from polinfer.learning.representation import choose_representation
from polinfer.learning.train import ChunkMetrics, Trainer, TrainState, make_trainer
from polinfer.posterior.checkpoint import Checkpoint, Piece, Snapshot, run_in_pieces
from polinfer.posterior.trace import Trace
from polinfer.problems.conformance import check_shapes
from polinfer.problems.encoded import EncodedView
from polinfer.problems.registry import Problem
from polinfer.smc.proposal import Proposal

PIECES = 100
"""A run reports, and can be resumed, this many times."""
_SHORT = 1.0  # seconds: pieces of a simulator in plain Python grow until they take as long
COLUMNS = tuple(name for name in ChunkMetrics._fields if name != "finite")


class Fitted(NamedTuple):
    """A trained proposal."""

    view: MDP  # the problem as training saw it
    proposal: Proposal  # every leaf with a leading seed axis
    trace: Trace


def fit(
    mdp: Problem,
    config: TrainConfig,
    *,
    seed: int = 0,
    seeds: int = 1,
    progress: Progress | None = None,
    checkpoint: Checkpoint | None = None,
    start: NDArray[Any] | None = None,
    double: bool = False,
) -> Fitted:
    """Train each seed, from the policy `start` ``[S, A]`` of a table or from the uniform one.

    A run that is resumed ends as if it had not stopped.  Rewards are added up in single precision, or in
    `double`; proposals are always in single.
    """
    # Single precision, even in a program that has switched JAX to double.
    with jax.enable_x64(double):
        trainer = trainer_for(mdp, config, double)
        done, state = 0, trainer.init(range(seed, seed + seeds), start)
        trace = Trace.empty("sweeps", COLUMNS, seeds)
        saved = checkpoint.read() if checkpoint is not None else None
        if saved is not None:
            state = unflatten_arrays(state, saved.arrays, "state", "the checkpoint")
            done, trace = saved.done, saved.trace or trace
        state, trace = run_in_pieces(
            _pieces(trainer, config, done, state, isinstance(mdp, MDP)),
            state,
            trace,
            seed=seed,
            total=config.updates * config.sweeps_per_update,
            note=_note,
            progress=progress,
            checkpoint=checkpoint,
        )
        return Fitted(view_for(mdp, config), state.proposal, trace)


def _pieces(
    trainer: Trainer, config: TrainConfig, done: int, state: TrainState, compiled: bool
) -> Iterator[Piece]:
    most = max(1, config.updates // PIECES)
    # A simulator in plain Python may take minutes for what a compiled one does at once.
    size = most if compiled else 1
    while done < config.updates:
        upto, began = min(done + size, config.updates), time.monotonic()
        state, metrics = trainer.run(state, jnp.asarray(done, jnp.int32), jnp.asarray(upto, jnp.int32))
        if not compiled and time.monotonic() - began < _SHORT:
            size = min(2 * size, most)
        done = upto

        def snapshot(trace: Trace, done: int = done, state: TrainState = state) -> Snapshot:
            return Snapshot(done, flatten_arrays(state, "state"), trace)

        yield Piece(done * config.sweeps_per_update, state, metrics, snapshot)


def check_request(mdp: Problem, config: TrainConfig, seed: int, seeds: int) -> None:
    """Refuse seeds and problems that training cannot start with."""
    check_seeds(seed, seeds)
    if isinstance(mdp, MDP):
        check_shapes(mdp)
    else:
        check_simulator(mdp, config)


def check_seeds(seed: int, seeds: int) -> None:
    """Refuse seeds that do not fit 32 bits."""
    check_at_least("seeds", seeds, 1)
    check_at_least("seed", seed, 0)
    if seed + seeds > 2**32:
        raise PolinferError(f"seeds must lie below 2**32, got {seed} and {seeds} of them")


def view_for(mdp: Problem, config: TrainConfig) -> MDP:
    """Return the problem as training sees it."""
    return choose_representation(mdp, config).mdp if isinstance(mdp, MDP) else EncodedView(mdp)


def initial_proposal(mdp: Problem, config: TrainConfig, seed: int, seeds: int) -> Any:
    """Return the proposal that training starts from, every leaf with a leading seed axis."""
    with jax.enable_x64(False):
        return trainer_for(mdp, config).init(range(seed, seed + seeds)).proposal


def trainer_for(mdp: Problem, config: TrainConfig, double: bool = False) -> Trainer:
    """Return the compiled functions that train `config` on `mdp`."""
    if not isinstance(mdp, MDP):
        return make_host_trainer(mdp, config)
    chosen = choose_representation(mdp, config)
    return make_trainer(chosen.mdp, config, chosen.by_table, double)


def _note(trace: Trace) -> str:
    evidence, ess = float(trace["log_evidence"][-1].mean()), float(trace["ess"][-1].mean())
    return f"log Z-hat {evidence:.3f}  ESS {100 * ess:.0f}%"
