"""Conversion of a Gymnasium environment to a table, a compiled MDP, or a simulator with snapshots."""

from __future__ import annotations

from typing import Any, NamedTuple

import gymnasium
from gymnasium.experimental.functional import FuncEnv

from polinfer.core.errors import DomainError, check_at_least
from polinfer.problems.adapters import minigrid
from polinfer.problems.adapters.functional import FunctionalMDP
from polinfer.problems.adapters.minigrid import is_minigrid
from polinfer.problems.adapters.snapshots import SnapshotSimulator
from polinfer.problems.adapters.spaces import read_actions
from polinfer.problems.adapters.toy_text import has_table, read_table
from polinfer.problems.adapters.views import (
    by_identity,
    edges_from_bins,
    encode_all,
    make_view,
    read_edges,
    read_function,
)
from polinfer.problems.adapters.wrappers import is_plain, name_of, time_limit
from polinfer.problems.tabular.table import TabularMDP


class StateOptions(NamedTuple):
    """What says what a state is."""

    abstraction: Any = None
    edges: Any = None
    bins: Any = None
    identity: Any = None
    encode: Any = None
    reset_seed: Any = None


def convert(
    env: Any, horizon: int | None, reward_scale: float, asked: StateOptions
) -> TabularMDP | SnapshotSimulator | FunctionalMDP:
    """Implement `polinfer.from_gymnasium`."""
    core: Any
    if isinstance(env, FuncEnv):
        name, limit, core = type(env).__name__, None, env
    elif isinstance(env, gymnasium.Env):
        name, limit, core = name_of(env), time_limit(env), env.unwrapped
    else:
        raise DomainError(
            f"from_gymnasium takes one environment, as gymnasium.make gives it, got {type(env).__name__}"
        )
    if limit is None and is_minigrid(core):
        limit = int(core.max_steps)
    if horizon is None and limit is None:
        raise DomainError(f"{name} has no limit on the steps of an episode; pass horizon= (--horizon)")
    steps = check_at_least("horizon", limit if horizon is None else horizon, 1)  # type: ignore[arg-type]
    for what in ("action_space", "observation_space"):
        if not hasattr(env, what):
            raise DomainError(f"{name} has no {what}; an environment sets it where it is made")
    read_actions(name, env.action_space)  # before observations: nothing mends actions of the wrong kind
    told = [what for what in ("abstraction", "edges", "bins", "identity") if getattr(asked, what) is not None]
    if len(told) > 1:
        raise DomainError(f"{' and '.join(told)} both say what a state is; pass one of them")
    space = env.observation_space
    edges = edges_from_bins(name, space, asked.bins) if asked.bins is not None else asked.edges
    options: dict[str, Any] = {
        "abstraction": read_function("abstraction", asked.abstraction),
        "edges": None if edges is None else read_edges(name, space, edges),
        "encode": read_function("encode", asked.encode),
    }
    identity = read_function("identity", asked.identity)
    if asked.reset_seed is not None:
        check_at_least("reset_seed", asked.reset_seed, 0)
    plain = core is env or is_plain(env)
    functional = getattr(core, "func_env", core)
    if plain and isinstance(functional, FuncEnv) and identity is None:
        return FunctionalMDP(name, functional, horizon=steps, reward_scale=reward_scale, **options)
    if not told and is_minigrid(core):
        identity = identify_minigrid
    if identity is not None:
        view = by_identity(name, options["encode"], is_minigrid(core) and not told)
    else:
        view = make_view(name, space, **options)
        if plain and not told and asked.reset_seed is None and has_table(core):
            features = None if asked.encode is None else encode_all(view, int(space.n))
            return read_table(core, steps, reward_scale, features)
    return SnapshotSimulator(
        name,
        env,
        view,
        horizon=steps,
        reward_scale=reward_scale,
        identity=identity,
        reset_seed=asked.reset_seed,
    )


def identify_minigrid(env: Any) -> Any:
    """Return what is on the grid, wherever the agent looks."""
    return minigrid.identify(env.unwrapped)
