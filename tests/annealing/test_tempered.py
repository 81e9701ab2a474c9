"""Tempered sampling against enumeration: the evaluator, the moves, and whole runs with their errors."""

from __future__ import annotations

import itertools
import math
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from exact.brute_force import (
    Plain,
    acting_states,
    all_policies,
    expected_return,
    random_plain,
    visit_probability,
)
from exact.brute_force import posterior as brute_force_posterior
from polinfer import TabularMDP, exact
from polinfer.annealing import TemperedConfig, TemperedPath, temper
from polinfer.annealing.config import check_scales
from polinfer.annealing.moves import Population, block_scan, gibbs_scan
from polinfer.core.errors import PolinferError
from polinfer.exact import returns as evaluator_module
from polinfer.exact.returns import choices_of, make_returns, make_visits
from smc.engines import QUICK

# A minute of statistics; `pytest -m slow` runs it.
pytestmark = pytest.mark.slow

SCALES = (0.25, 0.5, 1.0, 2.0, 3.0)
# Legal masks, a forced action, two outcomes that may share a successor; numbered at random.
PROBLEM = random_plain(3, horizon=4, radices=(3, 2, 2, 1), reward=1.5)
CASES = {
    "several steps": PROBLEM,
    "one step": random_plain(5, horizon=1),
    "a state that is not reached": random_plain(6, horizon=3, unreachable=True),
    "a start that is over": random_plain(7, horizon=5, start_on_terminal=True),
    "two steps of a longer way": random_plain(8, horizon=2, radices=(2, 3, 1, 2, 2)),
}


def every_policy(table: TabularMDP) -> np.ndarray:
    """All policies ``[n, P]``, by their actions in the choices."""
    legal = choices_of(table).legal
    return np.array(list(itertools.product(*(np.nonzero(row)[0] for row in legal))), np.int32).T


def as_whole(plain: Plain, table: TabularMDP, policies: np.ndarray) -> list[dict[int, int]]:
    states = choices_of(table).state
    fixed = {s: plain.legal(s)[0] for s in plain.active}
    return [fixed | dict(zip(states.tolist(), row.tolist(), strict=True)) for row in policies.T]


@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_returns_and_visits_of_every_policy(name: str, dense: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluator_module, "_DENSE", 1 << 17 if dense else 0)
    plain = CASES[name]
    table = plain.table()
    states, policies = choices_of(table).state, every_policy(table)
    acting = acting_states(plain, plain.horizon)
    assert set(states.tolist()) == {s for s in acting if len(plain.legal(s)) > 1}
    both = jax.jit(lambda p: (make_returns(table)(p), make_visits(table)(p)), compiler_options=QUICK)
    returns, visits = both(policies)
    whole = as_whole(plain, table, policies)
    expected = [expected_return(plain, policy, plain.horizon) for policy in whole]
    np.testing.assert_allclose(returns, expected, atol=1e-5)
    rows = np.array([[policy.get(s, 0) for s in range(plain.num_states)] for policy in whole])
    np.testing.assert_allclose(returns, exact.deterministic_returns(table, rows), atol=1e-5)
    reached = [[visit_probability(plain, policy, s, plain.horizon) for policy in whole] for s in states]
    np.testing.assert_allclose(visits, np.reshape(reached, np.shape(visits)), atol=1e-5)
    assert np.ptp(expected) > 0.1


@cache
def scan_of(kind: str) -> Any:
    table = PROBLEM.table()
    make = {"gibbs": gibbs_scan, "block": block_scan}[kind]
    return jax.jit(make(choices_of(table), make_returns(table), 2), compiler_options=QUICK)


def counts_of(actions: np.ndarray, policies: np.ndarray) -> np.ndarray:
    """How often each policy occurs; one that is not on the list is an error."""
    index = {tuple(row): i for i, row in enumerate(policies.T.tolist())}
    return np.bincount([index[tuple(row)] for row in actions.T.tolist()], minlength=len(index))


