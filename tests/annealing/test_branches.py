"""Splitting a posterior by the choice at a state where ways of the same worth part."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest

import polinfer
from polinfer.annealing import AnnealingRun, TemperedConfig, anneal, effort, run
from polinfer.annealing import branches as branches_module
from polinfer.annealing.branches import Branch, Cut, branch_config, branch_problem, merge, split_branch, weigh
from polinfer.annealing.enumerate import list_classes
from polinfer.annealing.parting import Parting, came_elsewhere, find_parting
from polinfer.annealing.parts import listed_posterior
from polinfer.annealing.run import states_where_ways_part
from polinfer.core.errors import PolinferError
from polinfer.exact.enumeration import policy_posterior
from polinfer.problems.tabular.table import TabularMDP
from symmetry import asymmetry
from symmetry import ring as large_ring

from .cases import lock, loop
from .test_annealing import equal

pytestmark = pytest.mark.usefixtures("compile_module_fully")
SETTINGS = TemperedConfig(enumerate_up_to=0, policies=32, islands=6, tolerance=0.01, rounds=3)


def ring(scale: float = 4.0) -> TabularMDP:
    """Two ways round a hole that are worth the same, under a measure that prefers one."""
    text = "..G\n.#.\nS.."
    table = polinfer.tabulate(polinfer.make("gridworld", map=text, horizon=12, reward_scale=scale))
    prior = np.array(table.prior)
    prior[int(np.argmax(table.initial))] = 0.3, 0.4, 0.1, 0.2
    return table.with_problem(prior=prior)


def parting_of(annealing: AnnealingRun) -> Parting:
    found = find_parting((annealer := annealing._anneal(0, 0, None)).ensemble, annealer.known)
    assert found is not None
    return found


@pytest.fixture
def forced(monkeypatch):
    """Every part is split, once, where its ways part."""
    monkeypatch.setattr(run, "came_elsewhere", lambda *_: True)
    monkeypatch.setattr(run, "WORTH_SPLITTING", 2.0)
    monkeypatch.setattr(effort, "_CHEAP", 1)  # as few moves as are precise


@pytest.mark.parametrize("slot", [0, 1, 2])
@pytest.mark.parametrize("taken", [[0], [1, 0]])
def test_exact_branches_make_the_exact_posterior(slot, taken):
    # Also at a state that some policies never come to.
    table = loop()
    annealing = AnnealingRun(table, SETTINGS)
    problem, count = annealing.problems[0], 600
    whole = Branch(problem.prior, 0.0, np.zeros((problem.size, 0), np.int16))
    parting = Parting(slot, np.array(taken), whole.known, np.zeros(problem.size, bool))
    branches = split_branch(problem, whole, parting)
    assert np.logaddexp.reduce([branch.log_share for branch in branches]) == pytest.approx(0.0, abs=1e-12)
    posteriors = []
    for branch in branches:
        own = branch_problem(problem, branch)
        posteriors.append(listed_posterior(own, list_classes(own, 10_000, 0), 1.0, count, 5))
    evaluate = annealing._anneal(0, 0, None).ensemble.evaluate
    found = merge(problem, [branch.log_share for branch in branches], posteriors, evaluate, 6, 1)
    exact = policy_posterior(table)
    assert found.log_evidence == pytest.approx(exact.posterior.log_evidence, abs=1e-9)
    own = problem.state[problem.occupied]
    np.testing.assert_allclose(found.policy[problem.occupied], exact.policy[own], atol=1e-9)
    assert found.returns == pytest.approx(exact.posterior.expected_return, abs=1e-9)
    assert found.best_return == pytest.approx(exact.posterior.top_returns[0], abs=1e-9)
    assert found.lower_bound == pytest.approx(found.log_evidence)
    # One policy in 600 is 0.0017; systematic draws are within one of each branch, and of each class in it.
    for action in range(3):
        share = (found.sample == action).mean(axis=1)[problem.occupied]
        np.testing.assert_allclose(share, exact.policy[own][:, action], atol=5 * 0.5 / count**0.5)


def test_errors_of_evidence_are_errors_of_shares(monkeypatch):
    monkeypatch.setattr(branches_module, "sampled_reach", lambda problem, policy, visits: problem.prior)
    problem = AnnealingRun(loop(), SETTINGS).problems[0]
    whole = Branch(problem.prior, 0.0, np.zeros((problem.size, 0), np.int16))
    branches = split_branch(
        problem, whole, Parting(0, np.array([0]), whole.known, np.zeros(problem.size, bool))
    )
    exact = [
        listed_posterior(own, list_classes(own, 10_000, 0), 1.0, 60, 5)
        for own in (branch_problem(problem, branch) for branch in branches)
    ]
    shares = [branch.log_share for branch in branches]
    errors = 0.02, 0.03

    def merged(parts):
        return merge(
            problem, shares, parts, lambda some: (np.zeros(some.shape[1]), np.ones(some.shape)), 6, 1
        )

    stated = merged(
        [part._replace(log_evidence_stderr=error) for part, error in zip(exact, errors, strict=True)]
    )
    random, seen = np.random.default_rng(0), []
    for _ in range(300):
        noise = random.normal(size=2) * errors
        shifted = zip(exact, noise, strict=True)
        seen.append(merged([part._replace(log_evidence=part.log_evidence + n) for part, n in shifted]))
    spread = np.std([one.policy for one in seen], axis=0)
    several = spread > 1e-6
    # The standard error of a spread over n draws is a share 1/sqrt(2n) of it.
    np.testing.assert_allclose(stated.policy_stderr[several], spread[several], rtol=5 / 600**0.5)
    for name in ("log_evidence", "returns"):
        spread = np.std([getattr(one, name) for one in seen])
        assert getattr(stated, f"{name}_stderr") == pytest.approx(spread, rel=5 / 600**0.5)


def test_a_split_run_finds_the_posterior(forced):
    table = ring()
    found = anneal(table, SETTINGS, scales=(0.5, 1.0), seed=2)
    for scale in (0.5, 1.0):
        point, exact = found.at(scale), policy_posterior(table.with_problem(reward_scale=scale))
        noise = 5 * point.log_evidence_stderr + 1e-6
        assert abs(point.log_evidence - exact.posterior.log_evidence) < noise
        np.testing.assert_allclose(point.policy, exact.policy, atol=5 * point.policy_stderr.max())
        assert point.policy_stderr.max() < 0.03
        assert abs(scale * point.expected_return - exact.posterior.expected_return) < 0.05
        assert point.lower_bound <= exact.posterior.log_evidence + 1e-6


def test_a_split_run_goes_on_where_it_was_stopped(forced):
    config = replace(SETTINGS, tolerance=0.3, evidence_tolerance=1.0, policies=16, moves=2)
    straight, stopped = (AnnealingRun(ring(), config, scales=(0.5, 1.0), seed=4) for _ in range(2))
    while not straight.finished:
        straight.step()
    resumed_within, steps = set(), 0
    while not stopped.finished:
        stopped.step()
        steps += 1
        place = None if stopped.cut is None else (len(stopped.cut.open), len(stopped.cut.found))
        place = (-1, -1) if stopped.scout is not None else place
        if place is not None and (place not in resumed_within or steps % 16 == 0):
            resumed_within.add(place)
            arrays = stopped.to_arrays()
            stopped = AnnealingRun(ring(), config, scales=(0.5, 1.0), seed=4)
            stopped.from_arrays(arrays)
            assert 0 <= stopped.progress < 1
    assert len(resumed_within) >= 5
    assert (-1, -1) in resumed_within  # while the scout looked around
    for one, other in zip(straight.result().points, stopped.result().points, strict=True):
        equal(one, other)


def test_a_split_run_can_be_asked_at_any_moment(forced):
    annealing = AnnealingRun(ring(), replace(SETTINGS, tolerance=0.03), seed=4)
    while annealing.cut is None:
        annealing.step()
    truth = policy_posterior(ring()).posterior.log_evidence
    point = annealing.answer().at(1.0)
    assert annealing.cut is not None
    assert not annealing.done
    assert abs(point.log_evidence - truth) < 5 * point.log_evidence_stderr


def test_a_run_may_always_or_never_split(forced):
    known = replace(SETTINGS, start="known", policies=8, rounds=1)
    start = int(np.argmax(ring().initial))
    assert states_where_ways_part(ring(), known).tolist() == [start]
    assert not len(states_where_ways_part(lock(8), known))
    assert not len(states_where_ways_part(ring(), replace(known, enumerate_up_to=100_000)))
    always = AnnealingRun(ring(), replace(known, split="always"), seed=1)
    always.step()
    assert always.cut is not None
    for settings, splits in ((SETTINGS, True), (replace(SETTINGS, split="never"), False), (known, False)):
        annealing = AnnealingRun(ring(), replace(settings, policies=8, tolerance=0.5), seed=1)
        while annealing.cut is None and not annealing.finished:
            annealing.step()
        assert (annealing.cut is not None) is splits
    with pytest.raises(PolinferError, match="split must be auto, always or never, got 'often'"):
        TemperedConfig(split="often")


def test_ways_part_where_both_surely_come():
    annealing = AnnealingRun(ring(), SETTINGS, seed=1)
    table, found = annealing.table, parting_of(annealing)
    assert annealing.problems[0].state[found.slot] == int(np.argmax(table.initial))
    assert {table.action_names[action] for action in found.taken} == {"right", "up"}
    # One way only.
    lock = AnnealingRun(loop(), SETTINGS)
    annealer = lock._anneal(0, 0, None)
    assert find_parting(annealer.ensemble, annealer.known[:, :0]) is None


class Found(NamedTuple):
    log_evidence: float
    log_evidence_stderr: float
    policy: np.ndarray
    policy_stderr: np.ndarray


@pytest.mark.parametrize(
    ("right", "ahead", "split"),
    [(0.5, 0.0, False), (0.5, 0.5, True), (0.9, 0.0, True), (0.9, -2.0, False), (0.55, -0.5, False)],
)
def test_a_scout_that_comes_elsewhere_splits(right, ahead, split):
    policy, error = np.full((3, 4), 0.25), np.full((3, 4), 0.005)

    def saying(share: float, log_evidence: float, of: int) -> Found:
        own = policy.copy()
        own[of] = share, 1 - share, 0, 0
        return Found(log_evidence, 0.05, own, error)

    # Ways part in states 0 and 2; what happens in state 1 is of no matter.
    anywhere = np.array([True, False, True])
    parting = Parting(0, np.array([0, 1]), np.zeros((3, 0), np.int16), anywhere)
    for slot in (0, 2):
        found = saying(right, -10.0 + ahead, slot), saying(0.5, -10.0, slot), parting
        assert came_elsewhere(*found) is split
    unsure = saying(0.5, -10.0, 0)._replace(policy_stderr=np.full((3, 4), 0.06))
    assert came_elsewhere(unsure, saying(0.5, -10.0, 0), parting)
    if not ahead:
        assert not came_elsewhere(saying(right, -10.0, 1), saying(0.5, -10.0, 1), parting)


def test_a_light_branch_needs_not_be_precise():
    problem = AnnealingRun(loop(), SETTINGS).problems[0]
    branch = Branch(problem.prior, np.log(0.5), np.zeros((problem.size, 0), np.int16))
    listed = listed_posterior(problem, list_classes(problem, 10_000, 0), 1.0, 60, 5)
    estimate = Found(listed.log_evidence - 6.0, 0.1, problem.prior, problem.prior)
    assert weigh(branch, estimate, Cut((branch,), (), ())).weight == 1.0
    found = weigh(branch, estimate, Cut((branch,), (np.log(0.5),), (listed,)))
    # A nat and two standard errors more than was found.
    assert found.weight == pytest.approx(1 / (1 + np.exp(6.0 - 1.2)))
    loose = branch_config(SETTINGS, found)
    assert loose.tolerance == pytest.approx(SETTINGS.tolerance * found.weight**-0.5)
    assert branch_config(SETTINGS, branch).tolerance == SETTINGS.tolerance


@pytest.mark.slow
@pytest.mark.parametrize(("side", "scale"), [(6, 4.0), (8, 5.0)])
def test_neither_of_two_ways_is_missed(side, scale):
    table = large_ring(side, scale)
    point = anneal(table, TemperedConfig(), seed=0).at(1.0)
    assert asymmetry(table, point.policy) < 0.03
    start = dict(zip(table.action_names, point.policy[int(np.argmax(table.initial))], strict=True))
    assert abs(start["right"] - start["up"]) < 0.08
