"""The wrappers around an environment: which of them are passive, and the environment inside."""

from __future__ import annotations

import itertools
from typing import Any

import gymnasium
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit

Env = gymnasium.Env[Any, Any]
# By type and not by instance: a subclass may do more.
_PASSIVE = (OrderEnforcing, PassiveEnvChecker, TimeLimit)


def layers(env: Env) -> list[Env]:
    """Return `env` and all that it wraps, outermost first."""
    found = [env]
    while isinstance(found[-1], gymnasium.Wrapper):
        found.append(found[-1].env)
    return found


def is_plain(env: Env) -> bool:
    """Return whether nothing around the environment changes what it does within its time limit."""
    return all(type(layer) in _PASSIVE for layer in layers(env)[:-1])


def without_passive(env: Env) -> Env:
    """Take the wrappers that only watch, and limits of time, out of the stack `env`, which is changed."""
    kept = [layer for layer in layers(env) if type(layer) not in _PASSIVE]
    for outer, inner in itertools.pairwise(kept):
        assert isinstance(outer, gymnasium.Wrapper)
        outer.env = inner
    return kept[0]


def time_limit(env: Env) -> int | None:
    """Return the limit on steps that `env` was made with."""
    limits = [layer._max_episode_steps for layer in layers(env) if isinstance(layer, TimeLimit)]
    if limits:
        return min(limits)
    return None if env.spec is None else env.spec.max_episode_steps


def name_of(env: Env) -> str:
    """Name an environment for reports and errors."""
    return type(env.unwrapped).__name__ if env.spec is None else env.spec.id
