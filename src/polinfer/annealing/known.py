"""A start around a policy that is known to be good before anything was sampled.

Soft values believe in choosing anew at each return, committed ones know no detours.  A way that pays and
that both deny is drawn by neither.  Optimisation may still know a policy that takes it: a greedy policy of
some stage, or what changes of single choices make of one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from polinfer.annealing.refit import uniform_share
from polinfer.annealing.softstart import mixed
from polinfer.exact.solution import Floats


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