@pytest.mark.parametrize("kind", ["gibbs", "block"])
@pytest.mark.parametrize("start", ["target", "far away"])
def test_moves_leave_the_target_as_it_is(kind: str, start: str) -> None:
    """From the posterior, one pass leads to the posterior; from one policy, some passes do."""
    table, scale, size = PROBLEM.table(), 1.7, 8_000
    policies = every_policy(table)
    returns = np.asarray(make_returns(table)(jnp.asarray(policies)), np.float64)
    share = np.exp(scale * (returns - returns.max()))
    share /= share.sum()
    assert share.max() > 5 * share.min()
    random = np.random.default_rng(1)
    picked = random.choice(len(share), size, p=share) if start == "target" else np.full(size, share.argmin())
    population = Population(jnp.asarray(policies[:, picked]), jnp.asarray(returns[picked], dtype=jnp.float32))
    scan = scan_of(kind)
    for number in range(1 if start == "target" else 25):
        passed = scan(jax.random.key(number), population, jnp.float32(scale))
        population = passed.population
    actions = np.asarray(population.actions)
    counts = counts_of(actions, policies)
    index = {tuple(row): i for i, row in enumerate(policies.T.tolist())}
    own = returns[[index[tuple(row)] for row in actions.T.tolist()]]
    np.testing.assert_allclose(population.returns, own, atol=1e-5)
    statistic = float(((counts - size * share) ** 2 / (size * share)).sum())
    assert statistic < scipy.stats.chi2.ppf(1 - 1e-5, len(share) - 1)
    assert (actions != policies[:, picked]).any(axis=0).mean() > 0.2, "a move must move"
    if start == "target":
        marginal = np.array([[share[row == a].sum() for a in range(3)] for row in policies])
        assert abs(np.asarray(passed.shares).mean(axis=-1) - marginal).max() < 5 * 0.5 / math.sqrt(size)
        assert passed.shares.shape == (len(policies), 3, 2)
    # The same test on another scale: it can tell.
    other = np.exp(2.2 * returns) / np.exp(2.2 * returns).sum()
    assert ((counts - size * other) ** 2 / (size * other)).sum() > scipy.stats.chi2.ppf(1 - 1e-5, len(share))


def scaled(plain: Plain, scale: float) -> Plain:
    return plain._replace(
        outcomes={key: [(p, n, scale * r) for p, n, r in row] for key, row in plain.outcomes.items()}
    )


@cache
def run(moves: str, seed: int, policies: int = 250) -> TemperedPath:
    return temper(
        PROBLEM.table(),
        TemperedConfig(policies=policies, islands=8, moves=moves),  # type: ignore[arg-type]
        scales=SCALES,
        seed=seed,
    )


@pytest.mark.parametrize("moves", ["gibbs", "block"])
def test_one_run_has_the_posterior_of_every_scale(moves: str) -> None:
    path = run(moves, seed=0)
    assert [point.scale for point in path.points] == list(SCALES)
    assert path.ladder[0] == 0
    assert (np.diff(path.ladder) > 0).all()
    assert set(SCALES) <= set(path.ladder.tolist())
    for point in path.points:
        truth = brute_force_posterior(scaled(PROBLEM, point.scale), PROBLEM.horizon)
        assert abs(point.log_evidence - truth.log_evidence) < 4 * point.log_evidence_stderr + 1e-4
        assert point.log_evidence_stderr < 0.05
        mean = truth.mean / point.scale  # in the problem's own rewards
        assert abs(point.expected_return - mean) < 4 * point.expected_return_stderr + 1e-4
        assert abs(point.entropy - truth.entropy) < 0.1
        assert point.effective_policies == pytest.approx(math.exp(point.entropy))
        for (s, a), share in truth.marginal.items():
            assert abs(point.policy[s, a] - share) < 5 * point.policy_stderr[s, a] + 1e-3
            assert point.policy_stderr[s, a] < 0.03
        for (s, a), share in truth.reach.items():
            assert abs(point.reach_policy[s, a] - share) < 0.05
        np.testing.assert_allclose(
            exact.deterministic_returns(path.table, point.sample), point.sample_returns, atol=1e-4
        )
    # The ends of the path are far from each other, or agreement along it says little.
    assert abs(path.points[0].policy - path.points[-1].policy).max() > 0.15
    assert path.at(2.0) is path.points[3]
    with pytest.raises(KeyError, match="scale 7 was not asked for"):
        path.at(7.0)
    assert (path.accepted == 1.0) == (moves == "gibbs")


