"""A table as the passes see it: the states where something is decided, with successors and predecessors."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from polinfer.exact.enumeration import decision_states
from polinfer.exact.solution import Floats
from polinfer.problems.tabular.table import TabularMDP

_WIDTHS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048)
_PIECE_OVERHEAD = 24  # what starting a piece of a level costs, in states
_DENSE_SHARE = 1 / 6  # of non-zero entries, from which on products with a dense matrix are faster
_DENSE_ENTRIES = 1 << 22
_DENSE_SIZE = 16  # slots, up to which they are in any case
_MOST_PREDECESSORS = 24  # by row; what hubs have beyond is added up by segments
_ANY_PREDECESSORS = 16  # by row in any case
_HUB_COST = 3  # of a predecessor that is added up, in those by row
_LEVEL_PADDING = 16  # levels are given up where rows of predecessors would be so many times too long


class Problem(NamedTuple):
    """The states in which an action is taken within the horizon, in `N` slots (some may be empty).

    Slot `N` stands for everything that is over.  Where no episode can come back to a state and the horizon
    cuts no episode, slots are sorted by level (the longest way from a start), in pieces of `width` that lie
    within one level.
    """

    state: NDArray[np.int64]  # [N] the table's number of each slot's state; -1 where the slot is empty
    successor: NDArray[np.int32]  # [N, A, B]
    probability: Floats  # [N, A, B] times the discount; zero where the successor is over
    gain: Floats  # [N, A] expected reward
    legal: NDArray[np.bool_]  # [N, A]; empty slots have their first action
    initial: Floats  # [N]
    origin: NDArray[np.int32]  # [N, K] predecessors as slot * A + action; N * A where there is none
    inflow: Floats  # [N, K] their probabilities
    hub_origin: NDArray[np.int32]  # [E] further predecessors of the few states that have many
    hub_target: NDArray[np.int32]  # [E] ascending
    hub_inflow: Floats  # [E]
    horizon: int
    width: int  # states per piece of a level; 0 where there are no levels
    prior: Floats  # [N, A] reference measure
    discount: float  # of which `probability` and `inflow` hold a factor each

    @property
    def size(self) -> int:
        """Number of slots `N`."""
        return len(self.state)

    @property
    def occupied(self) -> NDArray[np.bool_]:
        """Which slots hold a state, ``[N]``."""
        return self.state >= 0

    @property
    def log_count(self) -> float:
        """Logarithm of the number of policies."""
        return float(np.log(self.legal.sum(axis=1)).sum())

    @property
    def log_prior(self) -> Floats:
        """Logarithm of the reference measure, ``[N, A]``."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.prior))

    def undiscounted(self) -> Problem:
        """Return the problem whose visits are counted and not discounted."""
        if self.discount == 1:
            return self
        return self._replace(
            probability=self.probability / self.discount,
            inflow=self.inflow / self.discount,
            hub_inflow=self.hub_inflow / self.discount,
            discount=1.0,
        )


def reduce_table(table: TabularMDP) -> Problem:
    """Return the part of `table` that policies can reach, one slot for each state, without levels."""
    states = decision_states(table, table.horizon)
    legal = table.legal_actions[states]
    local = np.full(table.num_states, len(states))
    local[states] = np.arange(len(states))
    successor = local[table.successor[states]]
    inside = (successor < len(states)) & legal[:, :, None]
    probability = np.where(inside, table.onward[states], 0.0)
    gain = np.where(legal, (table.probability[states] * table.reward[states]).sum(axis=-1), 0.0)
    return make_problem(
        states,
        np.where(probability > 0, successor, len(states)),
        probability,
        gain,
        table.prior[states],
        table.initial[states],
        table.horizon,
        table.discount,
    )


def make_problem(
    state: NDArray[np.int64],
    successor: NDArray[np.integer],
    probability: Floats,
    gain: Floats,
    prior: Floats,
    initial: Floats,
    horizon: int,
    discount: float,
    width: int = 0,
) -> Problem:
    """Return a problem with its predecessors; the fields are those of `Problem`."""
    follow = np.asarray(successor, np.int32)
    incoming = _predecessors(follow, probability, most=0 if width else _MOST_PREDECESSORS)
    return Problem(
        state,
        follow,
        probability,
        gain,
        prior > 0,
        initial,
        *incoming,
        horizon,
        width,
        prior,
        discount,
    )


def restrict(problem: Problem, kept: NDArray[np.int64], paid: NDArray[np.bool_]) -> Problem:
    """Return the problem of the slots `kept`; only those `paid` ``[N]`` earn anything."""
    place = np.full(problem.size + 1, len(kept))
    place[kept] = np.arange(len(kept))
    successor = place[problem.successor[kept]]
    return make_problem(
        problem.state[kept],
        successor,
        np.where(successor < len(kept), problem.probability[kept], 0.0),
        np.where(paid[kept, None], problem.gain[kept], 0.0),
        problem.prior[kept],
        problem.initial[kept],
        problem.horizon,
        problem.discount,
    )


