"""Exact ``J`` of many policies at once, in the precision in force: for exact weights and for visits.

Policies lie along the last axis, so that everything is a product of matrices or an operation on long rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from polinfer.core.protocol import constant
from polinfer.exact.enumeration import decision_states
from polinfer.problems.tabular.table import TabularMDP

_DENSE = 1 << 17  # entries of the transition matrix; beyond, outcomes are looked up one by one


class Choices(NamedTuple):
    """The states in which policies differ: `n` of them."""

    state: NDArray[np.int64]  # [n]
    legal: NDArray[np.bool_]  # [n, A]


def choices_of(table: TabularMDP) -> Choices:
    """Return the states in which an action can be taken within the horizon and where there is a choice."""
    states = decision_states(table, table.horizon)
    states = states[table.legal_actions[states].sum(axis=1) > 1]
    return Choices(states, table.legal_actions[states])


class Prepared(NamedTuple):
    """A batch of policies, prepared for backward induction."""

    immediate: Array  # [S, P], the expected reward of each state's action
    ahead: Callable[[Array], Array]  # from values ``[S, P]`` to their expectation after one step


class Backward(NamedTuple):
    """Backward induction over the decision states."""

    prepare: Callable[[Array], Prepared]  # from actions in the choices, [n, P]
    initial: Array  # [S]
    place: NDArray[np.int64]  # [n], the choices among these states
    horizon: int


def make_backward(table: TabularMDP) -> Backward:
    """Return backward induction for many policies of `table` at once; later values are discounted."""
    states = decision_states(table, table.horizon)
    local = np.full(table.num_states, len(states))
    local[states] = np.arange(len(states))
    successor = local[table.successor[states]]  # [S, A, B]; the last number stands for all that is over
    weight = np.where(successor < len(states), table.onward[states], 0.0)
    gain = (table.probability[states] * table.reward[states]).sum(axis=-1)  # [S, A]
    forced = table.legal_actions[states].argmax(axis=1)
    place = local[choices_of(table).state]
    size, actions = len(states), table.num_actions

    def expand(policies: Array) -> Array:
        """Return the actions of all states, ``[S, P]``."""
        every = jnp.broadcast_to(jnp.asarray(forced, jnp.int32)[:, None], (size, policies.shape[1]))
        return every.at[jnp.asarray(place)].set(policies)

    def prepare_dense(policies: Array) -> Prepared:
        matrix = np.zeros((size, actions, size + 1))
        np.add.at(matrix, (np.arange(size)[:, None, None], np.arange(actions)[:, None], successor), weight)
        flat = constant(matrix[:, :, :size].reshape(size * actions, size))
        taken = expand(policies)[:, None, :] == jnp.arange(actions)[:, None]  # [S, A, P]

        def pick(of: Array) -> Array:
            return jnp.where(taken, of, 0.0).sum(axis=1)

        immediate = pick(constant(gain)[:, :, None])
        return Prepared(immediate, lambda value: pick((flat @ value).reshape(size, actions, -1)))

    def prepare_sparse(policies: Array) -> Prepared:
        rows, column = jnp.arange(size)[:, None], jnp.arange(policies.shape[1])[None, :, None]
        taken = expand(policies)
        follow = jnp.asarray(np.minimum(successor, size - 1), jnp.int32)[rows, taken]  # [S, P, B]
        odds = constant(weight)[rows, taken]
        immediate = constant(gain)[rows, taken]
        return Prepared(immediate, lambda value: (odds * value[follow, column]).sum(axis=-1))

    prepare = prepare_dense if size * actions * size <= _DENSE else prepare_sparse
    return Backward(prepare, constant(table.initial[states]), place, table.horizon)


def make_returns(table: TabularMDP) -> Callable[[Array], Array]:
    """Return the traceable function from policies ``[n, P]`` (actions in the choices) to ``J`` ``[P]``."""
    backward = make_backward(table)

    def returns(policies: Array) -> Array:
        immediate, ahead = backward.prepare(policies)
        value = jax.lax.fori_loop(
            0, backward.horizon - 1, lambda _, value: immediate + ahead(value), immediate
        )
        returned: Array = backward.initial @ value
        return returned

    return returns


def make_visits(table: TabularMDP) -> Callable[[Array], Array]:
    """Return the traceable function from policies to the probability of visiting each choice, ``[n, P]``."""
    backward = make_backward(table if table.discount == 1 else table.with_problem(discount=1.0))

    def visits(policies: Array) -> Array:
        ahead = backward.prepare(policies).ahead

        def one(target: Array) -> Array:
            here = (jnp.arange(backward.initial.shape[0]) == target)[:, None]
            start = jnp.broadcast_to(here, (here.shape[0], policies.shape[1])).astype(float)
            # A visit is a state in which an action is taken, so at most ``horizon - 1`` moves come before it.
            reached = jax.lax.fori_loop(
                0, backward.horizon - 1, lambda _, value: jnp.where(here, 1.0, ahead(value)), start
            )
            visited: Array = backward.initial @ reached
            return visited

        every: Array = jax.lax.map(one, jnp.asarray(backward.place))
        return every

    return visits


def visits_of(table: TabularMDP, sample: NDArray[np.int32]) -> NDArray[np.float64]:
    """Return the probability ``[n, P]`` with which whole policies ``[P, S]`` visit each choice."""
    with jax.enable_x64(False):
        actions = jnp.asarray(sample[:, choices_of(table).state].T)
        return np.asarray(jax.jit(make_visits(table))(actions), np.float64)


def gibbs_cost(table: TabularMDP) -> int:
    """Return how many multiplications a pass of single-state draws takes per policy."""
    choices = choices_of(table)
    size, actions = len(decision_states(table, table.horizon)), table.num_actions
    dense = size * actions * size
    one = (dense if dense <= _DENSE else size * table.successor.shape[2] * 8) * table.horizon
    return len(choices.state) * actions * one
