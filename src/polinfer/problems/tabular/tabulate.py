"""`tabulate`: from a simulator that can list its outcomes to a table, by breadth-first search."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from polinfer.core.errors import PolinferError, TooLargeError
from polinfer.core.limits import MINUTE, check_bytes, check_seconds
from polinfer.core.progress import Progress
from polinfer.core.protocol import (
    EnumerableMDP,
    HasEndings,
    HasNames,
    HasPrior,
    Outcomes,
    State,
    discount_of,
)
from polinfer.problems.tabular.exploration import exploration_of, explore_problem
from polinfer.problems.tabular.exploration.given import as_problem
from polinfer.problems.tabular.labels import action_names_of, identity_names
from polinfer.problems.tabular.rows import OutcomeRows
from polinfer.problems.tabular.table import TabularMDP

DEFAULT_LIMIT = 200_000
_CHUNK = 1024
_SMALL_CHUNK = 32
_SECONDS_A_BATCH = 1e-3  # where few states are found at once, as in a corridor
_CERTAIN = 10_000  # batches, after which it is clear how many are found at once


def tabulate(
    mdp: object,
    limit: int | None = None,
    *,
    draws: int | None = None,
    seed: int | None = None,
    identity: Callable[[Any], Any] | None = None,
    markov: Literal["check", "ignore"] | None = None,
    cache: bool | None = None,
    progress: Progress | None = None,
) -> TabularMDP:
    """Make a table of all reachable states of `mdp`, in any number of steps.

    A problem that lists its outcomes gives an exact table.  Any other is explored: every state and action is
    drawn from until no new state comes, and most draws go to the pairs whose error matters most for the
    return.  Such a table knows its draws (`TabularMDP.draws`), and `polinfer.certify` the error that they
    bring.  Transitions without chance are recognised, and exact.

    States are numbered in the order in which they are found, initial states first.  Features, names, endings
    and identities are kept, so a proposal has the same inputs on the table as on the simulator.

    Parameters
    ----------
    mdp
        Any discrete problem: a JAX problem, a simulator in plain Python, or a Gymnasium environment.  A
        `TabularMDP` is returned as it is.
    limit
        The largest number of states: 200,000 by default, 20,000 for simulators in plain Python.
    draws
        For each state and action that is random, on average: 1,000 by default, 100 in plain Python.
    seed
        Of the draws.
    identity
        For simulators in plain Python: a function from a state to what tells it from others.
    markov
        ``"ignore"`` tabulates what is seen even where states that look alike behave differently.
    cache
        Whether to keep the table on disk; only problems that `polinfer.make` made are kept.
    progress
        Called with a `polinfer.Report` now and then.

    Raises
    ------
    TooLargeError
        When there are more states than `limit`, with the number found so far.
    NotMarkovError
        When a state that is reached by two ways behaves differently beyond chance, with an example.

    Examples
    --------
    >>> import polinfer
    >>> table = polinfer.tabulate(polinfer.make("gridworld/ablation"))
    >>> table.num_states, table.state_names[0], table.action_names
    (6, '(1,2)', ('right', 'up', 'down', 'left'))
    """
    mdp = as_problem(mdp)
    if isinstance(mdp, TabularMDP):
        return mdp
    if hasattr(mdp, "tabulated"):
        # A problem that changes another: the other one's table is changed likewise.
        changed: TabularMDP = mdp.tabulated(limit)
        return changed
    if not isinstance(mdp, EnumerableMDP) or identity is not None:
        given = {"draws": draws, "max_states": limit, "seed": seed, "markov": markov, "cache": cache}
        told: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        return explore_problem(mdp, replace(exploration_of(mdp), **told), identity, progress)
    if draws is not None:
        raise PolinferError(
            f"{type(mdp).__name__} lists its outcomes, so its table is exact; leave out draws"
        )
    # Double precision while tracing, so that a probability of 0.8 is not rounded to single precision.
    with jax.enable_x64(True):
        return _search(mdp, DEFAULT_LIMIT if limit is None else limit)


def _search(mdp: EnumerableMDP, limit: int) -> TabularMDP:
    num_actions = mdp.num_actions
    actions = jnp.arange(num_actions, dtype=jnp.int32)
    identify = jax.jit(jax.vmap(mdp.identity))

    @jax.jit
    def expand(states: State) -> tuple[Outcomes, Any]:
        outcomes = jax.vmap(lambda s: jax.vmap(lambda a: mdp.outcomes(s, a))(actions))(states)
        identities = jax.vmap(jax.vmap(jax.vmap(mdp.identity)))(outcomes.transition.state)
        return outcomes, identities

    legal_of = jax.jit(jax.vmap(mdp.legal))
    first = mdp.starts()
    possible = np.asarray(first.probability) > 0
    first = jax.tree.map(lambda x: np.asarray(x)[possible], first)
    known = _States()
    start_index = known.add(np.asarray(identify(first.state)), _to_host(first.state))
    terminal: dict[int, bool] = {}
    left: set[int] = set()
    parts: list[OutcomeRows] = []
    bound = getattr(mdp, "num_states_bound", None)
    done = batches = 0
    while done < len(known):
        batches += 1
        if batches >= _CERTAIN:
            _check_batches(batches, done, min(bound or 0, limit))
        batch = np.arange(done, min(done + _CHUNK, len(known)))
        batch = batch[[not terminal.get(int(i), False) for i in batch]]
        done = min(done + _CHUNK, len(known))
        if len(batch) == 0:
            continue
        # Padded to one of two sizes, so that there are at most two compilations.
        size = _CHUNK if len(batch) > _SMALL_CHUNK else _SMALL_CHUNK
        padded = np.concatenate([batch, np.full(size - len(batch), batch[0])])
        states = known.stack(padded)
        count = len(batch)
        outcomes, identities = jax.tree.map(lambda x, n=count: np.asarray(x)[:n], expand(states))
        legal = np.asarray(legal_of(states))[: len(batch)]
        used = (outcomes.probability > 0) & legal[:, :, None]
        s, a, b = np.nonzero(used)
        reached = jax.tree.map(lambda x, at=(s, a, b): x[at], outcomes.transition)
        successor = known.add(identities[s, a, b], reached.state)
        left.update(batch[s][successor != batch[s]].tolist())
        for index, ends in _first_of_each(successor, reached.terminated):
            # A start that was expanded as non-terminal must not be terminal later.
            before = terminal.setdefault(index, ends)
            if before != ends or (ends and index in left):
                raise PolinferError(
                    f"state with identity {known.identity(index)} ends the episode on one way in and not on "
                    "another; make terminal states differ in identity"
                )
        parts.append(
            OutcomeRows(
                batch[s],
                a,
                successor,
                outcomes.probability[s, a, b].astype(np.float64),
                reached.reward.astype(np.float64),
            )
        )
        if len(known) > limit:
            at_most = f" (at most {bound:,})" if bound else ""
            raise TooLargeError(
                f"more than {limit:,} states{at_most}: {len(known):,} found after expanding {done:,}; "
                "raise the limit, or use a method that needs no table"
            )
    return _assemble(mdp, known, parts, terminal, start_index, np.asarray(first.probability, np.float64))


def _check_batches(batches: int, done: int, bound: int) -> None:
    """Refuse to go on where states are found one by one and there are very many of them."""
    expected = batches * max(1.0, bound / done)
    check_seconds(
        f"a table of {max(bound, done):,} states that are found {done / batches:.0f} at a time",
        expected * _SECONDS_A_BATCH,
        "choose a problem with shorter ways",
        MINUTE,
    )


def _assemble(
    mdp: EnumerableMDP,
    known: _States,
    parts: list[OutcomeRows],
    terminal: dict[int, bool],
    start_index: NDArray[np.int64],
    start_probability: NDArray[np.float64],
) -> TabularMDP:
    count = len(known)
    states = known.stack(np.arange(count))
    on_host = _to_host(states)
    absorbing = np.array([terminal.get(i, False) for i in range(count)])
    initial = np.zeros(count)
    np.add.at(initial, start_index, start_probability)
    fields = (
        (OutcomeRows(*(np.concatenate(column) for column in zip(*parts, strict=True)))) if parts else None
    )
    rows = fields or OutcomeRows(*(np.zeros(0, t) for t in (int, int, int, float, float)))

    # One program: otherwise every operation would be compiled separately.
    @jax.jit
    def look(states: State) -> tuple[Any, ...]:
        ending = jax.vmap(mdp.ending)(states) if isinstance(mdp, HasEndings) else None
        prior = jnp.exp(jax.vmap(mdp.log_prior)(states)) if isinstance(mdp, HasPrior) else None
        return (
            jax.vmap(mdp.legal)(states),
            jax.vmap(mdp.encode)(states),
            jax.vmap(mdp.identity)(states),
            ending,
            prior,
        )

    width = jax.eval_shape(look, states)[1].shape[1]
    check_bytes(
        f"a table of {count:,} states with {width:,} features each",
        16.0 * count * width,
        "use a smaller problem, or an encoding with fewer features",
    )
    legal, features, identities, ending, prior = look(states)
    options: dict[str, Any] = {
        "legal": np.asarray(legal),
        "features": np.asarray(features, np.float32),
        "identities": np.asarray(identities, np.int32),
        "prior": None if prior is None else np.where(np.asarray(legal), np.asarray(prior), 0.0),
        "discount": discount_of(mdp),
    }
    options["action_names"] = action_names_of(mdp)
    if isinstance(mdp, HasNames):
        options["state_names"] = [
            mdp.state_name(jax.tree.map(lambda x, i=i: x[i], on_host)) for i in range(count)
        ]
    else:
        options["state_names"] = identity_names(options["identities"])
    if isinstance(mdp, HasEndings):
        options["endings"] = mdp.endings
        options["ending_of"] = np.where(absorbing, np.asarray(ending, np.int32), -1).astype(np.int32)
    table = TabularMDP.from_outcomes(rows, count, mdp.num_actions, initial, absorbing, mdp.horizon, **options)
    return table.with_sources([jax.tree.map(lambda x, i=i: x[i], on_host) for i in range(count)])


class _States:
    """The states found so far, by identity."""

    def __init__(self) -> None:
        self._index: dict[bytes, int] = {}
        self._identities: list[NDArray[np.int32]] = []
        self._leaves: list[list[NDArray[Any]]] = []
        self._structure: Any = None

    def __len__(self) -> int:
        return len(self._index)

    def identity(self, index: int) -> list[int]:
        return [int(x) for x in self._identities[index]]

    def add(self, identities: NDArray[np.int32], states: State) -> NDArray[np.int64]:
        """Return the number of each state ``[n]``, numbering the new ones."""
        leaves, self._structure = jax.tree.flatten(states)
        rows = np.ascontiguousarray(identities, np.int32)
        unique, where, back = np.unique(rows, axis=0, return_index=True, return_inverse=True)
        # In the order of first appearance, so that the numbering does not depend on identities' values.
        numbers = np.empty(len(unique), np.int64)
        for i in np.argsort(where, kind="stable"):
            key = unique[i].tobytes()
            number = self._index.setdefault(key, len(self._index))
            if number == len(self._identities):
                self._identities.append(unique[i])
                self._leaves.append([np.asarray(leaf[where[i]]) for leaf in leaves])
            numbers[i] = number
        return numbers[back.ravel()]

    def stack(self, indices: NDArray[np.int64]) -> State:
        columns = zip(*(self._leaves[int(i)] for i in indices), strict=True)
        return jax.tree.unflatten(self._structure, [jnp.asarray(np.stack(column)) for column in columns])


def _first_of_each(indices: NDArray[np.int64], flags: NDArray[np.bool_]) -> list[tuple[int, bool]]:
    """Return each index once with its flag, twice if its flags differ."""
    pairs = np.unique(np.stack([indices, flags.astype(np.int64)], axis=1), axis=0)
    return [(int(i), bool(f)) for i, f in pairs]


def _to_host(states: State) -> State:
    return jax.tree.map(np.asarray, states)
