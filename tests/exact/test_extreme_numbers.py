"""Numbers that do not lie: extreme rewards, probabilities, sizes and horizons against plain enumeration."""

from __future__ import annotations

import math

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

import polinfer
from polinfer import exact
from polinfer.core.errors import CostError, PolinferError
from polinfer.core.limits import limits_lifted
from polinfer.learning.config import TrainConfig
from polinfer.learning.fit import fit
from polinfer.methods import fitted, particles
from polinfer.methods.cost import needs_double, precision_loss
from polinfer.problems.tables import shared_table
from polinfer.problems.tabular.ending import shorten_horizon
from polinfer.smc.config import SweepConfig
from polinfer.smc.particles import ParticleConfig, run_population

from .brute_force import Plain, posterior, random_plain

SCALES = [1e6, 1.0, 1e-6]


@settings(derandomize=True, deadline=None, max_examples=12)
@given(
    seed=st.integers(0, 10_000),
    scale=st.sampled_from(SCALES),
    rare=st.sampled_from([None, 1e-12, 1e-300]),
    horizon=st.sampled_from([1, 2, 5]),
)
def test_extreme_rewards_and_probabilities_agree_with_enumeration(
    seed: int, scale: float, rare: float | None, horizon: int
) -> None:
    plain = random_plain(seed, horizon)
    outcomes = {
        pair: [(p, n, r * scale) for p, n, r in _with_rare(row, rare)] for pair, row in plain.outcomes.items()
    }
    plain = plain._replace(outcomes=outcomes)
    truth, found = posterior(plain, horizon), exact.policy_posterior(plain.table())
    assert found.posterior is not None
    assert found.posterior.log_evidence == pytest.approx(truth.log_evidence, rel=1e-9, abs=1e-9)
    # At returns of a million a double has ten digits left behind the point.
    close = 1e-7 if scale > 1 else 1e-10
    for pair, probability in truth.marginal.items():
        assert found.policy[pair] == pytest.approx(probability, abs=close)


def _with_rare(row: list[tuple[float, int, float]], rare: float | None) -> list[tuple[float, int, float]]:
    """Take a tiny probability from an outcome for another that pays very much."""
    if rare is None:
        return row
    (p, n, r), *others = row
    return [(p - rare, n, r), (rare, n, r + 1.0), *others]


def one(outcomes: dict[tuple[int, int], list[tuple[float, int, float]]], **fields: object) -> Plain:
    given = {
        "num_states": 1,
        "num_actions": 1,
        "absorbing": frozenset(),
        "initial": [1.0],
        "horizon": 3,
        **fields,
    }
    return Plain(outcomes=outcomes, **given)  # type: ignore[arg-type]


TWO: dict[str, object] = {"num_states": 2, "num_actions": 2}
CORNERS = {
    "single state, single action": one({(0, 0): [(1.0, 0, 0.7)]}),
    "single state": one({(0, a): [(1.0, 0, 0.3 * a - 0.1)] for a in range(3)}, num_actions=3),
    "single action": one(
        {(0, 0): [(0.3, 1, 2.0), (0.7, 0, -1.0)], (1, 0): [(1.0, 0, 0.5)]}, num_states=2, initial=[0.4, 0.6]
    ),
    "all actions illegal but one": one(
        {(0, 1): [(0.5, 0, 1.0), (0.5, 1, -2.0)], (1, 0): [(1.0, 1, 0.1)]}, initial=[1.0, 0.0], **TWO
    ),
    "starts that are absorbing": one(
        {(0, 0): [(1.0, 1, 3.0)], (0, 1): [(1.0, 0, -1.0)]},
        absorbing=frozenset({1}),
        initial=[0.25, 0.75],
        **TWO,
    ),
    "nothing but an end": one(
        {(1, 0): [(1.0, 0, 1.0)]}, num_states=2, absorbing=frozenset({0}), initial=[1.0, 0.0]
    ),
    "horizon of one": one({(0, 0): [(1.0, 0, 2.0)], (0, 1): [(1.0, 0, -1.0)]}, num_actions=2, horizon=1),
}


