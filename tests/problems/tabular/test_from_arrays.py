"""`TabularMDP.from_arrays`: the forms of other libraries give one and the same table."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

import polinfer
from polinfer.core.errors import TableError
from polinfer.problems.tabular import TabularMDP

# Three states, two actions, asymmetric; the last state is the end.
P = np.array(
    [
        [[0.7, 0.2, 0.1], [0.1, 0.6, 0.3]],
        [[0.0, 0.5, 0.5], [0.9, 0.1, 0.0]],
        [[0.0, 0.0, 1.0], [0.0, 0.0, 1.0]],
    ]
)
R = np.array([[0.3, -0.2], [1.1, 0.4], [0.0, 0.0]])


def same(one: TabularMDP, other: TabularMDP) -> None:
    for policy in ([0, 0, 0], [0, 1, 0], [1, 0, 0], [1, 1, 0]):
        a, b = (polinfer.exact.evaluate_policy(t, np.array(policy)).expected_return for t in (one, other))
        assert a == pytest.approx(b, abs=1e-12)
    assert one.absorbing.tolist() == other.absorbing.tolist()
    np.testing.assert_array_equal(one.legal_actions, other.legal_actions)


@pytest.fixture(scope="module")
def plain() -> TabularMDP:
    return TabularMDP(P, R, 0, [2], 7)


def test_both_layouts_are_recognised(plain):
    same(TabularMDP.from_arrays(P, R, horizon=7), plain)
    same(TabularMDP.from_arrays(P.transpose(1, 0, 2), R, horizon=7), plain)
    full = np.repeat(R[:, :, None], 3, axis=2)
    same(TabularMDP.from_arrays(P.transpose(1, 0, 2), full.transpose(1, 0, 2), horizon=7), plain)


def test_pymdptoolbox_example_is_read_as_pymdptoolbox_reads_it():
    mdptoolbox = pytest.importorskip("mdptoolbox.example")
    transitions, rewards = mdptoolbox.forest(S=4, p=0.2)  # [A, S, S], [S, A]
    table = TabularMDP.from_arrays(transitions, rewards, horizon=6)
    assert (table.num_states, table.num_actions) == (4, 2)
    # By hand: wait for ever, from the youngest age, with a fire of 0.2 a year.
    value = np.zeros(4)
    for _ in range(6):
        value = rewards[:, 0] + transitions[0] @ value
    found = polinfer.exact.evaluate_policy(table, np.zeros(4, np.int32)).expected_return
    assert found == pytest.approx(value[0])


def test_a_cube_is_asked_for():
    cube = np.tile(np.eye(3)[:, None], (1, 3, 1))
    with pytest.raises(TableError, match="layout='SAS' or layout='ASS'"):
        TabularMDP.from_arrays(cube, np.ones((3, 3)), horizon=3)
    table = TabularMDP.from_arrays(cube, np.ones((3, 3)), horizon=3, layout="SAS")
    assert (table.successor[..., 0] == np.arange(3)[:, None]).all()
    table = TabularMDP.from_arrays(cube, np.ones((3, 3)), horizon=3, layout="ASS")
    assert (table.successor[..., 0] == np.arange(3)[None]).all()


@pytest.mark.parametrize("kind", [scipy.sparse.csr_matrix, scipy.sparse.coo_array, list])
def test_sparse_lists(plain, kind):
    matrices = [scipy.sparse.csr_matrix(P[:, a]) if kind is list else kind(P[:, a]) for a in range(2)]
    same(TabularMDP.from_arrays(matrices, R, horizon=7), plain)
    rewards = [scipy.sparse.csr_matrix(np.repeat(R[:, a][:, None], 3, axis=1)) for a in range(2)]
    same(TabularMDP.from_arrays(tuple(matrices), rewards, horizon=7), plain)


@pytest.mark.parametrize("sparse", [False, True])
def test_state_action_pairs_of_quantecon(plain, sparse):
    s, a = np.array([0, 0, 1, 2, 2]), np.array([0, 1, 0, 0, 1])
    Q = P[s, a]
    table = TabularMDP.from_arrays(
        scipy.sparse.csr_matrix(Q) if sparse else Q, R[s, a], horizon=7, s_indices=s, a_indices=a
    )
    assert table.legal_actions.tolist() == [[True, True], [True, False], [True, True]]
    for policy in ([0, 0, 0], [1, 0, 0]):
        found, true = (
            polinfer.exact.evaluate_policy(t, np.array(policy)).expected_return for t in (table, plain)
        )
        assert found == pytest.approx(true)


def test_minus_infinity_marks_illegal_actions():
    barred = R.copy()
    barred[1, 1] = -np.inf
    assert not TabularMDP.from_arrays(P, barred, horizon=7).legal_actions[1, 1]


def test_rewards_of_states():
    table = TabularMDP.from_arrays(P, [0.5, -1.0, 0.0], horizon=2)
    # One step on from state 0 under action 0 twice: 0.5 + 0.7 * 0.5 - 0.2.
    found = polinfer.exact.evaluate_policy(table, np.zeros(3, np.int32)).expected_return
    assert found == pytest.approx(0.5 + 0.7 * 0.5 - 0.2)


def test_gymnasium_dict(plain):
    listed = {
        s: {a: [(P[s, a, n], n, R[s, a], n == 2) for n in range(3)] for a in range(2)} for s in range(2)
    }
    listed[2] = {a: [(1.0, 2, 0.0, True)] for a in range(2)}
    same(TabularMDP.from_arrays(listed, horizon=7), plain)


def test_gymnasium_dict_of_an_environment():
    gymnasium = pytest.importorskip("gymnasium")
    env = gymnasium.make("FrozenLake-v1").unwrapped
    table = TabularMDP.from_arrays(env.P, horizon=20)
    known = polinfer.from_gymnasium(gymnasium.make("FrozenLake-v1"), horizon=20)
    optimum = polinfer.exact.finite_horizon_optimum
    assert optimum(table).objective == pytest.approx(optimum(known).objective)


def test_data_frame_with_names(plain):
    pandas = pytest.importorskip("pandas")
    names, moves = ["left", "middle", "end"], ["push", "pull"]
    rows = [
        {
            "state": names[s],
            "action": moves[a],
            "next_state": names[n],
            "probability": P[s, a, n],
            "reward": R[s, a],
        }
        for s in range(2)
        for a in range(2)
        for n in range(3)
        if P[s, a, n] > 0
    ]
    frame = pandas.DataFrame(rows, columns=["state", "action", "next_state", "probability", "reward"])
    table = TabularMDP.from_arrays(frame, initial="left", horizon=7)
    assert table.state_names == ("left", "middle", "end")
    assert table.action_names == ("push", "pull")
    same(table, plain)
    table = TabularMDP.from_arrays(frame, initial="middle", horizon=7)
    assert table.initial.tolist() == [0, 1, 0]
    with pytest.raises(TableError, match="no column 'reward'"):
        TabularMDP.from_arrays(frame.drop(columns="reward"), horizon=7)


def test_an_end_that_is_passed_through_is_a_state_of_its_own():
    pandas = pytest.importorskip("pandas")
    rows = [
        ("a", "go", "b", 0.5, 1.0, False),
        ("a", "go", "b", 0.5, 2.0, True),
        ("b", "go", "a", 1.0, 0.25, False),
    ]
    frame = pandas.DataFrame(
        rows, columns=["state", "action", "next_state", "probability", "reward", "terminated"]
    )
    table = TabularMDP.from_arrays(frame, initial="a", horizon=2)
    assert table.state_names == ("a", "b", "b (end)")
    assert table.absorbing.tolist() == [False, False, True]
    found = polinfer.exact.evaluate_policy(table, np.zeros(3, np.int32)).expected_return
    assert found == pytest.approx(1.5 + 0.5 * 0.25)


def test_what_is_missing_is_named():
    with pytest.raises(TableError, match="horizon must be"):
        TabularMDP.from_arrays(P, R)
    with pytest.raises(TableError, match="horizon must be"):
        TabularMDP(P, R, 0)
    with pytest.raises(TableError, match="rewards are missing"):
        TabularMDP.from_arrays(P, horizon=3)
    with pytest.raises(TableError, match="go together"):
        TabularMDP.from_arrays(P[:, 0], R[:, 0], horizon=3, s_indices=[0, 1, 2])


def test_absorbing_is_optional():
    table = TabularMDP(P, R, 0, horizon=7)
    assert not table.absorbing.any()
