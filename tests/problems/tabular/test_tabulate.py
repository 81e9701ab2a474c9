"""`tabulate`: the table of a simulator is the one that a pencil gives."""

import sys
import time
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

import polinfer
from polinfer import TabularMDP, tabulate
from polinfer.core.errors import CostError, PolinferError, TooLargeError
from polinfer.core.protocol import Ending, Outcomes, Starts, Transition, sample_outcome, sample_start

from .table_cases import assert_valid, dense

MAP = "#RW\nS.G"
# By hand: a step costs 0.1, gravel pays -1, swamp -5, goal 5; 0.8 ahead and 0.1 to each side.
# {(state, action): {(successor, reward): probability}}
BY_HAND = {
    ("(1,1)", "right"): {("(2,1)", -0.1): 0.8, ("(1,1)", -0.1): 0.2},
    ("(1,1)", "up"): {("(1,1)", -0.1): 0.9, ("(2,1)", -0.1): 0.1},
    ("(1,1)", "down"): {("(1,1)", -0.1): 0.9, ("(2,1)", -0.1): 0.1},
    ("(1,1)", "left"): {("(1,1)", -0.1): 1.0},
    ("(2,1)", "right"): {("(3,1)", 4.9): 0.8, ("(2,2)", -1.1): 0.1, ("(2,1)", -0.1): 0.1},
    ("(2,1)", "up"): {("(2,2)", -1.1): 0.8, ("(3,1)", 4.9): 0.1, ("(1,1)", -0.1): 0.1},
    ("(2,1)", "down"): {("(2,1)", -0.1): 0.8, ("(3,1)", 4.9): 0.1, ("(1,1)", -0.1): 0.1},
    ("(2,1)", "left"): {("(1,1)", -0.1): 0.8, ("(2,2)", -1.1): 0.1, ("(2,1)", -0.1): 0.1},
    ("(2,2)", "right"): {("(3,2)", -5.1): 0.8, ("(2,2)", -1.1): 0.1, ("(2,1)", -0.1): 0.1},
    ("(2,2)", "up"): {("(2,2)", -1.1): 0.9, ("(3,2)", -5.1): 0.1},
    ("(2,2)", "down"): {("(2,1)", -0.1): 0.8, ("(3,2)", -5.1): 0.1, ("(2,2)", -1.1): 0.1},
    ("(2,2)", "left"): {("(2,2)", -1.1): 0.9, ("(2,1)", -0.1): 0.1},
    **{("(3,1)", action): {("(3,1)", 0.0): 1.0} for action in ("right", "up", "down", "left")},
    **{("(3,2)", action): {("(3,2)", 0.0): 1.0} for action in ("right", "up", "down", "left")},
}


def by_name(table):
    """Return the table in the form of `BY_HAND`, rewards rounded."""
    found = {}
    for s, a, b in zip(*np.nonzero(table.probability), strict=True):
        row = found.setdefault((table.state_names[s], table.action_names[a]), {})
        key = table.state_names[table.successor[s, a, b]], round(float(table.reward[s, a, b]), 12)
        row[key] = row.get(key, 0.0) + table.probability[s, a, b]
    return found


@pytest.fixture(scope="module")
def table():
    return tabulate(polinfer.make("gridworld", map=MAP))


# -- grid worlds -----------------------------------------------------------------------------------------


def test_a_small_grid_is_the_table_computed_by_hand(table):
    found = by_name(table)
    assert found.keys() == BY_HAND.keys()
    for place, row in BY_HAND.items():
        assert found[place] == pytest.approx(row, rel=0, abs=1e-15), place
    assert_valid(table)


def test_probabilities_and_rewards_are_double_precision(table):
    from_start = table.probability[0, table.action_names.index("right")]
    assert from_start[0] == 0.8
    assert from_start[1:].tolist() == pytest.approx([0.1, 0.1], rel=0, abs=3e-17)
    assert (table.probability.dtype, table.reward.dtype) == (np.float64, np.float64)
    goal = table.reward[1, 0, 0]
    assert goal == 5.0 - 0.1
    assert goal != np.float32(goal)


