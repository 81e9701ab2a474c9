"""One compiled call: evaluate a population, move it many times, and add up what it says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from polinfer.annealing.levelgibbs import gibbs_pass
from polinfer.annealing.moves import (
    Kind,
    Target,
    Walkers,
    draw_kinds,
    log_acceptance,
    mean_influence,
    mean_reached,
    propose,
)
from polinfer.annealing.noise import fold, uniform
from polinfer.annealing.rows import Evaluate, Evaluation, Rows
from polinfer.annealing.smoothing import conditionals, remainder

_WANTED = 0.4  # acceptance to which the adapted size of moves is steered


class Sums(NamedTuple):
    """Added up over moves; each entry is a mean over an island's policies, on the device or not."""

    chosen: Any  # [N, A, I] probability of coming to the state and taking the action there
    smooth: Any  # [N, A, I] the same, from conditionals
    defect: Any  # [N, A, I] what conditionals lack, summed over moves of a few states
    few: Any  # [I] share of such moves
    visits: Any  # [N, I]
    returns: Any  # [I]
    moves: Any  # [] how many


class Best(NamedTuple):
    """The best policy seen."""

    returns: Array  # []
    policy: Array  # [N]


class Stage(NamedTuple):
    """A population after a call, and what was seen on the way."""

    walkers: Walkers
    sums: Sums
    accepted: Any  # [] share of proposals
    log_size: Any  # [] adapted size of moves
    best: Best


class Order(NamedTuple):
    """What to do with a population."""

    moves: Any  # [] int32
    log_size: Any  # [] float32, size of moves
    adapt: Any  # [] float32, rate at which the size is adapted
    evaluated: Any  # [] bool, whether the evaluation that comes with the policies is theirs


Run = Callable[[Rows, Walkers, Target, Array, Order], Stage]
"""From rows, policies, target, key and order."""


def _smoothed(
    mean: Callable[[Array], Array],
    target: Target,
    kind: Kind,
    before: Walkers,
    tried: Walkers,
    chance: Array,
) -> tuple[Array, Array, Array]:
    """Return marginals made of conditionals, what these lack, and the share of moves that say so.

    `mean` is over each island's policies.
    """
    ends = zip(conditionals(target, tried.evaluation), conditionals(target, before.evaluation), strict=True)
    smooth = [mean(chance * new + (1.0 - chance) * old) for new, old in ends]
    rest = remainder(target, kind, before, tried, chance)
    lacking = [mean(part) for part in rest.lacking]
    few = mean(rest.counted.astype(chance.dtype))
    return jnp.stack(smooth, axis=1), jnp.stack(lacking, axis=1), few


def _no_sums(size: int, actions: int, islands: int, dtype: Any) -> Sums:
    blank, by_island = jnp.zeros((size, actions, islands), dtype), jnp.zeros(islands, dtype)
    visits, moves = jnp.zeros((size, islands), dtype), jnp.zeros((), dtype)
    return Sums(blank, blank, blank, by_island, visits, by_island, moves)


def _better(best: Best, tried: Walkers) -> Best:
    top = jnp.argmax(tried.evaluation.returns)
    better = tried.evaluation.returns[top] > best.returns
    return Best(
        jnp.where(better, tried.evaluation.returns[top], best.returns),
        jnp.where(better, tried.policy[:, top], best.policy),
    )


