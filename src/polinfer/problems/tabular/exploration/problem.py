"""From a problem to its table: which kind of simulator it is, and how it asks to be explored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from polinfer.core.errors import PolinferError, check_at_least
from polinfer.core.progress import Progress, current_progress
from polinfer.core.protocol import MDP
from polinfer.problems.tabular.exploration import cache
from polinfer.problems.tabular.exploration.compiled import MANY_WAYS, CompiledSource
from polinfer.problems.tabular.exploration.host import HostSource, with_known_states
from polinfer.problems.tabular.exploration.options import Exploration
from polinfer.problems.tabular.exploration.search import explore
from polinfer.problems.tabular.table import TabularMDP


def explore_problem(
    problem: Any,
    options: Exploration,
    identity: Callable[[Any], Any] | None = None,
    progress: Progress | None = None,
) -> TabularMDP:
    """Return a table of `problem`, a JAX problem or a simulator in plain Python, by draws."""
    host = identity is None and not isinstance(problem, MDP)
    key = cache.fingerprint(problem, options) if host else None
    kept = cache.read(key)
    if kept is not None:
        return with_known_states(problem, kept)
    table = _explore(problem, options, identity, progress or current_progress())
    if table.state_keys is not None:
        cache.write(key, table)
    return table


def _explore(
    problem: Any, options: Exploration, identity: Callable[[Any], Any] | None, watcher: Progress | None
) -> TabularMDP:
    if isinstance(problem, MDP):
        if identity is not None:
            raise PolinferError("identity= is for simulators in plain Python; a JAX problem has identity()")
        # Single precision, as the problem is simulated.
        with jax.enable_x64(False):
            ways = {"ways": MANY_WAYS} if options.markov == "ignore" else {}
            return explore(CompiledSource(problem, options.seed, **ways), options, watcher)
    check_simulator(problem)
    return explore(HostSource(problem, options.seed, identity), options, watcher)


def check_simulator(problem: Any) -> None:
    """Refuse what is neither a JAX problem nor a simulator."""
    for method in ("init", "step", "legal"):
        if not callable(getattr(problem, method, None)):
            raise PolinferError(
                f"{type(problem).__name__} is neither a polinfer.MDP nor a polinfer.Simulator: it has no "
                f"method {method!r}"
            )
    for number in ("num_actions", "horizon"):
        if not hasattr(problem, number):
            raise PolinferError(
                f"{type(problem).__name__} has no {number!r}; add it (see polinfer.Simulator)"
            )
        check_at_least(number, getattr(problem, number), 1)