@pytest.mark.parametrize("success_prob", [0.7, 0.9, 1 / 3])
def test_other_probabilities_keep_their_digits_too(success_prob):
    other = tabulate(polinfer.make("gridworld/ablation", success_prob=success_prob))
    assert other.probability[0, 0, 0] == pytest.approx(success_prob, rel=0, abs=1e-16)


def test_a_simulator_that_has_run_in_single_precision_is_still_written_out_in_double():
    mdp = polinfer.make("gridworld/ablation", success_prob=0.8)
    jax.jit(mdp.step)(jax.random.key(0), jnp.int32(2), jnp.int32(0))
    jax.jit(mdp.init)(jax.random.key(0))
    table = tabulate(mdp)
    assert table.probability[0, 0, 0] == 0.8
    assert set(np.unique(table.reward)) == {-5.0 - 0.1, -0.1, 0.0, 5.0 - 0.1}
    # And the other way around: the simulator stays in single precision.
    moved = jax.jit(mdp.step)(jax.random.key(0), jnp.int32(2), jnp.int32(0))
    assert (moved.reward.dtype, moved.state.dtype) == (jnp.float32, jnp.int32)


def test_single_precision_comes_back_afterwards():
    tabulate(polinfer.make("gridworld", map="SG"))
    assert not jax.config.read("jax_enable_x64")
    with pytest.raises(TooLargeError):
        tabulate(polinfer.make("gridworld", map="S.G"), limit=1)
    assert not jax.config.read("jax_enable_x64")
    assert jnp.asarray(0.5).dtype == jnp.float32


def test_names_features_identities_and_endings_come_along(table):
    assert table.state_names[0] == "(1,1)"
    assert set(table.state_names) == {"(1,1)", "(2,1)", "(2,2)", "(3,1)", "(3,2)"}
    assert table.action_names == ("right", "up", "down", "left")
    assert table.horizon == 15
    # Cells are numbered row by row from the bottom.
    cell = {"(1,1)": 0, "(2,1)": 1, "(3,1)": 2, "(2,2)": 4, "(3,2)": 5}
    assert table.identities.dtype == np.int32
    assert table.identities.tolist() == [[cell[name]] for name in table.state_names]
    assert table.features.dtype == np.float32
    one_hot = [
        [*(float(name[1] == x) for x in "123"), *(float(name[3] == y) for y in "12")]
        for name in table.state_names
    ]
    assert table.features.tolist() == one_hot
    assert table.endings == (Ending("goal", True), Ending("swamp", False))
    ending = {"(3,1)": 0, "(3,2)": 1}
    assert table.ending_of.tolist() == [ending.get(name, -1) for name in table.state_names]
    assert table.absorbing.tolist() == [name in ending for name in table.state_names]
    assert table.initial.tolist() == [1.0, 0.0, 0.0, 0.0, 0.0]
    for state in range(5):
        np.testing.assert_array_equal(table.encode(jnp.int32(state)), one_hot[state])
        assert table.identity(jnp.int32(state)).tolist() == table.identities[state].tolist()


def test_the_simulator_and_its_table_draw_the_same():
    mdp = polinfer.make("gridworld/multimodal")
    table = tabulate(mdp)
    keys = jax.random.split(jax.random.key(5), 200)
    for state in (0, 3, 7):
        simulated = jax.vmap(
            lambda k, s=int(table.identities[state, 0]): mdp.step(k, jnp.int32(s), jnp.int32(1))
        )(keys)
        tabled = jax.vmap(lambda k, s=state: table.step(k, jnp.int32(s), jnp.int32(1)))(keys)
        np.testing.assert_array_equal(simulated.state, table.identities[tabled.state, 0])
        np.testing.assert_allclose(simulated.reward, tabled.reward, rtol=1e-6)
        np.testing.assert_array_equal(simulated.terminated, tabled.terminated)


