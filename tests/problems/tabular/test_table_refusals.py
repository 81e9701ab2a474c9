"""Tables that are no MDP are refused in one sentence that names the state and the action."""

import re

import numpy as np
import pytest
import scipy.sparse

from polinfer import TabularMDP
from polinfer.core.errors import PolinferError, TableError
from polinfer.problems.tabular import OutcomeRows

STATES, ACTIONS = ["near", "far", "home"], ["walk", "run"]
P = np.array(
    [
        [[0.2, 0.5, 0.3], [0.0, 1.0, 0.0]],
        [[0.0, 0.25, 0.75], [0.6, 0.0, 0.4]],
        [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]],
    ]
)
R = np.array([[1.5, -2.0], [0.25, 3.0], [0.0, 0.0]])
R3 = np.where(P > 0, np.arange(18.0).reshape(3, 2, 3) - 7.5, 0.0)
WHERE = "state 'far', action 'run': "


def machine(**changes):
    given = {
        "transitions": P,
        "rewards": R,
        "initial": "near",
        "absorbing": ["home"],
        "horizon": 7,
        "state_names": STATES,
        "action_names": ACTIONS,
    }
    return TabularMDP(**{**given, **changes})


def put(array, index, value):
    changed = array.copy()
    changed[index] = value
    return changed


def refuse(sentence, **changes):
    """Assert that the change is refused in one line that holds `sentence` literally."""
    with pytest.raises(PolinferError, match=re.escape(sentence)) as caught:
        machine(**changes)
    assert len(str(caught.value).splitlines()) == 1


def test_the_table_is_fine_as_it_is():
    assert machine().state_names == tuple(STATES)
    assert machine(rewards=R3).num_states == 3


# -- rows of probabilities -------------------------------------------------------------------------------


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(
    ("index", "value", "what"),
    [
        ((1, 1, 0), 0.5, "probabilities sum to 0.9, not to one"),
        ((1, 1, 1), 0.1, "probabilities sum to 1.1, not to one"),
        ((1, 1), 0.0, "probabilities sum to 0, not to one; mark the action illegal or the state absorbing"),
        ((1, 1, 0), np.nan, "probability is nan"),
        ((1, 1, 2), np.inf, "probability is inf"),
        ((1, 1, 2), -np.inf, "probability is -inf"),
        ((1, 1, 0), -0.4, "probability is -0.4, outside 0..1"),
        ((1, 1, 0), 1.6, "probability is 1.6, outside 0..1"),
        ((1, 1, 0), 0.60001, "probabilities sum to 1.00001, not to one"),
    ],
)
def test_bad_probabilities_name_their_place(index, value, what, sparse):
    changed = put(P, index, value)
    transitions = [scipy.sparse.csr_array(changed[:, a]) for a in range(2)] if sparse else changed
    refuse(WHERE + what, transitions=transitions)


def test_without_names_the_numbers_say_where():
    with pytest.raises(TableError, match=r"state '1', action '1': probabilities sum to 0\.9"):
        TabularMDP(put(P, (1, 1, 0), 0.5), R, 0, [2], 7)


def test_probabilities_that_cancel_are_refused():
    refuse(WHERE + "probability is", transitions=put(P, (1, 1), [1.5, -0.9, 0.4]))


# -- rewards ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_bad_rewards_name_their_place(value):
    refuse(f"{WHERE}reward is {value}", rewards=put(R, (1, 1), value))
    refuse(f"{WHERE}reward is {value}", rewards=put(R3, (1, 1, 2), value))
    sparse = [scipy.sparse.csr_array(put(R3, (1, 1, 2), value)[:, a]) for a in range(2)]
    refuse(f"{WHERE}reward is {value}", rewards=sparse)


def test_an_absorbing_state_that_earns_is_refused():
    rests = put(P, (2, 1, 2), 1.0)
    sentence = "state 'home', action 'run': the state is absorbing but earns 0.5"
    refuse(sentence, transitions=rests, rewards=put(R, (2, 1), 0.5))
    refuse(sentence, transitions=rests, rewards=put(R3, (2, 1, 2), 0.5))


def test_an_absorbing_state_that_earns_is_refused_when_its_row_is_left_at_zero():
    # Dropping the payment silently would lose the reward of every goal that is written this way.
    refuse("state 'home', action 'run'", rewards=put(R, (2, 1), 0.5))


def test_an_absorbing_state_that_leaves_is_refused():
    refuse("state 'home', action 'walk': the state is absorbing but", transitions=put(P, (2, 0, 1), 1.0))
    refuse("state 'near', action 'walk': the state is absorbing but", absorbing=["near", "home"])


