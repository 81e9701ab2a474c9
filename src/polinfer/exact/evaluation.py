"""Exact policy evaluation on a table: return, variance, occupancy, endings, entropy."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special
from jax import Array
from numpy.typing import NDArray

from polinfer.core.errors import PolinferError, check_at_least, check_share
from polinfer.core.protocol import constant
from polinfer.exact import squared
from polinfer.exact.solution import Floats
from polinfer.problems.tabular.table import TabularMDP

_BYTES = 1 << 26  # of policies that `stochastic_returns` evaluates together


@dataclass(frozen=True)
class PolicyValue:
    """The consequences of following one policy from the start."""

    expected_return: float  # J, discounted
    variance: float  # of the return of one episode
    value: Floats  # [S], the expected return from each state with the whole horizon left
    occupancy: Floats  # [S], expected discounted number of steps spent there; for terminal states, arrivals
    success: float | None  # None where the table does not distinguish endings
    endings: dict[str, float]  # the probability of each; the rest was cut off at the horizon
    length: float  # expected number of steps
    entropy: float  # of the policy's choices, in nats, averaged over the steps of an episode

    @property
    def std(self) -> float:
        """The standard deviation of the return of one episode."""
        return float(np.sqrt(self.variance))


def action_values(table: TabularMDP, value: Floats) -> Floats:
    """Return the value of each action, ``[S, A]``, given the values `value` ``[S]`` of successors."""
    later = table.discount * np.asarray(value)[table.successor]
    worth = (table.probability * (table.reward + later)).sum(axis=-1)
    return np.asarray(np.where(table.absorbing[:, None], 0.0, worth))


def one_hot_policy(table: TabularMDP, actions: NDArray[np.integer]) -> Floats:
    """Write a deterministic policy ``[S] int`` as ``[S, A]`` probabilities."""
    checked = _check_actions(table, np.asarray(actions)[None])[0]
    return np.asarray(np.eye(table.num_actions)[checked])


def _check_actions(table: TabularMDP, policies: NDArray[np.integer]) -> NDArray[np.integer]:
    """Refuse actions ``[n, S]`` that do not exist or are not legal; terminal states do not matter."""
    if policies.ndim != 2 or policies.shape[1] != table.num_states or policies.dtype.kind not in "iu":
        raise PolinferError(
            f"policies must be integers of shape [n, S] = [n, {table.num_states}], "
            f"got {policies.dtype} of shape {list(policies.shape)}"
        )
    policies = np.where(table.absorbing, 0, policies)
    outside = (policies < 0) | (policies >= table.num_actions)
    if outside.any():
        n, s = np.argwhere(outside)[0]
        raise PolinferError(
            f"action {policies[n, s]} in state {table.state_names[s]!r} is outside 0..{table.num_actions - 1}"
        )
    illegal = ~table.legal_actions[np.arange(table.num_states), policies] & ~table.absorbing
    if illegal.any():
        n, s = np.argwhere(illegal)[0]
        raise PolinferError(
            f"action {table.action_names[int(policies[n, s])]!r} is not legal in state "
            f"{table.state_names[s]!r}"
        )
    return policies


def uniform_policy(table: TabularMDP) -> Floats:
    """Return the policy that draws among the legal actions, ``[S, A]``."""
    legal = table.legal_actions.astype(np.float64)
    return np.asarray(legal / legal.sum(axis=1, keepdims=True))


def draw_prior(prior: Floats, chance: Floats) -> NDArray[np.int32]:
    """Draw actions ``[N, M]`` from rows of probabilities ``[N, A]`` by uniform numbers ``[N, M]``.

    Examples
    --------
    >>> draw_prior(np.array([[0.0, 0.3, 0.7, 0.0]]), np.array([[0.0, 0.2, 0.3, 0.999]])).tolist()
    [[1, 1, 2, 2]]
    """
    cumulative = np.cumsum(prior, axis=1)
    drawn = np.zeros(chance.shape, np.int32)
    for action in range(prior.shape[1] - 1):
        drawn += chance >= cumulative[:, action, None]
    # Rounding may leave the last sum below one: an impossible action at the end is never drawn.
    last = prior.shape[1] - 1 - (prior[:, ::-1] > 0).argmax(axis=1)
    return np.asarray(np.minimum(drawn, last[:, None]), np.int32)


def check_policy(table: TabularMDP, policy: Floats | NDArray[np.integer], horizon: int) -> Floats:
    """Return `policy` as ``[S, A]`` or ``[H, S, A]`` probabilities, or say what is wrong with it."""
    array = np.asarray(policy)
    shape = (table.num_states, table.num_actions)
    if array.shape == shape[:1] and array.dtype.kind in "iu":
        return one_hot_policy(table, array)
    array = array.astype(np.float64)
    if array.shape not in (shape, (horizon, *shape)):
        raise PolinferError(
            f"policy must be [S] integers, [S, A] = {list(shape)} or [H, S, A] = {[horizon, *shape]} "
            f"probabilities, got shape {list(array.shape)}"
        )
    active = array[..., ~table.absorbing, :]
    if not (np.isfinite(active).all() and (active >= -1e-9).all() and (abs(active.sum(-1) - 1) < 1e-6).all()):
        raise PolinferError("policy must hold probabilities that sum to one over the actions of each state")
    if (active[..., ~table.legal_actions[~table.absorbing]] > 1e-9).any():
        raise PolinferError("policy gives probability to an illegal action; mask it with legal_actions")
    return _ignore_terminal(table, array)


def _ignore_terminal(table: TabularMDP, policy: Floats) -> Floats:
    """Replace the rows of terminal states, which may hold NaN: zero times NaN is NaN."""
    return np.where(table.absorbing[:, None], uniform_policy(table), policy)


def evaluate_policy(
    table: TabularMDP,
    policy: Floats | NDArray[np.integer],
    horizon: int | None = None,
    discount: float | None = None,
) -> PolicyValue:
    """Evaluate a deterministic ``[S]``, stochastic ``[S, A]`` or time-dependent ``[H, S, A]`` policy.

    Horizon and discount are the table's, unless others are given.

    Examples
    --------
    >>> import polinfer
    >>> table = polinfer.tabulate(polinfer.make("continuation", rho=0.5))
    >>> evaluate_policy(table, uniform_policy(table)).expected_return.__round__(4)
    0.6667
    """
    steps = table.horizon if horizon is None else check_at_least("horizon", horizon, 1)
    stages = check_policy(table, policy, steps)
    share = table.discount if discount is None else check_share("discount", discount)
    if stages.ndim == 2 and squared.pays(table.num_states, steps, share):
        value, variance, moved, arrivals = squared.consequences(table, stages, steps)
        surprise = float(moved @ -scipy.special.xlogy(stages, stages).sum(axis=-1))
        return _policy_value(table, value, variance, moved, arrivals, float(moved.sum()), surprise)
    with jax.enable_x64(True):
        staged = constant(np.broadcast_to(stages, (steps, *stages.shape[-2:])))
        arrays = (
            jnp.asarray(table.successor),
            constant(table.probability),
            constant(table.reward),
            jnp.asarray(table.absorbing),
        )
        value, variance = _backward(*arrays, staged, constant(share))
        visits, arrivals = _forward(*arrays, staged, constant(table.initial))
    moving = np.asarray(visits)  # [H, S]
    # Stage by stage: a time-dependent policy can be deterministic at every step and vary between steps.
    per_stage = -scipy.special.xlogy(stages, stages).sum(axis=-1)  # [S] or [H, S]
    return _policy_value(
        table,
        np.asarray(value),
        np.asarray(variance),
        _discounted(moving, share).sum(axis=0),
        np.asarray(arrivals),
        float(moving.sum()),
        float((moving * per_stage).sum()),
    )


def _policy_value(
    table: TabularMDP,
    value: Floats,
    variance: Floats,
    visits: Floats,
    arrivals: Floats,
    length: float,
    surprise: float,
) -> PolicyValue:
    """Average over starts; `visits` and `arrivals` are ``[S]``, `surprise` the entropy summed over steps."""
    mean = float(table.initial @ value)
    total = float(table.initial @ (variance + (value - mean) ** 2))
    ended = np.where(table.absorbing, arrivals, 0.0)
    endings = {
        ending.name: float(ended[table.ending_of == i].sum()) for i, ending in enumerate(table.endings)
    }
    success = sum(endings[e.name] for e in table.endings if e.success) if table.endings else None
    occupancy = np.where(table.absorbing, ended, visits)
    entropy = surprise / length if length > 0 else 0.0
    return PolicyValue(
        expected_return=mean,
        variance=total,
        value=value,
        occupancy=occupancy,
        success=success,
        endings=endings,
        length=length,
        entropy=entropy,
    )


def _discounted(visits: Floats, discount: float) -> Floats:
    """Return visits ``[H, S]`` times ``discount^t``."""
    return visits if discount == 1 else visits * discount ** np.arange(len(visits))[:, None]


def deterministic_returns(
    table: TabularMDP, policies: NDArray[np.integer], horizon: int | None = None
) -> Floats:
    """Return ``J`` ``[n]`` of many deterministic policies ``[n, S]`` at once.

    Examples
    --------
    >>> import polinfer
    >>> table = polinfer.tabulate(polinfer.make("continuation", rho=0.5))
    >>> deterministic_returns(table, np.array([[0, 0], [1, 0]])).tolist()
    [0.0, 1.0]
    """
    steps = table.horizon if horizon is None else check_at_least("horizon", horizon, 1)
    if squared.pays(table.num_states, steps, table.discount):
        return squared.returns(table, _check_actions(table, np.asarray(policies)), steps)
    with jax.enable_x64(True):
        returns = _deterministic(
            jnp.asarray(table.successor),
            constant(table.probability),
            constant(table.reward),
            constant(table.initial),
            jnp.asarray(_check_actions(table, np.asarray(policies)), jnp.int32),
            jnp.asarray(steps),
            constant(table.discount),
        )
    return np.asarray(returns)


@jax.jit
def _deterministic(
    successor: Array,
    probability: Array,
    reward: Array,
    initial: Array,
    policies: Array,
    steps: Array,
    discount: Array,
) -> Array:
    states = jnp.arange(successor.shape[0])

    def one(actions: Array) -> Array:
        # Terminal rows lead to themselves and pay nothing, so they need no mask.
        follow, weight = successor[states, actions], probability[states, actions]
        immediate = jnp.sum(weight * reward[states, actions], axis=-1)
        value = jax.lax.fori_loop(
            0,
            steps,
            lambda _, v: immediate + discount * jnp.sum(weight * v[follow], axis=-1),
            jnp.zeros_like(immediate),
        )
        return jnp.vdot(initial, value)

    returns: Array = jax.lax.map(one, policies, batch_size=64)
    return returns


def stochastic_returns(table: TabularMDP, policies: Floats) -> Floats:
    """Return ``J`` ``[n]`` of many stochastic policies ``[n, S, A]``, in double precision.

    Examples
    --------
    >>> import polinfer
    >>> table = polinfer.make("bandit", means=[0.2, 0.6])
    >>> uniform = uniform_policy(table)
    >>> stochastic_returns(table, np.stack([uniform, uniform])).round(6).tolist()
    [0.4, 0.4]
    """
    policies = np.asarray(policies, np.float64)
    if policies.ndim != 3 or policies.shape[1:] != (table.num_states, table.num_actions):
        raise PolinferError(
            f"policies must have shape [n, S, A] = [n, {table.num_states}, {table.num_actions}], "
            f"got {list(policies.shape)}"
        )
    size = returns_at_once(table)
    parts = [_returns(table, policies[first : first + size]) for first in range(0, len(policies), size)]
    return np.concatenate(parts) if parts else np.zeros(0)


def returns_at_once(table: TabularMDP) -> int:
    """Return how many policies `stochastic_returns` evaluates together."""
    return max(1, _BYTES // (8 * int(np.prod(table.probability.shape))))


def _returns(table: TabularMDP, policies: Floats) -> Floats:
    if squared.pays(table.num_states, table.horizon, table.discount):
        return squared.mixed_returns(table, policies, table.horizon)
    with jax.enable_x64(True):
        returned = _stochastic(
            jnp.asarray(table.successor),
            constant(table.probability),
            constant(table.reward),
            constant(table.initial),
            jnp.asarray(table.absorbing),
            constant(policies),
            jnp.asarray(table.horizon),
            constant(table.discount),
        )
    return np.asarray(returned)


@jax.jit
def _stochastic(
    successor: Array,
    probability: Array,
    reward: Array,
    initial: Array,
    absorbing: Array,
    policies: Array,
    steps: Array,
    discount: Array,
) -> Array:
    def one(policy: Array) -> Array:
        weight = jnp.where(absorbing[:, None, None], 0.0, policy[:, :, None] * probability)
        immediate = jnp.sum(weight * reward, axis=(1, 2))
        value = jax.lax.fori_loop(
            0,
            steps,
            lambda _, v: immediate + discount * jnp.sum(weight * v[successor], axis=(1, 2)),
            jnp.zeros_like(immediate),
        )
        return jnp.vdot(initial, value)

    returns: Array = jax.vmap(one)(policies)
    return returns


def average_over_time(table: TabularMDP, stages: Floats) -> Floats:
    """Average a time-dependent policy ``[H, S, A]`` over time, weighted by its own discounted visits.

    In each state the average takes the actions in the proportions in which the policy takes them there over
    the horizon.  States that are never visited get the plain average.
    """
    stages = _ignore_terminal(table, stages)
    with jax.enable_x64(True):
        visits, _ = _forward(
            jnp.asarray(table.successor),
            constant(table.probability),
            constant(table.reward),
            jnp.asarray(table.absorbing),
            constant(stages),
            constant(table.initial),
        )
    weight = _discounted(np.asarray(visits), table.discount)
    weight = np.where(weight.sum(axis=0) > 0, weight, 1.0)
    averaged = np.einsum("hs,hsa->sa", weight, stages) / weight.sum(axis=0)[:, None]
    return np.asarray(averaged / averaged.sum(axis=1, keepdims=True))


@jax.jit
def _backward(
    successor: Array, probability: Array, reward: Array, absorbing: Array, stages: Array, discount: Array
) -> tuple[Array, Array]:
    """Return mean and variance ``[S]`` of the return, by the laws of total expectation and variance."""

    def stage(carry: tuple[Array, Array], policy: Array) -> tuple[tuple[Array, Array], None]:
        value, variance = carry
        weight = policy[:, :, None] * probability
        gain = reward + discount * value[successor]
        mean = jnp.where(absorbing, 0.0, jnp.sum(weight * gain, axis=(1, 2)))
        # Centred before squaring: the difference of two raw moments would cancel.
        spread = (gain - mean[:, None, None]) ** 2 + discount**2 * variance[successor]
        return (mean, jnp.where(absorbing, 0.0, jnp.sum(weight * spread, axis=(1, 2)))), None

    zero = jnp.zeros(successor.shape[0], reward.dtype)
    (value, variance), _ = jax.lax.scan(stage, (zero, zero), stages[::-1])
    return value, variance


@jax.jit
def _forward(
    successor: Array, probability: Array, reward: Array, absorbing: Array, stages: Array, initial: Array
) -> tuple[Array, Array]:
    """Return the visits ``[H, S]`` at each step and the final distribution ``[S]``."""
    del reward

    def stage(here: Array, policy: Array) -> tuple[Array, Array]:
        moving = jnp.where(absorbing, 0.0, here)
        flow = moving[:, None, None] * policy[:, :, None] * probability
        arrived = jnp.zeros_like(here).at[successor].add(flow)
        return jnp.where(absorbing, here, 0.0) + arrived, moving

    final, visits = jax.lax.scan(stage, initial, stages)
    return visits, final
