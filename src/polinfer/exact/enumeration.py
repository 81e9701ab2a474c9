"""The policy posterior by enumeration of every deterministic policy with its exact ``J``.

Only states in which an action can be taken within the horizon count, and only those with a choice make
policies differ.  Policies are numbered in mixed radix and streamed in chunks through running sums in log
space, so memory does not grow with their number.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.special import logsumexp
from numpy.typing import NDArray

from polinfer.core.errors import PolinferError, TooLargeError, check_at_least
from polinfer.core.protocol import constant
from polinfer.exact import powers
from polinfer.exact.evaluation import deterministic_returns, evaluate_policy
from polinfer.exact.solution import PolicyPosterior, Result, Solution
from polinfer.exact.squared import pays
from polinfer.problems.tabular.table import TabularMDP, check_table

DEFAULT_LIMIT = 20_000_000
_BATCH = 128  # policies evaluated together: their matrices stay in the cache
_CHUNK = 1 << 17  # policies per compiled call: about one progress report per second
_MAX_BYTES = 1 << 32
_UNROLLED = 24  # up to this many states the sums of products are written out
_KEPT = 1 << 23  # up to this many policies their weights are kept for sampling: 64 MiB

Target = Literal["expectation", "exponential"]
Progress = Callable[[int, int], None]


class _Reduced(NamedTuple):
    """The decision states of a table, renumbered ``0 .. n-1``, and their choices."""

    move: Array  # [n, A, n], probability of moving on
    leave: Array  # [n, A], probability of leaving the decision states
    discount: Array  # []
    gain: Array  # [n, A], expected reward
    log_move: Array  # [n, A, n], log E[exp(reward); moving on], for the exponential target
    log_leave: Array  # [n, A], log E[exp(reward); leaving the decision states], likewise
    initial: Array  # [n]
    free: Array  # [f] int64, decision states with more than one legal action
    radix: Array  # [f] int64, how many
    place: Array  # [f] int64, the value of one unit of each digit
    choices: Array  # [f, A] int32, the legal actions of a free state, then padding
    fixed: Array  # [n] int32, the first legal action of every decision state
    log_prior: Array  # [n, A], the reference measure


class _Sums(NamedTuple):
    """Running sums over policies, relative to the largest log weight so far."""

    top: Array  # [] the largest log weight
    mass: Array  # [] sum of exp(log weight - top)
    depth: Array  # [] ... times (log weight - top), for the entropy
    mean: Array  # [] weighted mean of J
    spread: Array  # [] weighted sum of (J - mean)^2
    chosen: Array  # [f, A] mass by free state and action
    reached: Array  # [f, A] mass times the probability of visiting


def check_enumerable(
    table: TabularMDP, limit: int = DEFAULT_LIMIT, horizon: int | None = None
) -> tuple[NDArray[np.int64], int]:
    """Return the decision states and the number of policies, or refuse a problem that has too many."""
    decision = decision_states(table, table.horizon if horizon is None else horizon)
    count = count_policies(table, decision)
    if count > limit:
        raise TooLargeError(
            f"{_written(count)} deterministic policies are more than the limit of {limit:,}; raise it "
            "(--limit), or estimate the posterior by sampling instead of enumerating it"
        )
    size = max(_BATCH, table.num_actions) * len(decision) ** 2 * 8
    if size > _MAX_BYTES:
        raise TooLargeError(
            f"{len(decision):,} decision states need matrices of {size / 2**30:.1f} GiB; "
            "estimate the posterior by sampling instead of enumerating it"
        )
    return decision, count


def policy_posterior(
    table: TabularMDP,
    *,
    target: Target = "expectation",
    reach: bool = True,
    top: int = 10,
    samples: int = 1000,
    seed: int = 0,
    limit: int = DEFAULT_LIMIT,
    horizon: int | None = None,
    progress: Progress | None = None,
) -> Solution:
    """Enumerate the posterior ``p(pi) ∝ mu(pi) exp(J(pi))`` over deterministic policies.

    `Solution.policy` is the marginal policy ``p*(a|s)``, Eq. posterior-predictive-policy.  Where no action
    can be taken within the horizon it is the reference measure.

    Parameters
    ----------
    table
        The problem.  Where its start is random, ``J`` averages over it.
    target
        ``"expectation"``: weight ``exp(E[return])``, the paper's definition (target 1).  ``"exponential"``:
        weight ``E[exp(return)]``, which the mean of an SMC sweep's ``Z-hat`` estimates (target 3).
    reach
        Also compute the reach policy, which costs several times as much as all the rest.
    top
        How many of the most probable policies to keep.
    samples, seed
        How many policies to draw from the posterior (systematically, from the seed), for one policy per
        episode; left out where there are more than eight million to draw from.
    limit
        The largest number of policies.
    horizon
        Another horizon than the table's.
    progress
        Called with the number of policies done and their total.

    Raises
    ------
    TooLargeError
        When there are more policies than `limit`.

    Examples
    --------
    >>> import polinfer
    >>> table = polinfer.tabulate(polinfer.make("continuation", rho=0.5))
    >>> policy_posterior(table).policy[0].round(4).tolist()
    [0.2689, 0.7311]
    """
    steps = table.horizon if horizon is None else check_at_least("horizon", horizon, 1)
    if target not in ("expectation", "exponential"):
        raise PolinferError(f"target must be 'expectation' or 'exponential', got {target!r}")
    if target == "exponential" and table.discount < 1:
        raise PolinferError(
            "target 'exponential' is enumerated without a discount only; leave one of them out"
        )
    decision, count = check_enumerable(table, limit, steps)
    keep = min(check_at_least("top", top, 1), count)
    squared = pays(len(decision), steps, table.discount)
    with jax.enable_x64(True):
        problem = _reduce(table, decision)
        sums = _empty_sums(problem)
        best = (jnp.full(keep, -jnp.inf), jnp.zeros(keep, jnp.int64))
        kept: list[NDArray[np.float64]] = []
        for first in range(0, count, _CHUNK):
            sums, best, log_weights = _add_chunk(
                problem,
                sums,
                best,
                jnp.asarray(first),
                jnp.asarray(count),
                jnp.asarray(steps),
                reach=reach,
                exponential=target == "exponential",
                batches=min(_CHUNK, -(-count // _BATCH) * _BATCH) // _BATCH,
                squared=squared,
            )
            if count <= _KEPT:
                kept.append(np.asarray(log_weights).ravel())
            if progress is not None:
                sums.mass.block_until_ready()
                progress(min(first + _CHUNK, count), count)
        top_actions = _host_actions(problem, np.asarray(best[1]))
        drawn = _draw_policies(np.concatenate(kept)[:count], samples, seed) if kept else None
        sampled = None if drawn is None else _host_actions(problem, drawn)
    return _solution(table, steps, target, decision, count, problem, sums, best, top_actions, sampled, reach)


def decision_states(table: TabularMDP, horizon: int) -> NDArray[np.int64]:
    """Return the states in which some policy takes an action within `horizon` steps, in ascending order."""
    check_table(table)
    reached = table.initial > 0
    possible = (table.probability > 0) & table.legal_actions[:, :, None]
    frontier = reached & ~table.absorbing
    for _ in range(horizon - 1):
        after = np.zeros_like(reached)
        after[table.successor[frontier][possible[frontier]]] = True
        frontier = after & ~reached & ~table.absorbing
        if not frontier.any():
            break
        reached |= frontier
    return np.nonzero(reached & ~table.absorbing)[0]


def count_policies(table: TabularMDP, decision: NDArray[np.int64]) -> int:
    """Return how many deterministic policies differ in the `decision` states."""
    return math.prod(int(n) for n in table.legal_actions[decision].sum(axis=1))


def _reduce(table: TabularMDP, decision: NDArray[np.int64]) -> _Reduced:
    size, num_actions = len(decision), table.num_actions
    local = np.full(table.num_states, -1)
    local[decision] = np.arange(size)
    successor = local[table.successor[decision]]  # [n, A, B]
    probability, reward = table.probability[decision], table.reward[decision]
    where = (*np.indices(successor.shape)[:2], successor)
    # The last column collects what leaves: -1 is the successor that is no decision state.
    move = np.zeros((size, num_actions, size + 1))
    np.add.at(move, where, probability)
    log_move = np.full_like(move, -np.inf)
    with np.errstate(divide="ignore"):
        np.logaddexp.at(log_move, where, np.log(probability) + reward)

    legal = table.legal_actions[decision]
    free = np.nonzero(legal.sum(axis=1) > 1)[0]
    radix = legal[free].sum(axis=1)
    place = np.array([math.prod(int(r) for r in radix[:i]) for i in range(len(free))], np.int64)
    choices = np.argsort(~legal[free], axis=1, kind="stable")
    with np.errstate(divide="ignore"):
        log_prior = np.log(table.prior[decision])
    return _Reduced(
        move=constant(move[:, :, :-1]),
        leave=constant(move[:, :, -1]),
        discount=constant(table.discount),
        gain=constant((probability * reward).sum(axis=-1)),
        log_move=constant(log_move[:, :, :-1]),
        log_leave=constant(log_move[:, :, -1]),
        initial=constant(table.initial[decision]),
        free=jnp.asarray(free),
        radix=jnp.asarray(radix),
        place=jnp.asarray(place),
        choices=jnp.asarray(choices.reshape(len(free), num_actions), jnp.int32),
        fixed=jnp.asarray(legal.argmax(axis=1), jnp.int32),
        log_prior=constant(log_prior),
    )


def _empty_sums(problem: _Reduced) -> _Sums:
    zero = jnp.zeros(())
    table = jnp.zeros((problem.free.shape[0], problem.move.shape[1]))
    return _Sums(constant(-np.inf), zero, zero, zero, zero, table, table)


def _actions(problem: _Reduced, index: Array) -> Array:
    """Return the policies ``[c, n]`` numbered `index` ``[c]``."""
    digit = (index[:, None] // problem.place) % problem.radix
    chosen = problem.choices[jnp.arange(problem.free.shape[0]), digit]
    fixed = jnp.broadcast_to(problem.fixed, (index.shape[0], problem.fixed.shape[0]))
    return fixed.at[:, problem.free].set(chosen)


def _host_actions(problem: _Reduced, index: NDArray[np.int64]) -> NDArray[np.int32]:
    """Do what `_actions` does in NumPy: a few policies are not worth compiling for."""
    place, radix, choices, free, fixed = (
        np.asarray(part)
        for part in (problem.place, problem.radix, problem.choices, problem.free, problem.fixed)
    )
    digit = (index[:, None] // place) % radix
    actions = np.repeat(fixed[None], len(index), axis=0)
    actions[:, free] = choices[np.arange(len(free)), digit]
    return actions


def _expected_return(problem: _Reduced, actions: Array, steps: Array, squared: bool) -> Array:
    """Return ``J`` ``[c]`` of the policies ``[c, n]``."""
    states = jnp.arange(problem.move.shape[0])
    if squared:
        move, leave = problem.move[states, actions], problem.leave[states, actions]
        return jnp.dot(
            powers.affine_power(move, leave, problem.gain[states, actions], steps), problem.initial
        )
    move, gain = problem.discount * problem.move[states, actions], problem.gain[states, actions]
    value = jax.lax.fori_loop(
        0, steps, lambda _, v: gain + jnp.einsum("cxy,cy->cx", move, v), jnp.zeros_like(gain)
    )
    return jnp.dot(value, problem.initial)


def _log_exponential_return(problem: _Reduced, actions: Array, steps: Array, squared: bool) -> Array:
    """Return ``log E exp(return)`` ``[c]``, in log space throughout."""
    states = jnp.arange(problem.move.shape[0])
    log_move, log_leave = problem.log_move[states, actions], problem.log_leave[states, actions]

    def step(_: Array, value: Array) -> Array:
        return jnp.logaddexp(logsumexp(log_move + value[:, None, :], axis=-1), log_leave)

    if squared:
        value = powers.exponential_power(log_move, log_leave, steps)
    else:
        value = jax.lax.fori_loop(0, steps, step, jnp.zeros_like(log_leave))
    # An episode that starts in a terminal state returns nothing: exp(0).
    stopped = jnp.log(jnp.maximum(1.0 - problem.initial.sum(), 0.0))
    return jnp.logaddexp(logsumexp(value, b=problem.initial, axis=-1), stopped)


def _visits(problem: _Reduced, move: Array, leave: Array, steps: Array, squared: bool) -> Array:
    """Return the probability ``[c, f]`` of visiting each free state at a step of the horizon."""
    size = move.shape[-1]
    if squared:
        # Coming to a state is being paid one there, and ending.
        at = jax.nn.one_hot(problem.free, size, dtype=move.dtype)  # [f, n]
        stopping = jnp.where(at[:, None, :, None] > 0, 0.0, move)  # [f, c, n, n]
        paid = jnp.broadcast_to(at[:, None, :], stopping.shape[:-1])
        ending = jnp.where(at[:, None, :] > 0, 1.0, leave)
        come = powers.affine_power(stopping, ending, paid, steps)
        return jnp.einsum("x,fcx->cf", problem.initial, come)
    target = jax.nn.one_hot(problem.free, size, dtype=move.dtype)[:, :, None]  # [f, n, 1]
    across = jnp.moveaxis(move, 0, -1)  # [n, n, c]: policies side by side, for the vector units

    def step(_: Array, reach: Array) -> Array:
        if 0 < size <= _UNROLLED:
            # A sum of products in place: XLA on CPU calls a library for each tiny matrix otherwise.
            after = sum(across[None, :, y] * reach[:, None, y] for y in range(size))
        else:
            after = jnp.einsum("xyc,fyc->fxc", across, reach)
        return jnp.where(target > 0, 1.0, after)

    start = jnp.broadcast_to(target, (target.shape[0], size, move.shape[0]))
    reach = jax.lax.fori_loop(0, steps - 1, step, start)
    return jnp.einsum("x,fxc->cf", problem.initial, reach)


@partial(jax.jit, static_argnames=("reach", "exponential", "batches", "squared"))
def _add_chunk(
    problem: _Reduced,
    sums: _Sums,
    best: tuple[Array, Array],
    first: Array,
    count: Array,
    steps: Array,
    *,
    reach: bool,
    exponential: bool,
    batches: int,
    squared: bool,
) -> tuple[_Sums, tuple[Array, Array], Array]:
    states = jnp.arange(problem.move.shape[0])

    def batch(sums: _Sums, number: Array) -> tuple[_Sums, Array]:
        index = first + number * _BATCH + jnp.arange(_BATCH)
        inside = index < count
        actions = _actions(problem, jnp.minimum(index, count - 1))
        returns = _expected_return(problem, actions, steps, squared)
        weight = _log_exponential_return(problem, actions, steps, squared) if exponential else returns
        log_prior = problem.log_prior[states, actions].sum(axis=-1)
        log_weight = jnp.where(inside, weight + log_prior, -jnp.inf)
        move, leave = problem.move[states, actions], problem.leave[states, actions]
        visits = _visits(problem, move, leave, steps, squared) if reach else None
        return _accumulate(sums, log_weight, returns, actions[:, problem.free], visits), log_weight

    sums, log_weights = jax.lax.scan(batch, sums, jnp.arange(batches))
    keep = best[0].shape[0]
    values = jnp.concatenate([best[0], log_weights.ravel()])
    indices = jnp.concatenate([best[1], first + jnp.arange(batches * _BATCH)])
    top, where = jax.lax.top_k(values, keep)
    return sums, (top, indices[where]), log_weights


def _draw_policies(log_weights: NDArray[np.float64], samples: int, seed: int) -> NDArray[np.int64]:
    """Draw policy numbers in proportion to their weights: one uniform, evenly spaced, then shuffled."""
    random = np.random.default_rng(seed)
    cumulative = np.cumsum(np.exp(log_weights - log_weights.max()))
    points = (np.arange(samples) + random.random()) / samples * cumulative[-1]
    picked = np.minimum(np.searchsorted(cumulative, points, side="right"), len(log_weights) - 1)
    return np.asarray(random.permutation(picked), np.int64)


def _accumulate(sums: _Sums, log_weight: Array, returns: Array, chosen: Array, visits: Array | None) -> _Sums:
    top = jnp.maximum(sums.top, log_weight.max())
    # exp(-inf - finite) is zero, so the empty sums need no special case; their shift must stay finite.
    fade = jnp.exp(sums.top - top)
    shift = jnp.where(jnp.isfinite(sums.top), sums.top - top, 0.0)
    weight = jnp.exp(log_weight - top)
    below = jnp.where(weight > 0, log_weight - top, 0.0)
    actions = jnp.arange(sums.chosen.shape[1])
    picked = (chosen[:, :, None] == actions).astype(weight.dtype)  # [c, f, A]
    # Mean and spread of J are merged as Chan, Golub and LeVeque (1983) do: raw moments would cancel.
    old, new = sums.mass * fade, weight.sum()
    mass = old + new
    new_mean = (weight * returns).sum() / jnp.where(new > 0, new, 1.0)
    gap = jnp.where(new > 0, new_mean - sums.mean, 0.0)
    return _Sums(
        top=top,
        mass=mass,
        depth=(sums.depth + shift * sums.mass) * fade + (weight * below).sum(),
        mean=sums.mean + gap * new / mass,
        spread=sums.spread * fade + (weight * (returns - new_mean) ** 2).sum() + gap**2 * old * new / mass,
        chosen=sums.chosen * fade + jnp.einsum("c,cfa->fa", weight, picked),
        reached=sums.reached
        if visits is None
        else sums.reached * fade + jnp.einsum("c,cf,cfa->fa", weight, visits, picked),
    )


def _solution(
    table: TabularMDP,
    steps: int,
    target: Target,
    decision: NDArray[np.int64],
    count: int,
    problem: _Reduced,
    sums: _Sums,
    best: tuple[Array, Array],
    top_actions: NDArray[np.int32],
    sampled_actions: NDArray[np.int32] | None,
    reach: bool,
) -> Solution:
    free = decision[np.asarray(problem.free)]
    mass, peak = float(sums.mass), float(sums.top)
    marginal, reached = np.array(table.prior), np.array(table.prior)
    marginal[free] = np.asarray(sums.chosen) / mass
    if reach:
        share = np.asarray(sums.reached)
        visited = share.sum(axis=1) > 0
        reached[free[visited]] = share[visited] / share[visited].sum(axis=1, keepdims=True)
    log_total = peak + math.log(mass)

    def whole(actions: NDArray[np.int32]) -> NDArray[np.int32]:
        """Write choices in decision states ``[k, n]`` as policies ``[k, S]``."""
        policies = np.repeat(table.legal_actions.argmax(axis=1)[None].astype(np.int32), len(actions), axis=0)
        policies[:, decision] = actions
        return policies

    top_policies = whole(top_actions)
    posterior = PolicyPosterior(
        log_evidence=log_total,
        num_policies=count,
        reach_policy=reached if reach else None,
        expected_return=float(sums.mean),
        return_variance=float(sums.spread) / mass,
        entropy=max(0.0, math.log(mass) - float(sums.depth) / mass),
        top_policies=top_policies,
        top_probabilities=np.exp(np.asarray(best[0]) - log_total),
        top_returns=deterministic_returns(table, top_policies, steps),
        sampled_policies=None if sampled_actions is None else whole(sampled_actions),
    )
    return Solution(
        method="policy posterior",
        policy=marginal,
        value=evaluate_policy(table, marginal, steps).value,
        objective=posterior.log_evidence,
        result=Result.EXACT,
        iterations=count,
        settings={"horizon": steps, "target": target},
        diagnostics={"num_policies": float(count), "decision_states": float(len(decision))},
        posterior=posterior,
    )


def _written(count: int) -> str:
    """Write a number of policies; one with very many digits by its size."""
    if count < 10**15:
        return f"{count:,}"
    # A float ends at 1e308, and Python writes no integer of more than 4,300 digits.
    power, digits = divmod(math.log10(count), 1)
    return f"about {10**digits:.1f}e{power:.0f}"
