"""Our problems under Gymnasium's ids: ``gymnasium.make("polinfer:polinfer/gridworld-multimodal-v0")``.

Importing `polinfer` registers them, so that the prefix ``polinfer:`` works even where polinfer was imported
before Gymnasium.  That imports Gymnasium too: 0.04 s beside 1.4 s for the rest.
"""

from __future__ import annotations

import inspect
import re
from typing import Any, Literal

from polinfer.core.absorbing import Absorbing
from polinfer.core.errors import DomainError, PolinferError
from polinfer.core.protocol import MDP
from polinfer.problems.adapters.environment import MDPEnvironment
from polinfer.problems.adapters.gym import import_gymnasium
from polinfer.problems.registry import list_domains, make


def to_gymnasium(
    mdp: MDP,
    render_mode: str | None = None,
    observation: Literal["features", "index"] = "features",
    absorbing: Absorbing = "end",
) -> MDPEnvironment:
    """Return an MDP as a Gymnasium environment, for agents of other libraries.

    It terminates where the MDP does, unless `absorbing` says otherwise, and truncates at its horizon.
    ``info`` holds the state's ``identity``, the ``action_mask`` of legal actions, and the name of the
    ``ending`` where an episode ends in one.

    Parameters
    ----------
    mdp
        The problem.
    render_mode
        ``"ansi"``, text; for grid worlds also ``"rgb_array"``, a picture.
    observation
        ``"features"``, what a proposal network sees, or ``"index"``, the number of the state in
        ``polinfer.tabulate(mdp)``.
    absorbing
        ``"end"``, or ``"continue"``: never terminate; an episode stays where the MDP has ended, without
        reward, until the horizon truncates it.  Agents that are paid for entropy then learn another policy.

    Examples
    --------
    >>> import polinfer
    >>> env = polinfer.to_gymnasium(polinfer.make("gridworld/ablation"), render_mode="ansi")
    >>> features, info = env.reset(seed=0)
    >>> features.tolist(), info["identity"].tolist()
    ([1.0, 0.0, 0.0, 1.0, 0.0], [2])
    >>> print(env.render())
    WG
    @.
    ..
    (1,2), step 0 of 10
    """
    import_gymnasium()
    if not isinstance(mdp, MDP):
        raise PolinferError(
            f"to_gymnasium takes a polinfer.MDP, got {type(mdp).__name__}; "
            "a simulator in plain Python does not say what it needs"
        )
    return MDPEnvironment(mdp, render_mode=render_mode, observation=observation, absorbing=absorbing)


def register_environments() -> None:
    """Register every domain that needs no option with Gymnasium; call it again after registering your own.

    ``/`` becomes ``-``: ``gridworld/flat`` is ``polinfer/gridworld-flat-v0``.  The options of a domain, and
    those of `polinfer.to_gymnasium`, are keyword arguments of ``gymnasium.make``.
    """
    try:
        gymnasium = import_gymnasium()
    except DomainError:
        return
    for name, domain in list_domains().items():
        address = f"polinfer/{re.sub(r'[^A-Za-z0-9_.-]', '-', name)}-v0"
        if address not in gymnasium.registry and inspect.Parameter.empty not in domain.options.values():
            gymnasium.register(address, f"{__name__}:make_environment", kwargs={"domain": name})


def make_environment(
    domain: str,
    render_mode: str | None = None,
    observation: Literal["features", "index"] = "features",
    absorbing: Absorbing = "end",
    **options: Any,
) -> MDPEnvironment:
    """Make a domain as a Gymnasium environment."""
    return to_gymnasium(make(domain, **options), render_mode, observation, absorbing)