# -- shapes ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "transitions",
    [P[0], P[:, :, :2], P[:2], P[None], np.zeros((0, 2, 0)), np.zeros((3, 0, 3)), 0.5, []],
    ids=[
        "matrix",
        "too few successors",
        "too few states",
        "four axes",
        "no states",
        "no actions",
        "number",
        "empty",
    ],
)
def test_transitions_of_another_shape_are_refused(transitions):
    refuse("transitions must have shape [S, A, S]", transitions=transitions)


@pytest.mark.parametrize("rewards", [R[:2], R.T, R3[:, :, :2], R[:, 0], 1.0])
def test_rewards_of_another_shape_are_refused(rewards):
    refuse("rewards must have shape [S, A] = [3, 2] or [S, A, S] = [3, 2, 3]", rewards=rewards)


@pytest.mark.parametrize("name", ["transitions", "rewards"])
@pytest.mark.parametrize(
    "value",
    [[[1, 0], [1]], "text", None, {"a": 1}, [["a"]], [[1j]], [[None]], [[10**400]], np.array([[object()]])],
)
def test_what_is_no_array_of_numbers_is_refused(name, value):
    refuse(f"{name} must be a rectangular array of numbers", **{name: value})


def test_sparse_matrices_of_another_shape_are_refused():
    good = [scipy.sparse.csr_array(P[:, a]) for a in range(2)]
    refuse("must have shape [3, 3], got [3, 2]", transitions=[good[0], good[1][:, :2]])
    refuse("sparse rewards must be 2 matrices of shape [3, 3]", rewards=good[:1])
    refuse("sparse rewards must be 2 matrices of shape [3, 3]", rewards=[good[0], good[1][:2]])
    refuse("transitions", transitions=[good[0], P[:, 1]])


# -- initial ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("initial", "sentence"),
    [
        ([0.5, 0.4, 0.0], "initial must be probabilities that sum to one, got a sum of 0.9"),
        ([1.5, -0.5, 0.0], "initial must be probabilities"),
        ([np.nan, 0.5, 0.5], "initial must be probabilities"),
        ([np.inf, 0.0, 0.0], "initial must be probabilities"),
        ([0.5, 0.5], "initial must have one probability per state, [3], got [2]"),
        ([[1.0, 0.0, 0.0]], "initial must have one probability per state, [3], got [1, 3]"),
        ([], "initial"),
        ([[1.0], [0.0, 0.0]], "initial must be a rectangular array of numbers"),
        (["near"], "initial must be a rectangular array of numbers"),
        (3, "initial 3 is outside 0..2"),
        (-1, "initial -1 is outside 0..2"),
        (10**30, "is outside 0..2"),
        (0.5, "initial must be an index or a name, got 0.5"),
        (True, "initial must be an index or a name, got True"),
        (np.nan, "initial must be an index or a name, got nan"),
        (np.inf, "initial must be an index or a name, got inf"),
        (None, "initial must be an index or a name, got None"),
        ({"near": 1.0}, "initial must be an index or a name"),
        ("neer", "unknown state in initial name 'neer' (did you mean 'near'?)"),
        ("", "unknown state in initial name ''"),
    ],
)
def test_a_bad_initial_is_refused(initial, sentence):
    refuse(sentence, initial=initial)


def test_a_negative_start_is_not_blamed_on_the_sum():
    with pytest.raises(TableError) as caught:
        machine(initial=[1.5, -0.5, 0.0])
    assert "got a sum of 1" not in str(caught.value)


# -- absorbing and success -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["absorbing", "success"])
@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (["hom"], "name 'hom' (did you mean 'home'?)"),
        ([3], "3 is outside 0..2"),
        ([-1], "-1 is outside 0..2"),
        ([0.5], "must be an index or a name, got 0.5"),
        ([np.nan], "must be an index or a name, got nan"),
        ([np.inf], "must be an index or a name, got inf"),
        ([10**30], "is outside 0..2"),
        ([None], "must be an index or a name, got None"),
        ([False, True], "must have one entry per state, [3], got [2]"),
        ([[False, False, True]], "must have one entry per state, [3], got [1, 3]"),
        (True, "must have one entry per state"),
        ("home", "must be a list"),
        (2, "must be a list"),
        ({"home": True}, "must be a list"),
        ([[2]], "must be a list"),
        ([[2], [0, 1]], "must be a list"),
        ([0, 0, 1], "true and false instead of 1 and 0"),
        ([0.0, 0.0, 1.0], "true and false instead of 1 and 0"),
        ([2, 2], "twice"),
        (["home", "home"], "twice"),
    ],
)
def test_bad_lists_of_states_are_refused(name, value, sentence):
    refuse(sentence, **{name: value})
    with pytest.raises(TableError, match=name):
        machine(**{name: value})


def test_success_must_be_absorbing():
    refuse("state 'far' is marked as success but is not absorbing", success=["far", "home"])
    refuse("state 'near' is marked as success but is not absorbing", success=[True, False, True])


# -- legal -----------------------------------------------------------------------------------------------


