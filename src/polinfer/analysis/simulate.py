"""Episodes of a simulator in plain Python, played by a posterior."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from polinfer.core.errors import PolinferError
from polinfer.core.progress import Report, current_progress
from polinfer.core.protocol import HasEndings, discount_of
from polinfer.core.simulator import Simulator
from polinfer.core.stopping import stop_requested
from polinfer.learning.host import numpy_log_policy
from polinfer.posterior.posterior import Posterior
from polinfer.problems.encoded import EncodedView
from polinfer.problems.lookup import Lookup
from polinfer.problems.tabular.table import TabularMDP

_LEAST_EPISODES = 100  # that are played however little time there is
_REPORTED = 100  # episodes between two reports


class Episodes(NamedTuple):
    """What episodes came to; every array is ``[episodes]``."""

    gained: NDArray[np.float32]
    length: NDArray[np.int32]
    ending: NDArray[np.int32]  # -1 where the episode was cut off, or the simulator does not tell


def play_episodes(posterior: Posterior, member: int, episodes: int, mode: str, seed: int) -> Episodes:
    """Let seed `member` of `posterior` play; with mode ``thompson`` an episode keeps to one policy.

    Where the computation is asked to end there are fewer episodes, but some.
    """
    simulator: Any = posterior.mdp
    if isinstance(posterior.view, TabularMDP):
        log_policy, drawn = _on_table(posterior, posterior.view, member)
        if mode == "thompson" and drawn is not None:
            return _together(
                [
                    _play(simulator, _keep_to(drawn, chance), mode, chance)
                    for chance in _chances(f"{seed}/{member}", episodes)
                ]
            )
    else:
        proposal = jax.tree.map(lambda leaf: np.asarray(leaf[member]), posterior.proposal)
        assert isinstance(posterior.view, EncodedView)
        log_policy = numpy_log_policy(posterior.view, proposal, {})
    weights: dict[Any, list[float]] = {}

    def draw(state: Any, chance: random.Random) -> int:
        if state not in weights:
            weights[state] = np.exp(log_policy(state)).tolist()
        return chance.choices(range(simulator.num_actions), weights[state])[0]

    return _together(
        [_play(simulator, draw, mode, chance) for chance in _chances(f"{seed}/{member}", episodes)]
    )


def _chances(name: str, episodes: int) -> Iterator[random.Random]:
    """Yield the randomness of each episode, until it is asked to stop; who watches hears of it."""
    watcher = current_progress()
    for number in range(episodes):
        if number >= _LEAST_EPISODES and stop_requested():
            return
        yield random.Random(f"{name}/{number}")
        if watcher is not None and number % _REPORTED == _REPORTED - 1:
            watcher(Report(number + 1, episodes, "episodes"))


class _Drawn(NamedTuple):
    """Whole policies on a table, and how a state of the simulator is found in it."""

    policies: NDArray[np.int32]  # [n, S]
    row: Callable[[Any], int | None]


def _on_table(
    posterior: Posterior, table: TabularMDP, member: int
) -> tuple[Callable[[Any], NDArray[np.float32]], _Drawn | None]:
    """Return the policy on a table that was explored, as a function of the simulator's states."""
    lookup, probs = Lookup(posterior.mdp, table), posterior.table_probs()
    assert probs is not None

    def row(state: Any) -> int | None:
        try:
            return lookup.rows(state)[0]
        except PolinferError:  # never drawn while exploring
            return None

    def log_policy(state: Any) -> NDArray[np.float32]:
        number = row(state)
        legal = np.asarray(posterior.mdp.legal(state), np.float32)
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(legal / legal.sum() if number is None else probs[member, number]))

    whole = None if posterior.policies is None else posterior.policies.sampled_policies
    return log_policy, None if whole is None else _Drawn(whole, row)


def _keep_to(drawn: _Drawn, chance: random.Random) -> Callable[[Any, random.Random], int]:
    """Return one of the policies that were drawn."""
    policy = drawn.policies[chance.randrange(len(drawn.policies))]

    def act(state: Any, chance: random.Random) -> int:
        del chance
        number = drawn.row(state)
        return 0 if number is None else int(policy[number])

    return act


def _together(played: list[tuple[float, int, int]]) -> Episodes:
    gained, length, ending = zip(*played, strict=True)
    return Episodes(np.array(gained, np.float32), np.array(length, np.int32), np.array(ending, np.int32))


def _play(simulator: Simulator, draw: Any, mode: str, chance: random.Random) -> tuple[float, int, int]:
    state: Any = simulator.init(chance.getrandbits(64))
    committed: dict[Any, int] = {}
    gained, length, over = 0.0, 0, False
    discount = discount_of(simulator)
    while not over and length < simulator.horizon:
        action = committed[state] if state in committed else draw(state, chance)
        if mode == "thompson":
            committed[state] = action
        state, reward, over = simulator.step(chance.getrandbits(64), state, action)
        gained += discount**length * float(reward)
        length += 1
    ending = int(simulator.ending(state)) if over and isinstance(simulator, HasEndings) else -1
    return gained, length, ending
