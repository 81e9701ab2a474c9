"""Where ways part that are worth about the same, and whether a run from soft values has missed one of them.

A start that is independent over states cannot hold two ways that want different choices in the same states.
Soft values lean to one of them, refits follow, and islands agree.  Optimisation knows the ways one by one:
the best policy, and what is best when choices of it are forbidden.  So a short run starts around all of them
alike, a *scout*.  Where it comes to another share of policies at the state in which they part, or finds more
evidence, the posterior is to be split there (`polinfer.annealing.branches`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polinfer.annealing.annealer import Annealer
from polinfer.annealing.detours import find_ways
from polinfer.annealing.ensemble import Ensemble
from polinfer.annealing.rounds import Estimate
from polinfer.annealing.state import State
from polinfer.core.stopping import stop_requested

_NEAR = 5.0  # nats that a way may earn less than the best policy
_MET = 0.5  # probability with which both ways come to the state where they part, at least
_MOST_WAYS = 4
_MOVED = 0.05  # by which shares of actions differ besides noise
_MORE = 0.2  # nats of evidence that a scout finds besides noise
_LESS = 1.0  # nats by which it may fall short and still speak of another mode
_SURE = 2.0  # standard errors
_SCOUT_SEED = 32_452_843


class Parting(NamedTuple):
    """A state in which ways part."""

    slot: int
    taken: NDArray[np.int64]  # [W] the action of each way there, that of the best first
    ways: NDArray[np.int16]  # [N, K] policies


def find_parting(ensemble: Ensemble, known: NDArray[np.int16]) -> Parting | None:
    """Return where ways beside the best policy of `known` ``[N, K]`` leave it; None where none is near."""
    if not known.shape[1]:
        return None
    returns, _ = ensemble.evaluate(known)
    best = known[:, int(np.argmax(returns))]
    ways = np.stack([best, *(way.policy for way in find_ways(ensemble, known))], axis=1)
    returns, visits = ensemble.evaluate(ways)
    near = ensemble.scale * (returns[0] - returns) <= _NEAR
    ways, come = ways[:, near], np.minimum(visits[:, near], 1.0)
    both = np.minimum(come[:, :1], come) * (ways != ways[:, :1])  # [N, K]
    slot, other = np.unravel_index(int(np.argmax(both)), both.shape)
    if both[slot, other] < _MET:
        return None
    taken = ways[slot, come[slot] >= _MET]
    first = np.sort(np.unique(taken, return_index=True)[1])[:_MOST_WAYS]
    return Parting(int(slot), taken[first].astype(np.int64), ways)


def missed_way(annealer: Annealer, state: State) -> Parting | None:
    """Return where to split, if a scout comes elsewhere than the rounds of a run so far."""
    if annealer.effort.long:
        return None
    parting = find_parting(annealer.ensemble, annealer.known)
    so_far = annealer.estimate(state)
    if parting is None or so_far is None:
        return None
    found = _scout(annealer)
    if found is None:
        return None
    # The errors of a run that missed a way say nothing about it, so only those of the scout count.
    ahead = found.log_evidence - so_far.log_evidence
    apart = np.abs(found.policy - so_far.policy)[parting.slot] - _SURE * found.policy_stderr[parting.slot]
    moved = bool((apart > _MOVED).any()) and ahead > -_LESS
    return parting if moved or ahead > _MORE + _SURE * found.log_evidence_stderr else None


def _scout(annealer: Annealer) -> Estimate | None:
    """Return what one short round finds that starts around all ways; None where it was stopped."""
    islands = annealer.config.islands
    # Half of them where it is felt; groups of islands keep their size, so that compiled programs are shared.
    few = islands // 2 if islands % 4 == 0 and annealer.effort.hurried else islands
    config = replace(annealer.config, start="known", islands=few)
    seed = annealer.seed + _SCOUT_SEED
    scout = Annealer(annealer.problem, config, scale=annealer.scale, seed=seed, known=annealer.known)
    state = scout.init()
    while not len(state.round_steps) and not state.finished:
        if stop_requested():
            return None
        state = scout.step(state)
    return scout.estimate(state)
