"""Metropolis-Hastings moves of many states at once, informed by the adjoint.

A policy is its choices on the states that it reaches; elsewhere its actions are drawn from a fixed `fill`.
The target of all moves is

    exp(scale J(pi)) prod_{s reached} g(pi(s)|s) prod_{s not reached} fill(pi(s)|s)

for any `g`, and any `fill` with rows that sum to one: what is not reached integrates to one.  Where rows of
`g` sum to one as well, the posterior over what is reached is that of the prior `g` on all states.

A move proposes in every state independently: with probability ``rho(s)`` from
``softmax(log g + tilt scale G)`` (from `fill` where the state is not reached), else the action stays.  The
acceptance ratio is marginalised over that coin.  Gradient-informed proposals for discrete spaces are due to
Zanella (2020) and Grathwohl et al. (2021); with ``tilt = 1`` a single state of a problem without loops is
drawn from its exact conditional, with ``tilt = 1/2`` the proposal is locally balanced.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from polinfer.annealing.noise import fold, uniform
from polinfer.annealing.rows import Evaluation

_WIDEST, _NARROWEST = 8.0, 0.02  # sizes of moves, in units of influence


class Target(NamedTuple):
    """What is sampled from."""

    scale: Array  # []
    log_prior: Array  # [N, A] log g; -inf where an action is illegal
    log_fill: Array  # [N, A]; likewise
    influence: Array  # [N] how much a change in the state disturbs the others, about; above zero
    reached: Array  # [] number of states that a policy comes to, about; at least one
    normalised: Array  # [] bool, whether the rows of `g` sum to one


class Walkers(NamedTuple):
    """Policies and their evaluation."""

    policy: Array  # [N, P] int16
    evaluation: Evaluation


class Kind(NamedTuple):
    """How a move proposes, for each policy; drawn without looking at the policy."""

    size: Array  # [P] by influence: rho = min(1, size / influence); else the mean number of states to redraw
    by_influence: Array  # [P] bool
    tilt: Array  # [P] how much of the adjoint is followed
    from_fill: Array  # [P] bool, propose from the fill instead
    refresh: Array  # [P] bool, redraw all states that are not reached; else like the others


class Proposal(NamedTuple):
    """The distribution that a move draws from: independent over states."""

    rho: Array  # [N, P]
    share: tuple[Array, ...]  # A of [N, P], the probabilities of a fresh action


def draw_kinds(key: Array, count: int, adapted: Array, gradient_only: bool = False) -> Kind:
    """Draw how each policy moves: sizes that were adapted, any size, a few states, or from the fill."""
    which, size, tilt, refresh = (uniform(fold(key, i), (count,)) for i in range(4))
    any_size = _NARROWEST * (_WIDEST / _NARROWEST) ** size
    few = 2.0 ** jnp.floor(4.0 * size)  # 1, 2, 4 or 8 states
    by_influence = which < 0.4
    from_fill = which > 0.85
    everything = from_fill & (which > 0.93)
    half = 0.0 if gradient_only else jnp.where(by_influence, 0.35, 0.1)
    return Kind(
        size=jnp.where(
            which < 0.2, adapted, jnp.where(by_influence, any_size, jnp.where(everything, 1e9, few))
        ),
        by_influence=by_influence,
        tilt=jnp.where(from_fill, 0.0, jnp.where(tilt < half, 0.5, 1.0)),
        from_fill=from_fill,
        # Few changes of reached states would have to be undone by many of those that come to be reached.
        refresh=(refresh < jnp.where(by_influence, 0.8, 0.1)) | everything,
    )


def propose_from(target: Target, kind: Kind, walkers: Walkers) -> Proposal:
    """Return what a move proposes for policies that are where they are.

    Actions are written out one by one: the compiler turns reductions over an inner axis into slow loops.
    """
    _, visits, adjoint = walkers.evaluation
    dtype, actions = adjoint.dtype, range(adjoint.shape[1])
    come = visits > 0
    steered = come & ~kind.from_fill
    slope = (target.scale * kind.tilt).astype(dtype)
    logits = [
        jnp.where(
            steered,
            target.log_prior[:, a, None].astype(dtype) + slope * adjoint[:, a],
            target.log_fill[:, a, None].astype(dtype),
        )
        for a in actions
    ]
    even = few_share(target, kind)
    spread = jnp.minimum(kind.size / target.influence[:, None], 1.0)
    rho = jnp.where(kind.by_influence, spread, even)
    rho = jnp.where(come, rho, jnp.where(kind.refresh, 1.0, even))
    return Proposal(rho.astype(dtype), softmax(logits))


def few_share(target: Target, kind: Kind) -> Array:
    """Return the probability ``[P]`` with which moves of a few states redraw each of them."""
    return jnp.minimum(kind.size / target.reached, 1.0)


def mean_reached(evaluation: Evaluation) -> Array:
    """Return the number of states that a policy comes to, mean over policies, at least one."""
    return jnp.maximum(total((evaluation.visits > 0).astype(evaluation.visits.dtype)).mean(), 1.0)


def mean_influence(scale: Array, log_prior: Array, evaluation: Evaluation) -> Array:
    """Return visits plus the range of the adjoint in each state, ``[N]``, mean over policies.

    The mean, and not each policy's own: then the sizes of moves are the same there and back.
    """
    adjoint, actions = evaluation.adjoint, range(evaluation.adjoint.shape[1])
    possible = [jnp.isfinite(log_prior[:, a, None]) for a in actions]
    top = reduce(jnp.maximum, (jnp.where(possible[a], adjoint[:, a], -jnp.inf) for a in actions))
    low = reduce(jnp.minimum, (jnp.where(possible[a], adjoint[:, a], jnp.inf) for a in actions))
    own = evaluation.visits + scale.astype(adjoint.dtype) * (top - low)
    come = (evaluation.visits > 0).astype(adjoint.dtype)
    return jnp.maximum(own.sum(axis=1) / jnp.maximum(come.sum(axis=1), 1.0), 1e-6)


def softmax(logits: Sequence[Array]) -> tuple[Array, ...]:
    """Return the probabilities of actions given one by one."""
    peak = reduce(jnp.maximum, logits)
    mass = [jnp.exp(logit - peak) for logit in logits]
    whole = reduce(jnp.add, mass)
    return tuple(part / whole for part in mass)


def total(terms: Array) -> Array:
    """Sum over states, ``[N, P]`` to ``[P]``: as a product, which is faster than a reduction."""
    return jnp.ones(terms.shape[0], terms.dtype) @ terms


def pick(columns: Sequence[Array], policy: Array) -> Array:
    """Return the entries ``[N, P]`` of columns (one for each action) at the policies' actions."""
    found = columns[0]
    for action in range(1, len(columns)):
        found = jnp.where(policy == action, columns[action], found)
    return found


