"""Exact posteriors over deterministic policies in NumPy alone, sharing no code with `polinfer.exact`.

`by_reach_classes` lists the *reach classes* of any table: the choices of a policy on the states in which it
acts within the horizon.  A class has prior mass ``prod mu(a|s)`` over those states (``1/|legal|`` unless the
problem has a prior), and all its policies have the same return, so a sum over classes is the sum over all
policies.  `on_forest`, `on_paths` and `on_union` are closed forms for problems of any size.  Each returns
the log evidence and the marginal policy.
"""

from typing import NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from polinfer import TabularMDP

Floats = NDArray[np.float64]
_CHUNK = 1 << 13


class Truth(NamedTuple):
    log_evidence: float  # log of the mean of exp(J) over all policies, drawn from the prior
    policy: Floats  # [S, A], Pr[pi(s) = a] under the posterior, the prior where pi does not come
    classes: float  # how many reach classes there are; inf where they were not counted


class TooManyClassesError(ValueError):
    """There are more reach classes than asked for."""


def uniform(table: TabularMDP) -> Floats:
    """Return the reference policy ``[S, A]``."""
    return table.legal_actions / table.legal_actions.sum(axis=1, keepdims=True)


def by_reach_classes(table: TabularMDP, limit: int = 300_000) -> Truth:
    """Sum ``exp(J)`` over all reach classes, for problems of some tens of states."""
    acting = np.flatnonzero(~table.absorbing)
    move, gain = _dense(table, acting)
    legal = table.legal_actions[acting]
    partial = reach_classes(move > 0, legal, table.initial[acting] > 0, table.horizon, limit)
    decided = partial >= 0
    actions = np.where(decided, partial, legal.argmax(axis=1))
    with np.errstate(divide="ignore"):
        log_prior = np.log(np.take_along_axis(table.prior[acting].T, actions, axis=0))
    log_mass = np.where(decided, log_prior, 0.0).sum(axis=1)
    returns = np.concatenate(
        [
            _returns(
                table.discount * move, gain, table.initial[acting], actions[i : i + _CHUNK], table.horizon
            )
            for i in range(0, len(actions), _CHUNK)
        ]
    )
    log_weight = returns + log_mass
    top = log_weight.max()
    weight = np.exp(log_weight - top)
    log_evidence = float(top + np.log(weight.sum()))
    weight /= weight.sum()
    policy = table.prior.copy()
    for i, state in enumerate(acting):
        share = np.bincount(partial[decided[:, i], i], weight[decided[:, i]], table.num_actions)
        policy[state] = share + (1 - share.sum()) * policy[state]
    return Truth(log_evidence, policy, float(len(partial)))


def reach_classes(
    possible: NDArray[np.bool_], legal: NDArray[np.bool_], start: NDArray[np.bool_], horizon: int, limit: int
) -> NDArray[np.int8]:
    """Return every reach class ``[n, S]``: an action where the policy acts, -1 where it never comes.

    Partial policies grow by one reached but undecided state at a time; those without one are complete.
    """
    states = len(start)
    edge = np.concatenate([possible, np.zeros((states, 1, states), bool)], axis=1).astype(np.float32)
    growing, complete, total = np.full((1, states), -1, np.int8), [], 0
    while len(growing):
        grown = []
        for first in range(0, len(growing), _CHUNK):
            chunk = growing[first : first + _CHUNK]
            follow = edge[np.arange(states), chunk]  # [n, S, S]; the last action, -1, leads nowhere
            reached = np.repeat(start[None].astype(np.float32), len(chunk), axis=0)
            for _ in range(min(horizon - 1, states)):
                onward = np.minimum(reached + np.matmul(reached[:, None], follow)[:, 0], 1.0)
                if (onward == reached).all():
                    break
                reached = onward
            undecided = (reached > 0) & (chunk < 0)
            done = ~undecided.any(axis=1)
            complete.append(chunk[done])
            total += int(done.sum())
            rest, state = chunk[~done], undecided[~done].argmax(axis=1)
            row, action = np.nonzero(legal[state])
            children = rest[row]
            children[np.arange(len(row)), state[row]] = action
            grown.append(children)
        growing = np.concatenate(grown)
        if total + len(growing) > limit:
            raise TooManyClassesError(f"more than {limit:,} reach classes")
    return np.concatenate(complete)


