"""Training a proposal: thousands of sweeps of all seeds in one compiled call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax  # type: ignore[import-untyped]
from jax import Array

from polinfer.errors import PolinferError, check_at_least, check_share
from polinfer.learning.objective import (
    Baseline,
    Objective,
    Weights,
    evidence_to_go,
    leave_one_out,
    vsmc_coefficients,
    wake_coefficients,
)
from polinfer.learning.proposal import NetworkProposal, Proposal, ProposalKind, TableProposal, log_policy
from polinfer.learning.score import score_gradient
from polinfer.mdp import MDP
from polinfer.sweep.compiled import run_sweep
from polinfer.sweep.config import SweepConfig
from polinfer.sweep.noise import derive_words, seed_words
from polinfer.sweep.record import Sweep
from polinfer.sweep.weighing import Weighed, draw_fill, make_weigher
from polinfer.tabular.table import TabularMDP

_RUNNING_MEMORY = 0.99
_STATES_AT_ONCE = 4096


@dataclass(frozen=True)
class TrainConfig:
    """How a proposal is fitted.  The defaults are the paper's where it prints one."""

    sweep: SweepConfig = field(default_factory=SweepConfig)
    sweeps: int = 50_000
    """SMC sweeps per seed."""
    sweeps_per_update: int = 1
    """Sweeps whose gradients are averaged into one update."""
    learning_rate: float = 3e-4
    """Initial rate of Adam; the paper uses 1e-5 to 3e-4, by domain."""
    final_rate_share: float = 0.1
    """The cosine decay ends at this share of the initial rate."""
    objective: Objective = "surrogate"
    """What an update ascends: the paper's surrogate, or the fit to the weighted particles (wake)."""
    weights: Weights = "worlds"
    """What 'wake' weighs a policy by at the end of a sweep: its return in the sweep's worlds, or, on tables,
    its exact J.  With exact weights few worlds do not bias the answer."""
    baseline: Baseline = "none"
    """Control variate of the score term; 'none' as the paper."""
    proposal: ProposalKind = "network"
    """A network on the encoded state, or a table of logits."""
    width: int = 64
    """Units per hidden layer of the network."""
    depth: int = 2
    """Hidden layers of the network."""

    def __post_init__(self) -> None:
        for name in ("sweeps", "sweeps_per_update", "width"):
            check_at_least(name, getattr(self, name), 1)
        check_at_least("depth", self.depth, 0)
        if not (np.isfinite(self.learning_rate) and self.learning_rate > 0):
            raise PolinferError(f"learning_rate must be above zero, got {self.learning_rate}")
        check_share("final_rate_share", self.final_rate_share)
        if self.baseline not in ("none", "running", "leave-one-out"):
            raise PolinferError(f"baseline must be none, running or leave-one-out, got {self.baseline!r}")
        if self.objective not in ("surrogate", "wake"):
            raise PolinferError(f"objective must be surrogate or wake, got {self.objective!r}")
        if self.weights not in ("worlds", "exact"):
            raise PolinferError(f"weights must be worlds or exact, got {self.weights!r}")
        if self.weights == "exact" and self.objective != "wake":
            raise PolinferError(
                "weights 'exact' belong to method wake; the surrogate has those of its worlds"
            )
        if self.objective == "wake" and self.baseline != "none":
            raise PolinferError("objective 'wake' has no score term; leave out the baseline")
        if self.objective == "wake" and self.sweep.refresh > 0:
            raise PolinferError(
                "objective 'wake' fits deterministic policies; leave out memo_refresh and deterministic"
            )
        if self.baseline == "leave-one-out" and self.sweeps_per_update < 2:
            raise PolinferError("baseline 'leave-one-out' needs sweeps_per_update of at least 2")
        if self.proposal not in ("network", "table"):
            raise PolinferError(f"proposal must be network or table, got {self.proposal!r}")

    @property
    def updates(self) -> int:
        """Gradient steps per seed."""
        return -(-self.sweeps // self.sweeps_per_update)


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


class Trainer(NamedTuple):
    """The compiled functions that train one configuration on one MDP."""

    init: Callable[[Sequence[int]], TrainState]  # from seeds
    run: Callable[[TrainState, Any, Any], tuple[TrainState, ChunkMetrics]]  # updates first .. last-1


def log_proposal_of(mdp: MDP, proposal: Proposal, by_table: bool) -> Callable[[Any], Array]:
    """Return the function from a state to ``log q`` that an engine needs.

    On a table the network is evaluated once for all states instead of at every step of every particle.
    """
    if by_table:
        assert isinstance(mdp, TabularMDP)
        rows = table_log_policy(mdp, proposal)
        return lambda state: rows[state]
    return lambda state: log_policy(proposal.logits(mdp.encode(state)), mdp.legal(state))


def table_log_policy(table: TabularMDP, proposal: Proposal) -> Array:
    """Return ``log q`` of all states of a table, ``[S, A]``."""
    states = jnp.arange(table.num_states)

    def logits(state: Array) -> Array:
        features = state if isinstance(proposal, TableProposal) else table.encode(state)
        scores: Array = proposal.logits(features)
        return scores

    # A large table in parts: its one-hot features would be a matrix of all states by all states.
    large = table.num_states > _STATES_AT_ONCE
    rows = jax.lax.map(logits, states, batch_size=_STATES_AT_ONCE) if large else jax.vmap(logits)(states)
    return log_policy(rows, jnp.asarray(table.legal_actions))


@lru_cache(maxsize=32)
def make_trainer(mdp: MDP, config: TrainConfig, by_table: bool) -> Trainer:
    """Compile training of `config` on `mdp`; equal arguments share one compilation."""
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

        return jax.vmap(one)(jnp.arange(config.sweeps_per_update))

    def chunk(state: TrainState, first: Array, last: Array) -> tuple[TrainState, ChunkMetrics]:
        def update(number: Array, carry: tuple[TrainState, Sums]) -> tuple[TrainState, Sums]:
            state, sums = carry
            return learning.update(state, sums, *sweeps_of(state.proposal, state.words, number))

        state, sums = jax.lax.fori_loop(first, last, update, (state, empty_sums(state.proposal)))
        return state, metrics_of(sums, (last - first).astype(jnp.float32), config.sweep.particles)

    return Trainer(
        init=learning.init,
        run=jax.jit(jax.vmap(chunk, in_axes=(0, None, None)), donate_argnums=0),
    )


class Learning(NamedTuple):
    """From records to a better proposal, whichever engine made the records."""

    init: Callable[[Sequence[int]], TrainState]
    # One seed; sweeps [U, T, N], and the policies of each sweep where they have exact weights.
    update: Callable[[TrainState, Sums, Sweep, Weighed | None], tuple[TrainState, Sums]]


def make_learning(mdp: MDP, config: TrainConfig, by_table: bool) -> Learning:
    """Return the functions, not compiled; only what `mdp` says of states is asked for, it does not move."""
    schedule = optax.cosine_decay_schedule(config.learning_rate, config.updates, config.final_rate_share)
    adam = optax.adam(schedule)
    batch = config.sweeps_per_update

    def init(seeds: Sequence[int]) -> TrainState:
        members = [make_proposal(seed, mdp, config) for seed in seeds]
        # NumPy stacks, and the rest is one program: operations one by one would each be compiled.
        proposal = jax.tree.map(lambda *leaves: jnp.asarray(np.stack(leaves)), *members)
        return TrainState(proposal, *begin(proposal, jnp.asarray(seeds, jnp.uint32)))

    @jax.jit
    def begin(proposal: Proposal, seeds: Array) -> tuple[Any, Array, Array]:
        baseline = jnp.zeros((len(seeds), mdp.horizon), jnp.float32)
        return jax.vmap(adam.init)(proposal), baseline, jax.vmap(seed_words)(seeds)

    def coefficients_of(sweeps: Sweep, running: Array) -> tuple[Array, Array]:
        if config.objective == "wake":
            return jax.vmap(wake_coefficients)(sweeps), running
        to_go = jax.vmap(evidence_to_go)(sweeps)  # [U, T]
        if config.baseline == "leave-one-out":
            baseline = leave_one_out(to_go)
        else:
            baseline = jnp.broadcast_to(running if config.baseline == "running" else 0.0, to_go.shape)
        blended = _RUNNING_MEMORY * running + (1 - _RUNNING_MEMORY) * to_go.mean(axis=0)
        return jax.vmap(vsmc_coefficients)(sweeps, baseline), blended

    def gradient_of(proposal: Proposal, sweeps: Sweep, coefficients: Array) -> Proposal:
        """Return the gradient of what is descended."""
        if by_table:
            assert isinstance(mdp, TabularMDP)
            weight = jnp.zeros((mdp.num_states, mdp.num_actions), jnp.float32)
            weight = weight.at[sweeps.state, sweeps.action].add(coefficients) / -batch
            if config.objective == "wake" or config.proposal == "table":
                return jax.grad(everywhere)(proposal, weight)
            states = jnp.arange(mdp.num_states)
            return score_gradient(weighted, proposal, (states, weight), (weight != 0).any(axis=1))
        axes = coefficients.ndim  # sweeps, steps, particles, and worlds where there are several
        states, actions, flat = jax.tree.map(
            lambda x: x.reshape((-1, *x.shape[axes:])), (sweeps.state, sweeps.action, coefficients / -batch)
        )
        return score_gradient(taken, proposal, (states, actions, flat), flat != 0)

    def everywhere(proposal: Proposal, weight: Array) -> Array:
        assert isinstance(mdp, TabularMDP)
        if config.objective == "wake":
            weight = weight - _where_none_came(mdp, -weight)
        return _weigh(weight, table_log_policy(mdp, proposal)).sum()

    def weighted(proposal: Proposal, row: tuple[Array, Array]) -> Array:
        state, weight = row
        return _weigh(weight, log_proposal_of(mdp, proposal, by_table=False)(state)).sum()

    def taken(proposal: Proposal, row: tuple[Any, Array, Array]) -> Array:
        state, action, weight = row
        return weighted(proposal, (state, weight * jax.nn.one_hot(action, mdp.num_actions)))

    def update(
        state: TrainState, sums: Sums, sweeps: Sweep, weighed: Weighed | None = None
    ) -> tuple[TrainState, Sums]:
        if weighed is None:
            coefficients, baseline = coefficients_of(sweeps, state.baseline)
            gradient = gradient_of(state.proposal, sweeps, coefficients)
            log_evidence, ess = sweeps.log_evidence.mean(), sweeps.ess.mean()
        else:
            gradient, baseline = jax.grad(_misfit)(state.proposal, mdp, weighed), state.baseline
            log_evidence = weighed.log_evidence.mean()
            ess = (1.0 / jnp.exp(2 * weighed.log_weight).sum(axis=-1)).mean()
        change, optimiser = adam.update(gradient, state.optimiser)
        proposal = optax.apply_updates(state.proposal, change)
        flat = jnp.concatenate([leaf.ravel() for leaf in jax.tree.leaves(gradient)])
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
        raise PolinferError(
            "weights 'exact' need a problem that fits a table; leave them out and take more worlds"
        )
    return mdp


def _misfit(proposal: Proposal, mdp: MDP, weighed: Weighed) -> Array:
    """Return what is descended to fit whole policies ``[U, N, S]`` with exact weights."""
    assert isinstance(mdp, TabularMDP)
    chosen = weighed.actions[..., None] == jnp.arange(mdp.num_actions)
    share = jnp.where(chosen, jnp.exp(weighed.log_weight)[..., None, None], 0.0).sum(axis=1).mean(axis=0)
    decided = jnp.asarray(~mdp.absorbing, jnp.float32)[:, None]
    return -_weigh(share * decided, table_log_policy(mdp, proposal)).sum()


def _where_none_came(table: TabularMDP, weight: Array) -> Array:
    """Return what the policies that never came to a state add to it, ``[S, A]``: there they are uniform.

    That share belongs to the marginal policy.  On a table every state can be given it; elsewhere the proposal
    is fitted to the policies that came.
    """
    even = table.legal_actions / table.legal_actions.sum(axis=1, keepdims=True) * ~table.absorbing[:, None]
    return (1.0 - weight.sum(axis=1, keepdims=True)) * jnp.asarray(even, jnp.float32)


def _weigh(weight: Array, log_q: Array) -> Array:
    # Undrawn slots may hold an action that is illegal there: zero times -inf is nan.
    return weight * jnp.where(jnp.isfinite(log_q), log_q, 0.0)


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
    zero = jnp.zeros((), jnp.float32)
    return Sums(zero, zero, zero, jnp.zeros(size), jnp.zeros(size), jnp.asarray(True))


def metrics_of(sums: Sums, count: Array, particles: int) -> ChunkMetrics:
    """Return the averages over `count` updates."""
    mean = sums.gradient / count
    variance = jnp.maximum(sums.squared / count - mean**2, 0.0)
    return ChunkMetrics(
        log_evidence=sums.log_evidence / count,
        ess=sums.ess / count,
        gradient_norm=jnp.linalg.norm(mean),
        gradient_snr=jnp.sqrt((mean**2).sum() / jnp.maximum(variance.sum() / count, 1e-30)),
        unique_ancestors=sums.ancestors / count / particles,
        finite=sums.finite,
    )


def make_proposal(seed: int, mdp: MDP, config: TrainConfig) -> Proposal:
    """Return an untrained proposal for `mdp`."""
    if config.proposal == "table":
        if not isinstance(mdp, TabularMDP):
            raise PolinferError("proposal 'table' needs a problem that fits a table; use proposal 'network'")
        return TableProposal.uniform(mdp.num_states, mdp.num_actions)
    features = jax.eval_shape(mdp.encode, jax.eval_shape(mdp.init, jax.random.key(0))).shape[0]
    return NetworkProposal.initial(seed, features, mdp.num_actions, config.width, config.depth)


def unique_ancestors(sweep: Sweep) -> Array:
    """Return how many particles of the first step have descendants at the end."""
    count = sweep.ancestor.shape[1]
    lineage, _ = jax.lax.scan(
        lambda index, ancestor: (ancestor[index], None), jnp.arange(count), sweep.ancestor[:-1], reverse=True
    )
    return (lineage[:, None] == jnp.arange(count)).any(axis=0).sum()