def transition_terms(proposal: Proposal, origin: Array, destination: Array) -> Array:
    """Return the log probability of proposing `destination` at `origin`, state by state, ``[N, P]``."""
    drawn = proposal.rho * pick(proposal.share, destination)
    return jnp.log(jnp.where(origin == destination, 1.0 - proposal.rho + drawn, drawn))


def columns_of(table: Array, dtype: jnp.dtype) -> list[Array]:
    """Return the columns ``[N, 1]`` of a table ``[N, A]``."""
    return [table[:, a, None].astype(dtype) for a in range(table.shape[1])]


def prior_terms(target: Target, walkers: Walkers) -> Array:
    """Return the log of the prior where a policy comes and of the fill elsewhere, ``[N, P]``."""
    dtype = walkers.evaluation.adjoint.dtype
    prior = pick(columns_of(target.log_prior, dtype), walkers.policy)
    fill = pick(columns_of(target.log_fill, dtype), walkers.policy)
    return jnp.where(walkers.evaluation.visits > 0, prior, fill)


def log_density(target: Target, walkers: Walkers) -> Array:
    """Return the log of the target ``[P]``, up to a constant."""
    return target.scale * walkers.evaluation.returns + total(prior_terms(target, walkers))


def log_acceptance(target: Target, kind: Kind, before: Walkers, tried: Walkers) -> Array:
    """Return the log of the Metropolis-Hastings ratio ``[P]``."""
    there = transition_terms(propose_from(target, kind, before), before.policy, tried.policy)
    back = transition_terms(propose_from(target, kind, tried), tried.policy, before.policy)
    gained = target.scale * (tried.evaluation.returns - before.evaluation.returns)
    # State by state first: most terms cancel, and the sum over many states would lose digits.
    return gained + total(prior_terms(target, tried) - prior_terms(target, before) + back - there)


def draw_actions(chance: Array, share: Sequence[Array], dtype: jnp.dtype) -> Array:
    """Draw actions ``[N, P]`` from probabilities given one by one, by uniform numbers `chance` ``[N, P]``."""
    drawn = jnp.zeros(chance.shape, dtype)
    below = jnp.zeros_like(share[0])
    for action, own in enumerate(share):
        # The last possible action that begins below `chance`: rounding cannot draw an impossible one.
        drawn = jnp.where((own > 0) & (chance >= below), jnp.asarray(action, dtype), drawn)
        below = below + own
    return drawn


def propose(key: Array, target: Target, kind: Kind, before: Walkers) -> Array:
    """Draw where to go, ``[N, P]``."""
    proposal = propose_from(target, kind, before)
    shape = before.policy.shape
    fresh = draw_actions(uniform(fold(key, 0), shape), proposal.share, before.policy.dtype)
    coin = uniform(fold(key, 1), shape) < proposal.rho
    return jnp.where(coin, fresh, before.policy)