def _dense(table: TabularMDP, acting: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Return the moves ``[n, A, n]`` among the states in which one acts and the expected rewards."""
    place = np.full(table.num_states, len(acting))
    place[acting] = np.arange(len(acting))
    n, a, b = np.indices(table.successor[acting].shape)
    move = np.zeros((len(acting), table.num_actions, len(acting) + 1))
    np.add.at(move, (n, a, place[table.successor[acting][n, a, b]]), table.probability[acting])
    return move[:, :, :-1], (table.probability[acting] * table.reward[acting]).sum(axis=-1)


def _returns(move: Floats, gain: Floats, initial: Floats, actions: NDArray[np.int8], horizon: int) -> Floats:
    """Return ``J [n]`` of the policies ``actions [n, S]``; long horizons by squaring ``[[P, r], [0, 1]]``."""
    states = np.arange(len(initial))
    follow, reward = move[states, actions], gain[states, actions][:, :, None]
    if horizon <= 64:
        value = np.zeros_like(reward)
        for _ in range(horizon):
            value = reward + follow @ value
        return value[:, :, 0] @ initial
    value = np.zeros_like(reward)
    while horizon:
        if horizon & 1:  # this many steps, then what `value` holds; powers of one matrix commute
            value = reward + follow @ value
        reward, follow = reward + follow @ reward, follow @ follow
        horizon >>= 1
    return value[:, :, 0] @ initial


def _levels(table: TabularMDP) -> list[NDArray[np.int64]]:
    """Return the states in which one acts by longest distance to the end; refuse cycles and cut-offs."""
    rows, columns = _edges(table)
    acting = np.flatnonzero(~table.absorbing)
    into = scipy.sparse.csr_array((np.ones(len(rows)), (columns, rows)), shape=(table.num_states,) * 2)
    waiting = np.bincount(rows, minlength=table.num_states)
    waiting[table.absorbing] = -1
    level, levels, seen = acting[waiting[acting] == 0], [], 0
    while len(level):
        levels.append(level)
        seen += len(level)
        waiting[level] = -1
        hit = np.zeros(table.num_states)
        hit[level] = 1.0
        waiting = waiting - (into.T @ hit).astype(np.int64)
        level = acting[waiting[acting] == 0]
    if seen < len(acting):
        raise ValueError("a state can be visited twice")
    if len(levels) > table.horizon:
        raise ValueError("the horizon cuts episodes off")
    return levels


def _edges(table: TabularMDP) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the pairs of states between which a move is possible, absorbing ones left out."""
    used = (table.probability > 0) & table.legal_actions[:, :, None] & ~table.absorbing[:, None, None]
    used &= ~table.absorbing[table.successor]
    state = np.broadcast_to(np.arange(table.num_states)[:, None, None], used.shape)
    pairs = np.unique(state[used] * np.int64(table.num_states) + table.successor[used])
    return pairs // table.num_states, pairs % table.num_states


def on_forest(table: TabularMDP) -> Truth:
    """Solve a problem in which every state has one way in: a start or one outcome of one pair.

    A policy that comes to `s` does so with one probability ``W(s)``, whatever it does elsewhere, so subtrees
    are independent given that they are reached: ``V(s) = (1/W) log mean exp(W (r + P V))``.
    """
    used = (table.probability > 0) & table.legal_actions[:, :, None] & ~table.absorbing[:, None, None]
    used &= ~table.absorbing[table.successor]
    ways = np.bincount(table.successor[used], minlength=table.num_states) + (table.initial > 0)
    if (ways[~table.absorbing] != 1).any():
        raise ValueError("a state has more than one way in, or none")
    levels = _levels(table)
    weight = np.where(table.absorbing, 0.0, table.initial)
    for level in reversed(levels):
        inside = used[level]
        flow = weight[level][:, None, None] * table.probability[level]
        weight[table.successor[level][inside]] = flow[inside]
    value, choice = _soft(table, levels, weight)
    return Truth(float(table.initial @ value), _mix(table, levels, choice, table.initial > 0), np.inf)


def on_paths(table: TabularMDP) -> Truth:
    """Solve a deterministic problem with one start in which no state can be visited twice.

    A policy acts along one path and visits each state of it once: soft value iteration relative to the
    uniform policy is exact.
    """
    acting = ~table.absorbing
    if (table.initial > 0).sum() != 1 or (table.probability[acting] > 0).sum(axis=-1).max() > 1:
        raise ValueError("the start and every move must be certain")
    levels = _levels(table)
    value, choice = _soft(table, levels, np.ones(table.num_states))
    return Truth(float(table.initial @ value), _mix(table, levels, choice, table.initial), np.inf)


def _soft(table: TabularMDP, levels: list[NDArray[np.int64]], weight: Floats) -> tuple[Floats, Floats]:
    value, choice = np.zeros(table.num_states), uniform(table)
    for level in levels:
        gain = table.reward[level] + value[table.successor[level]]
        worth = (table.probability[level] * gain).sum(axis=-1)
        legal, scale = table.legal_actions[level], weight[level]
        scaled = np.where(legal, worth * scale[:, None], -np.inf)
        top = scaled.max(axis=1, keepdims=True)
        mass = np.exp(scaled - top)
        value[level] = (top[:, 0] + np.log(mass.sum(axis=1) / legal.sum(axis=1))) / scale
        choice[level] = mass / mass.sum(axis=1, keepdims=True)
    return value, choice


def _mix(table: TabularMDP, levels: list[NDArray[np.int64]], choice: Floats, start: Floats) -> Floats:
    """Return ``P(reach) choice + (1 - P(reach)) uniform``: each way in excludes the others."""
    reach = np.asarray(start, np.float64).copy()
    for level in reversed(levels):
        flow = reach[level][:, None, None] * choice[level][:, :, None] * (table.probability[level] > 0)
        np.add.at(reach, table.successor[level], flow)
    reach = np.where(table.absorbing, 0.0, reach)[:, None]
    return reach * choice + (1 - reach) * uniform(table)


class Blocks(NamedTuple):
    """Problems that share no state, each with its own start; episodes leave a block only to end."""

    move: Floats  # [N, S, A, S], what is missing to one ends the episode
    gain: Floats  # [N, S, A]
    start: Floats  # [N, S], sums to one over all blocks and states


def on_union(blocks: Blocks, horizon: int) -> tuple[float, Floats]:
    """Return the log evidence of all blocks together and their marginal policies ``[N, S, A]``.

    ``J`` is a sum over blocks, so the posterior is a product of theirs.  All actions are legal.
    """
    number, states, actions = blocks.gain.shape
    policies = np.stack(np.unravel_index(np.arange(actions**states), (actions,) * states), axis=1)
    returns = np.empty((number, len(policies)))
    place = np.arange(states)
    for i, policy in enumerate(policies):
        follow, reward = blocks.move[:, place, policy], blocks.gain[:, place, policy]
        value = np.zeros_like(reward)
        for _ in range(horizon):
            value = reward + np.einsum("nst,nt->ns", follow, value)
        returns[:, i] = (blocks.start * value).sum(axis=1)
    top = returns.max(axis=1, keepdims=True)
    weight = np.exp(returns - top)
    log_evidence = float((top[:, 0] + np.log(weight.mean(axis=1))).sum())
    weight /= weight.sum(axis=1, keepdims=True)
    marginal = np.einsum("np,psa->nsa", weight, np.eye(actions)[policies])
    return log_evidence, marginal


def occupancy(table: TabularMDP, policy: Floats) -> Floats:
    """Return the expected number of steps ``[S]`` in each state (discounted), zero after an end."""
    acting = np.flatnonzero(~table.absorbing)
    place = np.full(table.num_states, -1)
    place[acting] = np.arange(len(acting))
    weight = policy[acting][:, :, None] * table.probability[acting]
    column = place[table.successor[acting]]
    row = np.broadcast_to(np.arange(len(acting))[:, None, None], weight.shape)
    used = (weight > 0) & (column >= 0)
    shape = (len(acting), len(acting))
    flow = scipy.sparse.csr_array((weight[used], (column[used], row[used])), shape=shape)
    here = table.initial[acting]
    total = np.zeros(len(acting))
    for _ in range(table.horizon):
        total += here
        here = table.discount * (flow @ here)
        if not here.any():
            break
    steps = np.zeros(table.num_states)
    steps[acting] = total
    return steps
