"""The start of the next round: the choices of the rounds before, given that a state is reached.

Counts are noisy where few policies come, so they are smoothed towards an earlier start.  How much, and
whether counts help at all, is decided by the log likelihood of islands that were left out of the count: where
the soft start is exact, it stays.
"""

from __future__ import annotations

import numpy as np

from polinfer.annealing.rounds import Rounds, island_weights
from polinfer.annealing.softstart import mixed
from polinfer.exact.solution import Floats

_STRENGTHS = (4.0, 32.0, 256.0)  # policies' worth of the earlier start
_MOST_UNIFORM, _LEAST_UNIFORM = 0.05, 5e-4


def uniform_share(reached: float) -> float:
    """Return the share of the reference measure that a start keeps, for so many reached states with a choice.

    Each of them multiplies the spread of the weights, so together they get about one nat.
    """
    return float(np.clip(1.0 / max(reached, 1.0), _LEAST_UNIFORM, _MOST_UNIFORM))


def refit(rounds: Rounds, starts: Floats, prior: Floats, policies: int) -> Floats:
    """Return the start ``[N, A]`` of the next round.

    Parameters
    ----------
    rounds
        What was found so far.
    starts
        ``[R, N, A]``, where each round started.
    prior
        ``[N, A]``, the reference measure.
    policies
        How many there are on each island.
    """
    weight = island_weights(rounds.log_evidence.ravel()).reshape(rounds.log_evidence.shape)
    # Islands alternate between the folds, so that each has some of every round.
    own = np.einsum("ri,rnai->nai", weight, rounds.chosen)
    islands = own.shape[-1]
    folds = [own[..., k::2].sum(axis=-1) for k in range(2)]
    legal = prior > 0
    choice = legal.sum(axis=1) > 1
    share = uniform_share(float(own[choice].sum()))

    def fit(count: Floats, base: Floats, strength: float, islands: float) -> Floats:
        pseudo = strength / (policies * islands) * max(float(weight.max()) * islands, 1.0)
        mass = count / max(count[choice].sum(axis=1).max(initial=0.0), 1e-300)
        fitted = (mass + pseudo * base) / (mass.sum(axis=1, keepdims=True) + pseudo)
        return mixed(fitted, prior, share)

    def score(count: Floats, policy: Floats) -> float:
        log_policy = np.log(np.where(legal, np.maximum(policy, 1e-300), 1.0))
        return float((count * log_policy).sum())

    best_start = max(starts, key=lambda start: score(folds[0] + folds[1], start))
    kept = score(folds[0] + folds[1], best_start)
    tried = [
        sum(score(folds[1 - k], fit(folds[k], best_start, strength, islands / 2)) for k in range(2))
        for strength in _STRENGTHS
    ]
    if max(tried) <= kept:
        return np.asarray(best_start)
    strength = _STRENGTHS[int(np.argmax(tried))]
    return fit(folds[0] + folds[1], best_start, strength, islands)
