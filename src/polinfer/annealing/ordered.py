"""Single-state draws where no episode comes back to a state that it has left.

Then a state's action matters only from the arrival there on.  Going through the states from the last to the
first, the arrivals are those of the policy before the pass, and the values of all that follows are known: a
whole pass of Gibbs draws costs little more than evaluating every action once, and not one evaluation of the
policy for every action of every state.  Staying in a state is no coming back.
"""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from polinfer.annealing.moves import Passed, Population, Scan
from polinfer.exact.enumeration import decision_states
from polinfer.exact.returns import choices_of
from polinfer.problems.tabular.table import TabularMDP

_BLOCK = 256  # policies at once: their values of all states and steps stay in the processor's cache


def order_of(table: TabularMDP) -> NDArray[np.int64] | None:
    """Return the states in which something is decided, each before what follows it; None if there is a cycle.

    Examples
    --------
    >>> import polinfer
    >>> order_of(polinfer.tabulate(polinfer.make("gridworld/ablation"))) is None
    True
    >>> len(order_of(polinfer.tabulate(polinfer.make("tireworld/1"))))
    6
    """
    states = decision_states(table, table.horizon)
    possible = (table.probability[states] > 0) & table.legal_actions[states][:, :, None]
    inside = np.isin(table.successor[states], states) & (table.successor[states] != states[:, None, None])
    origin, action, slot = np.nonzero(possible & inside)
    before: dict[int, set[int]] = {int(state): set() for state in states}
    for source, target in zip(states[origin], table.successor[states[origin], action, slot], strict=True):
        before[int(target)].add(int(source))
    try:
        return np.array(list(TopologicalSorter(before).static_order()), np.int64)
    except CycleError:
        return None


def ordered_cost(table: TabularMDP, order: NDArray[np.int64]) -> int:
    """Return how many multiplications, about, a pass takes per policy; looking values up counts as eight."""
    return len(order) * table.num_actions * table.horizon * (1 + int(table.successor.shape[2]) * 8)


class _Ordered(NamedTuple):
    """The problem by the order's numbers; ``S`` itself stands for all that is over."""

    follow: Array  # [S, A, B] int32
    odds: Array  # [S, A, B], of leaving
    stay: Array  # [S, A]
    gain: Array  # [S, A], the expected reward
    legal: Array  # [S, A]
    initial: Array  # [S]
    forced: Array  # [S] int32, an action that is legal
    place: Array  # [n] int32, the choices among these states
    horizon: int


def _arrange(table: TabularMDP, order: NDArray[np.int64]) -> _Ordered:
    size = len(order)
    number = np.full(table.num_states, size)
    number[order] = np.arange(size)
    follow = number[table.successor[order]]
    odds = np.where(follow < size, table.probability[order], 0.0)
    here = follow == np.arange(size)[:, None, None]
    legal = table.legal_actions[order]
    return _Ordered(
        follow=jnp.asarray(follow, jnp.int32),
        odds=jnp.asarray(np.where(here, 0.0, odds), jnp.float32),
        stay=jnp.asarray(np.where(here, odds, 0.0).sum(axis=-1), jnp.float32),
        gain=jnp.asarray((table.probability[order] * table.reward[order]).sum(axis=-1), jnp.float32),
        legal=jnp.asarray(legal),
        initial=jnp.asarray(table.initial[order], jnp.float32),
        forced=jnp.asarray(legal.argmax(axis=1), jnp.int32),
        place=jnp.asarray(number[choices_of(table).state], jnp.int32),
        horizon=table.horizon,
    )


