from dataclasses import replace

import numpy as np
import pytest

import polinfer
from polinfer.analysis.enumerated import EnumeratedReturns
from polinfer.annealing import AnnealingRun, TemperedConfig, anneal, ensemble
from polinfer.annealing.annealer import Annealer
from polinfer.annealing.classes import add_classes, class_codes, log_total, no_classes
from polinfer.annealing.decompose import split
from polinfer.annealing.enumerate import list_classes
from polinfer.annealing.problem import arrange, reduce_table
from polinfer.annealing.refit import refit
from polinfer.annealing.rounds import Rounds, estimate
from polinfer.core.errors import PolinferError
from polinfer.exact.enumeration import policy_posterior
from polinfer.exact.evaluation import deterministic_returns, evaluate_policy
from polinfer.problems.tabular.table import TabularMDP

from .cases import every_policy, lattice, lock, loop, tree, two_blocks, unreached

# Its tests share programs, and some run them for long.
pytestmark = pytest.mark.usefixtures("compile_module_fully")
SMALL = TemperedConfig(enumerate_up_to=0, policies=32, islands=6, tolerance=0.01, rounds=3)


def distance(table, policy):
    exact = policy_posterior(table, reach=False).policy
    steps = np.where(table.absorbing, 0, evaluate_policy(table, exact).occupancy)
    return float(steps @ abs(policy - exact).sum(axis=1)) / 2 / steps.sum()


def equal(one, other):
    for name, left, right in zip(one._fields, one, other, strict=True):
        if name == "round_log_evidence":
            assert all(np.array_equal(a, b) for a, b in zip(left, right, strict=True))
        else:
            np.testing.assert_array_equal(left, right, err_msg=name)


TABLES = {"loop": loop(), "two blocks": two_blocks(), "lattice": lattice(4, 0.2), "lock": lock(12)}


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(name, marks=[pytest.mark.slow] * (name in ("lock", "two blocks"))) for name in TABLES
    ],
)
def annealed(request, compile_module_fully):
    """A small problem, its enumeration, and what annealing says of it."""
    table = TABLES[request.param]
    return table, policy_posterior(table), anneal(table, SMALL, seed=1).at(1.0)


def test_annealing_finds_the_enumerated_posterior(annealed):
    table, exact, point = annealed
    assert not point.exact
    assert abs(point.log_evidence - exact.posterior.log_evidence) < 5 * point.log_evidence_stderr + 1e-3
    assert distance(table, point.policy) < 5 * 0.01
    assert abs(point.policy - exact.policy).max() < 6 * point.policy_stderr.max() + 0.01
    assert point.lower_bound <= exact.posterior.log_evidence + 1e-5
    gap = abs(point.expected_return - exact.posterior.expected_return)
    assert gap < 6 * point.expected_return_stderr + 0.01
    np.testing.assert_allclose(deterministic_returns(table, point.sample), point.sample_returns, atol=1e-4)
    assert deterministic_returns(table, point.best[None])[0] == pytest.approx(point.best_return, abs=1e-4)


def test_both_ways_enclose_the_evidence(annealed):
    _, exact, point = annealed
    assert 0 < point.reverse_log_evidence_stderr < 0.1
    gap = abs(point.reverse_log_evidence - exact.posterior.log_evidence)
    assert gap < 5 * point.reverse_log_evidence_stderr + 1e-3


def test_the_evidence_is_unbiased():
    # One round of one island is one estimate; a coarse ladder and few moves, so that it is a noisy one.
    table = loop()
    problem = arrange(reduce_table(table))
    config = TemperedConfig(policies=8, islands=512, ess=0.5, moves=1, start="uniform")
    annealer = Annealer(problem, config, scale=2.0)
    state = annealer.init()
    while state.inverse < 1:
        state = annealer.step(state)
    ratio = np.exp(
        state.log_evidence - policy_posterior(table.with_problem(reward_scale=2.0)).posterior.log_evidence
    )
    assert ratio.std() > 0.05
    assert abs(ratio.mean() - 1) < 4 * ratio.std() / np.sqrt(len(ratio))


