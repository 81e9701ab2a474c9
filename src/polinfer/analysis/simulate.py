"""Episodes of a simulator in plain Python, played by a posterior."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from polinfer.core.protocol import HasEndings, discount_of
from polinfer.core.simulator import Simulator
from polinfer.learning.host import numpy_log_policy
from polinfer.posterior.posterior import Posterior
from polinfer.problems.encoded import EncodedView


class Episodes(NamedTuple):
    """What episodes came to; every array is ``[episodes]``."""

    gained: NDArray[np.float32]
    length: NDArray[np.int32]
    ending: NDArray[np.int32]  # -1 where the episode was cut off, or the simulator does not tell


def play_episodes(posterior: Posterior, member: int, episodes: int, mode: str, seed: int) -> Episodes:
    """Let seed `member` of `posterior` play; with mode ``thompson`` an episode keeps to one policy."""
    simulator: Any = posterior.mdp
    proposal = jax.tree.map(lambda leaf: np.asarray(leaf[member]), posterior.proposal)
    assert isinstance(posterior.view, EncodedView)
    log_policy = numpy_log_policy(posterior.view, proposal, {})
    weights: dict[Any, list[float]] = {}

    def draw(state: Any, chance: random.Random) -> int:
        if state not in weights:
            weights[state] = np.exp(log_policy(state)).tolist()
        return chance.choices(range(simulator.num_actions), weights[state])[0]

    played = [_play(simulator, draw, mode, random.Random(f"{seed}/{member}/{i}")) for i in range(episodes)]
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
