"""A problem with terms of its own: a reference measure, a discount, policies that depend on the step.

`with_terms` takes any problem: a table, a JAX MDP or a simulator in plain Python.  Tables hold the terms
themselves.  Other problems stay objects of their own class (a grid world is drawn as one) with a
``log_prior`` and a ``discount`` beside their own methods.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from polinfer.core.errors import PolinferError, shorten
from polinfer.core.protocol import MDP, EnumerableMDP, State, constant, discount_of
from polinfer.problems.spec import Spec, attach_spec, spec_of
from polinfer.problems.tabular.policy_files import POLICY_SUFFIXES, read_policy
from polinfer.problems.tabular.table import TabularMDP
from polinfer.problems.tabular.tabulate import tabulate
from polinfer.problems.tabular.terms import check_discount, check_prior, check_strength, strengthen
from polinfer.problems.timed import with_steps

Policies = Literal["stationary", "time-dependent"]
"""What a deterministic policy looks at: the state, or the state and the step."""

TERMS = ("prior", "prior_strength", "discount", "policies")
"""The options that every problem takes besides its own."""

_LEAST = 1e-12  # that a posterior, taken as a prior, leaves to an action that it never saw


@runtime_checkable
class ActionProbabilities(Protocol):
    """Something that acts, such as a `polinfer.Posterior`."""

    def action_probs(self, state: Any) -> NDArray[np.float32]:
        """Return the probability of each action in a state."""
        ...


FolderReader = Callable[[Path], ActionProbabilities]
_READERS: list[FolderReader] = []


def register_folder_reader(reader: FolderReader) -> None:
    """Let ``prior="runs/mine"`` name a folder that `reader` reads."""
    _READERS.append(reader)


def with_terms(
    problem: Any,
    *,
    prior: Any = None,
    prior_strength: float = 1.0,
    discount: float | None = None,
    policies: Policies = "stationary",
) -> Any:
    """Return `problem` with terms of its own; what is left out stays as it is.

    Parameters
    ----------
    problem
        A table, a JAX MDP or a simulator in plain Python.
    prior
        The reference measure ``mu(a|s)``: a table ``[S, A]`` of probabilities in the order of
        ``polinfer.tabulate(problem)``, a function from a state to log probabilities (with JAX for a JAX
        MDP), a `polinfer.Posterior`, the path of a run folder, or that of a policy file.  Zero means illegal.
    prior_strength
        Uses ``mu^k``, normalised: as if the prior had spoken `k` times.  0 is uniform over what it allows.
    discount
        In ``(0, 1]``: a reward after `t` steps counts ``discount^t`` of itself.
    policies
        ``"time-dependent"``: a policy may choose anew at every step.  States are then pairs
        ``(step, state)``.

    Examples
    --------
    Going left is what is done today; how much speaks for going right?

    >>> import polinfer
    >>> bandit = polinfer.make("bandit", means=[0.1, 0.9])
    >>> today = polinfer.with_terms(bandit, prior=[[0.9, 0.1], [0.5, 0.5], [0.5, 0.5]])
    >>> [f"{p:.3f}" for p in polinfer.infer(today, method="exact").action_probs(0)]
    ['0.802', '0.198']
    """
    if policies not in ("stationary", "time-dependent"):
        raise PolinferError(f"policies must be stationary or time-dependent, got {policies!r}")
    check_strength(prior_strength)
    share = None if discount is None else check_discount(discount)
    if prior is None and prior_strength != 1 and not hasattr(problem, "log_prior"):
        raise PolinferError("prior_strength needs a prior; give one, or leave it out")
    changed = problem
    if isinstance(problem, TabularMDP):
        rows = None
        if prior is not None or prior_strength != 1:
            given = problem.prior if prior is None else _rows(prior, problem)
            rows = strengthen(np.asarray(given), prior_strength)
        if rows is not None or share is not None:
            changed = problem.with_problem(prior=rows, discount=share)
    elif isinstance(problem, MDP):
        changed = _mdp_with_terms(problem, prior, prior_strength, share)
    else:
        changed = _simulator_with_terms(problem, prior, prior_strength, share)
    if policies == "time-dependent":
        changed = with_steps(changed)
    spec = spec_of(problem)
    if changed is problem or spec is None:
        return changed
    options = dict(spec.options)
    if prior is not None or prior_strength != 1:
        options.pop("prior_strength", None)
        options["prior"] = _written(changed, prior)
        if isinstance(options["prior"], str) and prior_strength != 1:
            options["prior_strength"] = prior_strength
    if share is not None:
        options["discount"] = share
    if policies != "stationary":
        options["policies"] = policies
    return attach_spec(changed, Spec(spec.name, options))


def _written(changed: Any, prior: Any) -> Any:
    """Return the prior that `changed` has as numbers, else as a path or a function."""
    for problem in (changed, getattr(changed, "base", None)):
        if isinstance(problem, TabularMDP):
            return problem.prior
        terms = getattr(problem, "_terms", None)
        if isinstance(terms, Terms):
            path = str(prior) if isinstance(prior, str | Path) else None
            return terms.rows if terms.rows is not None else path or terms.function
    return prior


def _rows(prior: Any, table: TabularMDP) -> NDArray[np.float64]:
    """Return a prior as probabilities ``[S, A]`` of a table."""
    if isinstance(prior, str | Path) and Path(prior).suffix in POLICY_SUFFIXES:
        prior = read_policy(prior, table)
    source = _read(prior)
    if isinstance(source, ActionProbabilities):
        found = _acted(source, table)
        if found.shape != table.legal_actions.shape:
            raise PolinferError(
                f"the prior is a run on another problem: {found.shape[1]} actions, not {table.num_actions}"
            )
        found = np.where(table.legal_actions, np.maximum(found.astype(np.float64), _LEAST), 0.0)
        return np.asarray(found / found.sum(axis=1, keepdims=True))
    if callable(source):
        rows = [
            _normalised(np.asarray(source(state), np.float64), table.legal_actions[i])
            for i, state in enumerate(table.states)
        ]
        return np.stack(rows)
    return check_prior(source, table.legal_actions, table.absorbing, table.state_names, table.action_names)


def _acted(source: ActionProbabilities, table: TabularMDP) -> NDArray[np.float64]:
    """Return what a posterior does in each state of `table`."""
    mdp = getattr(source, "mdp", None)
    if isinstance(mdp, TabularMDP) and mdp.num_states != table.num_states:
        raise PolinferError(
            f"the prior is a run on another problem: {mdp.num_states} states, not {table.num_states}"
        )
    try:
        return np.stack([source.action_probs(_state_for(source, table, i)) for i in range(table.num_states)])
    except (AttributeError, TypeError, IndexError, PolinferError) as error:
        # The states of one domain have not the fields of another's.
        raise PolinferError(
            f"the prior is a run on another problem, whose states are not these ({shorten(str(error))})"
        ) from None


def _state_for(source: ActionProbabilities, table: TabularMDP, number: int) -> Any:
    """Return a row's state as the posterior knows it: by number if it is of a table itself."""
    mdp = getattr(source, "mdp", None)
    return number if isinstance(mdp, TabularMDP) else table.states[number]


