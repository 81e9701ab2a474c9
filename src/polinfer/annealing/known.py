"""A start around a policy that is known to be good before anything was sampled.

Soft values believe in choosing anew at each return, committed ones know no detours.  A way that pays and
that both deny is drawn by neither.  Optimisation may still know a policy that takes it: a greedy policy of
some stage, or what changes of single choices make of one.  And where a way that pays less has more policies,
the best of them is what optimisation finds if it may not go the best way.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from polinfer.annealing.problem import Problem, transition_matrix
from polinfer.annealing.refit import uniform_share
from polinfer.annealing.softstart import mixed
from polinfer.exact.solution import Floats

_MOST_DETOURS = 256
_DETOUR_WORK = 500_000_000  # multiplications that optimising them may take


def start_around(
    policy: NDArray[np.integer],
    visits: Floats,
    adjoint: Floats,
    elsewhere: Floats,
    prior: Floats,
    scale: float,
) -> Floats:
    """Return a start ``[N, A]`` from which many policies are drawn that are like `policy` ``[N]``.

    Where it comes, half of the choices are its own and half are drawn from the conditional given all of its
    others, by the derivatives `adjoint` ``[N, A]`` of its return; `elsewhere` ``[N, A]`` is for the rest.
    """
    came = visits > 0
    legal = prior > 0
    logits = np.where(legal, np.log(np.where(legal, prior, 1.0)) + scale * adjoint, -np.inf)
    conditional = np.exp(logits - logits.max(axis=1, keepdims=True))
    conditional /= conditional.sum(axis=1, keepdims=True)
    own = policy[:, None] == np.arange(prior.shape[1])
    start = np.where(came[:, None], (own + conditional) / 2, elsewhere)
    choices = float((came & (legal.sum(axis=1) > 1)).sum())
    return mixed(start, prior, uniform_share(choices))


def detours(problem: Problem, policy: NDArray[np.integer], visits: Floats) -> NDArray[np.int16]:
    """Return the best policies that make a certain choice otherwise than a given one ``[N]``, ``[K, N, D]``.

    There are `D` other choices, first where it comes most often, as many as are affordable; and greedy
    policies of `K` stages for each.
    """
    size, actions = problem.gain.shape
    other = problem.legal & (visits > 0)[:, None] & (policy[:, None] != np.arange(actions))
    slot, action = np.nonzero(other)
    step = max(int(np.count_nonzero(problem.probability)), 1) * problem.horizon
    first = np.argsort(-visits[slot], kind="stable")[: min(_MOST_DETOURS, _DETOUR_WORK // step)]
    slot, action = slot[first], action[first]
    number = np.arange(len(slot))
    matrix = transition_matrix(problem)
    blocked = np.zeros((size, actions, len(slot)), bool)
    blocked[slot, :, number] = True
    blocked[slot, action, number] = False
    blocked |= ~problem.legal[:, :, None]
    value, found = np.zeros((size, len(slot))), []
    stages = {problem.horizon, max(problem.horizon // 2, 1), max(problem.horizon // 8, 1)}
    for left in range(1, problem.horizon + 1):
        worth = problem.gain[:, :, None] + (matrix @ value).reshape(size, actions, -1)
        worth[blocked] = -np.inf
        value = worth.max(axis=1)
        if left in stages:
            found.append(worth.argmax(axis=1).astype(np.int16))
    return np.stack(found)
