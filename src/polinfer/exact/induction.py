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
control as inference     ``log mean exp``      ``log sum mu exp(Q)``
entropic risk            ``log mean exp``      maximum
=======================  ====================  ==========================

`mu` is the reference measure.  Where it is not uniform, soft value iteration is held to it, too:
``alpha log sum mu exp(Q/alpha)``, which charges the divergence from `mu` instead of paying for entropy.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.special import logsumexp

from polinfer.core.absorbing import Absorbing, check_absorbing
from polinfer.core.errors import check_at_least, check_share
from polinfer.core.protocol import constant
from polinfer.exact.evaluation import average_over_time
from polinfer.exact.passes import average_actions, greedy_actions, one_hot_stages, optimal_value
from polinfer.exact.solution import Result, Solution
from polinfer.problems.tabular.table import TabularMDP, check_table

OverActions = Literal["max", "soft", "prior"]


class Objective(NamedTuple):
    """What is summed up how."""

    over_actions: OverActions
    alpha: float = 1.0  # the temperature of "soft"
    risk: float = 0.0  # 0: mean over outcomes; otherwise (1/risk) log mean exp(risk x)
    absorbing: Absorbing = "end"  # or "continue": absorbing states are worth what "soft" pays for entropy

    @property
    def kind(self) -> Kind:
        """What a compiled solver must know; `alpha` and `risk` are only numbers to it."""
        return Kind(self.over_actions, self.risk != 0)


class Kind(NamedTuple):
    """The part of an objective that is compiled in."""

    over_actions: OverActions
    risky: bool


class Model(NamedTuple):
    """A table's arrays on the device."""

    successor: Array  # [S, A, B] int32
    probability: Array  # [S, A, B]
    reward: Array  # [S, A, B]
    legal: Array  # [S, A] bool
    absorbing: Array  # [S] bool
    log_prior: Array  # [S, A], the reference measure
    log_soft: Array  # [S, A], the measure of "soft": counting, unless the reference measure is not uniform


def as_model(table: TabularMDP, absorbing: Absorbing = "end") -> Model:
    """Put `table` on the device, in double precision when that is enabled."""
    check_table(table)
    # In a table, an absorbing state has rows like any other: back to itself, for nothing.
    ends = np.asarray(table.absorbing) & check_absorbing(absorbing)
    with np.errstate(divide="ignore"):
        log_prior = np.log(table.prior)
    return Model(
        jnp.asarray(table.successor),
        constant(table.probability),
        constant(table.reward),
        jnp.asarray(table.legal_actions),
        jnp.asarray(ends),
        constant(log_prior),
        constant(log_prior if table.has_prior else np.where(table.legal_actions, 0.0, -np.inf)),
    )


def over_outcomes(risky: bool, risk: Array | float, probability: Array, gain: Array) -> Array:
    """Sum up `gain` over its last axis: its mean, or ``(1/risk) log E exp(risk gain)``."""
    if not risky:
        return jnp.sum(probability * gain, axis=-1)
    tilted = jnp.where(probability > 0, risk * gain, -jnp.inf)
    top = tilted.max(axis=-1)
    # log1p and expm1 keep the digits that the logarithm of a number close to one would lose at small risk.
    return (top + jnp.log1p(jnp.sum(probability * jnp.expm1(tilted - top[..., None]), axis=-1))) / risk


def _choose(kind: Kind, alpha: Array, q: Array, model: Model) -> tuple[Array, Array]:
    """Return the value ``[S]`` and the policy ``[S, A]`` that the objective makes of ``q [S, A]``."""
    if kind.over_actions == "max":
        masked = jnp.where(model.legal, q, -jnp.inf)
        return masked.max(axis=-1), jax.nn.one_hot(masked.argmax(axis=-1), q.shape[-1], dtype=q.dtype)
    temperature = alpha if kind.over_actions == "soft" else jnp.ones_like(alpha)
    scaled = q / temperature + (model.log_soft if kind.over_actions == "soft" else model.log_prior)
    return temperature * logsumexp(scaled, axis=-1), jax.nn.softmax(scaled, axis=-1)


class _Numbers(NamedTuple):
    """The numbers of an objective; changing them compiles nothing."""

    alpha: Array
    risk: Array
    discount: Array


def _numbers(objective: Objective, discount: float) -> _Numbers:
    return _Numbers(constant(objective.alpha), constant(objective.risk), constant(discount))


