"""Whether a way is found that pays, although neither soft nor committed values see it."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest

import polinfer
from polinfer.annealing import AnnealingRun, TemperedConfig, anneal, effort, run
from polinfer.annealing.annealer import Annealer
from polinfer.annealing.detours import Way, detour, find_ways, forbid_each
from polinfer.annealing.ensemble import Ensemble
from polinfer.annealing.known import start_around
from polinfer.annealing.noise import make_key
from polinfer.annealing.problem import arrange, reduce_table
from polinfer.exact.bounds import known_policies
from polinfer.exact.enumeration import policy_posterior
from polinfer.exact.evaluation import deterministic_returns
from polinfer.problems.tabular.table import TabularMDP

from .cases import lock

pytestmark = pytest.mark.usefixtures("compile_module_fully")
SETTINGS = TemperedConfig(enumerate_up_to=0, policies=32, islands=4, tolerance=0.02)


def cash_out(digits: int = 16, horizon: int = 60) -> TabularMDP:
    """Turn at once to a hub that pays in each lap, or once and for all; or go on to a prize that is larger.

    Who may choose anew at each return takes laps first and the cash at last, and turns.  A way back that the
    first turn takes by chance makes the last step before the prize look like one that leads nowhere.
    """
    door, hub, rest, end = digits, digits + 1, digits + 2, digits + 3
    move, pay = np.zeros((end + 1, 2, end + 1)), np.zeros((end + 1, 2))
    code = np.random.default_rng(5).integers(2, size=digits)
    for state in range(digits):
        move[state, code[state], state + 1] = 1
        move[state, 1 - code[state], hub] = 1
    move[0, 1 - code[0], [hub, door]] = 0.98, 0.02
    move[door, 0, end], move[door, 1, hub], pay[door, 0] = 1, 1, 51.0
    move[hub, 0, rest], move[hub, 1, end], pay[hub] = 1, 1, [1.0, 30.0]
    move[rest, 0, hub] = 1
    legal = np.ones((end + 1, 2), bool)
    legal[rest, 1] = False
    return TabularMDP(move, pay, 0, [end], horizon, legal=legal)


def test_a_way_that_no_start_draws_is_found_around_a_known_policy(monkeypatch):
    table = cash_out()
    listed = anneal(table, TemperedConfig(enumerate_up_to=1 << 20)).at(1.0)  # its few reach classes
    assert listed.exact
    point = anneal(table, SETTINGS, seed=1).at(1.0)
    assert not point.exact
    assert abs(point.log_evidence - listed.log_evidence) < 4 * point.log_evidence_stderr
    np.testing.assert_allclose(point.policy, listed.policy, atol=0.01)
    # Without it the prize is missed, with islands that agree.
    monkeypatch.setattr(run, "known_policies", lambda table: np.zeros((0, table.num_states), np.int64))
    missed = anneal(table, SETTINGS, seed=1).at(1.0)
    assert missed.log_evidence < listed.log_evidence - 5
    assert missed.log_evidence_stderr < 0.1


def test_a_known_policy_is_worth_a_round_where_it_is_better_and_holds_evidence():
    table = cash_out()
    problem = arrange(reduce_table(table))
    good = known_policies(table)[:, problem.state].T
    planner = Annealer(problem, SETTINGS, known=np.where(problem.occupied[:, None], good, 0))
    state = planner.init()
    start = planner._overlooked(state._replace(best_return=45.0), 30.0)
    assert start is not None
    assert start.max(axis=1)[problem.occupied].min() > 0.4
    assert planner._overlooked(state._replace(best_return=50.9), 30.0) is None  # as good was drawn
    assert planner._overlooked(state._replace(best_return=45.0), 60.0) is None  # hardly any evidence there


def test_the_known_mass_of_the_prize_corrects_an_answer_without_that_round(monkeypatch):
    monkeypatch.setattr(Annealer, "_overlooked", lambda *_: None)
    point = anneal(cash_out(), SETTINGS, seed=1).at(1.0)
    listed = anneal(cash_out(), TemperedConfig(enumerate_up_to=1 << 20)).at(1.0)
    assert point.policy[0].max() > 0.99
    np.testing.assert_allclose(point.policy, listed.policy, atol=0.01)


def roundabouts(size: int = 14, pays: tuple[float, float] = (18.5, 14.0), laps: int = 8) -> TabularMDP:
    """Two circles of which every choice has to be right, or the episode ends; each pays once a lap.

    Who could choose anew at each return would have to be lucky in every lap.  The first one pays more and has
    three actions in each place, so fewer of its policies are right: optimisation knows that one at every
    stage, and the other holds more of the posterior.
    """
    end = 1 + 2 * size
    move, pay = np.zeros((end + 1, 3, end + 1)), np.zeros((end + 1, 3))
    legal = np.ones((end + 1, 3), bool)
    legal[0, 2] = legal[1 + size : end, 2] = False
    random = np.random.default_rng(2)
    for door, worth in enumerate(pays):
        first = 1 + door * size
        move[0, door, first] = 1
        right = random.integers(2, size=size)
        for place in range(size):
            move[first + place, :, end] = 1
            move[first + place, right[place]] = np.eye(end + 1)[first + (place + 1) % size]
        pay[first + size - 1, right[-1]] = worth / laps
    return TabularMDP(move, pay, 0, [end], laps * size + 1, legal=legal)


def test_a_way_that_pays_less_and_has_more_policies_is_found_as_a_detour():
    table = roundabouts()
    listed = anneal(table, TemperedConfig(enumerate_up_to=1 << 20)).at(1.0)
    assert 0.5 < listed.policy[0, 1] < 0.9
    problem = arrange(reduce_table(table))
    known = known_policies(table)[:, problem.state].T.astype(np.int16)
    assert (known[problem.state == 0] == 0).all()  # optimisation knows the other way only
    ensemble, elsewhere = Ensemble(problem, SETTINGS), problem.prior
    taken = np.zeros(problem.gain.shape)
    taken[problem.state == 0, :2] = 0.9, 0.1

    def found(log_evidence):
        key = jnp.asarray(make_key(3))
        return detour(ensemble, known, key, taken=taken, log_evidence=log_evidence, elsewhere=elsewhere)

    start = found(listed.log_evidence - 1.0)
    assert start is not None
    assert start[problem.state > 14].max(axis=1).min() > 0.7
    taken[:] = listed.policy[0, 1]
    assert found(listed.log_evidence) is None  # as much was found as there is
    taken[:] = 0.0
    assert found(listed.log_evidence + 3.4) is None  # hardly any of the evidence is there


def test_what_is_forbidden_is_avoided_and_the_rest_is_the_best_there_is():
    table = roundabouts(3, (5.0, 2.0), laps=4)
    problem = reduce_table(table)
    first = np.eye(problem.size)[0]  # only the first choice is reached
    base = Way(np.zeros(problem.size, np.int16), first, ~problem.legal)
    slots, found = forbid_each(problem, base)
    assert slots.tolist() == [0]
    assert (found[:, 0] == 1).all()
    every = np.zeros((len(found), table.num_states), np.int64)
    every[:, problem.state] = found[:, :, 0]
    assert deterministic_returns(table, every).max() == pytest.approx(2.0)


def test_ways_are_found_from_ways():
    # Three doors to ends that pay less and less: the third is what is best without the first two.
    move, pay = np.zeros((5, 3, 5)), np.zeros((5, 3))
    move[0, [0, 1, 2], [1, 2, 3]] = 1
    move[1:4, :, 4] = 1
    pay[[1, 2, 3]] = np.array([[3.0], [2.5], [1.0]]) - [[0.0, 0.1, 0.2]]
    problem = arrange(reduce_table(TabularMDP(move, pay, 0, [4], 2)))
    known = known_policies(TabularMDP(move, pay, 0, [4], 2))[:, problem.state].T.astype(np.int16)
    ways = find_ways(Ensemble(problem, SETTINGS), known)
    door = problem.state == 0
    assert [int(way.policy[door][0]) for way in ways] == [1, 2]
    assert [way.forbidden[door].sum() for way in ways] == [1, 2]


def test_a_class_that_refutes_the_estimate_is_what_the_next_round_starts_around():
    problem = arrange(reduce_table(lock(10)))
    config = TemperedConfig(enumerate_up_to=0, policies=8, islands=2, start="uniform", tolerance=0.5)
    planner = Annealer(problem, config, seed=4)
    state = planner.init()
    while not len(state.round_steps):
        state = planner.step(state)
    assert state.best_return < 0  # the prize was not drawn
    code = np.random.default_rng(10).integers(2, size=10)
    opened = np.where(problem.occupied, code[np.clip(problem.state, 0, 9)], 0)[:, None].astype(np.int16)
    returns, visits = planner.ensemble.evaluate(opened)
    assert returns[0] > 9
    met = planner._met(state.classes, opened, returns, visits > 0)
    before = state.start
    state = state._replace(classes=met)
    while len(state.round_steps) == 1:
        state = planner.step(state)
    choice = problem.legal.sum(axis=1) > 1
    chance = np.take_along_axis(state.start, opened.astype(np.int64), axis=1)[choice]
    assert np.take_along_axis(before, opened.astype(np.int64), axis=1)[choice].min() < 0.5
    assert chance.min() > 0.7


def test_no_further_round_where_the_best_policy_known_is_drawn_anyway():
    annealing = AnnealingRun(
        TabularMDP(_easy(), [[1.0, 0.3], [0.2, 0.9], [0, 0]], 0, [2], 5), SETTINGS, seed=2
    )
    while not annealing.finished:
        before = annealing.state
        annealing.step()
    assert before is not None
    assert before.pilots == 2


def test_where_moves_are_dear_a_start_that_is_the_posterior_nearly_needs_no_second_pilot(monkeypatch):
    def rounds(table):
        annealing = AnnealingRun(table, SETTINGS, seed=2)
        while not annealing.finished:
            before = annealing.state
            annealing.step()
        assert before is not None
        assert len(before.rounds.log_evidence) == len(before.round_steps)
        return len(before.round_steps) + 1, before.pilots

    easy = TabularMDP(_easy(), [[0.1, 0.3], [0.2, 0.09], [0, 0]], 0, [2], 5)
    assert rounds(easy) == (3, 2)
    monkeypatch.setattr(effort, "_LONG", 0.0)
    assert rounds(easy) == (2, 1)
    assert rounds(cash_out())[1] == 3  # the start weighs differently here, and misses a prize


def _easy() -> np.ndarray:
    move = np.zeros((3, 2, 3))
    move[0, 0, [0, 1]], move[0, 1, [1, 2]] = [0.5, 0.5], [0.3, 0.7]
    move[1, 0, [0, 2]], move[1, 1, 2] = [0.6, 0.4], 1
    return move


def test_the_start_around_a_policy_keeps_its_choices_and_the_conditionals():
    prior = np.array([[0.5, 0.5, 0.0], [0.2, 0.3, 0.5], [1.0, 0.0, 0.0]])
    adjoint = np.array([[0.4, 1.3, 9.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    elsewhere = np.array([[1.0, 0, 0], [0.1, 0.2, 0.7], [1.0, 0, 0]])
    start = start_around(np.array([0, 2, 0]), np.array([0.8, 0.0, 1.0]), adjoint, elsewhere, prior, 2.0)
    odds = np.exp(2.0 * (1.3 - 0.4))
    share = 0.05  # one choice that is reached
    want = (0.5 + 0.5 / (1 + odds)) * (1 - share) + share / 2
    assert start[0, 0] == pytest.approx(want)
    assert start[0, 2] == 0
    np.testing.assert_allclose(start[1], 0.95 * elsewhere[1] + 0.05 * prior[1])
    np.testing.assert_allclose(start.sum(axis=1), 1)


def ring(horizon: int = 12) -> TabularMDP:
    """Two ways round a hole that are worth the same, up or right first; other steps bump into walls."""
    text = "..G\n.#.\nS.."
    return polinfer.tabulate(polinfer.make("gridworld", map=text, horizon=horizon, reward_scale=4))


def test_the_known_start_takes_both_of_two_ways():
    table = ring()
    annealing = AnnealingRun(table, replace(SETTINGS, start="known"), seed=1)
    annealing.step()
    start = annealing.state.start
    problem = annealing.problems[0]
    first = dict(zip(table.action_names, start[int(np.argmax(problem.initial))], strict=True))
    assert first["up"] == pytest.approx(first["right"], abs=0.02)
    assert first["up"] > 0.35
    while not annealing.finished:
        annealing.step()
    point, truth = annealing.result().at(1.0), policy_posterior(table)
    assert abs(point.log_evidence - truth.posterior.log_evidence) < 4 * point.log_evidence_stderr + 1e-6
    np.testing.assert_allclose(point.policy, truth.policy, atol=0.02)


def test_the_known_start_is_the_same_from_populations_too_small_for_all_ways():
    table = ring()
    starts = []
    for count in (2, 32):
        settings = replace(SETTINGS, start="known", policies=count, islands=2)
        annealing = AnnealingRun(table, settings, seed=1)
        starts.append(annealing._anneal(0, 0, None).init().start)
    np.testing.assert_allclose(*starts, atol=1e-5)
