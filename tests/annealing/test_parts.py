"""Problems that fall apart: their parts together are the enumerated posterior; and the way back."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from exact.brute_force import Plain, all_policies, expected_return
from exact.brute_force import posterior as brute_force_posterior
from polinfer import exact
from polinfer.annealing import TemperedConfig, TemperedPath, reverse_evidence, temper
from polinfer.annealing.components import rest_return, split
from polinfer.core.errors import PolinferError

# Two hands that never meet (0 and 1; 2), one that plays itself (3), and one that is over (4).
HANDS = Plain(
    {
        (0, 0): [(0.7, 1, 0.5), (0.3, 0, -1.0)],
        (0, 1): [(1.0, 4, 1.2)],
        (0, 2): [(1.0, 0, 0.3)],
        (1, 0): [(0.6, 4, 4.0), (0.4, 0, 0.0)],
        (1, 2): [(1.0, 4, -2.0)],
        (2, 0): [(0.5, 2, 2.0), (0.5, 4, -1.0)],
        (2, 1): [(1.0, 4, -1.5)],
        (3, 1): [(0.9, 4, -3.0), (0.1, 3, 1.0)],
    },
    5,
    3,
    frozenset({4}),
    [0.45, 0.0, 0.3, 0.15, 0.1],
    4,
)
SCALES = (0.5, 3.0)


def scaled(scale: float) -> Plain:
    rows = {key: [(p, n, scale * r) for p, n, r in row] for key, row in HANDS.outcomes.items()}
    return HANDS._replace(outcomes=rows)


@cache
def run() -> TemperedPath:
    return temper(HANDS.table(), TemperedConfig(policies=200, islands=8), scales=SCALES, seed=1)


def test_parts_are_what_episodes_never_leave() -> None:
    parts = split(HANDS.table())
    assert [part.states.tolist() for part in parts] == [[0, 1], [2]]
    assert [part.mass for part in parts] == [0.45, 0.3]
    np.testing.assert_allclose([part.table.initial for part in parts], [[1, 0, 0, 0, 0], [0, 0, 1, 0, 0]])
    # What plays itself: 0.15 times the value of its one action, four steps long.
    value = sum(0.1**k * (0.9 * -3.0 + 0.1 * 1.0) for k in range(4))
    assert rest_return(HANDS.table(), parts) == pytest.approx(0.15 * value)


@pytest.mark.parametrize("scale", SCALES)
def test_the_parts_together_are_the_enumerated_posterior(scale: float) -> None:
    point, truth = run().at(scale), brute_force_posterior(scaled(scale), HANDS.horizon)
    assert abs(point.log_evidence - truth.log_evidence) < 4 * point.log_evidence_stderr + 1e-4
    assert abs(point.expected_return - truth.mean / scale) < 4 * point.expected_return_stderr + 1e-4
    assert point.log_evidence_stderr < 0.03
    assert abs(point.entropy - truth.entropy) < 0.1
    for (s, a), share in truth.marginal.items():
        assert abs(point.policy[s, a] - share) < 5 * point.policy_stderr[s, a] + 1e-3
    for (s, a), share in truth.reach.items():
        assert abs(point.reach_policy[s, a] - share) < 0.05
    np.testing.assert_allclose(
        exact.deterministic_returns(HANDS.table(), point.sample), point.sample_returns, atol=1e-4
    )


def test_choices_in_different_parts_are_independent_and_those_in_one_are_not() -> None:
    point, truth = run().at(3.0), brute_force_posterior(scaled(3.0), HANDS.horizon)

    def both(one: int, other: int) -> float:
        return float(((point.sample[:, one] == 0) & (point.sample[:, other] == 0)).mean())

    known = {
        pair: sum(share for share, _, policy in truth.ranked if all(policy[s] == 0 for s in pair))
        for pair in ((0, 1), (0, 2))
    }
    for pair, share in known.items():
        assert abs(both(*pair) - share) < 5 * np.sqrt(share * (1 - share) / len(point.sample))
    product = truth.marginal[0, 0] * truth.marginal[1, 0]
    assert abs(known[0, 1] - product) > 0.03
    assert known[0, 2] == pytest.approx(truth.marginal[0, 0] * truth.marginal[2, 0])


def test_the_ladder_of_the_whole_has_the_scales_that_were_asked_for() -> None:
    path = run()
    assert path.ladder.tolist() == [0.0, *SCALES]
    for row, scale in zip(path.ladder_log_evidence[1:], SCALES, strict=True):
        assert row.mean() == pytest.approx(path.at(scale).log_evidence, abs=0.05)
    every = [expected_return(HANDS, policy, HANDS.horizon) for policy in all_policies(HANDS)]
    assert abs(path.ladder_return[0] - np.mean(every)) < 5 * np.std(every) / np.sqrt(1600)


@pytest.mark.slow
def test_the_way_back_estimates_the_inverse_evidence_without_bias() -> None:
    """Many small islands: each too high on average, and right together."""
    table = scaled(3.0).table()
    solution = exact.policy_posterior(table, samples=6_000).posterior
    assert solution is not None
    assert solution.sampled_policies is not None
    # Blocks move slowly: what is not resampled well is not mended by the moves.
    config = TemperedConfig(islands=600, ess=0.7, moves="block")
    upper = reverse_evidence(table, solution.sampled_policies, config)
    assert abs(upper.log_evidence - solution.log_evidence) < 4 * upper.stderr
    assert upper.stderr < 0.03
    assert upper.islands.shape == (600,)
    stderr = upper.islands.std(ddof=1) / np.sqrt(600)
    assert upper.islands.mean() - solution.log_evidence > 4 * stderr
    # Where the sample is not of the posterior, the answer is another: the test can tell.
    random = np.random.default_rng(0)
    even = solution.sampled_policies.copy()
    for s in (0, 1, 2):
        even[:, s] = random.choice(HANDS.legal(s), len(even))
    wrong = reverse_evidence(table, even, config)
    assert abs(wrong.log_evidence - solution.log_evidence) > 10 * wrong.stderr


def test_too_small_a_sample_is_refused() -> None:
    with pytest.raises(PolinferError, match="8 islands need at least 16 policies"):
        reverse_evidence(HANDS.table(), np.zeros((15, 5), np.int32))
