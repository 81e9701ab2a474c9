"""The posterior of the choice in each state, against every policy from that state on in plain Python."""

from __future__ import annotations

import math

import numpy as np
import pytest

from polinfer import exact
from polinfer.core.errors import PolinferError, TooLargeError

from .brute_force import Plain, all_policies, expected_return


def draw(seed: int) -> Plain:
    """Draw a problem whose states lead to later ones only; any of the five may be the start."""
    rng = np.random.default_rng(seed)
    radices, names = (3, 2, 2, 1, 3), [int(x) for x in rng.permutation(6)]
    outcomes = {}
    for place, radix in enumerate(radices):
        for a in sorted(rng.choice(3, radix, replace=False).tolist()):
            share = rng.dirichlet(np.ones(3)).tolist()
            later = rng.choice(names[place + 1 :], 3).tolist()
            outcomes[names[place], a] = [
                (p, int(n), float(rng.uniform(-3, 3))) for p, n in zip(share, later, strict=True)
            ]
    initial = [0.0] * 6
    for s, p in zip(names[:5], rng.dirichlet(np.ones(5)).tolist(), strict=True):
        initial[s] = p
    return Plain(outcomes, 6, 3, frozenset(names[5:]), initial, horizon=5)


@pytest.mark.parametrize("seed", range(4))
def test_every_state_has_the_posterior_of_a_problem_that_starts_there(seed):
    plain = draw(seed)
    found = exact.statewise_posterior(plain.table()).policy
    for state in plain.active:
        from_here = plain._replace(initial=[float(s == state) for s in range(6)])
        mass = np.zeros(3)
        for policy in all_policies(plain):
            mass[policy[state]] += math.exp(expected_return(from_here, policy, 5))
        np.testing.assert_allclose(found[state], mass / mass.sum(), atol=1e-12)


def test_a_problem_that_comes_back_or_is_cut_off_or_is_too_large_is_refused():
    plain = draw(0)
    with pytest.raises(PolinferError, match="horizon is 2"):
        exact.statewise_posterior(plain._replace(horizon=2).table())
    with pytest.raises(TooLargeError, match="more than the limit of 1"):
        exact.statewise_posterior(plain.table(), limit=1)
    (s, a), row = next(iter(plain.outcomes.items()))
    looping = {**plain.outcomes, (s, a): [(row[0][0], s, row[0][2]), *row[1:]]}
    with pytest.raises(PolinferError, match="visited twice"):
        exact.statewise_posterior(plain._replace(outcomes=looping).table())