@pytest.mark.parametrize("name", CORNERS)
def test_corners_agree_with_enumeration(name: str) -> None:
    plain = CORNERS[name]
    truth = posterior(plain, plain.horizon)
    found = polinfer.infer(plain.table())
    assert found.policies is not None
    assert found.policies.log_evidence == pytest.approx(truth.log_evidence, abs=1e-12)
    rows = found.table_probs()
    assert rows is not None
    assert np.isfinite(rows).all()
    for pair, probability in truth.marginal.items():
        assert rows[0][pair] == pytest.approx(probability, abs=1e-6)


@pytest.mark.parametrize("method", ["auto", "exact", "tempered"])
@pytest.mark.parametrize("name", ["single state, single action", "all actions illegal but one"])
def test_the_only_policy_is_the_answer_of_every_method_of_whole_policies(name: str, method: str) -> None:
    plain = CORNERS[name]
    found = polinfer.infer(plain.table(), method)
    truth = posterior(plain, plain.horizon)
    assert found.policies is not None
    assert found.policies.log_evidence == pytest.approx(truth.log_evidence, abs=1e-12)
    assert found.policies.num_policies == 1
    assert str(polinfer.certify(found).verdict) == "trust"


def chain(states: int, horizon: int) -> polinfer.TabularMDP:
    """A corridor of binary choices: `states` of them make 2^states policies."""
    transitions = np.zeros((states + 1, 2, states + 1))
    transitions[np.arange(states), :, np.arange(states) + 1] = 1.0
    rewards = np.zeros((states + 1, 2))
    rewards[:states, 1] = 0.01 * (1 + np.arange(states) % 3)
    return polinfer.TabularMDP(transitions, rewards, 0, [states], horizon)


def test_two_thousand_binary_choices_do_not_overflow() -> None:
    table = chain(2000, 2000)
    found = polinfer.infer(table, "tempered", policies=8, islands=2, rounds=1)
    pay = 0.01 * (1 + np.arange(2000) % 3)
    assert found.policies is not None
    # Choices add up: log Z is the sum of log((1 + exp(r)) / 2).
    truth = np.logaddexp(0.0, pay).sum() - 2000 * math.log(2)
    assert found.policies.log_evidence == pytest.approx(
        truth, abs=1e-6 + 5 * found.policies.log_evidence_stderr
    )
    assert math.isfinite(found.policies.entropy)
    with pytest.raises(PolinferError, match="deterministic policies are more than"):
        polinfer.infer(table, "exact")


def test_a_horizon_beyond_every_end_is_cut_where_nothing_is_left() -> None:
    table = polinfer.TabularMDP(
        [[[0.5, 0.5], [0.1, 0.9]], [[0, 0], [0, 0]]], [[1.0, -2.0], [0, 0]], 0, [1], 1_000_000_000
    )
    short = shorten_horizon(table)
    assert short.horizon < 200
    # Both policies' returns are geometric sums.
    found = exact.deterministic_returns(short, np.array([[0, 0], [1, 0]]))
    np.testing.assert_allclose(found, [1.0 / 0.5, -2.0 / 0.9], rtol=1e-12)
    posterior = polinfer.infer(table)
    assert posterior.policies is not None
    assert posterior.policies.log_evidence == pytest.approx(
        float(np.logaddexp(*found) - math.log(2)), abs=1e-12
    )


def test_a_discount_cuts_an_endless_horizon() -> None:
    table = polinfer.TabularMDP(np.ones((1, 2, 1)), [[1.0, 0.5]], 0, [False], 10_000_000, discount=0.9)
    short = shorten_horizon(table)
    assert short.horizon < 1000
    np.testing.assert_allclose(
        exact.deterministic_returns(short, np.array([[0], [1]])), [10.0, 5.0], rtol=1e-12
    )


