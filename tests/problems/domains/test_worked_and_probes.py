"""The worked examples and the probes: their numbers, and the answers they promise, by plain enumeration."""

import itertools
import math

import numpy as np
import pytest

import polinfer
from polinfer import TabularMDP
from polinfer.core.errors import DomainError, PolinferError
from polinfer.core.protocol import Ending
from polinfer.problems.domains.probes import known_answer
from polinfer.problems.domains.worked import bandit, continuation, table_from_rows

NAMES = ["bandit", "continuation", "probe/three-targets", "probe/fork", "probe/slippery-loop"]


def rows_of(table):
    """Return ``{(state, action): {(successor, reward): probability}}`` by name, where legal and not over."""
    rows = {}
    for s, a, b in zip(*np.nonzero(table.probability), strict=True):
        if table.legal_actions[s, a] and not table.absorbing[s]:
            row = rows.setdefault((table.state_names[s], table.action_names[a]), {})
            key = table.state_names[table.successor[s, a, b]], float(table.reward[s, a, b])
            row[key] = row.get(key, 0.0) + table.probability[s, a, b]
    return rows


def returns_of_policies(table):
    """Return ``[(policy by state name, J)]`` for every deterministic policy, in plain Python."""
    rows = rows_of(table)
    states = list(dict.fromkeys(state for state, _ in rows))
    choices = [[action for s, action in rows if s == state] for state in states]
    found = []
    for actions in itertools.product(*choices):
        policy = dict(zip(states, actions, strict=True))
        value = {}
        for _ in range(table.horizon):
            value = {
                state: sum(
                    p * (reward + value.get(to, 0.0))
                    for (to, reward), p in rows[state, policy[state]].items()
                )
                for state in states
            }
        start = {table.state_names[s]: table.initial[s] for s in np.flatnonzero(table.initial)}
        found.append((policy, sum(p * value[state] for state, p in start.items())))
    return found


# -- bandit ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("means", [(0.2, 0.7), (0.0, 0.5, 1.0), [0.3]])
def test_an_arm_of_the_bandit_pays_one_with_its_mean(means):
    table = polinfer.make("bandit", means=means)
    assert (table.num_actions, table.horizon) == (len(means), 1)
    rows = rows_of(table)
    for mean, action in zip(means, table.action_names, strict=True):
        ((_, row),) = ((place, row) for place, row in rows.items() if place[1] == action)
        payments = {reward: p for (_, reward), p in row.items()}
        assert payments == pytest.approx({r: p for r, p in ((1.0, mean), (0.0, 1 - mean)) if p > 0})
    start = np.flatnonzero(table.initial)
    assert table.state_names[start[0]] == "choose"
    assert table.absorbing.sum() == table.num_states - 1


def test_the_papers_bandit_is_the_default():
    returns = {
        tuple(policy.values()): value for policy, value in returns_of_policies(polinfer.make("bandit"))
    }
    assert returns == pytest.approx({("arm 1",): 0.2, ("arm 2",): 0.7})


def test_means_may_be_an_array():
    assert polinfer.make("bandit", means=np.array([0.2, 0.7])).num_actions == 2


@pytest.mark.parametrize(
    "means", [[], [1.5], [-0.1, 0.5], [float("nan")], 0.5, "0.5", ["a"], None, [[0.1, 0.2]]]
)
def test_means_must_be_probabilities(means):
    with pytest.raises(PolinferError, match="means must be probabilities"):
        polinfer.make("bandit", means=means)


# -- continuation ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9])
def test_continuation_stays_with_probability_rho(rho):
    table = polinfer.make("continuation", rho=rho)
    rows = rows_of(table)
    stay = {("s1", 0.0): rho, ("s2", 0.0): 1 - rho}
    assert rows["s1", "stay"] == pytest.approx({k: p for k, p in stay.items() if p > 0})
    assert rows["s1", "leave"] == {("s2", 1.0): 1.0}
    assert len(rows) == 2
    assert table.absorbing.tolist() == [name == "s2" for name in table.state_names]
    returns = {policy["s1"]: value for policy, value in returns_of_policies(table)}
    assert returns == pytest.approx({"stay": 0.0, "leave": 1.0})


@pytest.mark.parametrize("rho", [1.0, -0.1, 2, float("nan"), "x", None, [0.5]])
def test_rho_must_be_a_probability_below_one(rho):
    with pytest.raises(PolinferError, match=r"rho must lie in 0\.\.1"):
        polinfer.make("continuation", rho=rho)


# -- probes ----------------------------------------------------------------------------------------------


def test_three_targets_has_the_three_answers_of_the_design_page():
    rows = rows_of(polinfer.make("probe/three-targets"))
    payments = {
        action: [(reward, p) for (_, reward), p in row.items()] for (_, action), row in sorted(rows.items())
    }
    assert payments["A"] == [(0.0, 1.0)]
    mean = sum(p * r for r, p in payments["B"])
    definition = math.exp(mean) / (1 + math.exp(mean))
    one_world = sum(p * math.exp(r) / (1 + math.exp(r)) for r, p in payments["B"])
    optimality = sum(p * math.exp(r) for r, p in payments["B"])
    assert definition == pytest.approx(0.5, abs=1e-12)
    assert one_world == pytest.approx(0.402, abs=5e-4)
    assert optimality / (1 + optimality) == pytest.approx(0.933, abs=5e-4)