def test_a_state_without_a_legal_action_is_refused():
    refuse("state 'far' has no legal action", legal=[[True, True], [False, False], [True, True]])


@pytest.mark.parametrize(
    "legal",
    [
        [[1, 1], [1, 0], [1, 1]],
        [[1.0, 1.0], [1.0, 0.0], [1.0, 1.0]],
        [[True, True]] * 2,
        [True, True, True],
        [[True], [True, True], [True, True]],
        [],
        True,
        "yes",
        {},
        [["walk"], ["run"], ["walk"]],
    ],
)
def test_a_mask_that_is_no_mask_is_refused(legal):
    refuse("legal must be true/false of shape [S, A] = [3, 2]", legal=legal)


# -- names and horizon -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"state_names": ["a", "b"]}, "state_names must hold 3 names, got 2"),
        ({"state_names": ["a", "b", "a"]}, "state_names holds 'a' twice"),
        ({"state_names": []}, "state_names must hold 3 names, got 0"),
        ({"state_names": 3}, "state_names"),
        ({"action_names": ["a", "b", "c"]}, "action_names must hold 2 names, got 3"),
        ({"action_names": ["a", "a"]}, "action_names holds 'a' twice"),
        ({"action_names": 2.0}, "action_names"),
        # A string is a sequence of letters, and here even of the right length.
        ({"action_names": "ab"}, "action_names"),
    ],
)
def test_bad_names_are_refused(changes, sentence):
    refuse(sentence, **{"initial": 0, "absorbing": [2], **changes})


@pytest.mark.parametrize("horizon", [0, -1, 2.5, True, "7", "x", None, [7], {}, np.nan, np.inf, -np.inf])
def test_a_bad_horizon_is_refused(horizon):
    refuse("horizon must be", horizon=horizon)


@pytest.mark.parametrize("horizon", [7, 7.0, np.int64(7), np.float32(7)])
def test_a_whole_horizon_becomes_an_int(horizon):
    assert type(machine(horizon=horizon).horizon) is int


# -- explicit outcomes -----------------------------------------------------------------------------------


def from_rows(*rows):
    columns = (np.array(c) for c in zip(*rows, strict=True))
    return TabularMDP.from_outcomes(
        OutcomeRows(*columns),
        3,
        2,
        0,
        [2],
        7,
        state_names=STATES,
        action_names=ACTIONS,
        legal=[[True, False]] * 3,
    )


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ((3, 0, 1, 1.0, 0.0), "state 3 of an outcome is outside 0..2"),
        ((-1, 0, 1, 1.0, 0.0), "state -1 of an outcome is outside 0..2"),
        ((0, 2, 1, 1.0, 0.0), "action 2 of an outcome is outside 0..1"),
        ((0, 0, 3, 1.0, 0.0), "successor 3 of an outcome is outside 0..2"),
        ((1, 0, 2, 0.5, 0.0), "state 'far', action 'walk': probabilities sum to 0.5"),
        ((1, 0, 2, np.nan, 0.0), "state 'far', action 'walk': probability is nan"),
        ((1, 0, 2, 1.0, np.nan), "state 'far', action 'walk': reward is nan"),
        ((1, 1, 2, 1.0, 0.0), "state 'far', action 'walk': probabilities sum to 0"),
    ],
)
def test_bad_outcomes_name_their_place(row, sentence):
    assert from_rows((0, 0, 1, 1.0, 2.0), (1, 0, 2, 1.0, 0.0)).num_states == 3
    with pytest.raises(TableError, match=re.escape(sentence)):
        from_rows((0, 0, 1, 1.0, 2.0), row)


def test_no_outcomes_at_all_leave_every_sum_at_zero():
    none = OutcomeRows(*(np.zeros(0, t) for t in (int, int, int, float, float)))
    with pytest.raises(TableError, match="state '0', action '0': probabilities sum to 0"):
        TabularMDP.from_outcomes(none, 1, 1, 0, None, 3)
    assert TabularMDP.from_outcomes(none, 1, 1, 0, [0], 3).absorbing.all()


# -- what could mean two things --------------------------------------------------------------------------


def test_zeros_and_ones_for_two_states_may_be_a_mask_and_are_refused():
    two = {"transitions": [[[0.9, 0.1]], [[0.0, 0.0]]], "rewards": [[1.5], [0.0]], "initial": 0}
    with pytest.raises(TableError, match=r"absorbing may be a mask or the list of both states"):
        TabularMDP(**two, absorbing=[0, 1], horizon=3)
    assert TabularMDP(**two, absorbing=[1], horizon=3).absorbing.tolist() == [False, True]


@pytest.mark.parametrize("empty", [[[]], [[], []], np.zeros((0, 3))])
def test_an_empty_array_of_another_shape_is_no_list_of_states(empty):
    refuse("absorbing must be a list of true/false", absorbing=empty)