def ordered_scan(table: TabularMDP, order: NDArray[np.int64], islands: int) -> Scan:
    """Draw the action of every choice from its conditional, the last states first.

    As in `polinfer.annealing.moves.gibbs_scan`, the conditionals are what is averaged.
    """
    problem = _arrange(table, order)

    def scan(key: Array, population: Population, scale: Array) -> Passed:
        size = population.returns.shape[0]
        blocks = -(-size // _BLOCK)
        width = -(-size // blocks)
        # The last block is filled up with policies that are moved in vain.
        members = jnp.arange(blocks * width).reshape(blocks, width) % size

        def move(number_and_members: tuple[Array, Array]) -> tuple[Array, Array, Array]:
            number, own = number_and_members
            return _move(problem, jax.random.fold_in(key, number), population.actions[:, own], scale)

        actions, shares, returns = jax.lax.map(move, (jnp.arange(blocks), members))
        # [blocks, ..., width] to [..., P]
        actions, shares, returns = (
            jnp.moveaxis(part, 0, -2).reshape(*part.shape[1:-1], -1)[..., :size]
            for part in (actions, shares, returns)
        )
        of_islands = shares.reshape(*shares.shape[:2], islands, -1).mean(axis=-1)
        return Passed(Population(actions, returns), of_islands, jnp.ones(()))

    return scan


def _move(problem: _Ordered, key: Array, chosen: Array, scale: Array) -> tuple[Array, Array, Array]:
    """Move policies ``[n, P]``; return them, the choices' conditionals ``[n, A, P]``, and returns ``[P]``."""
    size, actions, _ = problem.follow.shape
    count = chosen.shape[1]
    every = jnp.broadcast_to(problem.forced[:, None], (size, count)).at[problem.place].set(chosen)
    arrivals = _arrivals(problem, every)
    each = jnp.arange(actions)[:, None]

    def draw(step: Array, carry: Any) -> Any:
        every, value, shares = carry
        at = size - 1 - step
        after = value[problem.follow[at]][:, :, 1:]  # [A, B, T, P]
        ahead = (problem.odds[at][:, :, None, None] * after).sum(axis=1)
        once = problem.gain[at][:, None, None] + ahead  # [A, T, P], if the state is left or all is over
        stay = problem.stay[at][:, None]

        def earlier(later: Array, now: Array) -> tuple[Array, Array]:
            found = now + stay * later
            return found, found

        nothing = jnp.zeros((actions, count))
        _, worth = jax.lax.scan(earlier, nothing, jnp.moveaxis(once, 1, 0), reverse=True)  # [T, A, P]
        gained = (arrivals[at][:, None] * worth).sum(axis=0)  # [A, P]
        log_mass = jnp.where(problem.legal[at][:, None], scale * gained, -jnp.inf)
        drawn = jax.random.categorical(jax.random.fold_in(key, at), log_mass, axis=0).astype(jnp.int32)
        picked = jnp.where(drawn == each, worth, 0.0).sum(axis=1)  # [T, P]
        value = value.at[at, :-1].set(picked)
        return every.at[at].set(drawn), value, shares.at[at].set(jax.nn.softmax(log_mass, axis=0))

    value = jnp.zeros((size + 1, problem.horizon + 1, count))
    start = (every, value, jnp.zeros((size, actions, count)))
    every, value, shares = jax.lax.fori_loop(0, size, draw, start)
    return every[problem.place], shares[problem.place], problem.initial @ value[:size, 0]


def _arrivals(problem: _Ordered, every: Array) -> Array:
    """Return the probability of coming to each state at each step, ``[S + 1, T, P]``."""
    size, actions, outcomes = problem.follow.shape
    count = every.shape[1]

    def go_on(at: Array, come: Array) -> Array:
        stay = problem.stay[at][every[at]]

        def there(before: Array, now: Array) -> tuple[Array, Array]:
            found = now + stay * before
            return found, found

        _, spent = jax.lax.scan(there, jnp.zeros(count), come[at])  # [T, P]
        leaving = jnp.concatenate([jnp.zeros((1, count)), spent[:-1]])

        def send(pair: Array, come: Array) -> Array:
            action, outcome = pair // outcomes, pair % outcomes
            share = jnp.where(every[at] == action, problem.odds[at, action, outcome], 0.0)
            return come.at[problem.follow[at, action, outcome]].add(leaving * share)

        sent: Array = jax.lax.fori_loop(0, actions * outcomes, send, come)
        return sent

    start = jnp.zeros((size + 1, problem.horizon, count)).at[:size, 0].set(problem.initial[:, None])
    arrivals: Array = jax.lax.fori_loop(0, size, go_on, start)
    return arrivals
