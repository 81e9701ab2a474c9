"""Backward induction, once, for every objective that has it.

The solvers differ in two places only: how an action's *outcomes* are summed up (their mean, or the
exponential mean that gives realised luck its own weight) and how a state's *actions* are (their maximum, or
a soft one).  The order of expectation and exponential that the paper's related-work section insists on is
the choice of the first.

=======================  ====================  ==========================
solver                   over outcomes         over actions
=======================  ====================  ==========================
value iteration          mean                  maximum
soft value iteration     mean                  ``alpha log sum exp(Q/alpha)``
control as inference     ``log mean exp``      ``log mean exp(Q)``
entropic risk            ``log mean exp``      maximum
=======================  ====================  ==========================
"""

from __future__ import annotations

from functools import partial
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.special import logsumexp

from polinfer.errors import PolinferError, check_at_least
from polinfer.exact.evaluation import average_over_time
from polinfer.exact.solution import Result, Solution
from polinfer.mdp import constant
from polinfer.tabular.table import TabularMDP

OverActions = Literal["max", "soft", "prior"]


class Objective(NamedTuple):
    """What is summed up how."""

    over_actions: OverActions
    alpha: float = 1.0  # the temperature of "soft"
    risk: float = 0.0  # 0: mean over outcomes; otherwise (1/risk) log mean exp(risk x)


class Model(NamedTuple):
    """A table's arrays on the device."""

    successor: Array  # [S, A, B] int32
    probability: Array  # [S, A, B]
    reward: Array  # [S, A, B]
    legal: Array  # [S, A] bool
    absorbing: Array  # [S] bool


def as_model(table: TabularMDP) -> Model:
    """Put `table` on the device, in double precision when that is enabled."""
    return Model(
        jnp.asarray(table.successor),
        constant(table.probability),
        constant(table.reward),
        jnp.asarray(table.legal_actions),
        jnp.asarray(table.absorbing),
    )


def over_outcomes(risk: float, probability: Array, gain: Array) -> Array:
    """Sum up `gain` over its last axis: its mean, or its exponential mean for a `risk` other than zero."""
    if risk == 0.0:
        return jnp.sum(probability * gain, axis=-1)
    return logsumexp(risk * gain, b=probability, axis=-1) / risk


def _choose(objective: Objective, q: Array, legal: Array) -> tuple[Array, Array]:
    """Return the value ``[S]`` and the policy ``[S, A]`` that `objective` makes of ``q [S, A]``."""
    if objective.over_actions == "max":
        masked = jnp.where(legal, q, -jnp.inf)
        return masked.max(axis=-1), jax.nn.one_hot(masked.argmax(axis=-1), q.shape[-1], dtype=q.dtype)
    alpha = objective.alpha if objective.over_actions == "soft" else 1.0
    scaled = jnp.where(legal, q / alpha, -jnp.inf)
    value = alpha * logsumexp(scaled, axis=-1)
    if objective.over_actions == "prior":
        value = value - jnp.log(legal.sum(axis=-1))
    return value, jax.nn.softmax(scaled, axis=-1)


def _backup(model: Model, objective: Objective, discount: Array, value: Array) -> tuple[Array, Array]:
    gain = model.reward + discount * value[model.successor]
    new_value, policy = _choose(
        objective, over_outcomes(objective.risk, model.probability, gain), model.legal
    )
    return jnp.where(model.absorbing, 0.0, new_value), policy


@partial(jax.jit, static_argnames=("objective", "horizon"))
def _induce(model: Model, discount: Array, *, objective: Objective, horizon: int) -> tuple[Array, Array]:
    def stage(value: Array, _: None) -> tuple[Array, Array]:
        return _backup(model, objective, discount, value)

    zero = jnp.zeros(model.successor.shape[0], model.reward.dtype)
    # The scan runs from the last step to the first.
    value, stages = jax.lax.scan(stage, zero, None, length=horizon)
    return value, stages[::-1]


@partial(jax.jit, static_argnames=("objective",))
def _iterate(
    model: Model, discount: Array, tolerance: Array, max_iterations: Array, *, objective: Objective
) -> tuple[Array, Array, Array, Array]:
    def go_on(carry: tuple[Array, Array, Array]) -> Array:
        _, residual, count = carry
        # A NaN or infinite residual ends the loop as well.
        return (residual > tolerance) & (count < max_iterations) & jnp.isfinite(residual)

    def sweep(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        value, _, count = carry
        new_value, _ = _backup(model, objective, discount, value)
        return new_value, jnp.abs(new_value - value).max(), count + 1

    zero = jnp.zeros(model.successor.shape[0], model.reward.dtype)
    value, residual, count = jax.lax.while_loop(
        go_on, sweep, (zero, constant(np.finfo(np.float64).max), jnp.asarray(0))
    )
    _, policy = _backup(model, objective, discount, value)
    return value, policy, residual, count


def _check_discount(discount: float) -> float:
    if not 0 <= discount <= 1:
        raise PolinferError(f"discount must lie in 0..1, got {discount}")
    return float(discount)


def solve_finite(
    table: TabularMDP, method: str, objective: Objective, horizon: int | None, discount: float
) -> Solution:
    """Solve by backward induction over `horizon` steps; the policy depends on time."""
    steps = table.horizon if horizon is None else check_at_least("horizon", horizon, 1)
    discount = _check_discount(discount)
    with jax.enable_x64(True):
        model = as_model(table)
        value, stages = _induce(model, constant(discount), objective=objective, horizon=steps)
        start = over_outcomes(objective.risk, constant(table.initial), value)
    stages_host = np.asarray(stages)
    return Solution(
        method=method,
        policy=average_over_time(table, stages_host),
        stages=stages_host,
        value=np.asarray(value),
        objective=float(start),
        result=Result.EXACT,
        iterations=steps,
        settings={"horizon": steps, "discount": discount},
    )


def solve_stationary(
    table: TabularMDP,
    method: str,
    objective: Objective,
    discount: float,
    tolerance: float,
    max_iterations: int,
) -> Solution:
    """Iterate the backup to its fixed point; the policy does not depend on time."""
    discount = _check_discount(discount)
    check_at_least("max_iterations", max_iterations, 1)
    with jax.enable_x64(True):
        value, policy, residual, count = _iterate(
            as_model(table),
            constant(discount),
            constant(tolerance),
            jnp.asarray(max_iterations),
            objective=objective,
        )
        start = over_outcomes(objective.risk, constant(table.initial), value)
    # Back to Python numbers first: outside of the context above, JAX would compare in single precision.
    converged = float(residual) <= tolerance
    return Solution(
        method=method,
        policy=np.asarray(policy),
        value=np.asarray(value),
        objective=float(start),
        result=Result.CONVERGED if converged else Result.NOT_CONVERGED,
        residual=float(residual),
        iterations=int(count),
        settings={"horizon": None, "discount": discount},
    )
