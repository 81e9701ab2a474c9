"""Training a proposal: thousands of sweeps of all seeds in one compiled call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from polinfer.core.errors import PolinferError
from polinfer.core.noise import derive_words, seed_words
from polinfer.core.protocol import MDP
from polinfer.learning.config import TrainConfig
from polinfer.learning.gradient import make_gradient, misfit
from polinfer.learning.groups import run_in_groups
from polinfer.problems.tabular.table import TabularMDP
from polinfer.smc.compiled import run_sweep
from polinfer.smc.lineage import lineages
from polinfer.smc.proposal import NetworkProposal, Proposal, ShiftedProposal, TableProposal, log_proposal_of
from polinfer.smc.record import Sweep
from polinfer.smc.resampling import MANY
from polinfer.smc.weights import NEEDS_TABLE, Weighed, draw_fill, make_weigher

_LEAST = 1e-30  # probability that a start may give a legal action


class TrainState(NamedTuple):
    """All that training carries from one update to the next; every leaf has a leading seed axis."""

    proposal: Proposal
    optimiser: Any
    baseline: Array  # [T] running mean of log Z-hat_t
    words: Array  # [2] uint32, the seed's; an update derives its own from them and its number


class ChunkMetrics(NamedTuple):
    """Averages over the updates of a chunk, each ``[seeds]``."""

    log_evidence: Array  # mean log Z-hat
    ess: Array  # mean effective sample size, as a share of the particles
    gradient_norm: Array  # of the mean gradient
    gradient_snr: Array  # |mean| / standard error of the mean, root mean square over parameters
    unique_ancestors: Array  # distinct first-step ancestors of the last particles, as a share
    finite: Array  # bool, all rewards and weights were


class Init(Protocol):
    """From seeds to the state that training starts with."""

    def __call__(self, seeds: Sequence[int], start: NDArray[Any] | None = None) -> TrainState:
        """Start from the policy `start` ``[S, A]`` of a table, or from the uniform one."""
        ...


class Trainer(NamedTuple):
    """The compiled functions that train one configuration on one MDP."""

    init: Init
    run: Callable[[TrainState, Any, Any], tuple[TrainState, ChunkMetrics]]  # updates first .. last-1


@lru_cache(maxsize=32)
def make_trainer(mdp: MDP, config: TrainConfig, by_table: bool, double: bool = False) -> Trainer:
    """Compile training of `config` on `mdp`; equal arguments share one compilation.

    `double` is the precision in force: what is prepared for one is not used for the other.
    """
    del double
    learning = make_learning(mdp, config, by_table)
    weigh = make_weigher(_table_for_weights(mdp)) if config.weights == "exact" else None

    def sweeps_of(proposal: Proposal, words: Array, number: Array) -> tuple[Sweep, Weighed | None]:
        log_proposal = log_proposal_of(mdp, proposal, by_table)

        def one(index: Array) -> tuple[Sweep, Weighed | None]:
            own = derive_words(words, number, index)
            sweep = run_sweep(own, mdp, log_proposal, config.sweep)
            if weigh is None:
                return sweep, None
            fill = draw_fill(own, config.sweep.particles, _table_for_weights(mdp).num_states)
            return sweep, weigh(sweep, fill)

        if config.sweeps_per_update == 1:
            # The same, and a third less to trace.
            alone: tuple[Sweep, Weighed | None] = jax.tree.map(lambda leaf: leaf[None], one(jnp.asarray(0)))
            return alone
        return jax.vmap(one)(jnp.arange(config.sweeps_per_update))

    def update(number: Array, carry: tuple[TrainState, Sums]) -> tuple[TrainState, Sums]:
        state, sums = carry
        return learning.update(state, sums, *sweeps_of(state.proposal, state.words, number))

    # Seeds are mapped over within the loop: JAX takes twice as long to trace a loop that is mapped over.
    of_seeds = jax.vmap(update, in_axes=(None, 0))

    def chunk(state: TrainState, first: Array, last: Array) -> tuple[TrainState, ChunkMetrics]:
        start = (state, jax.vmap(empty_sums)(state.proposal))
        state, sums = jax.lax.fori_loop(first, last, of_seeds, start)
        count = (last - first).astype(jnp.float32)
        return state, jax.vmap(lambda sums: metrics_of(sums, count, config.sweep.particles))(sums)

    return Trainer(init=learning.init, run=run_in_groups(jax.jit(chunk, donate_argnums=0)))


class Learning(NamedTuple):
    """From records to a better proposal, whichever engine made the records."""

    init: Init
    # One seed; sweeps [U, T, N], and the policies of each sweep where they have exact weights.
    update: Callable[[TrainState, Sums, Sweep, Weighed | None], tuple[TrainState, Sums]]


def make_learning(mdp: MDP, config: TrainConfig, by_table: bool) -> Learning:
    """Return the functions, not compiled; only what `mdp` says of states is asked for, it does not move."""
    import optax  # type: ignore[import-untyped] # noqa: PLC0415 - only training needs it

    schedule = optax.cosine_decay_schedule(config.learning_rate, config.updates, config.final_rate_share)
    adam = optax.adam(schedule)
    gradient = make_gradient(mdp, config, by_table)

    def init(seeds: Sequence[int], start: NDArray[Any] | None = None) -> TrainState:
        members = [make_proposal(seed, mdp, config, start) for seed in seeds]
        # NumPy stacks, and the rest is one program: operations one by one would each be compiled.
        proposal = jax.tree.map(lambda *leaves: jnp.asarray(np.stack(leaves)), *members)
        return TrainState(proposal, *begin(proposal, jnp.asarray(seeds, jnp.uint32)))

    @jax.jit
    def begin(proposal: Proposal, seeds: Array) -> tuple[Any, Array, Array]:
        baseline = jnp.zeros((len(seeds), mdp.horizon), jnp.float32)
        return jax.vmap(adam.init)(proposal), baseline, jax.vmap(seed_words)(seeds)

    def update(
        state: TrainState, sums: Sums, sweeps: Sweep, weighed: Weighed | None = None
    ) -> tuple[TrainState, Sums]:
        if weighed is None:
            slope, baseline = gradient(state.proposal, sweeps, state.baseline)
            log_evidence, ess = sweeps.log_evidence.mean(), sweeps.ess.mean()
        else:
            slope, baseline = jax.grad(misfit)(state.proposal, mdp, weighed), state.baseline
            log_evidence = weighed.log_evidence.mean()
            ess = (1.0 / jnp.exp(2 * weighed.log_weight).sum(axis=-1)).mean()
        change, optimiser = adam.update(slope, state.optimiser)
        proposal = optax.apply_updates(state.proposal, change)
        flat = jnp.concatenate([leaf.ravel() for leaf in jax.tree.leaves(slope)])
        sums = Sums(
            log_evidence=sums.log_evidence + log_evidence,
            ess=sums.ess + ess / config.sweep.particles,
            ancestors=sums.ancestors + jax.vmap(unique_ancestors)(sweeps).mean(),
            gradient=sums.gradient + flat,
            squared=sums.squared + flat**2,
            finite=sums.finite & jnp.isfinite(sweeps.log_weight).all(),
        )
        return TrainState(proposal, optimiser, baseline, state.words), sums

    return Learning(init, update)


def _table_for_weights(mdp: MDP) -> TabularMDP:
    if not isinstance(mdp, TabularMDP):
        raise PolinferError(NEEDS_TABLE)
    return mdp


class Sums(NamedTuple):
    """What a chunk adds up over its updates."""

    log_evidence: Array
    ess: Array
    ancestors: Array
    gradient: Array  # [P]
    squared: Array  # [P]
    finite: Array


def empty_sums(proposal: Proposal) -> Sums:
    """Return the sums of no update."""
    size = sum(leaf.size for leaf in jax.tree.leaves(proposal))
    zero = jnp.zeros(())  # as precise as the weights that are added up
    return Sums(zero, zero, zero, jnp.zeros(size), jnp.zeros(size), jnp.asarray(True))


def metrics_of(sums: Sums, count: Array, particles: int) -> ChunkMetrics:
    """Return the averages over `count` updates."""
    mean = sums.gradient / count
    variance = jnp.maximum(sums.squared / count - mean**2, 0.0)
    found = ChunkMetrics(
        log_evidence=sums.log_evidence / count,
        ess=sums.ess / count,
        gradient_norm=jnp.linalg.norm(mean),
        gradient_snr=jnp.sqrt((mean**2).sum() / jnp.maximum(variance.sum() / count, 1e-30)),
        unique_ancestors=sums.ancestors / count / particles,
        finite=sums.finite,
    )
    single: ChunkMetrics = jax.tree.map(
        lambda leaf: leaf if leaf.dtype == jnp.bool_ else leaf.astype(jnp.float32), found
    )
    return single


def make_proposal(seed: int, mdp: MDP, config: TrainConfig, start: NDArray[Any] | None = None) -> Proposal:
    """Return an untrained proposal for `mdp`: the policy `start` ``[S, A]`` of a table, or uniform."""
    rows = None if start is None else jnp.asarray(np.log(np.maximum(start, _LEAST)), jnp.float32)
    if config.proposal == "table":
        if not isinstance(mdp, TabularMDP):
            raise PolinferError("proposal 'table' needs a problem that fits a table; use proposal 'network'")
        return TableProposal.uniform(mdp.num_states, mdp.num_actions) if rows is None else TableProposal(rows)
    features = jax.eval_shape(mdp.encode, jax.eval_shape(mdp.init, jax.random.key(0))).shape[0]
    network = NetworkProposal.initial(seed, features, mdp.num_actions, config.width, config.depth)
    return network if rows is None else ShiftedProposal(network, rows)


def unique_ancestors(sweep: Sweep) -> Array:
    """Return how many particles of the first step have descendants at the end."""
    count, first = sweep.ancestor.shape[1], lineages(sweep)[0]
    if count > MANY:
        line = jnp.sort(first)
        return 1 + (line[1:] != line[:-1]).sum()
    return (first[:, None] == jnp.arange(count)).any(axis=0).sum()