def _read(prior: Any) -> Any:
    """Return what a path stands for; anything else as it is."""
    if not isinstance(prior, str | Path):
        return prior
    path = Path(prior)
    if path.suffix in POLICY_SUFFIXES:
        return path
    if not path.is_dir():
        raise PolinferError(f"prior {path}: no such run folder, and no .npy, .npz, .json or .csv file")
    return _READERS[-1](path)


def _normalised(log_weight: NDArray[np.float64], legal: NDArray[np.bool_]) -> NDArray[np.float64]:
    if log_weight.shape != legal.shape:
        raise PolinferError(
            f"the prior's function must give {len(legal)} log probabilities, one per action, got shape "
            f"{list(log_weight.shape)}"
        )
    if np.isnan(log_weight).any():
        raise PolinferError("the prior's function gives a log probability that is not a number")
    masked = np.where(legal, log_weight, -np.inf)
    if not np.isfinite(masked.max()):
        raise PolinferError("the prior's function forbids all actions of a state; leave at least one")
    mass = np.exp(masked - masked.max())
    return np.asarray(mass / mass.sum())


@dataclass(frozen=True, eq=False)
class Terms:
    """What a problem that is no table was given; equal terms make equal problems."""

    discount: float
    rows: NDArray[np.float64] | None = None  # [S, A], in the order of the table
    function: Callable[[Any], Any] | None = None  # from a state to log probabilities
    strength: float = 1.0

    @property
    def key(self) -> tuple[Any, ...]:
        """What equality goes by."""
        rows = None if self.rows is None else hashlib.blake2b(self.rows.tobytes(), digest_size=16).digest()
        return (self.discount, rows, self.function, self.strength)


def _mdp_with_terms(mdp: MDP, prior: Any, strength: float, discount: float | None) -> Any:
    share = discount_of(mdp) if discount is None else discount
    if prior is None and strength == 1 and share == discount_of(mdp):
        return mdp
    source = _read(prior)
    if source is None and strength == 1:
        return _attach(mdp, Terms(share), _MdpDiscount)
    if source is None:
        source = mdp.log_prior  # type: ignore[attr-defined]  # it was asked for above
    if callable(source) and not isinstance(source, ActionProbabilities):
        return _attach(mdp, Terms(share, function=source, strength=float(strength)), _MdpFunction)
    if not isinstance(mdp, EnumerableMDP):
        raise PolinferError(
            "a prior by rows or from a run needs a problem that fits a table; give a function from a state "
            "to log probabilities"
        )
    table = tabulate(mdp)
    return _attach(mdp, Terms(share, strengthen(_rows(source, table), strength)), _MdpRows)


