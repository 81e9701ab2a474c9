"""Closed forms against enumeration, with a reference measure and a discount, and where there is none."""

from __future__ import annotations

import numpy as np
import pytest

import polinfer
from oracles import by_reach_classes
from polinfer import TabularMDP, exact
from polinfer.annealing.closed_form import closed_form
from polinfer.annealing.decompose import split
from polinfer.annealing.problem import arrange, reduce_table
from polinfer.exact.bounds import reach_classes
from polinfer.problems.tabular import OutcomeRows
from truth import small

pytestmark = pytest.mark.usefixtures("compile_quickly")


def build(rows: list[tuple[int, int, int, float, float]], states: int, **options: object) -> TabularMDP:
    """Three actions, the last state is the end."""
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    given = {"initial": 0, "absorbing": [states - 1], "horizon": states, **options}
    return TabularMDP.from_outcomes(OutcomeRows(*columns), states, 3, **given)  # type: ignore[arg-type]


def lattices_below_chance(seed: int) -> TabularMDP:
    """Every action of the start leads to one of two lattices by chance; in a lattice, moves are certain."""
    random = np.random.default_rng(seed)
    rows: list[tuple[int, int, int, float, float]] = []
    end = 1 + 6 * 4
    for action in range(3):
        share = random.uniform(0.2, 0.8)
        for side, odds in enumerate((share, 1 - share)):
            rows.append((0, action, 1 + 4 * (2 * action + side), odds, random.normal()))
    for block in range(6):
        first = 1 + 4 * block
        for place, targets in enumerate(((1, 2, 3), (3, 3, 2), (3, None, 3), (None, None, None))):
            for action, target in enumerate(targets):
                to = end if target is None else first + target
                rows.append((first + place, action, to, 1.0, random.normal(scale=3)))
    return build(rows, end + 1)


def meeting_by_chance() -> TabularMDP:
    """Both outcomes of a chance move lead to the same state: policies come there by two ways at once."""
    rows = [(0, a, 1 + b, 0.5, 0.1 * a) for a in range(3) for b in range(2)]
    rows += [(1 + b, a, 3, 1.0, 0.3 * a * b) for a in range(3) for b in range(2)]
    rows += [(3, a, 4, 1.0, 1.0 * a) for a in range(3)]
    return build(rows, 5)


def solve(table: TabularMDP, scale: float = 1.0, count: int = 400) -> polinfer.annealing.parts.PartPosterior:
    (part,), constant = split(reduce_table(table))
    assert constant == 0
    found = closed_form(arrange(part), scale, count, seed=5)
    assert found is not None
    return found


def on_table(table: TabularMDP, values: np.ndarray) -> np.ndarray:
    """Put what is known of slots back to the table's states."""
    part = arrange(split(reduce_table(table)).parts[0])
    whole = np.zeros((table.num_states, *values.shape[1:]), values.dtype)
    whole[part.state[part.occupied]] = values[part.occupied]
    return whole


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("terms", [{}, {"prior": 7}])
def test_lattices_below_chance_are_exact(seed: int, terms: dict[str, int]) -> None:
    table = lattices_below_chance(seed)
    if terms:
        prior = np.random.default_rng(terms["prior"]).dirichlet(np.ones(3), size=table.num_states)
        table = table.with_problem(prior=prior)
    found = solve(table)
    # Enumerated class by class: three choices of the start, and what two of six lattices add.
    acting = ~table.absorbing
    classes = by_reach_classes(table, limit=10**6) if not terms else None
    if classes is not None:
        assert found.log_evidence == pytest.approx(classes.log_evidence, abs=1e-12)
        np.testing.assert_allclose(on_table(table, found.policy)[acting], classes.policy[acting], atol=1e-12)
    drawn = on_table(table, found.sample).T
    returns = exact.deterministic_returns(table, drawn)
    np.testing.assert_allclose(returns, found.sample_returns, atol=1e-9)
    spread = returns.std() / np.sqrt(len(returns))
    assert abs(returns.mean() - found.returns) < 5 * spread
    best = on_table(table, found.best)[None]
    assert exact.deterministic_returns(table, best)[0] == pytest.approx(found.best_return)
    assert found.best_return == pytest.approx(exact.finite_horizon_optimum(table).objective)


@pytest.mark.parametrize(("family", "seed"), [("two locks", 1), ("corridors", 2)])
def test_deterministic_problems_without_loops_are_exact(family: str, seed: int) -> None:
    case = small(family, seed)
    found = solve(case.table, count=2000)
    assert found.log_evidence == pytest.approx(case.log_evidence, abs=1e-12)
    acting = ~case.table.absorbing
    np.testing.assert_allclose(on_table(case.table, found.policy)[acting], case.policy[acting], atol=1e-12)
    # Draws have the marginals, where they come and where they do not.
    drawn = on_table(case.table, found.sample).T
    shares = np.stack([(drawn == a).mean(axis=0) for a in range(case.table.num_actions)], axis=1)
    error = np.sqrt(case.policy * (1 - case.policy) / len(drawn))
    assert (abs(shares - case.policy)[acting] <= 5 * error[acting] + 1e-9).all()
    came = reach_classes(case.table, drawn) >= 0
    assert 0 < came[:, acting].mean() < 1


@pytest.mark.parametrize("policies", [{"prior": True}, {"discount": 0.9}, {"prior": True, "discount": 0.7}])
def test_terms_of_the_problem_are_taken_into_account(policies: dict[str, object]) -> None:
    # A tree: two actions of the start lead to one of two states each, by chance.
    random = np.random.default_rng(3)
    rows = [(0, a, 1 + 2 * a + b, 0.3 if b else 0.7, random.normal()) for a in range(2) for b in range(2)]
    rows += [(0, 2, 5, 1.0, 0.4)]
    rows += [(state, a, 5, 1.0, random.normal(scale=2)) for state in range(1, 5) for a in range(3)]
    table = build(rows, 6)
    options = dict(policies)
    if options.pop("prior", False):
        options["prior"] = random.dirichlet(np.ones(3), size=6)
    table = table.with_problem(**options)  # type: ignore[arg-type]
    truth = exact.policy_posterior(table, reach=False)
    assert truth.posterior is not None
    found = solve(table)
    assert found.log_evidence == pytest.approx(truth.posterior.log_evidence, abs=1e-10)
    acting = ~table.absorbing
    np.testing.assert_allclose(on_table(table, found.policy)[acting], truth.policy[acting], atol=1e-9)
    assert found.returns == pytest.approx(truth.posterior.expected_return, abs=1e-9)


@pytest.mark.parametrize(
    "table", [meeting_by_chance(), small("acyclic", 2).table, small("hub", 0).table, small("lock", 0).table]
)
def test_what_has_no_closed_form_is_left_to_others(table: TabularMDP) -> None:
    (part,), _ = split(reduce_table(table))
    assert closed_form(arrange(part), 1.0, 10, 0) is None


def test_states_that_are_hardly_reached_keep_their_digits() -> None:
    """A chain of chance moves: the last choice is reached with probability 1e-40."""
    depth = 40
    rows = []
    for state in range(depth):
        for action in range(3):
            rows += [(state, action, state + 1, 0.1, 0.0), (state, action, depth + 1, 0.9, 0.0)]
    rows += [(depth, action, depth + 1, 1.0, float(action)) for action in range(3)]
    found = solve(build(rows, depth + 2))
    assert found.log_evidence == pytest.approx(1e-40, rel=1e-9)