def test_states_are_numbered_as_a_search_in_breadth_finds_them():
    table = tabulate(polinfer.make("gridworld", map="....G\n.##..\nS.#.S\n.R..."))
    starts = np.flatnonzero(table.initial)
    assert starts.tolist() == [0, 1]
    reach = dense(table)[0].sum(axis=1) > 0
    depth = np.where(table.initial > 0, 0, -1)
    for distance in range(table.num_states):
        fresh = reach[depth == distance].any(axis=0) & (depth < 0)
        depth[fresh] = distance + 1
    assert (depth >= 0).all()
    assert (np.diff(depth) >= 0).all()
    assert depth.max() > 3


def test_starts_are_equally_likely_and_come_first():
    table = tabulate(polinfer.make("gridworld", map="S.S\n.G.\n..S"))
    assert set(table.state_names[:3]) == {"(1,3)", "(3,3)", "(3,1)"}
    np.testing.assert_allclose(table.initial[:3], 1 / 3, rtol=1e-15)
    assert not table.initial[3:].any()


def test_a_corridor_that_would_take_minutes_is_refused_early(monkeypatch):
    corridor = polinfer.make("gridworld", map="S" + "." * 2**17, horizon=2)
    monkeypatch.setattr(sys.modules["polinfer.problems.tabular.tabulate"], "_CERTAIN", 100)
    began = time.process_time()
    with pytest.raises(
        CostError, match="131,073 states that are found 1 at a time would take about 2 minutes"
    ):
        polinfer.tabulate(corridor)
    assert time.process_time() - began < 20
    short = polinfer.make("gridworld", map="S" + "." * 300, horizon=2)
    assert polinfer.tabulate(short).num_states == 301


def test_what_walls_enclose_is_left_out():
    table = tabulate(polinfer.make("gridworld", map="S.#.\n.G#R"))
    assert table.num_states == 4


# -- limits and refusals ---------------------------------------------------------------------------------


def test_the_limit_is_the_largest_number_of_states():
    mdp = polinfer.make("gridworld/flat")
    assert tabulate(mdp, limit=16).num_states == 16
    with pytest.raises(
        TooLargeError, match=r"more than 15 states \(at most 16\): 16 found after expanding \d+"
    ):
        tabulate(mdp, limit=15)


def test_beyond_the_limit_the_counts_are_told():
    open_plan = "S" + "." * 59
    mdp = polinfer.make("gridworld", map="\n".join([open_plan] + ["." * 60] * 59))
    with pytest.raises(
        TooLargeError,
        match=r"more than 1,000 states \(at most 3,600\): 1,\d\d\d found after expanding [\d,]+;.*limit",
    ):
        tabulate(mdp, limit=1000)


class Line:
    """Walk 0, 1, 2 to the end at 3; the base of small simulators."""

    num_actions = 2
    horizon = 4

    def starts(self) -> Starts:
        return Starts(jnp.ones(1), jnp.zeros(1, jnp.int32))

    def outcomes(self, state: Array, action: Array) -> Outcomes:
        over = state == 3
        reached = jnp.where(over, state, state + 1)[None]
        reward = jnp.where(over, 0.0, 0.5 + action.astype(jnp.float32))[None]
        return Outcomes(jnp.ones(1), Transition(reached, reward, reached == 3))

    def init(self, key: Array) -> Array:
        return sample_start(key, self.starts())

    def step(self, key: Array, state: Array, action: Array) -> Transition:
        return sample_outcome(key, self.outcomes(state, action))

    def encode(self, state: Array) -> Array:
        return jnp.stack([state, 2 * state]).astype(jnp.float32)

    def identity(self, state: Array) -> Array:
        return 10 * state[None]

    def legal(self, state: Array) -> Array:
        return jnp.ones(2, jnp.bool_)


def like_line(**members):
    return type("Variant", (Line,), members)()


def test_a_simulator_without_names_and_endings():
    table = tabulate(Line())
    assert table.identities[:, 0].tolist() == [0, 10, 20, 30]
    assert table.features.tolist() == [[0, 0], [1, 2], [2, 4], [3, 6]]
    assert table.state_names == ("0", "10", "20", "30")  # the identities: what the problem calls them
    assert table.reward[0].tolist() == [[0.5], [1.5]]
    assert table.absorbing.tolist() == [False, False, False, True]
    assert (table.endings, table.horizon) == ((), 4)
    assert_valid(table)


