"""Exact weights: on a table, the policies of a sweep are weighted by their expected return ``J``.

A sweep weights a policy by its mean return in the sweep's worlds, ``exp(R_w)``.  On a table ``J`` can be
computed, and importance weights ``exp(J - R_w)`` at the end of the sweep replace ``R_w`` by ``J``.  The
weighted policies are then a sample of target 1, ``exp(J)``, for any number of worlds, and ``Z-hat`` is an
unbiased estimate of the paper's ``Z``.  Few worlds reduce the effective sample size, not the correctness.

``J`` is that of a whole policy: in states that a particle did not visit its action is drawn from the prior.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from polinfer.core.noise import as_uniform, derive_words
from polinfer.exact.returns import choices_of, make_returns
from polinfer.problems.tabular.table import TabularMDP
from polinfer.smc.lineage import along, committed_actions
from polinfer.smc.record import Sweep

Weights = Literal["worlds", "exact"]
"""What a policy is weighed by at the end of a sweep: its return in the sweep's worlds, or its exact J."""

_FILL = 0xF111  # what words are derived for

NEEDS_TABLE = "weights 'exact' need a problem that fits a table; leave them out and take more worlds"


class Weighed(NamedTuple):
    """The whole policies of a sweep."""

    actions: Array  # [N, S] int32
    log_weight: Array  # [N], normalised: the weights sum to one
    log_evidence: Array  # [] log of an unbiased estimate of Z


Weigher = Callable[[Sweep, Array], Weighed]
"""From a sweep, and a uniform number ``[N, S]`` for every action that it has not drawn."""


def draw_fill(words: Array, particles: int, states: int) -> Array:
    """Return the uniform numbers ``[N, S]`` that complete the policies of the sweep with these words."""
    own = derive_words(words, jnp.asarray(_FILL))[:, None, None]
    return as_uniform(derive_words(own, jnp.arange(particles)[:, None], jnp.arange(states)[None, :]))


def _last_legal(table: TabularMDP) -> NDArray[np.int64]:
    return np.asarray(table.num_actions - 1 - table.legal_actions[:, ::-1].argmax(axis=1))


def make_weigher(table: TabularMDP) -> Weigher:
    """Return the traceable function that gives the policies of one sweep on `table` their exact weights."""
    returns, choices = make_returns(table), choices_of(table).state
    cumulative = np.cumsum(table.prior, axis=1)
    cumulative[np.arange(table.num_states), _last_legal(table)] = 2.0  # rounding draws nothing beyond it
    steps = jnp.asarray(cumulative[:, :-1], jnp.float32)

    def weigh(sweep: Sweep, fill: Array) -> Weighed:
        actions = committed_actions(sweep, table.num_states)
        gained = along(sweep, sweep.reward).mean(axis=-1).sum(axis=0)
        drawn = jnp.zeros(fill.shape, jnp.int32)
        for action in range(table.num_actions - 1):
            drawn = drawn + (fill >= steps[:, action])
        actions = jnp.where(actions >= 0, actions, drawn)
        luck = gained - returns(actions[:, choices].T)
        log_weight = jax.nn.log_softmax(sweep.log_weight[-1]) - luck
        log_mean = jax.nn.logsumexp(log_weight)
        return Weighed(actions, log_weight - log_mean, sweep.log_evidence + log_mean)

    return weigh
