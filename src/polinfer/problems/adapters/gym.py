"""`from_gymnasium`, and the scheme ``gym:`` of `polinfer.make`."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from polinfer.core.errors import DomainError, check_finite, is_whole, shorten, suggest
from polinfer.problems.adapters.convert import StateOptions, convert
from polinfer.problems.adapters.functional import FunctionalMDP
from polinfer.problems.adapters.snapshots import SnapshotSimulator
from polinfer.problems.adapters.views import importing_here, read_function
from polinfer.problems.tabular.table import TabularMDP

_OPTIONS = (
    "horizon",
    "reward_scale",
    "abstraction",
    "edges",
    "bins",
    "identity",
    "encode",
    "reset_seed",
    "wrappers",
    "gym_kwargs",
)


def from_gymnasium(
    env: Any,
    *,
    horizon: int | None = None,
    reward_scale: float = 1.0,
    abstraction: Callable[[Any], Any] | str | None = None,
    edges: Sequence[Sequence[float]] | None = None,
    bins: Mapping[Any, Any] | None = None,
    identity: Callable[[Any], Any] | str | None = None,
    encode: Callable[[Any], Any] | str | None = None,
    reset_seed: int | None = None,
) -> TabularMDP | SnapshotSimulator | FunctionalMDP:
    """Return a Gymnasium environment as a problem to plan in.

    An environment that publishes its transition table, as the toy texts do, becomes a `TabularMDP`: exact.
    A functional environment in JAX (`gymnasium.experimental.functional.FuncEnv`) becomes an MDP that is
    compiled.  Any other becomes a `polinfer.Simulator` whose states carry snapshots of the environment:
    what its own ``get_state`` and ``set_state`` (or ``clone_state`` and ``restore_state``) give and take, in
    which case it is `env` itself that is played from here on, or else deep copies of it.

    Parameters
    ----------
    env
        The environment, with any wrappers.  Its limit on steps becomes the horizon.
    horizon
        The largest number of steps in an episode; the environment's own limit by default.
    reward_scale
        A factor on every reward.
    abstraction
        A function from an observation to a hashable state, or its name ``"package.module:function"``.
        Observations with the same state are one state to the planner.
    edges
        For a `Box`, one list of increasing cut points per number of the observation; the state is the tuple
        of bin numbers.  An empty list ignores the number.
    bins
        The same by name: ``{"x2": [-0.1, 0.1], "x3": 8}``, where a whole number stands for so many bins of
        equal width between the bounds of the space.
    identity
        A function from the environment to a hashable state, or its name: for states that the observation
        does not tell apart.
    encode
        A function from a state (what `abstraction` or `identity` gives) to the list of numbers that a
        network sees.
        By default finite spaces and bins are one-hot; the numbers of an abstraction are taken as they are.
    reset_seed
        Reset the environment with this seed always: one layout of the many that it would draw.

    Raises
    ------
    DomainError
        Where the environment cannot be planned in as it is, with what to do about it.

    Examples
    --------
    >>> import gymnasium, polinfer
    >>> lake = polinfer.from_gymnasium(gymnasium.make("FrozenLake-v1"), horizon=50)
    >>> lake.num_states, lake.action_names, lake.endings[0].name
    (16, ('left', 'down', 'right', 'up'), 'goal')
    >>> pole = polinfer.from_gymnasium(gymnasium.make("CartPole-v1"), edges=[[], [], [-0.1, 0, 0.1], [0]])
    >>> start = pole.init(seed=0)
    >>> start, pole.state_name(start)
    ((1, 0), 'x2 in -0.1..0, x3 < 0')
    """
    import_gymnasium()
    asked = StateOptions(abstraction, edges, bins, identity, encode, reset_seed)
    return convert(env, horizon, check_finite("reward_scale", reward_scale), asked)


def make_gymnasium(
    address: str,
    *,
    horizon: int | None = None,
    reward_scale: float = 1.0,
    abstraction: Callable[[Any], Any] | str | None = None,
    edges: Sequence[Sequence[float]] | None = None,
    bins: Mapping[Any, Any] | None = None,
    identity: Callable[[Any], Any] | str | None = None,
    encode: Callable[[Any], Any] | str | None = None,
    reset_seed: int | None = None,
    wrappers: Sequence[Any] = (),
    gym_kwargs: Mapping[str, Any] | None = None,
    **options: Any,
) -> TabularMDP | SnapshotSimulator | FunctionalMDP:
    """Make the environment `address` with `options` and return it as `from_gymnasium` does.

    `wrappers` are classes, or their names ``"package.module:Class"``, put around it in this order.
    """
    return from_gymnasium(
        wrap(_make(address, {**options, **(gym_kwargs or {})}), wrappers),
        horizon=horizon,
        reward_scale=reward_scale,
        abstraction=abstraction,
        edges=edges,
        bins=bins,
        identity=identity,
        encode=encode,
        reset_seed=reset_seed,
    )


def wrap(env: Any, wrappers: Sequence[Any]) -> Any:
    """Put wrappers around an environment, the first one innermost."""
    for given in [wrappers] if isinstance(wrappers, str) else wrappers:
        wrapper = read_function("wrapper", given)
        assert wrapper is not None
        try:
            env = wrapper(env)
        except Exception as error:
            raise DomainError(
                f"wrapper {given!r} cannot be put around the environment "
                f"({type(error).__name__}: {_line(error)})"
            ) from error
    return env


def import_gymnasium() -> Any:
    """Return the module, or say how to get it."""
    try:
        return importlib.import_module("gymnasium")
    except ImportError:
        raise DomainError("Gymnasium is not installed; run pip install gymnasium") from None


def _make(address: str, options: dict[str, Any]) -> Any:
    gymnasium = import_gymnasium()
    if not address:
        raise DomainError("gym: needs the id of an environment behind it: gym:FrozenLake-v1")
    _import_kin(address)
    try:
        # The checker looks for mistakes of whoever writes an environment, and warns whoever plans in it.
        with importing_here():
            made = gymnasium.make(address, **{"disable_env_checker": True, **options})
    except gymnasium.error.DependencyNotInstalled as error:
        raise DomainError(f"gym:{address} needs a package that is not installed: {_line(error)}") from error
    except gymnasium.error.UnregisteredEnv as error:
        near = suggest(address.rpartition(":")[2], gymnasium.registry)
        why = near or f": {_line(error)}"
        raise DomainError(f"unknown Gymnasium environment {address!r}{why}") from error
    except ImportError as error:
        raise DomainError(f"gym:{address} needs a module that is not installed: {_line(error)}") from error
    except Exception as error:
        unknown = re.search(r"unexpected keyword argument '(\w+)'", str(error))
        if unknown is None:
            raise DomainError(
                f"gym:{address} cannot be made ({type(error).__name__}: {_line(error)}); "
                "check its id and options"
            ) from error
        known = [*_OPTIONS, *_environment_options(gymnasium, address)]
        raise DomainError(
            f"gym:{address} has no option {unknown[1]!r}{suggest(unknown[1], known)}; "
            f"it has {', '.join(known)}"
        ) from error
    _check_values(gymnasium, address, options, made)
    return made


def _check_values(gymnasium: Any, address: str, options: Mapping[str, Any], made: Any) -> None:
    """Refuse what an environment takes and does not mean: it asks no more than whether a value is empty."""
    for parameter in _parameters(gymnasium, address):
        value = options.get(parameter.name, False)
        means = isinstance(value, bool | np.bool_) or (is_whole(value) and value in (0, 1))
        if isinstance(parameter.default, bool) and not means:
            raise DomainError(
                f"option {parameter.name} of gym:{address} takes true or false, got {shorten(repr(value))}"
            )
    mode, modes = options.get("render_mode"), (getattr(made, "metadata", None) or {}).get("render_modes")
    if mode is not None and modes and mode not in modes:
        raise DomainError(
            f"option render_mode of gym:{address} takes one of {', '.join(map(str, modes))}, got "
            f"{shorten(repr(mode))}"
        )


def _import_kin(address: str) -> None:
    """Import the package that registers MiniGrid's environments, or say how to get it."""
    if address.startswith(("MiniGrid-", "BabyAI-")):
        try:
            importlib.import_module("minigrid")
        except ImportError:
            raise DomainError(
                f"gym:{address} needs MiniGrid, which is not installed; run pip install 'polinfer[minigrid]'"
            ) from None


def _environment_options(gymnasium: Any, address: str) -> list[str]:
    return [parameter.name for parameter in _parameters(gymnasium, address)]


def _parameters(gymnasium: Any, address: str) -> list[inspect.Parameter]:
    """Return the parameters of what makes an environment; none where they cannot be told."""
    name, known = address.rpartition(":")[2], gymnasium.registry
    if name not in known:  # without a version, which is the newest one's
        versions = [one for one in known.values() if one.id.rpartition("-v")[0] == name]
        name = max(versions, key=lambda one: one.version or 0).id if versions else ""
    if name not in known:
        return []
    creator = known[name].entry_point
    with suppress(ValueError, TypeError):
        if isinstance(creator, str):
            creator = gymnasium.envs.registration.load_env_creator(creator)
        found = inspect.signature(creator).parameters.values()
        return [p for p in found if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return []


def _line(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".")[:300]
