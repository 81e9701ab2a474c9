"""What a request costs, estimated before anything is computed: refused beyond the limits of `core.limits`."""

from __future__ import annotations

from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np

from polinfer.core.limits import DAY, check_bytes, check_seconds
from polinfer.core.protocol import MDP
from polinfer.exact.bounds import known_policies
from polinfer.exact.evaluation import deterministic_returns
from polinfer.exact.returns import choices_of, make_returns
from polinfer.problems.registry import Problem
from polinfer.problems.tables import shared_table, table_of
from polinfer.problems.tabular.table import TabularMDP

_MOVES_A_SECOND = 1e7  # of a particle in a world, compiled, on one core
_UPDATES_A_SECOND = 1e4  # of soft actor-critic, all seeds together
_SAFE = 500.0  # returns below this keep enough digits in single precision
_MOST_LOST = 1e-3  # of log weights
_BYTES_A_MOVE = 32  # of a sweep's record: identity, action, weight, masks


def check_sweeps(problem: Problem, particles: int, worlds: int, sweeps: int, seeds: int) -> None:
    """Refuse sweeps whose record does not fit into memory, or that would take days."""
    table = table_of(problem) if isinstance(problem, MDP) else None
    horizon = min((problem if table is None else table).horizon, 10**18)
    moves = float(particles) * worlds * horizon * seeds
    what = f"sweeps of {particles:,} particles in {worlds:,} worlds over {horizon:,} steps"
    check_bytes(what, moves * _BYTES_A_MOVE, "use fewer particles, worlds or seeds, or a shorter horizon")
    check_seconds(
        f"{sweeps:,} {what}", moves * sweeps / _MOVES_A_SECOND, "use fewer of them, or a shorter horizon", DAY
    )


def check_network(width: int, depth: int, seeds: int) -> None:
    """Refuse a network whose weights and moments do not fit into memory."""
    size = 16.0 * seeds * depth * width**2
    check_bytes(f"a network of {depth:,} layers of {width:,}", size, "choose a smaller --width or --depth")


def check_steps(steps: int, buffer: int, batch: int, seeds: int) -> None:
    """Refuse a training of soft actor-critic that does not fit into memory, or that would take days."""
    check_bytes(
        f"a buffer of {buffer:,} steps", 24.0 * min(buffer, steps) * seeds, "choose a smaller --buffer"
    )
    check_bytes(f"a batch of {batch:,}", 512.0 * batch * seeds, "choose a smaller --batch")
    work = float(steps) * seeds / _UPDATES_A_SECOND
    check_seconds(f"{steps:,} steps of {seeds:,} seeds", work, "choose fewer (--steps)", DAY)


def check_population(problem: Problem, policies: int) -> None:
    """Refuse a population of whole policies that does not fit into memory."""
    states = shared_table(problem).num_states if isinstance(problem, MDP) else 1
    size = 64.0 * policies * states
    check_bytes(f"{policies:,} policies of {states:,} states", size, "keep fewer policies")


def needs_double(table: TabularMDP) -> bool:
    """Return whether weights in single precision would change the posterior.

    Sums of many rewards lose digits.  What is lost is measured, not guessed (`precision_loss`): it must be
    below a thousandth of the scale of log weights, which is one, for the policies that share the posterior.
    """
    return _loss(table) > _MOST_LOST


@lru_cache(maxsize=16)
def _loss(table: TabularMDP) -> float:
    largest = float(np.abs((table.probability * table.reward).sum(axis=-1)).max(initial=0.0))
    return 0.0 if largest * table.horizon < _SAFE else precision_loss(table)


def precision_loss(table: TabularMDP, neighbours: int = 63) -> float:
    """Return by how much single precision changes the differences between good policies' returns.

    Those are a good policy and `neighbours` of it that differ in a state or two, as far as their returns are
    within ten of the best.
    """
    choices = choices_of(table)
    if len(choices.state) == 0:
        return 0.0
    random = np.random.default_rng(0)
    known = known_policies(table)
    best = known[deterministic_returns(table, known).argmax()]
    drawn = np.repeat(best[None], neighbours + 1, axis=0)
    for policy in drawn[1:]:
        for number in random.integers(len(choices.state), size=2):
            policy[choices.state[number]] = random.choice(np.flatnonzero(choices.legal[number]))
    exactly = deterministic_returns(table, drawn)
    with jax.enable_x64(False):
        chosen = jnp.asarray(drawn[:, choices.state].T, jnp.int32)
        single = np.asarray(jax.jit(make_returns(table))(chosen), np.float64)
    error = (single - exactly)[exactly >= exactly.max() - 10]
    return float(error.max() - error.min())