def _simulator_with_terms(simulator: Any, prior: Any, strength: float, discount: float | None) -> Any:
    share = discount_of(simulator) if discount is None else discount
    if prior is None and strength == 1 and share == discount_of(simulator):
        return simulator
    source = _read(prior)
    if source is None and strength == 1:
        return _attach(simulator, Terms(share), _SimulatorDiscount)
    if source is None:
        source = simulator.log_prior
    if isinstance(source, ActionProbabilities):
        acts = source.action_probs

        def function(state: Any) -> NDArray[np.float64]:
            return np.log(np.maximum(np.asarray(acts(state), np.float64), _LEAST))
    elif callable(source):
        function = source
    else:
        raise PolinferError(
            "a simulator in plain Python has no rows; give its prior as a function from a state to log "
            "probabilities, or as a run"
        )
    terms = Terms(share, function=function, strength=float(strength))
    return _attach(simulator, terms, _SimulatorFunction)


class _WithTerms:
    """Methods that stand before a problem's own."""

    _base: Any
    _terms: Terms

    @property
    def discount(self) -> float:
        return self._terms.discount

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        assert isinstance(other, _WithTerms)
        return bool(self._base == other._base) and self._terms.key == other._terms.key

    def __hash__(self) -> int:
        return hash((self._base, self._terms.key))

    def __reduce__(self) -> Any:
        return _attach, (self._base, self._terms, type(self).__bases__[0])


class _MdpDiscount(_WithTerms):
    def tabulated(self, limit: int | None) -> TabularMDP:
        table = tabulate(self._base, limit)
        changed = table.with_problem(discount=self.discount)
        return changed.with_sources(table.states)


class _MdpRows(_MdpDiscount):
    def log_prior(self, state: State) -> Array:
        """Look the row up by the state's identity."""
        table = tabulate(self._base)
        same = (jnp.asarray(table.identities) == self._base.identity(state)).all(axis=-1)
        assert self._terms.rows is not None
        with np.errstate(divide="ignore"):
            return constant(np.log(self._terms.rows))[jnp.argmax(same)]

    def legal(self, state: State) -> Array:
        legal: Array = self._base.legal(state) & jnp.isfinite(self.log_prior(state))
        return legal

    def tabulated(self, limit: int | None) -> TabularMDP:
        table = tabulate(self._base, limit)
        changed = table.with_problem(discount=self.discount, prior=self._terms.rows)
        return changed.with_sources(table.states)


class _MdpFunction(_WithTerms):
    def log_prior(self, state: State) -> Array:
        assert self._terms.function is not None
        scaled = self._terms.strength * jnp.asarray(self._terms.function(state))
        return jax.nn.log_softmax(jnp.where(self._base.legal(state), scaled, -jnp.inf))

    def legal(self, state: State) -> Array:
        legal: Array = self._base.legal(state) & jnp.isfinite(self.log_prior(state))
        return legal


class _SimulatorDiscount(_WithTerms):
    pass


class _SimulatorFunction(_WithTerms):
    def log_prior(self, state: Any) -> NDArray[np.float64]:
        assert self._terms.function is not None
        legal = np.asarray(self._base.legal(state), np.bool_)
        log_weight = np.asarray(self._terms.function(state), np.float64)
        with np.errstate(divide="ignore"):
            return np.log(strengthen(_normalised(log_weight, legal), self._terms.strength))

    def legal(self, state: Any) -> list[bool]:
        return [bool(p) for p in np.isfinite(self.log_prior(state))]


@lru_cache(maxsize=256)
def _class_of(kind: Any, mixin: Any) -> type:
    """Return a class that is both; it has the problem's own name."""
    return type(kind.__name__, (mixin, kind), {"__module__": kind.__module__, "__doc__": kind.__doc__})


def _attach(problem: Any, terms: Terms, mixin: type) -> Any:
    """Return a copy of `problem` whose class has `mixin` before its own."""
    kind: Any = type(problem)
    base = problem
    if isinstance(problem, _WithTerms):
        # Terms on terms: the newer ones speak, the older ones are still asked for what is legal.
        kind = type(problem).__bases__[1]
    changed: Any = object.__new__(_class_of(kind, mixin))
    for name, value in vars(problem).items():
        object.__setattr__(changed, name, value)
    object.__setattr__(changed, "_base", base)
    object.__setattr__(changed, "_terms", terms)
    return changed
