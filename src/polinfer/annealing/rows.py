"""A problem's arrays on the device, and one step of many policies on them, onward and back.

Policies lie along the last axis, so that following a transition moves a whole row.  A row product costs
about a tenth of looking single entries up, so all actions are evaluated and not only those taken.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from polinfer.annealing.edges import find_edges
from polinfer.annealing.problem import Problem, is_dense, transition_matrix
from polinfer.annealing.returning import dense_returns, two_step_returns

UNROLLED = 32


class Evaluation(NamedTuple):
    """What a batch of policies does."""

    returns: Array  # [P] J
    visits: Array  # [N, P] expected number of visits; above zero where the policy comes at all
    adjoint: Array  # [N, A, P]


class Rows(NamedTuple):
    """A problem's arrays on the device; compiled code is shared by problems of equal shapes."""

    matrix: Array  # [N * A, N], or empty where rows are looked up; then all other transitions are empty
    gain: Array  # [N, A]
    initial: Array  # [N]
    successor: Array  # [B, N * A] int32
    probability: Array  # [B, N * A]
    origin: Array  # [K, N]
    inflow: Array  # [K, N]
    hub_origin: Array  # [E]
    hub_target: Array  # [E]
    hub_inflow: Array  # [E]
    neighbour: Array  # [U, N]; as in `Edges`
    weight: Array  # [U, N, A]
    arriving: Array  # [K, N]
    stays: Array  # [N, A] probability of staying
    back: Array  # of leaving and returning at once, as `return_chances` or `dense_chances` takes it
    horizon: Array  # [] steps


_LOOKED_UP = (
    "successor",
    "probability",
    "origin",
    "inflow",
    "hub_origin",
    "hub_target",
    "hub_inflow",
    "neighbour",
    "weight",
    "arriving",
)
Evaluate = Callable[[Rows, Array], Evaluation]
"""From a problem's rows and actions ``[N, P]`` to their evaluation."""


def make_rows(problem: Problem, dtype: Any = np.float32) -> Rows:
    """Put a problem on the device."""
    size, actions, outcomes = problem.successor.shape

    def put(values: Any, kind: Any = dtype) -> Array:
        return jnp.asarray(np.asarray(values, kind))

    dense = is_dense(problem)
    stays, back = dense_returns(problem) if dense else two_step_returns(problem)
    edges = find_edges(problem)
    rows = Rows(
        matrix=put(np.zeros((0, 0))),
        gain=put(problem.gain),
        initial=put(problem.initial),
        successor=put(problem.successor.reshape(size * actions, outcomes).T, np.int32),
        probability=put(problem.probability.reshape(size * actions, outcomes).T),
        origin=put(problem.origin.T, np.int32),
        inflow=put(problem.inflow.T),
        hub_origin=put(problem.hub_origin, np.int32),
        hub_target=put(problem.hub_target, np.int32),
        hub_inflow=put(problem.hub_inflow),
        neighbour=put(edges.neighbour, np.int32),
        weight=put(edges.weight),
        arriving=put(edges.arriving, np.int32),
        stays=put(stays),
        back=put(back),
        horizon=put(problem.horizon, np.int32),
    )
    if not dense:
        return rows
    # What is not looked up has no shape, so that more problems share a program.
    unused = {name: getattr(rows, name).reshape(-1)[:0] for name in _LOOKED_UP}
    return rows._replace(matrix=put(transition_matrix(problem).toarray()), **unused)


def sum_rows(values: Array, index: Array, weight: Array) -> Array:
    """Return ``sum_k weight[k, n] values[index[k, n]]``, ``[n, P]``; `values` has a last row of zeros."""
    count = index.shape[0]
    if count <= UNROLLED:
        few = weight[0][:, None] * values[index[0]]
        for k in range(1, count):
            few = few + weight[k][:, None] * values[index[k]]
        return few
    empty = jnp.zeros((index.shape[1], values.shape[1]), values.dtype)
    total: Array = jax.lax.fori_loop(
        0, count, lambda k, so_far: so_far + weight[k][:, None] * values[index[k]], empty
    )
    return total


def _pad(values: Array) -> Array:
    return jnp.concatenate([values, jnp.zeros((1, values.shape[1]), values.dtype)])


def taken_actions(policy: Array, actions: int) -> Array:
    """Return whether each action is the one that is taken, ``[N, A, P]``."""
    return policy[:, None, :] == jnp.arange(actions, dtype=policy.dtype)[:, None]


