"""Where a round of annealing may start from before anything was sampled: soft values, or a known policy."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from polinfer.annealing.ensemble import Ensemble
from polinfer.annealing.known import start_around
from polinfer.annealing.noise import fold, make_key
from polinfer.annealing.refit import uniform_share
from polinfer.annealing.softstart import mixed, soft_policy, stays_of, visit_weights
from polinfer.exact.solution import Floats

SOFT_ROUNDS = 3
_SOFT_DRAWS = 256
_SOFT_REPEATED = 4  # soft starts that are averaged
_SOFT_CHEAP = 200_000  # states times steps, up to which they are
_OVERLOOKED = 0.5  # nats by which a known policy must be better than all that were drawn
WORTH = 3.0  # nats of evidence that may be missing around it, so that a round is worth its time


def soft_start(ensemble: Ensemble, seed: int, committed: bool = False) -> Floats:
    """Return the reach-weighted soft policy ``[N, A]``, a mean of some: with loops each leans to one mode.

    Weights come from policies that were drawn.  Where two ways are worth the same, a few per cent more
    visits on one of them tilt the values, the next draws follow, and the other way is lost.  Which of
    them it is differs from one repetition to the next.
    """
    problem = ensemble.problem
    cheap = not problem.width and problem.size * problem.horizon <= _SOFT_CHEAP
    count = _SOFT_REPEATED if cheap else 1
    starts = [_one_soft_start(ensemble, committed, make_key(seed, 1 + number)) for number in range(count)]
    return np.asarray(np.mean(starts, axis=0))


def _one_soft_start(ensemble: Ensemble, committed: bool, key: NDArray[np.uint32]) -> Floats:
    """Return one reach-weighted soft policy, from some rounds of drawing policies."""
    problem = ensemble.problem
    behaviour, weight = problem.prior, np.ones(problem.size)
    stays, share = stays_of(problem, committed), uniform_share(1.0)
    choice = problem.legal.sum(axis=1) > 1
    for number in range(SOFT_ROUNDS + 1):
        soft = soft_policy(problem, ensemble.scale, weight, behaviour, stays).policy
        behaviour = mixed(soft, problem.prior, share)
        if number < SOFT_ROUNDS:
            drawn = ensemble.draw(fold(jnp.asarray(key), number), behaviour)
            each = ensemble.count // ensemble.groups
            few = min(ensemble.count, -(-_SOFT_DRAWS // each) * each)
            some = np.asarray(drawn)[:, :few]
            _, visits = ensemble.evaluate(some)
            weight = visit_weights(problem, stays, some, visits, committed)
            share = uniform_share(float((visits[choice] > 0).sum(axis=0).mean()))
    return behaviour


def around(ensemble: Ensemble, policy: NDArray[np.integer], elsewhere: Floats) -> Floats:
    """Return a start around a policy ``[N]``."""
    found = ensemble.evaluate_group(policy[:, None].astype(np.int16))
    visits, adjoint = (np.asarray(part, np.float64)[..., 0] for part in found[1:])
    return start_around(policy, visits, adjoint, elsewhere, ensemble.problem.prior, ensemble.scale)


def around_all(ensemble: Ensemble, policies: NDArray[np.int16], elsewhere: Floats) -> Floats:
    """Return a start around several policies ``[N, K]``: in each state, around those that come there."""
    _, visits = ensemble.evaluate(policies)
    come = np.minimum(visits, 1.0)  # [N, K]
    starts = [around(ensemble, policy, elsewhere) for policy in policies.T]
    several = np.einsum("nk,kna->na", come, np.array(starts)) / np.maximum(come.sum(axis=1), 1e-300)[:, None]
    met = np.asarray((come > 0).any(axis=1))
    return np.where(met[:, None], several, elsewhere)


def overlooked(
    ensemble: Ensemble,
    known: NDArray[np.int16],
    key: Array,
    *,
    best_return: float,
    log_evidence: float,
    elsewhere: Floats,
) -> Floats | None:
    """Return a start around the best policy of `known` ``[N, K]``, if it may hold evidence that was missed.

    It has to be better than all that were drawn (`best_return`), and importance sampling from that start must
    not find much less evidence than there is already: where the posterior is wide, its best policy counts
    for little.
    """
    returns, _ = ensemble.evaluate(known)
    best = int(np.argmax(returns))
    if ensemble.scale * (float(returns[best]) - best_return) <= _OVERLOOKED:
        return None
    start = around(ensemble, known[:, best], elsewhere)
    found = float(log_mean(weighted(ensemble, key, start)[2]))
    return start if found > log_evidence - WORTH else None


def weighted(
    ensemble: Ensemble, key: Array, start: Floats
) -> tuple[NDArray[np.int16], NDArray[np.bool_], Floats]:
    """Return policies that were drawn from a start, where they come, and their log weights ``[P]``."""
    drawn = np.asarray(ensemble.draw(key, start))
    walkers = ensemble.meet(drawn)
    return drawn, np.asarray(walkers.evaluation.visits) > 0, ensemble.log_weights(walkers, start)


def log_mean(log_weight: Floats) -> float:
    """Return the log of the mean of weights."""
    return float(np.logaddexp.reduce(log_weight) - np.log(log_weight.size))
