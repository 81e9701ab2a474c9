"""The oracles of `studies/truth.py` against one another, the package's enumeration and closed forms."""

import itertools

import numpy as np
import pytest

from families import SMALL
from oracles import by_reach_classes, occupancy, on_forest, on_paths, reach_classes
from polinfer import TabularMDP, exact
from truth import LARGE, Case, cases, distance, large, small

pytestmark = pytest.mark.usefixtures("compile_quickly")


def _uniform(case: Case) -> np.ndarray:
    return case.table.legal_actions / case.table.legal_actions.sum(axis=1, keepdims=True)


# With ways back, chance, masks, several starts, an early end, and a planner's own terms; the others are slow.
FAST = (
    "corridors, way back, slip",
    "cyclic sparse",
    "masks",
    "several starts",
    "cut-off",
    "prior",
    "discount",
)


@pytest.mark.parametrize(
    "family",
    [
        pytest.param(name, marks=[] if name in FAST else [pytest.mark.slow])
        for name in SMALL
        if name != "lock"
    ],
)
def test_reach_classes_agree_with_the_enumeration_of_all_policies(family: str) -> None:
    found = 0
    for case in cases(family, range(20)):
        count = exact.count_policies(case.table, exact.decision_states(case.table, case.table.horizon))
        if not 1 < count <= 20_000:
            continue
        solution = exact.policy_posterior(case.table, reach=False, top=1, samples=1)
        assert solution.posterior is not None
        assert case.log_evidence == pytest.approx(solution.posterior.log_evidence, rel=1e-10, abs=1e-10)
        acting = ~case.table.absorbing
        np.testing.assert_allclose(case.policy[acting], solution.policy[acting], atol=1e-9)
        weight = exact.evaluate_policy(case.table, case.policy).occupancy
        np.testing.assert_allclose(case.occupancy[acting], weight[acting], atol=1e-9)
        found += 1
        break
    assert found == 1


@pytest.mark.parametrize("seed", range(6))
def test_locks_have_a_closed_form(seed: int) -> None:
    case = small("lock", seed)
    table = case.table
    digits, actions, horizon = table.num_states - 2, table.num_actions, table.horizon
    gain = (table.probability * table.reward).sum(axis=-1)[:digits]
    code = [
        next(a for a in range(actions) if table.successor[s, a, 0] == s + 1 and (gain[s, a] >= gain[s]).all())
        for s in range(digits)
    ]
    opened = sum(gain[s, a] for s, a in enumerate(code))
    returns, mass = [opened], [actions**-digits]
    for right in range(digits):  # so many right digits, then a wrong one
        wrong = int(table.successor[right, (code[right] + 1) % actions, 0])
        ends = bool(table.absorbing[wrong])
        returns.append(-0.01 * (right + 1 if ends else horizon))
        mass.append(actions**-right * (1 - 1 / actions))
    weight = np.exp(returns) * mass
    assert case.log_evidence == pytest.approx(np.log(weight.sum()), rel=1e-12)
    weight /= weight.sum()
    # The digit is right with more right digits, by chance with fewer: then the state is not reached.
    for right in range(digits):
        more, fewer = weight[0] + weight[right + 2 :].sum(), weight[1 : right + 1].sum()
        assert case.policy[right, code[right]] == pytest.approx(more + fewer / actions, abs=1e-12)


@pytest.mark.parametrize("states", [3, 11, 27])
def test_forests_agree_with_reach_classes(states: int) -> None:
    for seed in range(4):
        case = large("tree", states, seed)
        truth = by_reach_classes(case.table)
        assert case.log_evidence == pytest.approx(truth.log_evidence, rel=1e-11)
        np.testing.assert_allclose(case.policy, truth.policy, atol=1e-11)


@pytest.mark.parametrize("states", [4, 9, 16])
def test_lattices_agree_with_reach_classes(states: int) -> None:
    for seed in range(4):
        case = large("lattice", states, seed)
        truth = by_reach_classes(case.table)
        assert case.log_evidence == pytest.approx(truth.log_evidence, rel=1e-11)
        np.testing.assert_allclose(case.policy, truth.policy, atol=1e-11)


@pytest.mark.parametrize("states", [5, 9, 13])
def test_unions_agree_with_reach_classes(states: int) -> None:
    for seed in range(4):
        case = large("union", states, seed)
        truth = by_reach_classes(case.table)
        assert case.log_evidence == pytest.approx(truth.log_evidence, rel=1e-11)
        np.testing.assert_allclose(case.policy, truth.policy, atol=1e-11)


@pytest.mark.parametrize("family", LARGE)
def test_large_cases_have_their_size_and_a_policy(family: str) -> None:
    case = large(family, 5_000)
    assert 4_500 < case.table.num_states < 5_500
    assert np.isfinite(case.log_evidence)
    np.testing.assert_allclose(case.policy.sum(axis=1), 1.0)
    assert not case.policy[~case.table.legal_actions].any()
    assert distance(case, _uniform(case)) > 0.005


def test_masses_of_reach_classes_sum_to_one() -> None:
    rng = np.random.default_rng(1)
    for _ in range(20):
        states, actions = int(rng.integers(2, 6)), int(rng.integers(1, 4))
        possible = rng.random((states, actions, states)) < 0.3
        legal = rng.random((states, actions)) < 0.7
        legal[:, 0] = True
        start = np.arange(states) == 0
        classes = reach_classes(possible, legal, start, int(rng.integers(1, 6)), 10_000)
        mass = np.where(classes >= 0, 1 / legal.sum(axis=1), 1.0).prod(axis=1)
        assert mass.sum() == pytest.approx(1.0)
        # No two classes share a policy: they differ where both decide.
        for one, two in itertools.combinations(classes, 2):
            assert ((one != two) & (one >= 0) & (two >= 0)).any()


def test_what_a_closed_form_does_not_fit_is_refused() -> None:
    looping = small("corridors, way back", 0).table
    with pytest.raises(ValueError, match="visited twice"):
        on_paths(looping)
    with pytest.raises(ValueError, match="way in"):
        on_forest(looping)
    with pytest.raises(ValueError, match="unknown family"):
        small("tree", 0)


def test_cases_are_reproducible_and_differ_by_seed() -> None:
    one, again, other = small("masks", 3), small("masks", 3), small("masks", 4)
    assert one.table == again.table
    assert one.log_evidence == again.log_evidence
    assert one.table != other.table


def test_distance_is_zero_at_the_truth_and_weighted_by_visits() -> None:
    table = TabularMDP(
        [[[0, 1, 0], [0, 0, 1]], [[0, 0, 1], [0, 0, 1]], [[0, 0, 0], [0, 0, 0]]],
        [[1.0, 0.0], [0.0, 2.0], [0.0, 0.0]],
        0,
        [2],
        5,
    )
    truth = by_reach_classes(table)
    # Down the first action: mean of e and e^3; the second: 1.
    below = (np.e + np.e**3) / 2
    assert truth.log_evidence == pytest.approx(np.log((below + 1) / 2))
    first = below / (below + 1)
    second = first * np.e**2 / (1 + np.e**2) + (1 - first) / 2
    np.testing.assert_allclose(truth.policy[:2, [0, 1]], [[first, 1 - first], [1 - second, second]])
    case = Case("x", "x", table, truth.log_evidence, truth.policy, occupancy(table, truth.policy), 3)
    assert distance(case, truth.policy) == 0
    off = truth.policy.copy()
    off[1] = [1.0, 0.0]
    assert distance(case, off) == pytest.approx(second * first / (1 + first))
