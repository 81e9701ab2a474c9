"""Policies of known mass as a stratum of their own, where populations give them another share.

The mass of a reach class is known once it was met.  A needle, one class that holds a tenth of the posterior
and that hardly a move leads to or from, is missed by most rounds; islands and starts agree, and their
``log Z`` is low.  But once it was met, its mass over ``Z`` is a share that can be compared with that of each
round's population.  Where they differ beyond chance, every round says what it can of the rest alone,
``Z-hat (1 - share)`` and the marginals outside, and the known mass is added.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polinfer.annealing.classes import Classes
from polinfer.annealing.rounds import Estimate, Rounds, complete, estimate, pool_rounds
from polinfer.exact.solution import Floats

_HEAVY = 0.01  # share of the posterior from which on a class belongs to the stratum
_SURE = 4.0  # standard errors by which shares must differ
_CORRELATED = 4.0  # members of a population that count as one


class Stratum(NamedTuple):
    """The heavy classes, and what populations make of them."""

    log_mass: float  # of all of them, known
    weight: Floats  # [K], sums to one
    policy: NDArray[np.int16]  # [N, K], -1 where a class does not come
    returns: Floats  # [K]
    observed: Floats  # [R, I] share of each island of each round
    outside: NDArray[np.int64]  # [R] members of each round's population that are not in it
    code: NDArray[np.uint64]  # [K]


class Mixture(NamedTuple):
    """An estimate with the stratum at its known mass."""

    estimate: Estimate
    share: float  # of the posterior that is in the stratum


def misjudged_stratum(
    classes: Classes, log_evidence: float, populations: NDArray[np.uint64], islands: int
) -> Stratum | None:
    """Return the heavy classes, if some population gives them another share than their mass does.

    `populations` ``[R, P]`` are the classes of the members at the end of each round.
    """
    heavy = classes.heavy_log_mass - log_evidence >= np.log(_HEAVY)
    if not heavy.any():
        return None
    log_mass = float(np.logaddexp.reduce(classes.heavy_log_mass[heavy]))
    code = classes.heavy_code[heavy]
    member = np.isin(populations, code)  # [R, P]
    size = member.shape[1]
    share = float(np.exp(min(0.0, log_mass - log_evidence)))
    # Of members that are few, the variance is that of one more.
    counted = (member.sum(axis=1) + 1) / (size + 2)
    stderr = np.sqrt(_CORRELATED * counted * (1 - counted) / size)
    if (np.abs(share - member.mean(axis=1)) <= _SURE * stderr).all():
        return None
    own = member.reshape(len(member), islands, -1)
    observed = own.sum(axis=2) / (own.shape[2] + 1)  # below one: something is left for the rest
    weight = np.exp(classes.heavy_log_mass[heavy] - log_mass)
    return Stratum(
        log_mass,
        weight / weight.sum(),
        classes.heavy[heavy].T,
        classes.heavy_returns[heavy],
        observed,
        (~member).sum(axis=1),
        code,
    )


def stratified(rounds: Rounds, stratum: Stratum, prior: Floats) -> Mixture:
    """Estimate from the rounds what lies outside of the stratum, and add its known mass."""
    taken = np.stack([(stratum.policy == a) @ stratum.weight for a in range(prior.shape[1])], axis=1)
    inside = float(stratum.weight @ stratum.returns)
    seen = stratum.observed  # [R, I]

    def outside(values: Floats, within: Floats | float) -> Floats:
        """Take the stratum's part out of means ``[R, ..., I]``."""
        share = seen.reshape(len(seen), *[1] * (values.ndim - 2), seen.shape[1])
        return np.asarray((values - share * np.asarray(within)[..., None]) / (1 - share))

    log_rest = rounds.log_evidence + np.log1p(-seen)
    rest = estimate(
        rounds._replace(
            log_evidence=log_rest,
            chosen=np.clip(outside(rounds.chosen, taken), 0.0, 1.0),
            smooth=outside(rounds.smooth, taken),
            returns=outside(rounds.returns, inside),
        ),
        prior,
    )
    # Islands may agree on what nobody, or hardly anybody, was seen to do in the rounds that count.
    counted = 1.0 / np.sqrt(stratum.outside[complete(pool_rounds(log_rest))].sum() + 1)
    rest = rest._replace(log_evidence_stderr=max(rest.log_evidence_stderr, counted))
    log_evidence = float(np.logaddexp(stratum.log_mass, rest.log_evidence))
    share = float(np.exp(stratum.log_mass - log_evidence))
    marginal = taken + (1.0 - taken.sum(axis=1, keepdims=True)) * prior
    # An error of the rest's evidence moves mass between the two.
    moved = share * (1 - share) * rest.log_evidence_stderr
    mixed = rest._replace(
        log_evidence=log_evidence,
        log_evidence_stderr=(1 - share) * rest.log_evidence_stderr,
        policy=share * marginal + (1 - share) * rest.policy,
        policy_stderr=np.hypot((1 - share) * rest.policy_stderr, np.abs(marginal - rest.policy) * moved),
        returns=share * inside + (1 - share) * rest.returns,
        returns_stderr=float(np.hypot((1 - share) * rest.returns_stderr, abs(inside - rest.returns) * moved)),
    )
    return Mixture(mixed, share)
