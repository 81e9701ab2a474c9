"""`TabularMDP`: whatever form a table is given in, it means the same MDP."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from polinfer import TabularMDP
from polinfer.core.errors import PolinferError
from polinfer.core.protocol import EnumerableMDP, HasEndings, HasNames
from polinfer.problems.tabular import OutcomeRows

from .table_cases import ARRAYS, assert_valid, dense, random_table

# Three states, two actions; the last state is where it ends.
P = np.array(
    [
        [[0.2, 0.5, 0.3], [0.0, 1.0, 0.0]],
        [[0.0, 0.25, 0.75], [0.6, 0.0, 0.4]],
        [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]],
    ]
)
R = np.array([[1.5, -2.0], [0.25, 3.0], [0.0, 0.0]])
R3 = np.arange(18.0).reshape(3, 2, 3) - 7.5
NAMES = ["near", "far", "home"]


def machine(**changes):
    given = {"transitions": P, "rewards": R, "initial": 0, "absorbing": [False, False, True], "horizon": 7}
    return TabularMDP(**{**given, **changes})


def rests(probability):
    """Return `probability` with the last state leading to itself."""
    full = probability.copy()
    full[2, :, 2] = 1.0
    return full


# -- transitions and rewards -----------------------------------------------------------------------------


def test_dense_arrays_with_rewards_by_state_and_action():
    table = machine()
    assert (table.num_states, table.num_actions, table.horizon) == (3, 2, 7)
    probability, payment = dense(table)
    np.testing.assert_array_equal(probability, rests(P))
    np.testing.assert_allclose(payment, rests(P) * R[:, :, None], rtol=1e-15)
    assert_valid(table)


def test_dense_arrays_with_rewards_by_successor():
    _, payment = dense(machine(rewards=np.where(P > 0, R3, np.nan)))
    np.testing.assert_allclose(payment, P * R3, rtol=1e-15)


def test_nested_lists_and_other_number_types_are_arrays_too():
    for transitions in (
        P.tolist(),
        P.astype(np.float32),
        jnp.asarray(P, jnp.float32),
        (P * 20).astype(int) / 20,
    ):
        probability, _ = dense(machine(transitions=transitions, rewards=R.astype(int)))
        np.testing.assert_allclose(probability, rests(P), atol=1e-7)
    certain = np.zeros((2, 1, 2), int)
    certain[:, 0, 1] = 1
    assert TabularMDP(certain, [[1], [2]], 0, None, 3).successor.tolist() == [[[1]], [[1]]]


def test_rows_that_sum_to_one_nearly_are_made_to_exactly():
    single = np.array([[[0.1] * 10]] * 10, np.float32)
    table = TabularMDP(single, np.zeros((10, 1)), 0, None, 3)
    assert abs(single[0, 0].astype(np.float64).sum() - 1) > 1e-9
    np.testing.assert_allclose(table.probability.sum(axis=-1), 1.0, rtol=0, atol=1e-15)


@pytest.mark.parametrize("kind", ["coo", "csr", "csc", "lil", "dok"])
@pytest.mark.parametrize("form", ["array", "matrix"])
def test_sparse_matrices_mean_the_same_as_dense_arrays(kind, form):
    sparse = getattr(scipy.sparse, f"{kind}_{form}")
    want = machine(rewards=R3)
    for transitions in ([sparse(P[:, a]) for a in range(2)], tuple(sparse(P[:, a]) for a in range(2))):
        for rewards in (R3, [sparse(R3[:, a]) for a in range(2)]):
            table = machine(transitions=transitions, rewards=rewards)
            for got, expected in zip(dense(table), dense(want), strict=True):
                np.testing.assert_allclose(got, expected, rtol=1e-15)
    by_state_and_action = machine(transitions=[sparse(P[:, a]) for a in range(2)])
    np.testing.assert_allclose(dense(by_state_and_action)[1], dense(machine())[1], rtol=1e-15)


def test_sparse_entries_that_are_stored_twice_add_up():
    twice = scipy.sparse.coo_array(([0.25, 0.75, 1.0], ([0, 0, 1], [1, 1, 1])), shape=(2, 2))
    table = TabularMDP([twice], [[2.0], [0.5]], 0, None, 4)
    np.testing.assert_array_equal(dense(table)[0][:, 0], [[0, 1], [0, 1]])
    np.testing.assert_allclose(dense(table)[1][:, 0], [[0, 2.0], [0, 0.5]])


def test_stored_zeros_of_sparse_matrices_are_no_outcomes():
    stored = scipy.sparse.csr_array(([1.0, 0.0, 1.0], ([0, 0, 1], [0, 1, 1])), shape=(2, 2))
    rewards = np.array([[[1.0, np.nan]], [[0.0, 2.0]]])
    assert TabularMDP([stored], rewards, 0, None, 4).successor.shape == (2, 1, 1)


def test_outcomes_may_pay_at_random():
    rows = OutcomeRows(
        np.array([0, 0, 0, 1]),
        np.array([0, 0, 0, 0]),
        np.array([1, 1, 0, 1]),
        np.array([0.125, 0.625, 0.25, 1.0]),
        np.array([8.0, -1.0, 0.5, 0.0]),
    )
    table = TabularMDP.from_outcomes(rows, 2, 1, 0, [1], 5)
    kept = sorted(zip(table.successor[0, 0], table.probability[0, 0], table.reward[0, 0], strict=True))
    assert kept == [(0, 0.25, 0.5), (1, 0.125, 8.0), (1, 0.625, -1.0)]
    assert table.absorbing.tolist() == [False, True]
    assert_valid(table)


def test_outcomes_come_in_any_order():
    order = np.random.default_rng(3).permutation(np.count_nonzero(P))
    state, action, successor = (index[order] for index in np.nonzero(P))
    rows = OutcomeRows(state, action, successor, P[state, action, successor], R3[state, action, successor])
    shuffled = TabularMDP.from_outcomes(rows, 3, 2, 0, [2], 7)
    for got, expected in zip(dense(shuffled), dense(machine(rewards=R3)), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-15)


def test_outcomes_of_probability_zero_are_dropped():
    rows = OutcomeRows(
        np.zeros(2, int), np.zeros(2, int), np.array([0, 1]), np.array([1.0, 0.0]), np.array([1.0, np.nan])
    )
    table = TabularMDP.from_outcomes(rows, 2, 1, 0, [1], 5)
    assert table.successor.shape == (2, 1, 1)


@settings(derandomize=True, deadline=None, max_examples=80)
@given(st.integers(0, 2**32 - 1))
def test_random_tables_are_valid(seed):
    assert_valid(random_table(seed))


# -- initial ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("initial", "want"),
    [
        (1, [0, 1, 0]),
        (np.int64(2), [0, 0, 1]),
        (np.array(1), [0, 1, 0]),
        (1.0, [0, 1, 0]),
        ("far", [0, 1, 0]),
        (np.str_("home"), [0, 0, 1]),
        (np.array("home"), [0, 0, 1]),
        ([0.25, 0.75, 0.0], [0.25, 0.75, 0]),
        (np.array([0, 0, 1]), [0, 0, 1]),
        (jnp.array([0.5, 0.25, 0.25]), [0.5, 0.25, 0.25]),
    ],
)
def test_initial_is_an_index_a_name_or_a_distribution(initial, want):
    np.testing.assert_allclose(machine(initial=initial, state_names=NAMES).initial, want)


# -- absorbing, success, legal ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "absorbing",
    [
        [False, True, True],
        np.array([False, True, True]),
        [1, 2],
        (2, 1),
        np.array([1.0, 2.0]),
        ["far", "home"],
        np.array(["home", "far"]),
    ],
)
def test_absorbing_is_a_mask_indices_or_names(absorbing):
    stays = P.copy()
    stays[1] = 0
    table = machine(transitions=stays, rewards=R * [[1], [0], [0]], absorbing=absorbing, state_names=NAMES)
    assert table.absorbing.tolist() == [False, True, True]
    np.testing.assert_array_equal(dense(table)[0][1:], np.eye(3)[1:, None] * np.ones((2, 2, 3)))
    assert_valid(table)


@pytest.mark.parametrize("absorbing", [None, [], np.zeros(3, bool), [False] * 3])
def test_nothing_need_be_absorbing(absorbing):
    assert not machine(transitions=rests(P), absorbing=absorbing).absorbing.any()


@pytest.mark.parametrize("row", [0.0, 1.0])
def test_rows_of_absorbing_states_may_be_zero_or_lead_back(row):
    full = P.copy()
    full[2, :, 2] = row
    np.testing.assert_array_equal(dense(machine(transitions=full))[0], rests(P))


@pytest.mark.parametrize("success", [[False, False, True], [2], ["home"]])
def test_success_splits_the_endings(success):
    split = P.copy()
    split[1] = 0
    table = machine(
        transitions=split,
        rewards=R * [[1], [0], [0]],
        absorbing=[1, 2],
        success=success,
        state_names=NAMES,
    )
    assert [table.endings[i].success for i in table.ending_of[1:]] == [False, True]
    assert table.ending_of[0] == -1
    assert isinstance(table, HasEndings)
    assert [int(table.ending(jnp.int32(s))) for s in range(3)] == table.ending_of.tolist()


def test_without_success_nothing_is_said_of_endings():
    table = machine()
    assert table.endings == ()
    assert table.ending_of.tolist() == [-1, -1, -1]


def test_rows_of_illegal_actions_are_ignored():
    wild, pay = P.copy(), R.copy()
    wild[0, 1] = [np.nan, -3.0, 17.0]
    pay[0, 1] = np.inf
    legal = [[True, False], [True, True], [True, True]]
    table = machine(transitions=wild, rewards=pay, legal=legal)
    assert table.legal_actions.tolist() == legal
    assert [bool(x) for x in table.legal(jnp.int32(0))] == [True, False]
    assert_valid(table)
    np.testing.assert_array_equal(dense(table)[0][1], P[1])


def test_an_absorbing_state_needs_no_legal_action():
    table = machine(legal=[[True, True], [True, False], [False, False]])
    assert table.legal_actions[2].any()
    assert table.legal_actions[1].tolist() == [True, False]


# -- the table as an MDP ---------------------------------------------------------------------------------


def test_a_table_is_an_enumerable_mdp_with_names():
    table = machine(state_names=NAMES, action_names=["walk", "run"])
    assert isinstance(table, EnumerableMDP)
    assert isinstance(table, HasNames)
    assert table.state_names == tuple(NAMES)
    assert table.action_names == ("walk", "run")
    assert table.state_name(jnp.int32(1)) == "far"
    plain = machine()
    assert plain.state_names == ("0", "1", "2")
    assert plain.action_names == ("0", "1")


def test_features_are_one_hot_and_identities_are_numbers():
    table = machine()
    features = jax.vmap(table.encode)(jnp.arange(3))
    assert features.dtype == jnp.float32
    np.testing.assert_array_equal(features, np.eye(3))
    identities = jax.vmap(table.identity)(jnp.arange(3))
    assert identities.dtype == jnp.int32
    assert identities.tolist() == [[0], [1], [2]]


def test_arrays_are_read_only_and_the_callers_stay_their_own():
    mask, legal, start = np.array([False, False, True]), np.ones((3, 2), bool), np.array([0.5, 0.5, 0.0])
    transitions = P.copy()
    table = machine(transitions=transitions, absorbing=mask, legal=legal, initial=start)
    for one in (table, table.with_problem(horizon=3), table.with_problem(reward_scale=2.0)):
        for name in ARRAYS:
            with pytest.raises(ValueError, match="read-only"):
                getattr(one, name)[...] = 0
    for array in (mask, legal, start, transitions):
        array[...] = 0
    assert table.absorbing.tolist() == [False, False, True]
    assert table.initial.tolist() == [0.5, 0.5, 0.0]
    assert table.legal_actions.all()
    np.testing.assert_array_equal(dense(table)[0], rests(P))


def test_another_horizon_and_scale():
    table = machine(state_names=NAMES)
    other = table.with_problem(horizon=11, reward_scale=-0.5)
    assert (table.horizon, other.horizon) == (7, 11)
    np.testing.assert_array_equal(other.reward, table.reward * -0.5)
    assert other.state_names == table.state_names
    assert table.with_problem().horizon == 7
    np.testing.assert_array_equal(dense(table)[1], dense(machine())[1])


@pytest.mark.parametrize("scale", [np.nan, np.inf, -np.inf, "2", None, 10**400], ids=lambda v: str(v)[:9])
def test_a_scale_that_is_no_number_is_refused(scale):
    with pytest.raises(PolinferError, match="reward_scale"):
        machine().with_problem(reward_scale=scale)


@pytest.mark.parametrize("horizon", [0, -2, 1.5, True, "7", np.nan])
def test_a_new_horizon_is_checked(horizon):
    with pytest.raises(PolinferError, match="horizon"):
        machine().with_problem(horizon=horizon)


# -- sampling --------------------------------------------------------------------------------------------

DRAWS = 20_000


def assert_frequencies(counts, probabilities):
    """Assert that counts of independent draws are within five standard errors; never where impossible."""
    total = sum(counts.values())
    assert set(counts) <= {outcome for outcome, p in probabilities.items() if p > 0}
    for outcome, p in probabilities.items():
        stderr = np.sqrt(p * (1 - p) / total)
        assert abs(counts.get(outcome, 0) / total - p) <= 5 * stderr, outcome


def count(*columns):
    rows, counts = np.unique(
        np.stack([np.asarray(c, np.float64) for c in columns], axis=1), axis=0, return_counts=True
    )
    return {tuple(row): n for row, n in zip(rows.tolist(), counts.tolist(), strict=True)}


@pytest.fixture(scope="module")
def chancy():
    """A table with a random reward, an unlikely outcome, an illegal action and random starts."""
    outcomes = [
        (0, 0, 1, 0.5, 2.0),
        (0, 0, 1, 0.3, -1.0),
        (0, 0, 2, 0.15, 0.25),
        (0, 0, 0, 0.05, 0.0),
        (0, 1, 2, 1.0, 7.0),
        (1, 0, 0, 0.001, 4.0),
        (1, 0, 1, 0.999, -0.5),
    ]
    rows = OutcomeRows(*(np.array(c) for c in zip(*outcomes, strict=True)))
    legal = [[True, True], [True, False], [True, True]]
    return outcomes, TabularMDP.from_outcomes(rows, 3, 2, [0.7, 0.1, 0.2], [2], 5, legal=legal)


@pytest.mark.parametrize(("state", "action"), [(0, 0), (0, 1), (1, 0)])
def test_steps_follow_the_stated_probabilities(chancy, state, action):
    outcomes, table = chancy
    keys = jax.random.split(jax.random.key(11), DRAWS)
    moved = jax.jit(jax.vmap(lambda k: table.step(k, jnp.int32(state), jnp.int32(action))))(keys)
    want = {(float(t), r, float(t == 2)): p for s, a, t, p, r in outcomes if (s, a) == (state, action)}
    assert_frequencies(count(moved.state, moved.reward, moved.terminated), want)


@pytest.mark.parametrize(("state", "action"), [(2, 0), (2, 1), (1, 1)])
def test_absorbing_states_and_illegal_actions_stay_and_earn_nothing(chancy, state, action):
    _, table = chancy
    keys = jax.random.split(jax.random.key(12), 100)
    moved = jax.vmap(lambda k: table.step(k, jnp.int32(state), jnp.int32(action)))(keys)
    assert count(moved.state, moved.reward, moved.terminated) == {(state, 0.0, float(state == 2)): 100}


def test_starts_follow_the_stated_probabilities(chancy):
    _, table = chancy
    drawn = jax.jit(jax.vmap(table.init))(jax.random.split(jax.random.key(13), DRAWS))
    assert_frequencies(count(drawn), {(0.0,): 0.7, (1.0,): 0.1, (2.0,): 0.2})


def test_a_start_of_probability_zero_is_never_drawn():
    table = machine(initial=[0.0, 1.0, 0.0])
    drawn = jax.vmap(table.init)(jax.random.split(jax.random.key(14), 1000))
    assert set(drawn.tolist()) == {1}


def test_outcomes_list_what_the_arrays_hold(chancy):
    outcomes, table = chancy
    listed = table.outcomes(jnp.int32(0), jnp.int32(0))
    got = sorted(
        (int(t), round(float(p), 6), float(r), bool(e))
        for p, t, r, e in zip(listed.probability, *listed.transition, strict=True)
        if p > 0
    )
    assert got == sorted((t, p, r, t == 2) for s, a, t, p, r in outcomes if (s, a) == (0, 0))
