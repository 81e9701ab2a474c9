"""Initial states and transitions of the compiled engines, from two noise words."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import Array

from polinfer.core.noise import as_key, as_uniform
from polinfer.core.protocol import MDP, EnumerableMDP, State, Transition, invert_cumulative
from polinfer.problems.tabular.table import TabularMDP

LogProposal = Callable[[State], Array]
"""From a state to ``log q(.|s)`` ``[A]``, -inf where illegal."""


def move_by_words(mdp: MDP, words: Array, state: State, action: Array) -> Transition:
    """Step with the noise of `words`; with listed outcomes by one uniform number, without a key."""
    if isinstance(mdp, EnumerableMDP):
        outcomes = mdp.outcomes(state, action)
        index = invert_cumulative(as_uniform(words), outcomes.probability)
        moved: Transition = jax.tree.map(lambda leaf: leaf[index], outcomes.transition)
        return moved
    return mdp.step(as_key(words), state, action)


def start_from_words(mdp: MDP, words: Array) -> State:
    """Return the first state that `words` draw."""
    if isinstance(mdp, EnumerableMDP):
        starts = mdp.starts()
        index = invert_cumulative(as_uniform(words), starts.probability)
        return jax.tree.map(lambda leaf: leaf[index], starts.state)
    return mdp.init(as_key(words))


def is_terminal_start(mdp: MDP, start: State) -> Array:
    """Return whether the first state is terminal, which only a table can tell."""
    return jnp.asarray(mdp.absorbing)[start] if isinstance(mdp, TabularMDP) else jnp.asarray(False)
