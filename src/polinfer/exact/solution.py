"""What every exact solver returns."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
T = TypeVar("T")


class Deferred(Generic[T]):
    """A field of a dataclass that may be given as a function, which is called when the field is first read.

    Without a default the field must be given.
    """

    def __init__(self, *default: T) -> None:
        self._default = default

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> T: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> T:
        if instance is None:  # how `dataclass` asks for the default
            if not self._default:
                raise AttributeError(self._name)
            return self._default[0]
        held = instance.__dict__[self._name]
        if callable(held):
            held = instance.__dict__[self._name] = held()
        value: T = held
        return value

    def __set__(self, instance: object, value: T | Callable[[], T]) -> None:
        instance.__dict__[self._name] = value


class Result(enum.StrEnum):
    """How a solution was obtained, and how exact it is."""

    EXACT = "exact"  # a finite computation, exact up to rounding
    CONVERGED = "converged"  # an iteration that came within its tolerance
    BOUND = "bound"  # the best found; `residual` is the largest amount by which it can fall short
    LEARNED = "learned"  # an estimate by a method that was trained
    NOT_CONVERGED = "not converged"  # the iteration hit its limit or diverged: do not use


@dataclass(frozen=True)
class PolicyPosterior:
    """The posterior over deterministic policies, Eq. logp_pi, seen whole.

    The reference measure sums to one, so ``log_evidence`` is the logarithm of the *mean* of ``exp(J)`` under
    it; where it is uniform, add ``log(num_policies)`` for the counting measure.  Policies are counted over
    the states in which an action can be taken within the horizon.
    """

    log_evidence: float
    num_policies: float  # an int where it was counted
    reach_policy: Floats | None  # [S, A]; None when it was not asked for
    expected_return: float  # E[J]: what is earned when one policy is drawn per episode
    return_variance: float  # Var[J], over policies
    entropy: float  # of the posterior, in nats
    top_policies: NDArray[np.int32]  # [k, S]; the most probable first
    top_probabilities: Floats  # [k]
    top_returns: Floats  # [k], their J
    sampled_policies: NDArray[np.int32] | None = None  # [n, S], draws from the posterior, where few enough
    log_evidence_stderr: float = 0.0  # zero where it was computed and not estimated
    expected_return_stderr: float = 0.0
    policy_stderr: Floats | None = None  # [S, A], of the marginal policy; None where it was computed
    chains: int = 1  # equal blocks of `sampled_policies` that come from independent populations
    # Log evidence as annealing from the posterior back finds it: too large where annealing there finds too
    # little.  None where that was not done.
    reverse_log_evidence: float | None = None
    reverse_log_evidence_stderr: float | None = None

    @property
    def modal_policy(self) -> NDArray[np.int32]:
        """The most probable policy, ``[S]``: the best *stationary* one."""
        policy: NDArray[np.int32] = self.top_policies[0]
        return policy

    @property
    def effective_policies(self) -> float:
        """The number of equally likely policies that would have the same entropy."""
        return float(np.exp(min(self.entropy, 700.0)))


@dataclass(frozen=True)
class Solution:
    """An exact answer: a policy, what it is worth in its own terms, and how it was found.

    Attributes
    ----------
    method
        The solver's name.
    policy
        ``[S, A]``, rows sum to one.  Where the solver's own policy depends on time, this is its average over
        time, weighted by how often each state is visited at each time.
    stages
        ``[H, S, A]``, the time-dependent policy, first step first; None where the policy is stationary.  Both
        it and `policy` may be computed when they are first read.
    value
        ``[S]``, the solver's objective from each state with the whole horizon left.
    objective
        The same from the start; for `policy_posterior`, whose `value` is the expected return of its marginal
        policy, the log evidence.
    result
        How far to rely on it; `residual` and `iterations` say more.
    settings, diagnostics
        What was asked for, and numbers worth knowing.
    posterior
        For `policy_posterior` only.
    """

    method: str
    policy: Deferred[Floats] = Deferred()
    # The field above has no default, which mypy cannot see.
    value: Floats  # type: ignore[misc]
    objective: float  # type: ignore[misc]
    result: Result  # type: ignore[misc]
    residual: float = 0.0
    iterations: int = 0
    stages: Deferred[Floats | None] = Deferred(None)
    settings: Mapping[str, Any] = field(default_factory=dict)
    diagnostics: Mapping[str, float] = field(default_factory=dict)
    posterior: PolicyPosterior | None = None

    def __getstate__(self) -> dict[str, Any]:
        # Read first: what is computed on demand may be a function that cannot be pickled.
        return {**self.__dict__, "policy": self.policy, "stages": self.stages}

    @property
    def executable(self) -> Floats:
        """The policy to run: `stages` where there are any, `policy` otherwise."""
        return self.policy if self.stages is None else self.stages