def test_an_endless_problem_is_refused_beyond_a_stated_cost() -> None:
    table = polinfer.TabularMDP(np.ones((1, 2, 1)), [[1.0, 0.5]], 0, [False], 10_000_000)
    with pytest.raises(
        CostError, match=r"10,000,000 on a table of 2 outcomes.*over the limit of 60 seconds.*--force"
    ):
        shared_table(table)
    with limits_lifted():
        assert shared_table(table) is table


@pytest.mark.slow
def test_a_table_that_would_not_fit_into_memory_is_refused_before_it_is_made() -> None:
    corridor = polinfer.make("gridworld", map="S" + "." * 30_000 + "G", horizon=3)
    with pytest.raises(CostError, match=r"30,002 states with 30,003 features each would need about 13 GiB"):
        polinfer.tabulate(corridor)


def wandering(horizon: int, scale: float = 1.0) -> polinfer.TabularMDP:
    """Five states without an end: returns grow with the horizon."""
    random = np.random.default_rng(1)
    moves, pay = random.dirichlet(np.ones(5), (5, 3)), random.normal(size=(5, 3))
    return polinfer.TabularMDP(moves, scale * pay, 0, [False] * 5, horizon)


@pytest.mark.parametrize("horizon", [10, 1000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_what_single_precision_loses_is_measured(horizon: int) -> None:
    table, tiny = wandering(horizon), wandering(horizon, 1e-6)
    assert precision_loss(tiny) < 1e-3
    assert not needs_double(tiny)
    assert needs_double(table) == (horizon > 10)
    assert (precision_loss(table) > 1e-3) == (horizon > 10)


def test_weights_in_double_precision_are_those_of_exact_returns() -> None:
    table, count = wandering(1000), 64
    config = ParticleConfig(sweep=SweepConfig(particles=count, resample_below=0.0), sweeps=2)

    def error(double: bool) -> float:
        # Policies are drawn from the uniform measure, so Z-hat is the mean of exp(J).
        found = run_population(table, config, 0, 0, double=double)
        returns = exact.deterministic_returns(table, found.actions)
        return float(abs(found.log_evidence - logsumexp(returns) + math.log(count)))

    assert error(double=False) > 1e-3
    assert error(double=True) < 1e-9


@pytest.mark.parametrize("method", ["particles", "wake", "vsmc"])
@pytest.mark.parametrize(("horizon", "promoted"), [(10, False), (1000, True)])
def test_policies_are_weighed_in_double_precision_where_single_would_not_do(
    horizon: int, promoted: bool, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def weigh(*_: object, double: bool, **__: object) -> None:
        raise PolinferError(f"double: {double}")

    monkeypatch.setattr(particles, "run_population", weigh)
    monkeypatch.setattr(fitted, "fit", weigh)
    with pytest.raises(PolinferError, match=f"double: {promoted}"):
        polinfer.infer(wandering(horizon), method)


@pytest.mark.parametrize(
    ("objective", "weights"), [("wake", "exact"), ("wake", "worlds"), ("surrogate", "worlds")]
)
def test_training_in_double_precision_adds_up_what_single_loses(objective: str, weights: str) -> None:
    # One policy in one world: log Z-hat is its return, whatever is trained.
    moves, pay = np.roll(np.eye(5), 1, axis=1)[:, None], np.array([0.1, 0.7, 1.3, 2.9, 0.3])[:, None]
    table = polinfer.TabularMDP(moves, pay, 0, [False] * 5, 1_000)
    sweep = SweepConfig(particles=2, resample_below=0.0)
    how = {"objective": objective, "weights": weights, "proposal": "table", "sweep": sweep}
    config = TrainConfig(sweeps=2, baseline="none" if objective == "wake" else "running", **how)

    def error(double: bool) -> float:
        found = fit(table, config, double=double)
        assert {leaf.dtype for leaf in jax.tree.leaves(found.proposal)} == {np.dtype(np.float32)}
        return float(np.abs(found.trace["log_evidence"] / (200 * pay.sum()) - 1).max())

    assert error(double=False) > 1e-6
    assert error(double=True) < 1e-7  # a trace is kept in single precision
