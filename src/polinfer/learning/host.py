"""Training on simulators in plain Python: the reference engine sweeps, the compiled update learns."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from polinfer.core.errors import PolinferError, check_at_least
from polinfer.core.simulator import Simulator
from polinfer.learning.config import TrainConfig
from polinfer.learning.train import ChunkMetrics, Trainer, TrainState, empty_sums, make_learning, metrics_of
from polinfer.problems.encoded import EncodedState, EncodedView
from polinfer.smc.proposal import NetworkProposal
from polinfer.smc.record import Sweep
from polinfer.smc.reference import SweepRandomness, run_reference_sweep
from polinfer.smc.weights import NEEDS_TABLE

Floats = NDArray[np.float32]


def check_simulator(simulator: Simulator, config: TrainConfig) -> None:
    """Refuse what cannot be trained on, with a word about what is missing."""
    name = type(simulator).__name__
    for method in ("init", "step", "legal", "encode"):
        if not callable(getattr(simulator, method, None)):
            raise PolinferError(
                f"{name} is neither a polinfer.MDP nor a simulator: it has no method {method!r}"
            )
    for number in ("num_actions", "horizon"):
        if not hasattr(simulator, number):
            raise PolinferError(f"{name} has no {number!r}; add it (see polinfer.smc.Simulator)")
        check_at_least(number, getattr(simulator, number), 1)
    if config.weights == "exact":
        raise PolinferError(NEEDS_TABLE)
    if config.proposal == "table":
        raise PolinferError("proposal 'table' needs a problem that fits a table; use proposal 'network'")
    start = simulator.init(0)
    features = np.asarray(simulator.encode(start), np.float32)
    if features.ndim != 1:
        raise PolinferError(f"{name}.encode must give a flat list of finite numbers, got {features!r}")
    EncodedView(simulator).of(start)


@lru_cache(maxsize=8)
def make_host_trainer(simulator: Simulator, config: TrainConfig) -> Trainer:
    """Return a trainer like the compiled one, whose sweeps are played by `simulator`."""
    view = EncodedView(simulator)
    _ = view.num_features  # Asked for here: inside a trace a simulator that uses JAX itself would be traced.
    learning = make_learning(view, config, by_table=False)
    update = jax.jit(jax.vmap(lambda state, sums, sweeps: learning.update(state, sums, sweeps, None)))
    start = jax.jit(jax.vmap(empty_sums))
    finish = jax.jit(jax.vmap(lambda sums, count: metrics_of(sums, count, config.sweep.particles), (0, None)))

    def sweeps_of(proposal: NetworkProposal, words: NDArray[np.uint32], number: int) -> Sweep:
        encoded: dict[Any, EncodedState] = {}
        log_proposal = numpy_log_policy(view, proposal, encoded)
        records = []
        for index in range(config.sweeps_per_update):
            own = int(words[0]) << 96 | int(words[1]) << 64 | number << 32 | index
            record = run_reference_sweep(simulator, log_proposal, config.sweep, SweepRandomness(own))
            # A simulator is not asked about states in which nothing is done any more.
            visits = zip(record.state.flat, record.active.flat, strict=True)
            seen = [encoded[state] if active else view.nothing() for state, active in visits]
            stacked = (np.stack(part) for part in zip(*seen, strict=True))
            states = EncodedState(*(part.reshape(*record.state.shape, -1) for part in stacked))
            records.append(record._replace(state=states))
        return _stack(records)

    def run(state: TrainState, first: Any, last: Any) -> tuple[TrainState, ChunkMetrics]:
        sums = start(state.proposal)
        for number in range(int(first), int(last)):
            weights = jax.tree.map(np.asarray, state.proposal)
            words = np.asarray(state.words)
            members = [
                sweeps_of(jax.tree.map(lambda leaf, i=i: leaf[i], weights), words[i], number)
                for i in range(len(words))
            ]
            state, sums = update(state, sums, _stack(members))
        return state, finish(sums, jnp.asarray(int(last) - int(first), jnp.float32))

    return Trainer(init=learning.init, run=run)


def numpy_log_policy(
    view: EncodedView, proposal: NetworkProposal, encoded: dict[Any, EncodedState]
) -> Callable[[Any], Floats]:
    """Return ``log q`` of a network with NumPy weights; what is asked once is remembered in `encoded`."""
    known: dict[Any, Floats] = {}

    def log_policy(state: Any) -> Floats:
        if state not in known:
            seen = encoded[state] = view.of(state)
            *hidden, last = proposal.layers
            signal = seen.features
            for layer in hidden:
                signal = np.maximum(np.asarray(layer.weight) @ signal + np.asarray(layer.bias), 0.0)
            logits = np.where(seen.legal, np.asarray(last.weight) @ signal + np.asarray(last.bias), -np.inf)
            shifted = logits - logits.max()
            known[state] = shifted - np.log(np.exp(shifted).sum())
        return known[state]

    return log_policy


def _stack(records: list[Sweep]) -> Sweep:
    stacked: Sweep = jax.tree.map(lambda *leaves: np.stack(leaves).astype(_single(leaves[0].dtype)), *records)
    return stacked


def _single(dtype: Any) -> Any:
    return np.float32 if dtype == np.float64 else dtype
