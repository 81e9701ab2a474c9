"""Bounds on the log evidence against enumerated truth: a bound that is violated once is a bug."""

import itertools
import math

import numpy as np
import pytest

from families import SMALL, Rng, build
from oracles import by_reach_classes
from polinfer import TabularMDP
from polinfer.core.errors import PolinferError
from polinfer.exact import bounds, visits
from polinfer.exact.branching import branch
from polinfer.exact.passes import greedy_actions
from polinfer.exact.reachable import reachable
from polinfer.exact.relaxations import entry_bound, record_bound, soft_maximum
from polinfer.exact.variational import factorised_bound
from truth import Case, cases, large, small

TIGHT = ("lock", "corridors")  # deterministic, and nothing but what is remembered comes twice


def _slack(log_evidence: float) -> float:
    return 1e-9 * max(1.0, abs(log_evidence))


def _all_upper_bounds(table: TabularMDP) -> list[float]:
    """Every relaxation with every weight, cheap or not."""
    found = []
    for late_first in (False, True):
        graph = reachable(table, late_first=late_first)
        for weight in (visits.visit_bound(graph), visits.record_probability(graph)):
            found += [entry_bound(graph, weight), record_bound(graph, weight)]
    return found


def _all_lower_bounds(table: TabularMDP) -> list[float]:
    """The class of the first stage's greedy policy, and independent choices around it."""
    graph = reachable(table)
    first = greedy_actions(table, table.horizon, 1.0)[:1].astype(np.int64)
    return [bounds.class_mass(table, first), factorised_bound(graph, first[0][graph.state]).log_evidence]


def _check(table: TabularMDP, log_evidence: float, name: object) -> None:
    slack = _slack(log_evidence)
    assert min(_all_upper_bounds(table)) >= log_evidence - slack, name
    assert max(_all_lower_bounds(table)) <= log_evidence + slack, name


def _every_policy(table: TabularMDP) -> np.ndarray:
    return np.array(list(itertools.product(*(np.flatnonzero(legal) for legal in table.legal_actions))))


def _tiny(rng: Rng) -> TabularMDP:
    """Draw a problem of two to five states of any shape: loops, masks, several starts, a short horizon."""
    states, actions = int(rng.integers(2, 6)), int(rng.integers(2, 4))
    scale = float(np.exp(rng.uniform(-2, 4)))
    forward = bool(rng.integers(3) == 0)
    rows = []
    for state, action in itertools.product(range(states), range(actions)):
        number = int(rng.integers(1, 4))
        to = rng.integers(state + 1 if forward else 0, states + 1, size=number)
        share = rng.dirichlet(np.full(number, float(rng.choice([0.3, 1.0]))))
        share[0] += 1e-3  # no outcome is so unlikely that it rounds to nothing
        share /= share.sum()
        rows += [
            (state, action, int(t), float(p), float(rng.normal() * scale))
            for t, p in zip(to, share, strict=True)
        ]
    legal = rng.random((states + 1, actions)) < 0.8
    legal[:, int(rng.integers(actions))] = True
    initial = np.zeros(states + 1)
    starts = rng.choice(states, size=int(rng.integers(1, 3)), replace=False)
    initial[starts] = rng.dirichlet(np.ones(len(starts)))
    rows = [row for row in rows if row[3] > 0]
    return build(rows, states + 1, actions, initial, [states], int(rng.integers(1, 9)), legal)


@pytest.mark.parametrize("family", SMALL)
def test_bounds_hold_in_every_family(family: str) -> None:
    for case in cases(family, range(6)):
        _check(case.table, case.log_evidence, case.name)


def test_bounds_hold_on_hundreds_of_tiny_problems() -> None:
    rng = np.random.default_rng(17)
    for number in range(150):
        table = _tiny(rng)
        _check(table, by_reach_classes(table).log_evidence, number)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_bounds_hold_on_tens_of_thousands_of_problems(seed: int) -> None:
    rng = np.random.default_rng([19, seed])
    for number in range(1000):
        table = _tiny(rng)
        _check(table, by_reach_classes(table).log_evidence, (seed, number))
    for case in cases(seeds=range(1000 * seed + 100, 1000 * seed + 130)):
        _check(case.table, case.log_evidence, case.name)


def test_charging_more_than_is_proven_would_be_noticed() -> None:
    violated = 0
    for case in cases(seeds=range(3)):
        graph = reachable(case.table)
        violated += record_bound(graph, 0.5 * visits.record_probability(graph)) < case.log_evidence - 1e-6
    assert violated > 10