def _ahead(rows: Rows, value: Array) -> Array:
    """Return what each action earns, ``[N, A, P]``, if what follows is worth `value` ``[N, P]``."""
    size, actions = rows.gain.shape
    if rows.matrix.size:
        after = rows.matrix @ value
    else:
        after = sum_rows(_pad(value), rows.successor, rows.probability)
    return rows.gain[:, :, None] + after.reshape(size, actions, -1)


def _onward(rows: Rows, taken: Array, here: Array) -> Array:
    """Return where policies are one step after `here` ``[N, P]``."""
    size, actions = rows.gain.shape
    flow = jnp.where(taken, here[:, None, :], 0.0).reshape(size * actions, -1)
    if rows.matrix.size:
        return rows.matrix.T @ flow
    flow = _pad(flow)
    there = sum_rows(flow, rows.origin, rows.inflow)
    if rows.hub_origin.size:
        more = rows.hub_inflow[:, None] * flow[rows.hub_origin]
        there = there + jax.ops.segment_sum(more, rows.hub_target, size, indices_are_sorted=True)
    return there


class Steps(NamedTuple):
    """How policies move on and look back, one step at a time."""

    onward: Callable[[Array], Array]  # from where they are to where they are next, [N, P]
    back: Callable[[Array, Array, Any], tuple[Array, Any]]  # visits, later value and sums to value and sums
    nothing: Any  # sums before the first step
    adjoint: Callable[[Array, Any], Array]  # visits and sums to [N, A, P]


def make_steps(rows: Rows, policy: Array) -> Steps:
    """Return the steps of policies ``[N, P]``, the cheaper way."""
    return _by_edge(rows, policy) if rows.neighbour.size else _by_action(rows, policy)


def _by_action(rows: Rows, policy: Array) -> Steps:
    """Go over all actions and their outcomes."""
    size, actions = rows.gain.shape
    taken = taken_actions(policy, actions)

    def back(here: Array, value: Array, adjoint: Array) -> tuple[Array, Array]:
        worth = _ahead(rows, value)
        return jnp.where(taken, worth, 0.0).sum(axis=1), adjoint + here[:, None, :] * worth

    nothing = jnp.zeros((size, actions, policy.shape[1]), rows.gain.dtype)
    return Steps(lambda here: _onward(rows, taken, here), back, nothing, lambda visits, adjoint: adjoint)


def _held(*values: Any) -> Any:
    return jax.lax.optimization_barrier(values)  # type: ignore[no-untyped-call]


def _by_edge(rows: Rows, policy: Array) -> Steps:
    """Go over the neighbours of each state, see `polinfer.annealing.edges`."""
    (size, actions), count = rows.gain.shape, policy.shape[1]
    width = rows.neighbour.shape[0]

    def taken(columns: Array) -> Array:
        own = jnp.zeros((size, count), columns.dtype)  # a policy without an action (-1) stops
        for action in range(actions):
            own = jnp.where(policy == action, columns[:, action, None], own)
        return own

    leaving = [taken(rows.weight[u]) for u in range(width)]
    every = _pad(jnp.concatenate(leaving))
    source = [jnp.where(edge < width * size, edge % size, size - 1) for edge in rows.arriving]
    # Held in memory: they are the same at every step.
    entering = [every[edge] for edge in rows.arriving]
    leaving, entering, earned = _held(leaving, entering, taken(rows.gain))

    def onward(here: Array) -> Array:
        there: Array = reduce(jnp.add, (own * here[at] for own, at in zip(entering, source, strict=True)))
        return there

    def back(here: Array, value: Array, met: tuple[Array, ...]) -> tuple[Array, tuple[Array, ...]]:
        padded = _pad(value)
        near = [padded[at] for at in rows.neighbour]
        new = reduce(jnp.add, (own * there for own, there in zip(leaving, near, strict=True)), earned)
        return new, tuple(so_far + here * there for so_far, there in zip(met, near, strict=True))

    def adjoint(visits: Array, met: tuple[Array, ...]) -> Array:
        def of(action: int) -> Array:
            ahead = (rows.weight[u, :, action, None] * met[u] for u in range(width))
            return reduce(jnp.add, ahead, rows.gain[:, action, None] * visits)

        return jnp.stack([of(action) for action in range(actions)], axis=1)

    blank = jnp.zeros((size, count), rows.gain.dtype)
    return Steps(onward, back, (blank,) * width, adjoint)
