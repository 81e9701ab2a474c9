"""From the record of sweeps to the gradient that an update descends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from polinfer.core.protocol import MDP
from polinfer.learning.config import TrainConfig
from polinfer.learning.objective import evidence_to_go, leave_one_out, vsmc_coefficients, wake_coefficients
from polinfer.learning.score import score_gradient
from polinfer.problems.tabular.table import TabularMDP
from polinfer.smc.proposal import Proposal, log_proposal_of, table_log_policy
from polinfer.smc.record import Sweep
from polinfer.smc.weights import Weighed

_RUNNING_MEMORY = 0.99
_FEW = 64  # states of a table, up to which those without a weight are evaluated, too

Gradient = Callable[[Proposal, Sweep, Array], tuple[Proposal, Array]]
"""From a proposal, sweeps ``[U, T, N]`` and the running baseline ``[T]`` to gradient and next baseline."""


def make_gradient(mdp: MDP, config: TrainConfig, by_table: bool) -> Gradient:
    """Return the gradient of what `config` descends, with weights by worlds."""
    batch = config.sweeps_per_update

    def wake_gradient(proposal: Proposal, sweeps: Sweep) -> Proposal:
        return gradient_of(proposal, sweeps, jax.vmap(wake_coefficients)(sweeps), completed=True)

    def surrogate_gradient(proposal: Proposal, sweeps: Sweep, running: Array) -> tuple[Proposal, Array]:
        to_go = jax.vmap(evidence_to_go)(sweeps)  # [U, T]
        if config.baseline == "leave-one-out":
            baseline = leave_one_out(to_go)
        else:
            baseline = jnp.broadcast_to(running if config.baseline == "running" else 0.0, to_go.shape)
        blended = _RUNNING_MEMORY * running + (1 - _RUNNING_MEMORY) * to_go.mean(axis=0)
        coefficients = jax.vmap(vsmc_coefficients)(sweeps, baseline)
        return gradient_of(proposal, sweeps, coefficients, completed=False), blended.astype(running.dtype)

    def gradient(proposal: Proposal, sweeps: Sweep, running: Array) -> tuple[Proposal, Array]:
        if config.objective == "surrogate":
            return surrogate_gradient(proposal, sweeps, running)
        wake = wake_gradient(proposal, sweeps)
        if config.surrogate_share == 0:
            return wake, running
        surrogate, running = surrogate_gradient(proposal, sweeps, running)
        return jax.tree.map(lambda w, s: w + config.surrogate_share * (s - w), wake, surrogate), running

    def gradient_of(proposal: Proposal, sweeps: Sweep, coefficients: Array, completed: bool) -> Proposal:
        """Return the gradient of what is descended.

        With `completed`, on a table, policies that never came to a state add their uniform share.
        """
        coefficients = coefficients.astype(jnp.float32)  # as the proposal, whatever rewards are added up in
        if by_table:
            assert isinstance(mdp, TabularMDP)
            weight = jnp.zeros((mdp.num_states, mdp.num_actions), jnp.float32)
            weight = weight.at[sweeps.state, sweeps.action].add(coefficients) / -batch
            if completed:
                weight = weight - _where_none_came(mdp, -weight)
            # Few states are evaluated together: their log q is at hand from the sweep, and XLA sees that.
            if completed or config.proposal == "table" or mdp.num_states <= _FEW:
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
        return _weigh(weight, table_log_policy(mdp, proposal)).sum()

    def weighted(proposal: Proposal, row: tuple[Array, Array]) -> Array:
        state, weight = row
        return _weigh(weight, log_proposal_of(mdp, proposal, by_table=False)(state)).sum()

    def taken(proposal: Proposal, row: tuple[Any, Array, Array]) -> Array:
        state, action, weight = row
        return weighted(proposal, (state, weight * jax.nn.one_hot(action, mdp.num_actions)))

    return gradient


def misfit(proposal: Proposal, mdp: MDP, weighed: Weighed) -> Array:
    """Return what is descended to fit whole policies ``[U, N, S]`` with exact weights."""
    assert isinstance(mdp, TabularMDP)
    chosen = weighed.actions[..., None] == jnp.arange(mdp.num_actions)
    share = jnp.where(chosen, jnp.exp(weighed.log_weight)[..., None, None], 0.0).sum(axis=1).mean(axis=0)
    decided = jnp.asarray(~mdp.absorbing, jnp.float32)[:, None]
    return -_weigh(share * decided, table_log_policy(mdp, proposal)).sum()


def _where_none_came(table: TabularMDP, weight: Array) -> Array:
    """Return what the policies that never came to a state add to it, ``[S, A]``: the prior.

    That share belongs to the marginal policy.  On a table every state can be given it; elsewhere the proposal
    is fitted to the policies that came.
    """
    free = table.prior * ~table.absorbing[:, None]
    return (1.0 - weight.sum(axis=1, keepdims=True)) * jnp.asarray(free, jnp.float32)


def _weigh(weight: Array, log_q: Array) -> Array:
    # Undrawn slots may hold an action that is illegal there: zero times -inf is nan.
    return weight * jnp.where(jnp.isfinite(log_q), log_q, 0.0)
