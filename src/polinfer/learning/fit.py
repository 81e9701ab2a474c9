"""Training in pieces: between two pieces it reports, and can be stopped and gone on with, bit for bit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from polinfer.actor_critic.config import SacConfig
from polinfer.actor_critic.fit import Block, choose_sac_representation, sac_segments, sac_trainer
from polinfer.core.errors import PolinferError, check_at_least
from polinfer.core.protocol import MDP
from polinfer.learning.config import TrainConfig
from polinfer.learning.host import check_simulator, make_host_trainer
from polinfer.learning.representation import choose_representation
from polinfer.learning.train import Trainer, make_trainer
from polinfer.posterior.posterior import Posterior
from polinfer.posterior.trace import AnyTrace, empty_trace, extend_trace
from polinfer.problems.conformance import check_shapes
from polinfer.problems.encoded import EncodedView
from polinfer.problems.registry import Problem
from polinfer.problems.tables import Representation

CHUNKS = 100
"""A run reports, and can be resumed, this many times."""

Config = TrainConfig | SacConfig


class Saved(NamedTuple):
    """A point from which training can go on."""

    done: int  # updates, or steps of soft actor-critic
    state: Any  # every leaf with a leading seed axis
    trace: AnyTrace
    blocks: tuple[Block, ...] = ()  # what the replay store of soft actor-critic has gained


Progress = Callable[[int, AnyTrace], None]
"""Called with the number of sweeps (or steps) done and the trace so far."""
Checkpoint = Callable[[Saved], None]
"""Called after every piece; `Saved.blocks` holds what came in with it."""


class _Piece(NamedTuple):
    done: int
    state: Any
    metrics: Any
    block: Block | None = None


def train(
    mdp: Problem,
    method: str,
    config: Config,
    *,
    seed: int = 0,
    seeds: int = 1,
    progress: Progress | None = None,
    checkpoint: Checkpoint | None = None,
    resume: Saved | None = None,
) -> Posterior:
    """Train each seed, in pieces; a run that is resumed ends as if it had not stopped."""
    check_request(mdp, config, seed, seeds)
    # Single precision, even in a program that has switched JAX to double.
    with jax.enable_x64(False):
        start = resume or Saved(0, initial_state(mdp, config, seed, seeds), empty_trace(seeds, method))
        state, trace = start.state, start.trace
        unit = config.sweeps_per_update if isinstance(config, TrainConfig) else 1
        for piece in _pieces(mdp, config, start):
            _check_finite(piece.metrics, seed)
            state, trace = piece.state, extend_trace(trace, piece.done * unit, piece.metrics)
            if checkpoint is not None:
                checkpoint(Saved(piece.done, state, trace, (piece.block,) if piece.block else ()))
            if progress is not None:
                progress(piece.done * unit, trace)
        policy = state.learner.actor if isinstance(config, SacConfig) else state.proposal
        view = view_of(mdp, config).mdp
        return Posterior(mdp, view, method, policy, seeds, settings_of(config, seed), trace)


def settings_of(config: Config, seed: int) -> dict[str, Any]:
    """Return what a posterior writes down about how it was trained."""
    return {"sac" if isinstance(config, SacConfig) else "train": asdict(config), "seed": seed}


def check_request(mdp: Problem, config: Config, seed: int, seeds: int) -> None:
    """Refuse seeds and problems that training cannot start with."""
    check_at_least("seeds", seeds, 1)
    check_at_least("seed", seed, 0)
    if seed + seeds > 2**32:
        raise PolinferError(f"seeds must lie below 2**32, got {seed} and {seeds} of them")
    if isinstance(mdp, MDP):
        check_shapes(mdp)
    elif isinstance(config, SacConfig):
        raise PolinferError(
            "method 'sac' is compiled and cannot play a simulator in plain Python; use vsmc, or write the "
            "problem with JAX (polinfer.MDP)"
        )
    else:
        check_simulator(mdp, config)


def view_of(mdp: Problem, config: Config) -> Representation:
    """Return the problem as training sees it."""
    if not isinstance(mdp, MDP):
        return Representation(EncodedView(mdp), by_table=False)
    return (
        choose_sac_representation(mdp, config)
        if isinstance(config, SacConfig)
        else choose_representation(mdp, config)
    )


def initial_state(mdp: Problem, config: Config, seed: int, seeds: int) -> Any:
    """Return the state that training starts from; seed i of a batch is the same as seed i alone."""
    members = range(seed, seed + seeds)
    with jax.enable_x64(False):
        if isinstance(config, SacConfig):
            assert isinstance(mdp, MDP)
            return sac_trainer(mdp, config).init(members)
        return _trainer(mdp, config).init(members)


def _trainer(mdp: Problem, config: TrainConfig) -> Trainer:
    if not isinstance(mdp, MDP):
        return make_host_trainer(mdp, config)
    view = choose_representation(mdp, config)
    return make_trainer(view.mdp, config, view.by_table)


def _pieces(mdp: Problem, config: Config, start: Saved) -> Iterator[_Piece]:
    if isinstance(config, SacConfig):
        assert isinstance(mdp, MDP)
        for segment in sac_segments(mdp, config, start.done, start.state, start.blocks):
            yield _Piece(*segment)
        return
    trainer = _trainer(mdp, config)
    done, state = start.done, start.state
    size = max(1, config.updates // CHUNKS)
    while done < config.updates:
        upto = min(done + size, config.updates)
        state, metrics = trainer.run(state, jnp.asarray(done, jnp.int32), jnp.asarray(upto, jnp.int32))
        done = upto
        yield _Piece(done, state, metrics)


def _check_finite(metrics: Any, seed: int) -> None:
    bad = ~np.asarray(metrics.finite)
    if bad.any():
        raise PolinferError(
            f"seed {seed + int(np.argmax(bad))}: a reward or weight is not a finite number; "
            "check the simulator's rewards (polinfer.problems.conformance.check_mdp) and the reward scale"
        )