def test_a_table_is_returned_as_it_is(table):
    assert tabulate(table) is table


def test_a_simulator_that_lists_nothing_is_explored():
    class Silent(Line):
        starts = outcomes = None

        def init(self, key):
            return jnp.zeros((), jnp.int32)

        def step(self, key, state, action):
            reached, over = jnp.where(state == 3, state, state + 1), state == 3
            return Transition(reached, jnp.where(over, 0.0, 0.5 + action.astype(jnp.float32)), reached == 3)

    known, found = tabulate(Line()), tabulate(_without(Silent(), "starts", "outcomes"))
    assert not found.is_estimated
    for name in ("successor", "probability", "reward", "initial", "absorbing", "identities", "features"):
        np.testing.assert_array_equal(getattr(found, name), getattr(known, name))


def _without(mdp, *names):
    """Return an object with the public members of `mdp` but for `names`."""
    members = {name: getattr(mdp, name) for name in dir(mdp) if name[0] != "_" and name not in names}
    return type("Silent", (), {name: staticmethod(m) if callable(m) else m for name, m in members.items()})()


def test_an_identity_both_terminal_and_not_is_refused():
    # Action 1 ends the episode in the same state that action 0 goes on from.
    def outcomes(self, state, action):
        listed = Line().outcomes(state, action)
        ends = listed.transition.terminated | ((state == 1) & (action == 1))
        return listed._replace(transition=listed.transition._replace(terminated=ends))

    with pytest.raises(
        PolinferError, match=r"identity \[20\] ends the episode on one way in and not on another"
    ):
        tabulate(like_line(outcomes=outcomes))


def test_a_start_that_is_also_an_end_is_refused_by_its_identity():
    def outcomes(self, state, action):
        listed = Line().outcomes(state, action)
        home = (state == 2) & (action == 1)
        moved = listed.transition
        return listed._replace(
            transition=moved._replace(
                state=jnp.where(home, 0, moved.state), terminated=jnp.where(home, True, moved.terminated)
            )
        )

    with pytest.raises(
        PolinferError, match=r"identity \[0\] ends the episode on one way in and not on another"
    ):
        tabulate(like_line(outcomes=outcomes))


def test_outcomes_that_do_not_sum_to_one_name_the_state():
    broken = like_line(
        outcomes=lambda self, s, a: Line().outcomes(s, a)._replace(probability=jnp.array([0.5]))
    )
    with pytest.raises(PolinferError, match=r"state '0', action '0': probabilities sum to 0\.5"):
        tabulate(broken)


# -- starts ----------------------------------------------------------------------------------------------


def test_starts_that_are_listed_twice_add_up():
    doubled = Starts(jnp.array([0.125, 0.5, 0.375]), jnp.array([2, 1, 2], jnp.int32))
    table = tabulate(like_line(starts=lambda self: doubled))
    assert table.identities[:2, 0].tolist() == [20, 10]
    assert table.initial.tolist() == [0.5, 0.5, 0.0]


def test_a_start_of_probability_zero_is_not_reached():
    padded = Starts(jnp.array([1.0, 0.0]), jnp.array([1, -5], jnp.int32))
    table = tabulate(like_line(starts=lambda self: padded))
    assert table.identities[:, 0].tolist() == [10, 20, 30]


def test_a_start_may_be_terminal():
    ended = Starts(jnp.array([0.25, 0.75]), jnp.array([3, 2], jnp.int32))
    table = tabulate(like_line(starts=lambda self: ended))
    assert table.absorbing.tolist() == [True, False]
    assert table.initial.tolist() == [0.25, 0.75]


# -- states and actions of other kinds -------------------------------------------------------------------


class Deal(NamedTuple):
    """A state of several leaves."""

    cards: Array  # [2] int32
    over: Array  # [] bool


