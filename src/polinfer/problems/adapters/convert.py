"""Conversion of a Gymnasium environment to a table, a compiled MDP, or a simulator with snapshots."""

from __future__ import annotations

from typing import Any

import gymnasium
from gymnasium.experimental.functional import FuncEnv

from polinfer.core.errors import DomainError, check_at_least
from polinfer.problems.adapters.functional import FunctionalMDP
from polinfer.problems.adapters.snapshots import SnapshotSimulator
from polinfer.problems.adapters.spaces import read_actions
from polinfer.problems.adapters.toy_text import has_table, read_table
from polinfer.problems.adapters.views import encode_all, make_view, read_edges, read_function
from polinfer.problems.adapters.wrappers import is_plain, name_of, time_limit
from polinfer.problems.tabular.table import TabularMDP


def convert(
    env: Any, horizon: int | None, reward_scale: float, abstraction: Any, edges: Any, encode: Any
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
    if horizon is None and limit is None:
        raise DomainError(f"{name} has no limit on the steps of an episode; pass horizon=")
    steps = check_at_least("horizon", limit if horizon is None else horizon, 1)  # type: ignore[arg-type]
    read_actions(name, env.action_space)  # before observations: nothing mends actions of the wrong kind
    if edges is not None and abstraction is not None:
        raise DomainError("edges and abstraction both say what a state is; pass one of them")
    space = env.observation_space
    options: dict[str, Any] = {
        "abstraction": read_function("abstraction", abstraction),
        "edges": None if edges is None else read_edges(name, space, edges),
        "encode": read_function("encode", encode),
    }
    plain = core is env or is_plain(env)
    functional = getattr(core, "func_env", core)
    if plain and isinstance(functional, FuncEnv):
        return FunctionalMDP(name, functional, horizon=steps, reward_scale=reward_scale, **options)
    view = make_view(name, space, **options)
    if plain and edges is None and abstraction is None and has_table(core):
        features = None if encode is None else encode_all(view, int(space.n))
        return read_table(core, steps, reward_scale, features)
    return SnapshotSimulator(name, env, view, horizon=steps, reward_scale=reward_scale)