def arrange(problem: Problem) -> Problem:
    """Sort a problem by levels where no episode can come back and the horizon cuts none."""
    if not problem.size or problem.width:
        return problem
    level = _levels(problem.successor, problem.probability, problem.horizon)
    if level is None or _padding(problem.successor, problem.probability) > _LEVEL_PADDING:
        return problem
    slots, width = _pieces(level)
    held = slots >= 0
    place = np.full(problem.size + 1, len(slots))
    place[slots[held]] = np.flatnonzero(held)

    def lay(values: NDArray[np.generic], empty: float) -> Any:
        whole = np.full((len(slots), *values.shape[1:]), empty, values.dtype)
        whole[held] = values[slots[held]]
        return whole

    prior = lay(problem.prior, 0.0)
    prior[~held, 0] = 1.0
    return make_problem(
        lay(problem.state, -1),
        lay(place[problem.successor], len(slots)),
        lay(problem.probability, 0.0),
        lay(problem.gain, 0.0),
        prior,
        lay(problem.initial, 0.0),
        problem.horizon,
        problem.discount,
        width,
    )


def transition_matrix(problem: Problem) -> csr_matrix:
    """Return the probabilities ``[N * A, N]`` of moving on from each state and action."""
    size, actions, _ = problem.successor.shape
    row, slot = np.nonzero(problem.probability.reshape(size * actions, -1))
    column = problem.successor.reshape(size * actions, -1)[row, slot]
    data = problem.probability.reshape(size * actions, -1)[row, slot]
    return csr_matrix((data, (row, column)), shape=(size * actions, size))


def is_dense(problem: Problem) -> bool:
    """Return whether products with a dense matrix are faster than looking rows up."""
    entries = problem.size**2 * problem.legal.shape[1]
    used = int(np.count_nonzero(problem.probability))
    much = entries <= _DENSE_ENTRIES and used > _DENSE_SHARE * entries
    return problem.width == 0 and (much or problem.size <= _DENSE_SIZE)


def levels_of(problem: Problem) -> NDArray[np.int64] | None:
    """Return the longest way to each state, ``[N]``; None if one can come twice or the horizon cuts it."""
    return _levels(problem.successor, problem.probability, problem.horizon)


def _levels(successor: NDArray[np.int32], probability: Floats, horizon: int) -> NDArray[np.int64] | None:
    """Return the longest way to each state, ``[n]``; None if there is a cycle or the horizon cuts it."""
    size = len(successor)
    source, action, slot = np.nonzero(probability > 0)
    edges = csr_matrix((np.ones(len(source)), (source, successor[source, action, slot])), shape=(size, size))
    waiting = np.asarray((edges > 0).sum(axis=0)).ravel()
    level = np.zeros(size, np.int64)
    frontier = np.flatnonzero(waiting == 0)
    depth, done = 0, 0
    # Kahn's algorithm, a whole level at a time.
    while len(frontier):
        level[frontier] = depth
        done += len(frontier)
        arrived = edges[frontier].indices
        touched, count = np.unique(arrived, return_counts=True)
        waiting[touched] -= count
        frontier = touched[waiting[touched] == 0]
        depth += 1
        if depth > horizon:
            return None
    return level if done == size and depth <= horizon else None


def _padding(successor: NDArray[np.int32], probability: Floats) -> float:
    """Return the largest number of predecessors over the mean one."""
    degree = np.bincount(successor[probability > 0], minlength=len(successor))[: len(successor)]
    return float(degree.max(initial=0)) / max(float(degree.mean()), 1.0)


def _pieces(level: NDArray[np.int64]) -> tuple[NDArray[np.int64], int]:
    """Return the state of each slot (-1: none) and the number of slots per piece."""
    sizes = np.bincount(level)
    width = min(_WIDTHS, key=lambda wide: float((-(-sizes // wide)).sum() * (wide + _PIECE_OVERHEAD)))
    pieces = -(-sizes // width)
    first = np.concatenate([[0], np.cumsum(pieces)[:-1]]) * width
    order = np.argsort(level, kind="stable")
    rank = np.arange(len(level)) - np.concatenate([[0], np.cumsum(sizes)[:-1]])[level[order]]
    slots = np.full(int(pieces.sum()) * width, -1, np.int64)
    slots[first[level[order]] + rank] = order
    return slots, width


class _Incoming(NamedTuple):
    origin: NDArray[np.int32]
    inflow: Floats
    hub_origin: NDArray[np.int32]
    hub_target: NDArray[np.int32]
    hub_inflow: Floats


def _predecessors(successor: NDArray[np.int32], probability: Floats, most: int) -> _Incoming:
    """Return for each state the pairs of state and action that lead there, and with what probability.

    Beyond `most` pairs at most (0: no limit) they are listed one by one.
    """
    size, actions, _ = successor.shape
    pair, slot = np.nonzero(probability.reshape(size * actions, -1))
    target = successor.reshape(size * actions, -1)[pair, slot]
    flow = probability.reshape(size * actions, -1)[pair, slot]
    matrix = csr_matrix((flow, (target, pair)), shape=(size, size * actions))
    degree = np.diff(matrix.indptr)
    columns = max(int(degree.max(initial=0)), 1)
    if most and columns > _ANY_PREDECESSORS:
        few = np.arange(_ANY_PREDECESSORS, min(columns, most) + 1)
        beyond = np.maximum(degree - few[:, None], 0).sum(axis=1)
        columns = int(few[np.argmin(few * size + _HUB_COST * beyond)])
    origin = np.full((size, columns), size * actions, np.int32)
    inflow = np.zeros((size, columns))
    row = np.repeat(np.arange(size), degree)
    column = np.arange(len(row)) - matrix.indptr[row]
    kept = column < columns
    origin[row[kept], column[kept]] = matrix.indices[kept]
    inflow[row[kept], column[kept]] = matrix.data[kept]
    return _Incoming(
        origin,
        inflow,
        matrix.indices[~kept].astype(np.int32),
        row[~kept].astype(np.int32),
        matrix.data[~kept],
    )
