"""The random generators inside an environment: seeding all of them, and telling whether a step used any."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
from gymnasium.experimental.functional import FuncEnv

from polinfer.problems.adapters.wrappers import Env, layers

Generator = np.random.Generator | np.random.RandomState | random.Random
Path = tuple[tuple[str, Any], ...]
_DEPTH, _OBJECTS = 5, 20_000  # how deep and how far generators are looked for
_SKIPPED = (str, bytes, int, float, bool, type(None), np.ndarray, np.generic, type)


def reseed(env: Env, seed: int, inner: tuple[Path, ...] = ()) -> list[Generator]:
    """Seed every generator of random numbers that `env` and its wrappers hold, and those at `inner`."""
    found = list(_generators(env, inner))
    for index, generator in enumerate(found):
        sequence = np.random.SeedSequence([seed, index])
        # In place: another part of the environment may hold the same generator.
        if isinstance(generator, np.random.Generator):
            bits = generator.bit_generator
            bits.state = type(bits)(sequence).state
        elif isinstance(generator, np.random.RandomState):
            generator.seed(sequence.generate_state(4))
        else:
            generator.seed(int(sequence.generate_state(1, np.uint64)[0]))
    core: Any = env.unwrapped
    if isinstance(getattr(core, "func_env", None), FuncEnv):
        core.rng = jax.random.PRNGKey(int(np.random.SeedSequence(seed).generate_state(1)[0]))
    return found


def marks(env: Env, generators: list[Generator]) -> tuple[Any, ...] | None:
    """Return what changes when a random number is drawn; None where that cannot be told."""
    if isinstance(getattr(env.unwrapped, "func_env", None), FuncEnv):
        return None
    return (
        *(_mark(generator) for generator in generators),
        random.getstate(),
        np.random.get_state()[1].tobytes(),  # type: ignore[index]  # noqa: NPY002
        np.random.get_state()[2],  # type: ignore[index]  # noqa: NPY002
    )


def _mark(generator: Generator) -> Any:
    if isinstance(generator, np.random.Generator):
        return repr(generator.bit_generator.state)
    if isinstance(generator, np.random.RandomState):
        return repr(generator.get_state())
    return generator.getstate()


def _generators(env: Env, inner: tuple[Path, ...]) -> Iterator[Generator]:
    # Asked for, so that they exist: otherwise they are made from the computer's entropy when first used.
    found: list[Any] = [env.unwrapped.np_random, env.action_space.np_random, env.observation_space.np_random]
    found += [value for layer in layers(env) for value in vars(layer).values()]
    found += [_follow(env, path) for path in inner]
    seen: set[int] = set()
    for value in found:
        if isinstance(value, np.random.Generator | np.random.RandomState | random.Random) and (
            id(value) not in seen
        ):
            seen.add(id(value))
            yield value


def find_inner(env: Env) -> tuple[Path, ...]:
    """Return where generators lie inside of what `env` and its wrappers hold, such as ``env.game.rng``."""
    found: list[Path] = []
    queue: list[tuple[Path, Any]] = [((("layer", i),), layer) for i, layer in enumerate(layers(env))]
    seen: set[int] = set()
    while queue and len(seen) < _OBJECTS:
        path, value = queue.pop(0)
        if id(value) in seen or isinstance(value, _SKIPPED):
            continue
        seen.add(id(value))
        if isinstance(value, np.random.Generator | np.random.RandomState | random.Random):
            if len(path) > 2:
                found.append(path)
            continue
        if len(path) <= _DEPTH:
            queue += [((*path, step), part) for step, part in _parts(value)]
    return tuple(found)


def _parts(value: Any) -> list[tuple[tuple[str, Any], Any]]:
    if isinstance(value, dict):
        return [(("item", key), part) for key, part in value.items()]
    if isinstance(value, list | tuple):
        return [(("item", index), part) for index, part in enumerate(value)]
    return [(("attribute", name), part) for name, part in getattr(value, "__dict__", {}).items()]


def _follow(env: Env, path: Path) -> Any:
    value: Any = env
    try:
        for kind, step in path:
            if kind == "layer":
                value = layers(env)[step]
            elif kind == "item":
                value = value[step]
            else:
                value = getattr(value, step)
    except (AttributeError, KeyError, IndexError, TypeError):
        return None
    return value