def test_standard_errors_are_honest() -> None:
    truth = brute_force_posterior(PROBLEM, PROBLEM.horizon)
    free = [key for key in truth.marginal if len(PROBLEM.legal(key[0])) > 1]
    scores = []
    config = TemperedConfig(policies=40, islands=8, moves="gibbs")
    for seed in range(40):
        point = temper(PROBLEM.table(), config, seed=seed).at(1.0)
        scores.append(
            [
                (point.log_evidence - truth.log_evidence) / point.log_evidence_stderr,
                (point.expected_return - truth.mean) / point.expected_return_stderr,
                *((point.policy[key] - truth.marginal[key]) / point.policy_stderr[key] for key in free[:2]),
            ]
        )
    # From eight islands a score has Student's distribution with seven degrees: a spread of 1.18 is expected.
    spread = np.sqrt((np.array(scores) ** 2).mean(axis=0))  # about the truth, not about their mean
    assert (spread > 0.5).all(), spread
    assert (spread < 1.7).all(), spread


def test_a_run_is_decided_by_its_seed() -> None:
    config = TemperedConfig(policies=40, islands=8, moves="gibbs")
    again = temper(PROBLEM.table(), config, scales=SCALES, seed=3)
    jax.tree.map(np.testing.assert_array_equal, run("gibbs", 3, policies=40)[1:], again[1:])
    assert run("gibbs", 4, policies=40).at(1.0).log_evidence != again.at(1.0).log_evidence


@pytest.mark.parametrize("name", ["one step", "a state that is not reached", "a start that is over"])
def test_awkward_problems(name: str) -> None:
    plain = CASES[name]
    seen: list[tuple[float, float]] = []
    path = temper(
        plain.table(), TemperedConfig(policies=100, islands=4), progress=lambda *args: seen.append(args)
    )
    truth, point = brute_force_posterior(plain, plain.horizon), path.at(1.0)
    assert abs(point.log_evidence - truth.log_evidence) < 5 * point.log_evidence_stderr + 1e-4
    for (s, a), share in truth.marginal.items():
        assert abs(point.policy[s, a] - share) < 7 * point.policy_stderr[s, a] + 2e-3  # four islands
    assert [scale for scale, _ in seen] == path.ladder[1:].tolist()
    assert seen[-1] == (1.0, 1.0)
    np.testing.assert_allclose(point.policy.sum(axis=1), 1.0)
    np.testing.assert_allclose(point.reach_policy.sum(axis=1), 1.0)
    assert (point.policy[~plain.table().legal_actions] == 0).all()


def test_policies_that_are_all_worth_the_same_stay_uniform() -> None:
    even = Plain({(0, a): [(1.0, 1, 0.7)] for a in range(3)}, 2, 3, frozenset({1}), [1.0, 0.0], 2)
    point = temper(even.table(), TemperedConfig(policies=20, islands=2)).at(1.0)
    assert point.log_evidence == pytest.approx(0.7, abs=1e-6)
    assert point.entropy == pytest.approx(math.log(3), abs=1e-6)
    np.testing.assert_allclose(point.policy[0], 1 / 3, atol=1e-6)


def test_a_problem_without_a_choice_is_refused() -> None:
    forced = Plain({(0, 1): [(1.0, 1, 0.7)]}, 2, 2, frozenset({1}), [1.0, 0.0], 2)
    with pytest.raises(PolinferError, match="no state of the problem has a choice"):
        temper(forced.table())


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"policies": 1}, "policies must be at least 2"),
        ({"islands": 1}, "islands must be at least 2"),
        ({"scans": 0}, "scans must be at least 1"),
        ({"final_scans": 0}, "final_scans must be at least 1"),
        ({"ess": 0.0}, "ess must lie between 0 and 1"),
        ({"ess": 1.0}, "ess must lie between 0 and 1"),
        ({"ess": 1.5}, "ess must lie in 0..1"),
        ({"moves": "swap"}, "moves must be auto, gibbs or block, got 'swap'"),
    ],
)
def test_bad_values_are_named(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(PolinferError, match=words):
        TemperedConfig(**settings)


@pytest.mark.parametrize(
    ("scales", "words"),
    [
        ((), "scales must name at least one"),
        ((1.0, -2.0), "scales must be numbers above zero, got -2.0"),
        ((float("nan"),), "scales must be numbers above zero, got nan"),
    ],
)
def test_bad_scales_are_named(scales: tuple[float, ...], words: str) -> None:
    with pytest.raises(PolinferError, match=words):
        temper(PROBLEM.table(), scales=scales)


def test_scales_are_put_in_order() -> None:
    assert check_scales((2, 0.5, 2.0)) == (0.5, 2.0)


def test_the_number_of_policies_is_small_enough_for_these_tests() -> None:
    assert len(list(all_policies(PROBLEM))) == every_policy(PROBLEM.table()).shape[1] == 12
