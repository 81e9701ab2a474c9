"""`TabularMDP`: an MDP written out as a table, stored by outcome so that sparse problems stay small."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike, NDArray

from polinfer.core.display import Shown
from polinfer.core.errors import PolinferError, TableError, check_at_least, check_finite, shorten, suggest
from polinfer.core.protocol import (
    Ending,
    Outcomes,
    Starts,
    Transition,
    constant,
    sample_outcome,
    sample_start,
)
from polinfer.problems.tabular.arrays import Layout, find_absorbing, read_form
from polinfer.problems.tabular.layout import (
    MOST_REWARD,
    check_draws,
    check_legal,
    endings_from_success,
    lay_out,
)
from polinfer.problems.tabular.rows import (
    OutcomeRows,
    resolve_initial,
    resolve_names,
    resolve_states,
    rows_from_arrays,
)
from polinfer.problems.tabular.terms import check_discount, check_horizon, check_prior, uniform_prior

MAX_PAIRS = 1 << 28


@dataclass(frozen=True, eq=False, init=False)
class TabularMDP(Shown):
    """An MDP whose states are the numbers ``0 .. S-1``.

    Parameters
    ----------
    transitions
        ``[S, A, S]`` probabilities, dense, or a sequence of `A` SciPy sparse matrices ``[S, S]``.
    rewards
        ``[S, A]`` or ``[S, A, S]``, dense, or a sequence of `A` sparse matrices ``[S, S]``.
    initial
        ``[S]`` probabilities of the first state, or one state (index or name).
    absorbing
        The terminal states: ``[S]`` bool, indices or names; none by default.  Their rows may be left at zero.
    horizon
        The largest number of steps in an episode.  None, with a discount below one, for an infinite horizon:
        it becomes the one that leaves out less than 1e-6 of the return.
    legal
        ``[S, A]`` bool; all actions by default.  Rows of illegal actions are ignored.
    prior
        ``[S, A]``, the reference measure: the probability of each action before any reward is known.  Zero
        means illegal; uniform over the legal actions by default.
    discount
        In ``(0, 1]``: a reward after `t` steps counts ``discount^t`` of itself.
    state_names, action_names
        Names for reports and errors.
    success
        The absorbing states that count as success: ``[S]`` bool, indices or names.

    Examples
    --------
    A machine that earns while it runs and may break:

    >>> import polinfer
    >>> machine = polinfer.TabularMDP(
    ...     transitions=[[[0.9, 0.1], [1.0, 0.0]], [[0, 0], [0, 0]]],
    ...     rewards=[[1.0, 0.5], [0.0, 0.0]],
    ...     initial=0,
    ...     absorbing=[False, True],
    ...     horizon=10,
    ...     action_names=["fast", "slow"],
    ... )
    >>> machine.num_states, machine.num_actions
    (2, 2)
    """

    successor: NDArray[np.int32]  # [S, A, B]
    probability: NDArray[np.float64]  # [S, A, B]; zero marks an unused slot
    reward: NDArray[np.float64]  # [S, A, B]
    initial: NDArray[np.float64]  # [S]
    absorbing: NDArray[np.bool_]  # [S]
    legal_actions: NDArray[np.bool_]  # [S, A]
    horizon: int
    state_names: tuple[str, ...]
    action_names: tuple[str, ...]
    endings: tuple[Ending, ...]
    ending_of: NDArray[np.int32]  # [S]; -1 in states that are no ending
    features: NDArray[np.float32] | None  # [S, F]; one-hot when None
    identities: NDArray[np.int32]  # [S, K]
    prior: NDArray[np.float64]  # [S, A], the reference measure mu(a|s); zero where an action is illegal
    discount: float
    draws: NDArray[np.int32] | None  # [S, A], what probabilities are estimated from; 0 exact, None all exact
    initial_draws: int  # what `initial` is estimated from; 0 exact
    averaged: bool  # whether rows average over something hidden, so that they are not the whole problem

    def __init__(
        self,
        transitions: ArrayLike | Sequence[Any],
        rewards: ArrayLike | Sequence[Any],
        initial: ArrayLike | str,
        absorbing: ArrayLike | None = None,
        horizon: int | None = None,
        *,
        legal: ArrayLike | None = None,
        state_names: Sequence[str] | None = None,
        action_names: Sequence[str] | None = None,
        success: ArrayLike | None = None,
        prior: ArrayLike | None = None,
        discount: float = 1.0,
    ) -> None:
        rows, num_states, num_actions = rows_from_arrays(transitions, rewards)
        self._fill(
            rows,
            num_states,
            num_actions,
            initial,
            absorbing,
            horizon,
            legal=legal,
            state_names=state_names,
            action_names=action_names,
            success=success,
            prior=prior,
            discount=discount,
        )
        self._refuse_paid_rest(rewards)

    def _refuse_paid_rest(self, rewards: ArrayLike | Sequence[Any]) -> None:
        if isinstance(rewards, Sequence) and any(hasattr(m, "tocoo") for m in rewards):
            return
        pay = np.asarray(rewards)
        if pay.shape != (self.num_states, self.num_actions):
            return
        paid = self.absorbing[:, None] & self.legal_actions & (pay != 0)
        if paid.any():
            s, a = (int(i[0]) for i in np.nonzero(paid))
            raise TableError(
                f"state {self.state_names[s]!r}, action {self.action_names[a]!r}: the state is absorbing but "
                f"earns {pay[s, a]:.6g} here; absorbing states earn nothing: pay on the transition that "
                "enters it"
            )

    @classmethod
    def from_outcomes(
        cls,
        rows: OutcomeRows,
        num_states: int,
        num_actions: int,
        initial: ArrayLike | str,
        absorbing: ArrayLike | None,
        horizon: int | None,
        **options: Any,
    ) -> TabularMDP:
        """Make a table from explicit rows; the options are those of the constructor.

        Rows that share state, action and successor are kept apart, so a reward may be random.
        """
        table = cls.__new__(cls)
        table._fill(rows, num_states, num_actions, initial, absorbing, horizon, **options)
        return table

    @classmethod
    def from_arrays(
        cls,
        transitions: Any,
        rewards: Any = None,
        initial: ArrayLike | str = 0,
        absorbing: ArrayLike | None = None,
        horizon: int | None = None,
        *,
        layout: Layout | None = None,
        s_indices: ArrayLike | None = None,
        a_indices: ArrayLike | None = None,
        **options: Any,
    ) -> TabularMDP:
        """Make a table from the arrays of other libraries.

        Parameters
        ----------
        transitions
            ``[S, A, S]``; ``[A, S, S]`` (pymdptoolbox); a list of `A` sparse matrices ``[S, S]``; ``[L, S]``
            with `s_indices` and `a_indices` (QuantEcon's state-action pairs); Gymnasium's ``P`` dict; or a
            pandas data frame with the columns state, action, next_state, probability, reward and, if wanted,
            terminated.
        rewards
            ``[S]``, ``[S, A]``, or in the form of the transitions; minus infinity in ``[S, A]`` marks an
            action that is not legal.  A ``P`` dict and a data frame hold them themselves.
        initial
            ``[S]`` probabilities of the first state, or one state; state 0 by default.
        absorbing
            The terminal states; by default those that no action leaves and in which nothing is earned.
        horizon
            The largest number of steps in an episode.
        layout
            ``"SAS"`` or ``"ASS"``: asked for where there are as many states as actions.
        **options
            Those of the constructor: `legal`, `state_names`, `action_names`, `success`.

        Examples
        --------
        >>> import numpy as np, polinfer
        >>> P = np.array([[[0.9, 0.1], [0.0, 1.0]], [[1.0, 0.0], [0.0, 1.0]], [[0.5, 0.5], [0.0, 1.0]]])
        >>> table = polinfer.TabularMDP.from_arrays(P, [[1.0, 0.5, 2.0], [0.0, 0.0, 0.0]], horizon=10)
        >>> table.num_states, table.num_actions, table.absorbing.tolist()
        (2, 3, [False, True])
        """
        read = read_form(transitions, rewards, layout, s_indices, a_indices, initial)
        for name in ("legal", "state_names", "action_names"):
            if options.get(name) is None and getattr(read, name) is not None:
                options[name] = getattr(read, name)
        if absorbing is None:
            absorbing = read.absorbing
        if absorbing is None:
            absorbing = find_absorbing(read.rows, read.num_states)
        return cls.from_outcomes(
            read.rows, read.num_states, read.num_actions, read.initial, absorbing, horizon, **options
        )

    def _fill(
        self,
        rows: OutcomeRows,
        num_states: int,
        num_actions: int,
        initial: ArrayLike | str,
        absorbing: ArrayLike | None,
        horizon: int | None,
        *,
        legal: ArrayLike | None = None,
        state_names: Sequence[str] | None = None,
        action_names: Sequence[str] | None = None,
        success: ArrayLike | None = None,
        prior: ArrayLike | None = None,
        discount: float = 1.0,
        endings: tuple[Ending, ...] = (),
        ending_of: NDArray[np.int32] | None = None,
        features: NDArray[np.float32] | None = None,
        identities: NDArray[np.int32] | None = None,
        draws: NDArray[np.int32] | None = None,
        initial_draws: int = 0,
        averaged: bool = False,
    ) -> None:
        if num_states * num_actions > MAX_PAIRS:
            raise TableError(f"num_states times num_actions may be at most {MAX_PAIRS:,}")
        names = resolve_names("state_names", state_names, num_states)
        actions = resolve_names("action_names", action_names, num_actions)
        labels = names or tuple(str(s) for s in range(num_states))
        action_labels = actions or tuple(str(a) for a in range(num_actions))
        is_absorbing = resolve_states("absorbing", absorbing, num_states, names)
        is_legal = check_legal(legal, num_states, num_actions, is_absorbing, labels)
        reference = check_prior(prior, is_legal, is_absorbing, labels, action_labels)
        is_legal = is_legal & (reference > 0)
        share = check_discount(discount)
        start = resolve_initial(initial, num_states, names)
        if ending_of is None:
            endings, ending_of = endings_from_success(success, is_absorbing, names, labels)
        if ending_of.shape != (num_states,):
            raise TableError(
                f"ending_of must have one entry per state, [{num_states}], got {list(ending_of.shape)}"
            )
        wrong = (ending_of >= 0) & ~is_absorbing
        if wrong.any():
            raise TableError(
                f"ending_of gives state {labels[int(np.argmax(wrong))]!r} an ending, but it is not absorbing"
            )

        def fail(s: int, a: int, what: str) -> TableError:
            return TableError(f"state {labels[s]!r}, action {action_labels[a]!r}: {what}")

        successor, probability, reward = lay_out(rows, is_absorbing, is_legal, fail)
        fields = {
            "successor": successor,
            "probability": probability,
            "reward": reward,
            "initial": start,
            "absorbing": is_absorbing,
            "legal_actions": is_legal,
            "horizon": check_horizon(horizon, share),
            "state_names": labels,
            "action_names": action_labels,
            "endings": endings,
            "ending_of": ending_of,
            "features": features,
            "identities": np.arange(num_states, dtype=np.int32)[:, None]
            if identities is None
            else identities,
            "prior": reference,
            "discount": share,
            "draws": check_draws(draws, is_legal, is_absorbing),
            "initial_draws": check_at_least("initial_draws", initial_draws, 0),
            "averaged": averaged,
        }
        for name, value in fields.items():
            if isinstance(value, np.ndarray):
                value.setflags(write=False)
            object.__setattr__(self, name, value)

    @cached_property
    def digest(self) -> str:
        """A hash of the contents; tables with equal digests are equal and share compiled programs."""
        whole = hashlib.blake2b(digest_size=16)
        for name in self.__dataclass_fields__:
            value = getattr(self, name)
            if (name == "prior" and not self.has_prior) or (name == "discount" and value == 1):
                continue
            if (name == "draws" and value is None) or (name in ("initial_draws", "averaged") and not value):
                continue  # as before there were any, so that tables saved then are still the same
            whole.update(
                repr((name, value.shape) if isinstance(value, np.ndarray) else (name, value)).encode()
            )
            if isinstance(value, np.ndarray):
                whole.update(np.ascontiguousarray(value).tobytes())
        return whole.hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TabularMDP) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        kind = ", estimated from draws" if self.is_estimated else ""
        return (
            f"TabularMDP({self.num_states} states, {self.num_actions} actions, horizon {self.horizon}{kind})"
        )

    def number_of(self, name: str) -> int:
        """Return the number of the state with this name."""
        if name not in self.state_names:
            raise PolinferError(f"there is no state {shorten(repr(name))}{suggest(name, self.state_names)}")
        return self.state_names.index(name)

    @property
    def is_estimated(self) -> bool:
        """Whether any probability was estimated from draws."""
        return self.draws is not None or self.initial_draws > 0

    @property
    def num_states(self) -> int:
        """The number of states `S`."""
        return int(self.successor.shape[0])

    @property
    def num_actions(self) -> int:
        """The number of actions `A`."""
        return int(self.successor.shape[1])

    @property
    def states(self) -> tuple[Any, ...]:
        """The states of the problem that was tabulated, by row; otherwise the row numbers."""
        sources: tuple[Any, ...] | None = self.__dict__.get("_sources")
        return tuple(range(self.num_states)) if sources is None else sources

    def with_sources(self, states: Sequence[Any]) -> TabularMDP:
        """Attach the state of the original problem to each row; this does not change equality."""
        object.__setattr__(self, "_sources", tuple(states))
        return self

    @property
    def onward(self) -> NDArray[np.float64]:
        """The probability of each outcome times the discount, ``[S, A, B]``: what later values count for."""
        if self.discount == 1:
            return self.probability
        found: NDArray[np.float64] | None = self.__dict__.get("_onward")
        if found is None:
            found = self.probability * self.discount
            found.setflags(write=False)
            object.__setattr__(self, "_onward", found)
        return found

    @property
    def has_prior(self) -> bool:
        """Whether the reference measure is another than the uniform one."""
        return not np.array_equal(self.prior, uniform_prior(self.legal_actions))

    @property
    def observed(self) -> dict[bytes, list[int]]:
        """The rows that an observation may stand for, by its hash; empty where observations are states."""
        found: dict[bytes, list[int]] = self.__dict__.get("_observed", {})
        return found

    @property
    def state_keys(self) -> tuple[str, ...] | None:
        """What the states of a simulator are, written as Python literals; None where that cannot be done."""
        found: tuple[str, ...] | None = self.__dict__.get("_state_keys")
        return found

    def with_state_keys(self, keys: tuple[str, ...] | None) -> TabularMDP:
        """Attach what the states of the original problem are; this does not change equality."""
        object.__setattr__(self, "_state_keys", keys)
        return self

    def with_observed(self, observed: dict[bytes, list[int]]) -> TabularMDP:
        """Attach the rows of each observation; this does not change equality."""
        object.__setattr__(self, "_observed", observed)
        return self

    def with_problem(
        self,
        *,
        horizon: int | None = None,
        reward_scale: float = 1.0,
        discount: float | None = None,
        prior: ArrayLike | None = None,
    ) -> TabularMDP:
        """Return the table with other terms; what is None stays.

        Parameters
        ----------
        horizon
            The largest number of steps in an episode.
        reward_scale
            A factor on every reward.
        discount
            In ``(0, 1]``.
        prior
            ``[S, A]``, the reference measure; an action with zero becomes illegal.
        """
        scale = check_finite("reward_scale", reward_scale)
        steps = self.horizon if horizon is None else check_at_least("horizon", horizon, 1)
        share = self.discount if discount is None else check_discount(discount)
        largest = float(np.abs(self.reward).max(initial=0.0)) * abs(scale)
        if not largest <= MOST_REWARD:
            raise TableError(f"reward_scale makes a reward of {largest:.3g}, beyond {MOST_REWARD:g}")
        table = self._changed(horizon=steps, reward=self.reward * scale, discount=share)
        return table if prior is None else table._with_prior(prior)

    def _with_prior(self, prior: ArrayLike) -> TabularMDP:
        given = check_prior(prior, self.legal_actions, self.absorbing, self.state_names, self.action_names)
        lost = self.legal_actions & (given == 0)
        if not lost.any():
            return self._changed(prior=given)
        # As rows of illegal actions always are: they stay and earn nothing.
        probability, reward, successor = self.probability.copy(), self.reward.copy(), self.successor.copy()
        probability[lost], reward[lost] = np.eye(probability.shape[-1])[0], 0.0
        successor[lost] = np.nonzero(lost)[0][:, None]
        return self._changed(
            prior=given,
            legal_actions=given > 0,
            probability=probability,
            reward=reward,
            successor=successor,
        )

    def with_initial(self, initial: NDArray[np.float64]) -> TabularMDP:
        """Return the table with other probabilities ``[S]`` of the first state."""
        start = np.asarray(initial, np.float64).copy()
        if start.shape != (self.num_states,) or (start < 0).any() or not np.isclose(start.sum(), 1.0):
            raise TableError(f"initial must be {self.num_states} probabilities that sum to one")
        return self._changed(initial=start / start.sum(), initial_draws=0)

    def _changed(self, **fields: Any) -> TabularMDP:
        table = TabularMDP.__new__(TabularMDP)
        for name in self.__dataclass_fields__:
            value = fields.get(name, getattr(self, name))
            if isinstance(value, np.ndarray):
                value.setflags(write=False)
            object.__setattr__(table, name, value)
        if "_layers" in self.__dict__:
            object.__setattr__(table, "_layers", self.__dict__["_layers"])
        return table

    def starts(self) -> Starts:
        """List the first states."""
        (first,) = np.nonzero(self.initial)
        return Starts(constant(self.initial[first]), jnp.asarray(first, jnp.int32))

    def outcomes(self, state: Array, action: Array) -> Outcomes:
        """List what `action` can lead to."""
        successor = jnp.asarray(self.successor)[state, action]
        return Outcomes(
            constant(self.probability)[state, action],
            Transition(
                successor, constant(self.reward)[state, action], jnp.asarray(self.absorbing)[successor]
            ),
        )

    def init(self, key: Array) -> Array:
        """Draw the first state."""
        state: Array = sample_start(key, self.starts())
        return state

    def step(self, key: Array, state: Array, action: Array) -> Transition:
        """Draw what `action` leads to."""
        return sample_outcome(key, self.outcomes(state, action))

    def encode(self, state: Array) -> Array:
        """Return the features of the MDP that the table was made from, or a one-hot row."""
        if self.features is None:
            return jax.nn.one_hot(state, self.num_states, dtype=jnp.float32)
        return jnp.asarray(self.features)[state]

    def identity(self, state: Array) -> Array:
        """Return the identity in the MDP that the table was made from, or the state's number."""
        return jnp.asarray(self.identities)[state]

    def legal(self, state: Array) -> Array:
        """Return the actions that may be taken."""
        return jnp.asarray(self.legal_actions)[state]

    def log_prior(self, state: Array) -> Array:
        """Return the log of the reference measure, ``[A]``; -inf where an action is illegal."""
        with np.errstate(divide="ignore"):
            return constant(np.log(self.prior))[state]

    def ending(self, state: Array) -> Array:
        """Return the index of the ending that `state` is, or -1."""
        return jnp.asarray(self.ending_of)[state]

    def state_name(self, state: Any) -> str:
        """Name a state."""
        return self.state_names[int(state)]


def check_table(given: object) -> None:
    """Refuse a problem that is not written out as a table."""
    if not isinstance(given, TabularMDP):
        raise TableError(f"{type(given).__name__} is not a table; write it out with polinfer.tabulate(mdp)")
