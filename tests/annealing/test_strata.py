"""Policies of known mass: found where populations misjudge them, and put back at their mass."""

from __future__ import annotations

import numpy as np
import pytest

import polinfer
from polinfer.annealing.classes import Classes
from polinfer.annealing.rounds import Rounds, estimate
from polinfer.annealing.strata import misjudged_stratum, stratified
from truth import distance, small

ISLANDS, MEMBERS = 4, 64
NEEDLE = 0.4  # of Z = 2, in one class that takes action 0 in the one state; the rest takes it with 0.3
PRIOR = np.array([[0.5, 0.5]])


def classes() -> Classes:
    code = np.array([7, 8], np.uint64)
    log_mass = np.log([NEEDLE, 0.001])
    order = np.argsort(-log_mass)
    heavy = np.array([[0], [1]], np.int16)
    return Classes(code, log_mass, code[order], log_mass[order], np.array([5.0, 1.0]), heavy)


def populations(members: list[int]) -> np.ndarray:
    """Classes of the members of each round; so many of each island are in the needle."""
    found = np.full((len(members), ISLANDS, MEMBERS), 9, np.uint64)
    for number, count in enumerate(members):
        found[number, :, :count] = 7
    return found.reshape(len(members), -1)


def rounds(shares: list[float]) -> Rounds:
    """What rounds say whose populations have these shares in the needle; the rest is 1.6, as it should be."""
    share = np.repeat(np.array(shares)[:, None], ISLANDS, axis=1)  # [R, I]
    first = share * 1.0 + (1 - share) * 0.3
    chosen = np.stack([first, 1 - first], axis=1)[:, None]  # [R, 1, A, I]
    log_evidence = np.log(1.6 / (1 - share))
    returns = share * 5.0 + (1 - share) * 2.0
    return Rounds(log_evidence, chosen, chosen, np.ones((len(shares), 1, ISLANDS)), returns)


def test_rounds_that_missed_a_needle_and_one_that_met_it_too_often_agree_on_the_rest() -> None:
    members = [0, 2, 30]
    told = rounds([count / (MEMBERS + 1) for count in members])
    plain = estimate(told, PRIOR)
    stratum = misjudged_stratum(classes(), plain.log_evidence, populations(members), ISLANDS)
    assert stratum is not None
    found, share = stratified(told, stratum, PRIOR)
    assert found.log_evidence == pytest.approx(np.log(2.0))
    assert share == pytest.approx(NEEDLE / 2.0)
    assert found.policy[0, 0] == pytest.approx(0.2 + 0.8 * 0.3)
    assert found.returns == pytest.approx(0.2 * 5 + 0.8 * 2)
    assert abs(plain.log_evidence - np.log(2.0)) > 0.1, "or nothing had to be mended"


def test_a_population_with_the_right_share_is_left_alone() -> None:
    right = populations([int(0.2 * MEMBERS)])
    assert misjudged_stratum(classes(), np.log(2.0), right, ISLANDS) is None
    assert misjudged_stratum(classes(), 10.0, right, ISLANDS) is None, "nothing is heavy there"


def test_a_needle_that_both_starts_miss_is_given_its_mass() -> None:
    """One of 6,561 policies holds 9%: without strata both starts were 0.053 away, and agreed."""
    case = small("slipping lock", 40)
    posterior = polinfer.infer(case.table, "tempered", seed=1, enumerate_up_to=0)
    probs = posterior.table_probs()
    assert probs is not None
    assert distance(case, probs[0]) < 0.01
    assert posterior.policies is not None
    assert posterior.policies.log_evidence == pytest.approx(case.log_evidence, abs=0.03)