def test_the_same_seed_gives_the_same_bits_and_a_resumed_run_too():
    config = TemperedConfig(enumerate_up_to=0, policies=32, islands=6, tolerance=0.05)
    saved = []
    whole = anneal(loop(), config, scales=(0.5, 1.0), seed=4, checkpoint=saved.append)
    for place in (len(saved) // 3, -2):
        again = anneal(loop(), config, scales=(0.5, 1.0), seed=4, resume=saved[place])
        for one, other in zip(whole.points, again.points, strict=True):
            equal(one, other)
    other = anneal(loop(), config, scales=(0.5, 1.0), seed=5)
    assert other.points[0].log_evidence_stderr != whole.points[0].log_evidence_stderr


@pytest.mark.parametrize("scale", [0.4, 1.0, 3.0])
def test_listed_classes_are_exact_at_every_scale(scale):
    for table in (loop(), two_blocks(), lattice(3), unreached()):
        exact = policy_posterior(table.with_problem(reward_scale=scale))
        point = anneal(table, scales=(scale,)).at(scale)
        assert point.exact
        assert point.log_evidence == pytest.approx(exact.posterior.log_evidence, abs=1e-10)
        assert point.lower_bound == pytest.approx(point.log_evidence, abs=1e-10)
        assert point.entropy == pytest.approx(exact.posterior.entropy, abs=1e-9)
        assert scale * point.expected_return == pytest.approx(exact.posterior.expected_return, abs=1e-10)
        np.testing.assert_allclose(point.policy, exact.policy, atol=1e-10)
        np.testing.assert_allclose(point.reach_policy, exact.posterior.reach_policy, atol=1e-8)


def test_a_problem_falls_apart_below_forced_states():
    whole = reduce_table(two_blocks())
    parts, constant = split(whole)
    assert [sorted(part.state) for part in parts] == [[0, 1, 3], [0, 2, 4, 5]]
    policy = np.zeros(7, np.int64)
    total = sum(float(np.max(list_classes(part, 100).returns)) for part in parts) + constant
    best = max(
        deterministic_returns(two_blocks(), np.array([_with(policy, whole.state, row)]))[0]
        for row in every_policy(whole.legal).T
    )
    assert total == pytest.approx(best, abs=1e-12)


def _with(policy, states, actions):
    changed = policy.copy()
    changed[states] = actions
    return changed


def test_listing_gives_up_beyond_the_limit():
    problem = reduce_table(lattice(4, 0.2))
    assert list_classes(problem, 10) is None
    listed = list_classes(problem, 1 << 15)
    assert np.exp(listed.log_prior).sum() == pytest.approx(1, abs=1e-12)


def test_classes_found_twice_count_once():
    codes = class_codes(3, 2)
    policy = np.array([[0, 0, 1], [1, 1, 0], [0, 1, 1]], np.int16)
    reached = np.array([[True] * 3, [True] * 3, [False, False, True]])
    masses, returns = np.array([-1.0, -1.0, -2.5]), np.array([3.0, 3.0, 1.5])
    known = add_classes(no_classes(3), codes, policy, reached, masses, returns)
    known = add_classes(known, codes, policy, reached, masses, returns)
    assert log_total(known) == pytest.approx(np.logaddexp(-1.0, -2.5))
    assert known.heavy.tolist() == [[0, 1, -1], [1, 0, 1]]  # the heaviest first
    assert known.heavy_returns.tolist() == [3.0, 1.5]


def test_a_round_that_falls_short_is_left_out():
    rng = np.random.default_rng(2)
    log_evidence = np.array([[3.0], [2.5]]) + rng.normal(size=(2, 8)) * 0.02
    chosen = np.zeros((2, 1, 2, 8))
    chosen[0], chosen[1] = np.array([[0.3], [0.7]]), np.array([[0.9], [0.1]])
    rounds = Rounds(log_evidence, chosen, chosen, np.ones((2, 1, 8)), np.ones((2, 8)))
    found = estimate(rounds, np.full((1, 2), 0.5))
    np.testing.assert_allclose(found.policy, [[0.3, 0.7]])
    assert abs(found.log_evidence - 3.0) < 0.05


def test_an_exact_start_is_kept_and_a_poor_one_refitted():
    rng = np.random.default_rng(3)
    truth = np.array([[0.8, 0.2], [0.35, 0.65]])
    counts = rng.multinomial(64, truth, size=(8, 2)) / 64  # [I, N, A]
    chosen = counts.transpose(1, 2, 0)[None]
    rounds = Rounds(np.zeros((1, 8)), chosen, chosen, np.ones((1, 2, 8)), np.zeros((1, 8)))
    prior = np.full((2, 2), 0.5)
    np.testing.assert_array_equal(refit(rounds, truth[None], prior, 64), truth)
    fitted = refit(rounds, np.array([[[0.5, 0.5], [0.9, 0.1]]]), prior, 64)
    assert abs(fitted - truth).max() < 0.08


def test_what_cannot_be_run_is_refused_by_name():
    forced = TabularMDP([[[0.5, 0.5]], [[0, 0]]], [[1.0], [0.0]], 0, [1], 4)
    with pytest.raises(PolinferError, match="no state of the problem has a choice"):
        anneal(forced)
    with pytest.raises(PolinferError, match="start must be"):
        TemperedConfig(start="cold")
    with pytest.raises(PolinferError, match="islands"):
        TemperedConfig(islands=1)
    with pytest.raises(PolinferError, match="not finished"):
        AnnealingRun(loop()).result()


@pytest.mark.slow
def test_two_ways_that_are_worth_the_same_are_both_found():
    """With one soft start, a seed in seven lost one of them, and with it half of Z, at a small error."""
    table = polinfer.tabulate(polinfer.make("gridworld/multimodal", reward_scale=3))
    point = anneal(table, TemperedConfig(policies=32, rounds=2), seed=2).at(1.0)
    right, up, *others = point.policy[int(table.initial.argmax())]
    assert min(right, up) > 0.3
    assert max(others) < 0.1


def test_islands_that_agree_exactly_are_not_taken_for_an_enumeration():
    table = tree()  # whose soft start is the posterior itself, so that all islands have one log Z
    annealed = polinfer.infer(table, "tempered", enumerate_up_to=0, policies=8, islands=2, rounds=1)
    assert annealed.policies.log_evidence_stderr > 0
    assert "enumerated" not in {finding.code for finding in polinfer.diagnose(annealed)}
    listed = polinfer.infer(table, "tempered")
    assert listed.policies.log_evidence_stderr == 0


def test_the_marginals_that_vary_least_are_taken():
    rng = np.random.default_rng(4)
    noise = np.stack([rng.normal(size=8), np.zeros(8)]) * 0.05
    plain = (np.array([[0.3], [0.7]]) + noise - noise[::-1])[None, None]  # [R, N, A, I]
    smooth = (np.array([[0.3], [0.7]]) + 0.1 * (noise - noise[::-1]))[None, None]
    calm, wild = (
        estimate(Rounds(np.zeros((1, 8)), *pair, np.ones((1, 1, 8)), np.ones((1, 8))), np.full((1, 2), 0.5))
        for pair in ((plain, smooth), (smooth, plain))
    )
    assert calm.distance == pytest.approx(wild.distance)
    np.testing.assert_allclose(calm.policy, [[0.3, 0.7]], atol=5 * calm.policy_stderr.max())
    np.testing.assert_allclose(calm.policy, smooth.mean(axis=-1)[0], atol=1e-12)


def test_an_answer_can_be_asked_for_at_any_moment():
    run = AnnealingRun(loop(), TemperedConfig(enumerate_up_to=0, policies=64, tolerance=0.01), seed=3)
    truth = policy_posterior(loop()).posterior
    at_once = run.answer().at(1.0)
    assert run.state is None
    assert not run.done
    assert at_once.log_evidence_stderr > 0
    assert abs(at_once.log_evidence - truth.log_evidence) < 5 * at_once.log_evidence_stderr
    run.step()
    later = run.answer().at(1.0)
    run.step()
    straight = AnnealingRun(loop(), run.config, seed=3)
    straight.step()
    straight.step()
    np.testing.assert_array_equal(run.state.policy, straight.state.policy)
    assert abs(later.log_evidence - truth.log_evidence) < 5 * later.log_evidence_stderr
    assert anneal(loop(), replace(run.config, time_limit=1e-9), seed=3).at(1.0).log_evidence_stderr > 0


def test_the_number_of_threads_changes_no_bit(monkeypatch):
    config = TemperedConfig(enumerate_up_to=0, policies=32, islands=6, tolerance=0.05)
    found = []
    for threads in (1, 3):
        monkeypatch.setattr(ensemble, "thread_limit", lambda threads=threads: threads)
        found.append(anneal(loop(), config, seed=6).at(1.0))
    equal(*found)


def test_all_scales_come_out_of_one_run():
    table = loop()
    config = TemperedConfig(enumerate_up_to=0, policies=64, tolerance=0.01, evidence_tolerance=0.1)
    scales = (0.2, 1.0, 6.0)
    path = anneal(table, config, scales=scales, seed=3)
    assert [point.scale for point in path.points] == list(scales)
    listed = EnumeratedReturns(table)
    for point in path.points:
        want = listed.at(point.scale)
        assert abs(point.log_evidence - want.log_evidence) < 4 * point.log_evidence_stderr + 1e-6
        assert abs(point.policy - want.policy).max() < 0.02
        assert abs(point.expected_return - want.expected_return) < 0.05
    # The others go on from the largest scale: one round each, where it began with several.
    rounds = [len(point.round_log_evidence[0]) for point in path.points]
    assert rounds[0] == rounds[1] == 1 < rounds[2]