def test_the_fork_leads_in_or_out():
    table = polinfer.make("probe/fork")
    assert rows_of(table) == {
        ("gate", "in"): {("room", 0.0): 1.0},
        ("gate", "out"): {("left outside", 0.7): 1.0},
        ("room", "in"): {("won", 2.0): 1.0},
        ("room", "out"): {("lost", -1.0): 1.0},
    }
    endings = {table.state_names[s]: table.endings[i] for s, i in enumerate(table.ending_of) if i >= 0}
    assert endings == {
        "won": Ending("won", True),
        "lost": Ending("lost", False),
        "left outside": Ending("left outside", False),
    }
    assert table.horizon == 2


def test_the_loop_is_slippery():
    table = polinfer.make("probe/slippery-loop")
    rows = rows_of(table)
    assert rows["work", "push"] == pytest.approx({("done", 2.0): 0.3, ("work", -0.4): 0.7})
    assert rows["work", "rest"] == {("work", -0.1): 1.0}
    assert table.horizon == 6


@pytest.mark.parametrize("reward_scale", [1.0, 0.3, -2.0])
@pytest.mark.parametrize("name", ["three-targets", "fork", "slippery-loop"])
def test_known_answers_are_those_of_enumeration(name, reward_scale):
    policies = returns_of_policies(polinfer.make(f"probe/{name}", reward_scale=reward_scale))
    weight = np.exp([value for _, value in policies])
    answer = known_answer(name, reward_scale=reward_scale)
    assert answer.log_evidence == pytest.approx(math.log(weight.mean()), abs=1e-12)
    assert answer.policy.keys() == policies[0][0].keys()
    for state, probabilities in answer.policy.items():
        assert sum(probabilities.values()) == pytest.approx(1.0)
        for action, p in probabilities.items():
            chosen = np.array([policy[state] == action for policy, _ in policies])
            assert p == pytest.approx(weight[chosen].sum() / weight.sum(), abs=1e-12), (state, action)


def test_an_unknown_probe_is_refused():
    with pytest.raises(
        DomainError, match="no probe is called 'spoon'; there are fork, slippery-loop and three-targets"
    ):
        known_answer("spoon")


# -- options that all share ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_reward_scale_multiplies_every_reward_and_horizon_is_taken(name):
    plain = polinfer.make(name)
    scaled = polinfer.make(name, reward_scale=-2.5, horizon=3)
    np.testing.assert_allclose(scaled.reward, -2.5 * plain.reward, rtol=1e-15)
    assert np.abs(plain.reward).sum() > 0
    np.testing.assert_array_equal(scaled.probability, plain.probability)
    assert scaled.horizon == 3
    assert isinstance(plain, TabularMDP)


@pytest.mark.parametrize("name", ["bandit", "probe/fork"])
@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("horizon", 0),
        ("horizon", 1.5),
        ("horizon", "x"),
        ("horizon", None),
        ("horizon", float("inf")),
        ("reward_scale", float("nan")),
        ("reward_scale", float("inf")),
        ("reward_scale", "x"),
        ("reward_scale", None),
    ],
)
def test_bad_options_are_refused_by_name(name, option, value):
    with pytest.raises(PolinferError, match=f"{option} must be") as caught:
        polinfer.make(name, **{option: value})
    assert len(str(caught.value).splitlines()) == 1


# -- rows of names ---------------------------------------------------------------------------------------


def test_rows_of_names_make_a_table():
    rows = [
        ("hall", "north", "attic", 0.25, 1.0),
        ("hall", "north", "hall", 0.75, -1.0),
        ("attic", "jump", "lawn", 1.0, 4.0),
        ("hall", "wait", "hall", 1.0, 0.0),
    ]
    table = table_from_rows(rows, start="hall", horizon=9, reward_scale=2.0, endings=[Ending("lawn", False)])
    assert table.state_names == ("hall", "attic", "lawn")
    assert table.action_names == ("north", "jump", "wait")
    assert table.legal_actions.tolist()[:2] == [[True, False, True], [False, True, False]]
    assert table.absorbing.tolist() == [False, False, True]
    assert table.ending_of.tolist() == [-1, -1, 0]
    assert rows_of(table) == {
        ("hall", "north"): {("attic", 2.0): 0.25, ("hall", -2.0): 0.75},
        ("attic", "jump"): {("lawn", 8.0): 1.0},
        ("hall", "wait"): {("hall", 0.0): 1.0},
    }


def test_the_factories_can_be_called_directly():
    assert bandit([0.1, 0.2, 0.3]).num_actions == 3
    assert continuation(0.25).horizon == 20