def _backup(
    model: Model, kind: Kind, numbers: _Numbers, value: Array, step: Array | None = None
) -> tuple[Array, Array]:
    if kind.risky and step is not None:
        # A discount does not go through an exponential: values stay in units of the first step.
        gain = numbers.discount**step * model.reward + value[model.successor]
    else:
        gain = model.reward + numbers.discount * value[model.successor]
    q = over_outcomes(kind.risky, numbers.risk, model.probability, gain)
    new_value, policy = _choose(kind, numbers.alpha, q, model)
    return jnp.where(model.absorbing, 0.0, new_value), policy


@partial(jax.jit, static_argnames=("kind", "horizon"))
def _induce(model: Model, numbers: _Numbers, *, kind: Kind, horizon: int) -> tuple[Array, Array]:
    def stage(value: Array, step: Array) -> tuple[Array, Array]:
        return _backup(model, kind, numbers, value, step)

    zero = jnp.zeros(model.successor.shape[0], model.reward.dtype)
    # The scan runs from the last step to the first.
    value, stages = jax.lax.scan(stage, zero, jnp.arange(horizon - 1, -1, -1))
    return value, stages[::-1]


class _Iterate(NamedTuple):
    value: Array  # [S]
    policy: Array  # [S, A]
    residual: Array
    rounds: Array


@partial(jax.jit, static_argnames=("kind",))
def _iterate(
    model: Model, numbers: _Numbers, tolerance: Array, max_iterations: Array, *, kind: Kind
) -> _Iterate:
    def go_on(state: _Iterate) -> Array:
        # A NaN or infinite residual ends the loop as well.
        unfinished = (state.residual > tolerance) & (state.rounds < max_iterations)
        return unfinished & jnp.isfinite(state.residual)

    def sweep(state: _Iterate) -> _Iterate:
        value, policy = _backup(model, kind, numbers, state.value)
        change = jnp.abs(value - state.value)
        if kind.over_actions == "max":
            # Without discounting, waiting for ever ties with acting now.  The action by which a state's value
            # came about earns it; one that is only as good once the value is there may not.
            keep = (numbers.discount == 1) & (change <= tolerance) & (state.rounds > 0)
            policy = jnp.where(keep[:, None], state.policy, policy)
        return _Iterate(value, policy, change.max(), state.rounds + 1)

    states, actions = model.legal.shape
    zero = jnp.zeros(states, model.reward.dtype)
    blank = jnp.zeros((states, actions), zero.dtype)
    start = _Iterate(zero, blank, constant(np.finfo(np.float64).max), jnp.asarray(0))
    end = jax.lax.while_loop(go_on, sweep, start)
    if kind.over_actions == "max":
        return end
    return end._replace(policy=_backup(model, kind, numbers, end.value)[1])


def solve_finite(
    table: TabularMDP, method: str, objective: Objective, horizon: int | None, discount: float | None
) -> Solution:
    """Solve by backward induction over `horizon` steps; the policy depends on time."""
    check_table(table)
    steps = table.horizon if horizon is None else check_at_least("horizon", horizon, 1)
    discount = table.discount if discount is None else check_share("discount", discount)
    if objective.kind == Kind("max", risky=False):
        return _solve_greedily(table, method, steps, discount)
    with jax.enable_x64(True):
        numbers = _numbers(objective, discount)
        value, stages = _induce(
            as_model(table, objective.absorbing), numbers, kind=objective.kind, horizon=steps
        )
        start = over_outcomes(objective.kind.risky, objective.risk, constant(table.initial), value)
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


def _solve_greedily(table: TabularMDP, method: str, steps: int, discount: float) -> Solution:
    """Maximise the mean by sparse products: values now, the policy when it is asked for."""
    check_table(table)
    value = optimal_value(table, steps, discount)
    actions = cache(partial(greedy_actions, table, steps, discount))
    return Solution(
        method=method,
        policy=lambda: average_actions(table, actions()),
        stages=lambda: one_hot_stages(actions(), table.num_actions),
        value=value,
        objective=float(table.initial @ value),
        result=Result.EXACT,
        iterations=steps,
        settings={"horizon": steps, "discount": discount},
    )


def solve_stationary(
    table: TabularMDP,
    method: str,
    objective: Objective,
    discount: float | None,
    tolerance: float,
    max_iterations: int,
) -> Solution:
    """Iterate the backup to its fixed point; the policy does not depend on time."""
    discount = table.discount if discount is None else check_share("discount", discount)
    check_at_least("max_iterations", max_iterations, 1)
    with jax.enable_x64(True):
        value, policy, residual, count = _iterate(
            as_model(table, objective.absorbing),
            _numbers(objective, discount),
            constant(tolerance),
            jnp.asarray(max_iterations),
            kind=objective.kind,
        )
        start = over_outcomes(objective.kind.risky, objective.risk, constant(table.initial), value)
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