def make_stage(evaluate: Evaluate, islands: int, width: int) -> Run:
    """Return the traceable stage; `width` is that of the problem's levels (0: none)."""

    def by_island(values: Array) -> Array:
        """Return the mean over each island's policies; as a product, which is faster than a reduction."""
        each = values.shape[-1] // islands
        return values.reshape(*values.shape[:-1], islands, each) @ jnp.full(each, 1 / each, values.dtype)

    def seen(moved: tuple[tuple[Walkers, Array], ...]) -> Array:
        """Return the weight of the policies that come to a state, by action, ``[N, A, I]``."""
        came = [(at.policy, jnp.where(at.evaluation.visits > 0, weight, 0.0)) for at, weight in moved]

        def taking(action: int) -> Array:
            return reduce(jnp.add, (jnp.where(policy == action, weight, 0.0) for policy, weight in came))

        actions = range(moved[0][0].evaluation.adjoint.shape[1])
        return jnp.stack([by_island(taking(action)) for action in actions], axis=1)

    def stage(rows: Rows, walkers: Walkers, goal: Target, key: Array, order: Order) -> Stage:
        size, actions = rows.gain.shape
        count, dtype = walkers.policy.shape[1], rows.gain.dtype
        blank = jnp.zeros((size, actions, islands), dtype)

        def suggest(
            key: Array, target: Target, exact: Array, kind: Kind, before: Walkers
        ) -> tuple[Array, Array]:
            """Return policies to try, and after a Gibbs pass what they were drawn from."""
            if not width:
                return propose(key, target, kind, before), blank

            def gibbs() -> tuple[Array, Array]:
                drawn = gibbs_pass(key, rows, width, target, before.policy)
                return drawn.policy, by_island(drawn.conditional)

            found: tuple[Array, Array] = jax.lax.cond(
                exact, gibbs, lambda: (propose(key, target, kind, before), blank)
            )
            return found

        def measured(evaluation: Evaluation) -> tuple[Array, Array]:
            influence = mean_influence(goal.scale, goal.log_prior, evaluation)
            return influence, mean_reached(evaluation)

        def one(number: Array, carry: tuple[Walkers, Sums, Array, Array, Best, Array]) -> Any:
            before, sums, accepted, log_size, best, sizes = carry
            target = goal._replace(influence=sizes[0], reached=sizes[1])
            own = fold(key, number)
            kind = draw_kinds(fold(own, 0), count, jnp.exp(log_size), width > 0)
            # The first turn only evaluates, and is left out where that was done: so passes are compiled once.
            first = number == 0
            exact = ~first & (number % 2 == 0) & goal.normalised if width else jnp.asarray(False)
            tried_policy, conditional = suggest(fold(own, 1), target, exact, kind, before)
            tried_policy = jnp.where(first, walkers.policy, tried_policy)
            tried = Walkers(tried_policy, evaluate(rows, tried_policy))
            ratio = log_acceptance(target, kind, before, tried)
            chance = jnp.exp(jnp.minimum(jnp.where(jnp.isnan(ratio), -jnp.inf, ratio), 0.0))
            chance = jnp.where(first | exact, 1.0, chance).astype(dtype)
            taken = uniform(fold(own, 2), (count,)) < chance
            after = jax.tree.map(lambda new, old: jnp.where(taken, new, old), tried, before)
            # Both ends of a move count, by their probability (waste recycling).
            weight = jnp.where(first, 0.0, 1.0).astype(dtype)
            chosen = jnp.where(exact, conditional, seen(((tried, chance), (before, 1.0 - chance))))
            came, earned = (
                by_island(chance * new + (1.0 - chance) * old)
                for new, old in zip(tried.evaluation[1::-1], before.evaluation[1::-1], strict=True)
            )
            smooth, defect, few = (
                (blank, blank, jnp.zeros(islands, dtype))
                if width
                else _smoothed(by_island, target, kind, before, tried, chance)
            )
            sums = Sums(
                sums.chosen + weight * chosen,
                sums.smooth + weight * smooth,
                sums.defect + weight * defect,
                sums.few + weight * few,
                sums.visits + weight * came,
                sums.returns + weight * earned,
                sums.moves + weight,
            )
            adapted = kind.by_influence & (kind.size == jnp.exp(log_size))
            rate = (chance * adapted).sum() / jnp.maximum(adapted.sum(), 1)
            step = jnp.where(first | exact | (adapted.sum() == 0), 0.0, order.adapt * (rate - _WANTED))
            log_size = jnp.clip(log_size + step, -7.0, 5.0).astype(jnp.float32)
            sizes = jax.lax.cond(first, lambda: measured(tried.evaluation), lambda: sizes)
            return after, sums, accepted + weight * chance.mean(), log_size, _better(best, tried), sizes

        sizes = jax.lax.cond(
            order.evaluated,
            lambda: measured(walkers.evaluation),
            lambda: (jnp.ones(size, dtype), jnp.ones((), dtype)),
        )
        carry = (
            walkers,
            _no_sums(size, actions, islands, dtype),
            jnp.zeros((), dtype),
            order.log_size,
            Best(jnp.asarray(-jnp.inf, dtype), walkers.policy[:, 0]),
            sizes,
        )
        turns = jnp.where(order.evaluated, 1, 0), order.moves + 1
        walkers, sums, accepted, log_size, best, _ = jax.lax.fori_loop(*turns, one, carry)
        return Stage(walkers, sums, accepted / jnp.maximum(sums.moves, 1.0), log_size, best)

    return stage


def join_stages(stages: Sequence[Stage]) -> Stage:
    """Return the stage of all islands from those of some each, in their order."""
    walkers = jax.tree.map(lambda *parts: np.concatenate(parts, axis=-1), *(each.walkers for each in stages))
    # Sums are by island, but for the number of moves, which is the same everywhere.
    sums = Sums(
        *(
            np.concatenate(parts, axis=-1) if np.ndim(parts[0]) else parts[0]
            for parts in zip(*(each.sums for each in stages), strict=True)
        )
    )
    best = max((each.best for each in stages), key=lambda one: float(one.returns))
    return Stage(
        walkers,
        sums,
        np.mean([each.accepted for each in stages]),
        np.mean([each.log_size for each in stages]),
        best,
    )