class Cards:
    """Draw once: pay at random, and know it; action 1 is legal only at the start, action 2 never."""

    num_actions = 3
    horizon = 2
    action_names = ("draw", "fold", "cheat")

    def starts(self) -> Starts:
        return Starts(jnp.ones(1), Deal(jnp.zeros((1, 2), jnp.int32), jnp.zeros(1, jnp.bool_)))

    def outcomes(self, state: Deal, action: Array) -> Outcomes:
        first = (state.cards == 0).all()
        drawn = jnp.array([[1, 0], [2, 1], [2, 1], [9, 9]], jnp.int32)
        over = jnp.where(first & (action == 0), jnp.array([False, True, True, False]), True)
        stay = state.over | ~(first & (action == 0))
        cards = jnp.where(stay, state.cards, drawn)
        cards = jnp.where(~state.over & ~(first & (action == 0)), cards.at[:, 1].set(7), cards)
        reward = jnp.where(state.over, 0.0, jnp.array([0.0, 3.0, -1.0, 100.0]))
        reward = jnp.where(~state.over & ~(first & (action == 0)), -0.5, reward)
        return Outcomes(jnp.array([0.5, 0.125, 0.375, 0.0]), Transition(Deal(cards, over), reward, over))

    def init(self, key: Array) -> Deal:
        return sample_start(key, self.starts())

    def step(self, key: Array, state: Deal, action: Array) -> Transition:
        return sample_outcome(key, self.outcomes(state, action))

    def encode(self, state: Deal) -> Array:
        return state.cards.astype(jnp.float32)

    def identity(self, state: Deal) -> Array:
        return jnp.concatenate([state.cards, state.over[None].astype(jnp.int32)])

    def legal(self, state: Deal) -> Array:
        return jnp.array([True, False, False]) | (jnp.array([False, True, False]) & (state.cards == 0).all())

    def state_name(self, state: Deal) -> str:
        return f"{int(state.cards[0])}-{int(state.cards[1])}{' over' if state.over else ''}"


def test_states_of_several_leaves_random_rewards_and_illegal_actions():
    table = tabulate(Cards())
    assert table.state_names[0] == "0-0"
    assert set(table.state_names) == {"0-0", "1-0", "2-1 over", "0-7 over", "1-7 over"}
    found = by_name(table)
    assert found["0-0", "draw"] == {("1-0", 0.0): 0.5, ("2-1 over", 3.0): 0.125, ("2-1 over", -1.0): 0.375}
    assert found["0-0", "fold"] == {("0-7 over", -0.5): 1.0}
    assert found["1-0", "draw"] == {("1-7 over", -0.5): 1.0}
    index = table.state_names.index
    assert table.legal_actions[index("0-0")].tolist() == [True, True, False]
    assert table.legal_actions[index("1-0")].tolist() == [True, False, False]
    assert table.absorbing.tolist() == ["over" in name for name in table.state_names]
    assert table.identities[index("2-1 over")].tolist() == [2, 1, 1]
    assert_valid(table)


def test_what_only_an_illegal_action_leads_to_is_left_out():
    def outcomes(self, state, action):
        listed = Line().outcomes(state, action)
        wild = listed.transition._replace(state=jnp.where(action == 1, 99, listed.transition.state))
        return listed._replace(transition=wild)

    table = tabulate(like_line(outcomes=outcomes, legal=lambda self, state: jnp.array([True, False])))
    assert table.identities[:, 0].tolist() == [0, 10, 20, 30]
    assert not table.legal_actions[:3, 1].any()
    assert_valid(table)


def test_two_states_of_one_name_are_refused():
    vague = type("Vague", (Cards,), {"state_name": lambda self, state: f"{int(state.cards[0])}"})()
    with pytest.raises(PolinferError, match=r"state_names holds '\d' twice"):
        tabulate(vague)


def test_all_registered_small_domains_are_written_out():
    for name in ("gridworld/flat", "gridworld/unimodal", "gridworld/multimodal"):
        table = tabulate(polinfer.make(name))
        assert isinstance(table, TabularMDP)
        assert (table.num_states, table.num_actions, table.horizon) == (16, 4, 20)
        assert_valid(table)
