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

_NEAR = 5.0  # nats that a way may earn less than the best policy
_MET = 0.5  # visits, up to one, that both ways pay to the state where they part, at least
_MOST_WAYS = 4
_MOVED = 0.05  # by which shares of actions differ besides noise, or are unsure
_MORE = 0.2  # nats of evidence that a scout finds besides noise
_LESS = 1.0  # nats by which it may fall short and still speak of another mode
_SURE = 2.0  # standard errors
_SCOUT_SEED = 32_452_843


class Parting(NamedTuple):
    """A state in which ways part."""

    slot: int
    taken: NDArray[np.int64]  # [W] the action of each way there, that of the best first
    ways: NDArray[np.int16]  # [N, K] policies
    anywhere: NDArray[np.bool_]  # [N] all states in which some of them part


def find_parting(ensemble: Ensemble, known: NDArray[np.int16]) -> Parting | None:
    """Return where ways beside the best policy of `known` ``[N, K]`` leave it; None where none is near.

    Of several, the way that earns most, and the state to which both come most often.
    """
    if not known.shape[1]:
        return None
    returns, _ = ensemble.evaluate(known)
    best = known[:, int(np.argmax(returns))]
    ways = np.stack([best, *(way.policy for way in find_ways(ensemble, known))], axis=1)
    returns, visits = ensemble.evaluate(ways)
    near = ensemble.scale * (returns[0] - returns) <= _NEAR
    ways, returns, come = ways[:, near], returns[near], np.minimum(visits[:, near], 1.0)
    both = np.minimum(come[:, :1], come) * (ways != ways[:, :1])  # [N, K]
    part = both >= _MET
    if not part.any():
        return None
    other = int(np.argmax(np.where(part.any(axis=0), returns, -np.inf)))
    slot = int(np.argmax(both[:, other]))
    taken = ways[slot, come[slot] >= _MET]
    first = np.sort(np.unique(taken, return_index=True)[1])[:_MOST_WAYS]
    return Parting(slot, taken[first].astype(np.int64), ways, part.any(axis=1))


def scout_of(annealer: Annealer) -> Annealer:
    """Return who looks for what a run may have missed: a round that starts around all ways."""
    islands = annealer.config.islands
    # Half of them where it is felt; groups of islands keep their size, so that compiled programs are shared.
    few = islands // 2 if islands % 8 == 0 and annealer.effort.hurried else islands
    config = replace(annealer.config, start="known", islands=few)
    seed = annealer.seed + _SCOUT_SEED
    return Annealer(annealer.problem, config, scale=annealer.scale, seed=seed, known=annealer.known)


def came_elsewhere(found: Estimate, so_far: Estimate, parting: Parting) -> bool:
    """Return whether a scout found more evidence than a run, or other shares of actions where ways part.

    Shares that the islands of the scout do not agree about are other ones: each is held by one of the ways.
    The errors of a run that missed a way say nothing about it, so only those of the scout count.
    """
    ahead = found.log_evidence - so_far.log_evidence
    stderr = found.policy_stderr[parting.anywhere]
    apart = np.abs(found.policy - so_far.policy)[parting.anywhere] - _SURE * stderr
    moved = bool((np.maximum(apart, stderr) > _MOVED).any()) and ahead > -_LESS
    return moved or ahead > _MORE + _SURE * found.log_evidence_stderr