@pytest.mark.parametrize("family", TIGHT)
def test_the_upper_bound_is_the_evidence_of_deterministic_problems(family: str) -> None:
    for case in cases(family, range(8)):
        assert bounds.upper_bound(case.table)[0] == pytest.approx(case.log_evidence, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize(
    ("family", "states"), [("tree", 30), ("tree", 3000), ("lattice", 30), ("lattice", 900)]
)
def test_the_upper_bound_is_the_evidence_of_trees_and_lattices(family: str, states: int) -> None:
    for seed in range(3):
        case = large(family, states, seed)
        for work in (0.0, bounds.WORK):  # with the cheap weights as well
            assert bounds.upper_bound(case.table, work)[0] == pytest.approx(case.log_evidence, rel=1e-9)


@pytest.mark.parametrize(("family", "states"), [("tree", 30), ("tree", 3000), ("lattice", 900)])
def test_independent_choices_are_the_posterior_of_trees_and_lattices(family: str, states: int) -> None:
    for seed in range(3):
        case = large(family, states, seed)
        assert _all_lower_bounds(case.table)[1] == pytest.approx(case.log_evidence, rel=1e-9)


def test_independent_choices_are_the_posterior_of_corridors_without_a_way_back() -> None:
    for case in cases("corridors", range(8)):
        assert _all_lower_bounds(case.table)[1] == pytest.approx(case.log_evidence, rel=1e-9, abs=1e-9)


def test_independent_choices_that_could_come_twice_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("polinfer.exact.variational._without_loops", lambda graph, policy, fixed: policy)
    monkeypatch.setattr(
        "polinfer.exact.variational._soft_policy",
        lambda graph, *rest: graph.legal / graph.legal.sum(axis=1, keepdims=True),
    )
    violated = 0
    for case in cases(seeds=range(3)):
        violated += _all_lower_bounds(case.table)[1] > case.log_evidence + 1e-6
    assert violated > 0


def test_the_upper_bound_of_a_union_holds() -> None:
    case = large("union", 400)
    optimum = _optimum(case)
    for work in (0.0, bounds.WORK):
        upper = bounds.upper_bound(case.table, work)[0]
        assert case.log_evidence <= upper < optimum


def _optimum(case: Case) -> float:
    graph = reachable(case.table)
    return entry_bound(graph, np.zeros(len(graph.state)))


def test_remembering_records_is_sharper_than_not() -> None:
    for case in cases("bottleneck", range(3)):
        graph = reachable(case.table)
        weight = visits.record_probability(graph)
        assert record_bound(graph, weight) < entry_bound(graph, weight) - 0.1 < _optimum(case)


def test_the_weights_bound_the_visits_of_every_policy() -> None:
    rng = np.random.default_rng(3)
    for _ in range(40):
        table = _tiny(rng)
        graph = reachable(table)
        exact_, cheap = visits.record_probability(graph), visits.visit_bound(graph)
        best_record, best_visit = np.zeros(len(graph.state)), np.zeros(len(graph.state))
        for policy in _every_policy(table):
            for i in range(len(graph.state)):
                best_record[i] = max(best_record[i], _visit(table, policy, graph.state, i, records=True))
                best_visit[i] = max(best_visit[i], _visit(table, policy, graph.state, i, records=False))
        assert (exact_ >= best_record - 1e-12).all()
        assert (cheap >= best_visit - 1e-12).all()


def _visit(table: TabularMDP, policy: np.ndarray, by_rank: np.ndarray, goal: int, records: bool) -> float:
    """Return the probability of acting in a state; with `records`, before any state of higher rank."""
    blocked = set(by_rank[goal + 1 :].tolist()) if records else set()
    here, total = {int(s): table.initial[s] for s in np.flatnonzero(table.initial)}, 0.0
    for _ in range(table.horizon):
        after: dict[int, float] = {}
        for state, mass in here.items():
            if state == by_rank[goal]:
                total += mass
            elif not table.absorbing[state] and state not in blocked:
                for to, p in zip(
                    table.successor[state, policy[state]],
                    table.probability[state, policy[state]],
                    strict=True,
                ):
                    after[int(to)] = after.get(int(to), 0.0) + mass * p
        here = after
    return total


def test_all_policies_together_have_the_mass_of_the_evidence() -> None:
    for family in ("cut-off", "several starts", "masks", "acyclic"):
        case = next(c for c in cases(family, range(30)) if math.prod(c.table.legal_actions.sum(axis=1)) < 3e4)
        every = _every_policy(case.table)
        assert bounds.class_mass(case.table, every) == pytest.approx(case.log_evidence, rel=1e-12)
        some = every[:: max(2, len(every) // 50)]
        assert bounds.class_mass(case.table, some) <= case.log_evidence
        twice = np.concatenate([some, some])
        assert bounds.class_mass(case.table, twice) == pytest.approx(bounds.class_mass(case.table, some))


def test_a_class_is_what_is_acted_on_within_the_horizon() -> None:
    # 0 -> 1 -> 2 -> end, or from anywhere to the end; two steps: state 2 is entered but never acted in.
    rows = [(s, 0, s + 1, 1.0, 1.0) for s in range(3)] + [(s, 1, 3, 1.0, 0.0) for s in range(3)]
    table = build(rows, 4, 2, 0, [3], 2)
    classes = bounds.reach_classes(table, np.array([[0, 0, 0, 0], [0, 0, 1, 0], [1, 0, 0, 0]]))
    assert classes.tolist() == [[0, 0, -1, -1], [0, 0, -1, -1], [1, -1, -1, -1]]
    mass = bounds.class_mass(table, np.array([[0, 0, 0, 0], [0, 0, 1, 0], [1, 0, 0, 0]]))
    assert mass == pytest.approx(np.log(np.e**2 / 4 + 1 / 2))


def test_policies_of_another_shape_are_refused() -> None:
    table = small("lock", 0).table
    with pytest.raises(PolinferError, match="integers of shape"):
        bounds.class_mass(table, np.zeros((2, 3), int))
    with pytest.raises(PolinferError, match="integers of shape"):
        bounds.class_mass(table, np.zeros((2, table.num_states)))


def test_branching_falls_to_the_evidence_and_finds_the_classes() -> None:
    for family in ("cyclic sparse", "corridors, way back, slip", "masks", "several starts"):
        case = next(c for c in cases(family, range(20)) if c.classes < 100)
        before = bounds.upper_bound(case.table)[0]
        search = branch(
            case.table,
            lambda legal, table=case.table: bounds.upper_bound(table, legal=legal)[0],
            10_000,
            tolerance=-1.0,
        )
        assert search.upper == pytest.approx(case.log_evidence, rel=1e-9, abs=1e-9)
        assert search.upper <= before
        assert len(search.policies) == case.classes
        assert bounds.class_mass(case.table, search.policies) == pytest.approx(case.log_evidence, rel=1e-9)


def test_both_bounds_of_a_corridor_meet() -> None:
    case = small("corridors, way back", 0)
    found = bounds.evidence_bounds(case.table, tolerance=1e-6)
    assert found.found <= found.lower <= case.log_evidence + 1e-9
    assert found.upper - found.lower < 1e-5
    assert found.total_variation < 1e-5
    assert "leaves" in found.method
    assert bounds.class_mass(case.table, found.policies) == pytest.approx(found.found)
    assert bounds.lower_bound(case.table, found.policies) == pytest.approx(case.log_evidence, abs=1e-5)


def test_the_share_of_the_found_bounds_the_total_variation() -> None:
    assert bounds.total_variation_bound(np.log(3.0), np.log(4.0)) == pytest.approx(0.25)
    assert bounds.total_variation_bound(1.0 + 1e-12, 1.0) == 0.0
    assert bounds.total_variation_bound(-np.inf, 0.0) == 1.0


def test_markov_bounds_are_exceeded_as_rarely_as_they_say() -> None:
    rng = np.random.default_rng(5)
    for number, spread in [(1, 1.0), (4, 0.3), (8, 2.0), (32, 1.0)]:
        # Estimates of Z = 1: exp of a normal with mean -spread^2/2.
        draws = rng.normal(-(spread**2) / 2, spread, size=(4000, number))
        above = np.mean([bounds.markov_bound(row, risk=0.05) > 0 for row in draws])
        assert above <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 4000)
    # Two values are the worst case of Markov's inequality: t with probability 1/t, or zero.
    with np.errstate(divide="ignore"):
        draws = np.log(np.where(rng.random((20_000, 1)) < 0.04, 25.0, 0.0))
    above = np.mean([bounds.markov_bound(row, risk=0.05) > 0 for row in draws])
    assert 0.03 < above <= 0.05
    assert bounds.markov_bound([]) == -np.inf
    with pytest.raises(PolinferError, match="risk"):
        bounds.markov_bound([1.0], risk=0.0)


def test_a_small_weight_loses_no_digits() -> None:
    worth, prior = np.array([[1.0, 3.0, 9.0]]), np.array([[0.5, 0.5, 0.0]])
    for weight in (1e-300, 1e-18, 1e-9):
        assert soft_maximum(worth, prior, np.array([weight]))[0] == pytest.approx(2.0, rel=1e-8)
    assert soft_maximum(worth, prior, np.array([0.0]))[0] == 3.0
    assert soft_maximum(worth, prior, np.array([1.0]))[0] == pytest.approx(np.log((np.e + np.e**3) / 2))


def test_a_problem_that_has_ended_has_evidence_one() -> None:
    table = TabularMDP([[[1.0]]], [[0.0]], 0, [0], 3)
    assert bounds.upper_bound(table) == (0.0, "nothing to decide")
