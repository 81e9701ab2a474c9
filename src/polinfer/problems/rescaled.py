"""A problem with a factor on its rewards, or another horizon, where its class takes neither.

Tables and the library's own problems take both themselves.  Another object, a JAX problem or a simulator in
plain Python, stays one of its own class: a copy whose `step` and `outcomes` multiply the rewards.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from polinfer.core.errors import DomainError, check_at_least, check_finite
from polinfer.core.protocol import EnumerableMDP, Outcomes, Transition
from polinfer.problems.spec import attach_spec
from polinfer.problems.tabular.table import TabularMDP


def rescaled(problem: Any, *, reward_scale: float = 1.0, horizon: int | None = None) -> Any:
    """Return a copy of `problem` whose rewards count `reward_scale` times, over `horizon` steps.

    Problems of `polinfer.make` and `polinfer.from_gymnasium` take both options when they are made; this is
    for a table, and for an object of your own.

    Examples
    --------
    >>> import polinfer
    >>> class Coin:
    ...     num_actions, horizon = 2, 3
    ...     def init(self, seed): return 0
    ...     def step(self, seed, state, action): return state, 1.5 * action, True
    ...     def legal(self, state): return [True, True]
    >>> coin = polinfer.rescaled(Coin(), reward_scale=2, horizon=5)
    >>> coin.step(0, 0, 1).reward, coin.horizon
    (3.0, 5)
    """
    factor = check_finite("reward_scale", reward_scale)
    steps = None if horizon is None else check_at_least("horizon", horizon, 1)
    if isinstance(problem, TabularMDP):
        return problem.with_problem(reward_scale=factor, horizon=steps)
    if hasattr(problem, "step_watched") or hasattr(problem, "action_space"):
        raise DomainError(
            "an environment is scaled where it becomes a problem: polinfer.from_gymnasium(env, "
            "reward_scale=...)"
        )
    if isinstance(problem, _Rescaled):
        factor, steps = factor * problem._factor, problem._steps if steps is None else steps
        problem = problem._inside
    try:
        own = vars(problem)
    except TypeError:
        raise DomainError(
            f"{type(problem).__name__} has slots and cannot be copied: let its constructor take reward_scale "
            "and horizon"
        ) from None
    mixin = _RescaledOutcomes if isinstance(problem, EnumerableMDP) else _Rescaled
    kind: Any = type(problem)
    changed: Any = object.__new__(_class_of(kind, mixin))
    for name, value in own.items():
        object.__setattr__(changed, name, value)
    attach_spec(changed, None)  # it was made otherwise
    for name, value in (("_inside", problem), ("_factor", factor), ("_steps", steps)):
        object.__setattr__(changed, name, value)
    return changed


class _Rescaled:
    """Methods that stand before a problem's own."""

    _inside: Any
    _factor: float
    _steps: int | None

    def _get_horizon(self) -> int:
        return int(self._inside.horizon if self._steps is None else self._steps)

    def _set_horizon(self, value: Any) -> None:
        """Ignore what is copied from the problem inside."""

    horizon = property(_get_horizon, _set_horizon)

    def step(self, key: Any, state: Any, action: Any) -> Transition:
        return _times(self._inside.step(key, state, action), self._factor)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        assert isinstance(other, _Rescaled)
        return bool(self._inside == other._inside) and self._changes == other._changes

    def __hash__(self) -> int:
        return hash((self._inside, self._changes))

    def __reduce__(self) -> Any:
        return _again, (self._inside, *self._changes)

    @property
    def _changes(self) -> tuple[float, int | None]:
        return self._factor, self._steps


class _RescaledOutcomes(_Rescaled):
    def outcomes(self, state: Any, action: Any) -> Outcomes:
        listed = self._inside.outcomes(state, action)
        return Outcomes(listed[0], _times(listed[1], self._factor))


def _times(moved: Any, factor: float) -> Transition:
    state, reward, terminated = moved
    return Transition(state, reward * factor, terminated)


def _again(problem: Any, factor: float, steps: int | None) -> Any:
    return rescaled(problem, reward_scale=factor, horizon=steps)


@lru_cache(maxsize=64)
def _class_of(kind: Any, mixin: type) -> type:
    """Return a class that is both; it has the problem's own name."""
    return type(kind.__name__, (mixin, kind), {"__module__": kind.__module__, "__doc__": kind.__doc__})
