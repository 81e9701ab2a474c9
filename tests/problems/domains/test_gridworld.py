"""Grid worlds: the maps say what the paper says, and the dynamics are what a second program computes."""

import itertools
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import polinfer
from odd_text import odd_text
from polinfer.core.errors import DomainError, PolinferError
from polinfer.problems.domains import GridWorld
from polinfer.problems.domains.gridworld import parse_map

ACTIONS = ("right", "up", "down", "left")


# -- a second implementation: dictionaries of cells (x, y), counted from 1, y up -------------------------


def cells_of(text):
    lines = text.split("\n")
    return {
        (x, len(lines) - i): letter for i, line in enumerate(lines) for x, letter in enumerate(line, start=1)
    }


def oracle(text, success_prob, pay, step_reward, scale):
    """Return ``{(cell, action): {(successor, reward): probability}}`` for every cell that is no wall."""
    cells = cells_of(text)
    ahead = {"right": (1, 0), "left": (-1, 0), "up": (0, 1), "down": (0, -1)}
    aside = {
        "right": ("up", "down"),
        "left": ("up", "down"),
        "up": ("left", "right"),
        "down": ("left", "right"),
    }

    def go(cell, direction):
        to = (cell[0] + ahead[direction][0], cell[1] + ahead[direction][1])
        return to if cells.get(to, "#") != "#" else cell

    rows = {}
    for cell, action in itertools.product(cells, ACTIONS):
        row = rows[cell, action] = {}
        if cells[cell] in "GW":
            row[cell, 0.0] = 1.0
            continue
        slip = (1 - success_prob) / 2
        for direction, p in ((action, success_prob), *((side, slip) for side in aside[action])):
            to = go(cell, direction)
            reward = scale * (step_reward + pay.get(cells[to], 0.0))
            if p > 0:
                row[to, round(reward, 5)] = row.get((to, round(reward, 5)), 0.0) + p
    return {place: row for place, row in rows.items() if cells[place[0]] != "#"}


def listed(mdp):
    """Return what `mdp` lists, in the form of the oracle; and check its flags on the way."""
    width, count = mdp.width, mdp.width * mdp.height
    # One compilation per map; NumPy in, or each new number of cells would compile every operation anew.
    outcomes = jax.jit(jax.vmap(jax.vmap(mdp.outcomes)))(*np.mgrid[:count, :4].astype(np.int32))
    probability, state, reward, terminated = (
        np.asarray(x) for x in (outcomes.probability, *outcomes.transition)
    )
    cell = [(int(c % width) + 1, int(c // width) + 1) for c in range(count)]
    rows = {}
    for s, a, b in np.ndindex(probability.shape):
        letter = mdp.letters[state[s, a, b]]
        assert terminated[s, a, b] == (letter in "GW")
        if mdp.letters[s] != "#" and probability[s, a, b] > 0:
            row = rows.setdefault((cell[s], ACTIONS[a]), {})
            key = cell[state[s, a, b]], round(float(reward[s, a, b]), 5)
            row[key] = row.get(key, 0.0) + float(probability[s, a, b])
    return rows


def assert_same_rows(found, want):
    assert found.keys() == want.keys()
    for place, row in want.items():
        assert found[place] == pytest.approx(row, abs=1e-6), place


@st.composite
def maps(draw):
    width, height = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    letters = draw(st.lists(st.sampled_from("...RGWS##"), min_size=width * height, max_size=width * height))
    letters[draw(st.integers(0, width * height - 1))] = "S"
    return "\n".join("".join(letters[i * width : (i + 1) * width]) for i in range(height))


# Each map is a program of its own.
@settings(derandomize=True, deadline=None, max_examples=10)
@given(
    text=maps(),
    success_prob=st.sampled_from([0.0, 0.25, 0.5, 0.8, 1.0]),
    scale=st.sampled_from([1.0, -0.5, 10.0]),
)
def test_dynamics_are_those_of_a_second_implementation(text, success_prob, scale):
    mdp = polinfer.make(
        "gridworld",
        map=text,
        success_prob=success_prob,
        reward_scale=scale,
        gravel_reward=-1.5,
        goal_reward=3.0,
        swamp_reward=-7.0,
        step_reward=-0.25,
    )
    assert_same_rows(listed(mdp), oracle(text, success_prob, {"R": -1.5, "G": 3.0, "W": -7.0}, -0.25, scale))
    starts = mdp.starts()
    cells = cells_of(text)
    want = sorted(mdp.width * (y - 1) + x - 1 for (x, y), letter in cells.items() if letter == "S")
    assert sorted(starts.state.tolist()) == want
    np.testing.assert_allclose(starts.probability, 1 / len(want), rtol=1e-6)
    for (x, y), letter in cells.items():
        state = mdp.width * (y - 1) + x - 1
        assert mdp.letters[state] == letter
        assert mdp.state_name(state) == f"({x},{y})"


def test_the_default_numbers_are_the_papers():
    text = "#RW\nS.G"
    pay = {"R": -1.0, "G": 5.0, "W": -5.0}
    assert_same_rows(listed(polinfer.make("gridworld", map=text)), oracle(text, 0.8, pay, -0.1, 1.0))


def test_features_identities_endings_and_legal_actions():
    mdp = polinfer.make("gridworld", map="#RW\nS.G")
    every = jnp.arange(6)
    features = jax.vmap(mdp.encode)(every)
    assert features.dtype == jnp.float32
    column_and_row = [[0, 0], [1, 0], [2, 0], [0, 1], [1, 1], [2, 1]]
    want = [[*np.eye(3)[x].tolist(), *np.eye(2)[y].tolist()] for x, y in column_and_row]
    assert features.tolist() == want
    assert jax.vmap(mdp.identity)(every).tolist() == [[0], [1], [2], [3], [4], [5]]
    assert jax.vmap(mdp.ending)(every).tolist() == [-1, -1, 0, -1, -1, 1]
    assert [(e.name, e.success) for e in mdp.endings] == [("goal", True), ("swamp", False)]
    assert np.asarray(jax.vmap(mdp.legal)(every)).all()
    assert mdp.action_names == ACTIONS


def test_moves_and_slips_are_drawn_with_their_probabilities():
    mdp = polinfer.make("gridworld/ablation", success_prob=0.7)
    draws = 20_000
    keys = jax.random.split(jax.random.key(3), draws)
    # From (1,2), right: to (2,2); slipping up into the swamp (1,3) or down to (1,1).
    moved = jax.jit(jax.vmap(lambda k: mdp.step(k, jnp.int32(2), jnp.int32(0))))(keys)
    for state, p, reward, over in ((3, 0.7, -0.1, False), (4, 0.15, -5.1, True), (0, 0.15, -0.1, False)):
        here = np.asarray(moved.state) == state
        assert abs(here.mean() - p) <= 5 * np.sqrt(p * (1 - p) / draws)
        np.testing.assert_allclose(moved.reward[here], reward, rtol=1e-6)
        assert (np.asarray(moved.terminated)[here] == over).all()


def test_start_cells_are_drawn_equally_often():
    mdp = polinfer.make("gridworld", map="S.S\n.GS")
    draws = 20_000
    drawn = np.asarray(jax.jit(jax.vmap(mdp.init))(jax.random.split(jax.random.key(4), draws)))
    assert set(drawn.tolist()) == {2, 3, 5}
    for cell in (2, 3, 5):
        assert abs((drawn == cell).mean() - 1 / 3) <= 5 * np.sqrt(2 / 9 / draws)


# -- the paper's maps ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["flat", "unimodal", "multimodal"])
def test_the_papers_maps_are_four_by_four_with_start_and_goal_in_opposite_corners(name):
    mdp = polinfer.make(f"gridworld/{name}")
    assert (mdp.width, mdp.height, mdp.horizon, mdp.success_prob) == (4, 4, 20, 0.8)
    cells = cells_of("\n".join(mdp.rows))
    (start,) = (cell for cell, letter in cells.items() if letter == "S")
    (goal,) = (cell for cell, letter in cells.items() if letter == "G")
    assert {start, goal} in ({(1, 1), (4, 4)}, {(1, 4), (4, 1)})
    assert "W" not in cells.values()
    assert "#" not in cells.values()
    red = {cell for cell, letter in cells.items() if letter == "R"}
    others = {(1, 1), (4, 4), (1, 4), (4, 1)} - {start, goal}
    middle = {(2, 2), (2, 3), (3, 2), (3, 3)}
    if name == "flat":
        assert not red
    elif name == "unimodal":  # the two other corners, and not the diagonal between start and goal
        assert others < red
        assert not red & middle
    else:
        assert red == middle


def test_the_ablation_map_is_the_papers():
    mdp = polinfer.make("gridworld/ablation")
    assert (mdp.width, mdp.height, mdp.horizon, mdp.success_prob) == (2, 3, 10, 0.5)
    cells = cells_of("\n".join(mdp.rows))
    assert cells[1, 3] == "W"
    assert cells[2, 3] == "G"
    assert cells[1, 2] == "S"
    assert {cells[1, 1], cells[2, 1], cells[2, 2]} == {"."}
    assert mdp.state_name(mdp.init(jax.random.key(0))) == "(1,2)"
    assert_same_rows(listed(mdp), oracle("WG\nS.\n..", 0.5, {"G": 5.0, "W": -5.0}, -0.1, 1.0))


def test_unimodal_red_is_symmetric_about_the_diagonal():
    cells = cells_of("\n".join(polinfer.make("gridworld/unimodal").rows))
    red = {cell for cell, letter in cells.items() if letter == "R"}
    assert red == {(y, x) for x, y in red}


# -- maps ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "empty"),
        ("\n\n", "empty"),
        ("   \nS", "empty|cells"),
        ("..\nG.", "no start"),
        (".G", "no start"),
        ("S.\nG", "line 2 of the map has 1 cells, line 1 has 2"),
        ("S.\nGG.", "line 2 of the map has 3 cells, line 1 has 2"),
        ("S.\nG?", r"line 2, column 2 of the map: unknown letter '\?'"),
        ("s.\nG.", "line 1, column 1 of the map: unknown letter 's'"),
        ("S.\n G", "line 2, column 1 of the map: unknown letter ' '"),
        ("S.\n\n.G", "line 2 of the map has 0 cells"),
        ("S.G?", "neither a file nor a map"),
        ("nowhere.txt", "'nowhere.txt' is neither a file nor a map"),
        ("x" * 5000, "cannot be read|neither"),
        ("S\0", "cannot be read|neither"),
        ("/", "a folder, not a file"),
    ],
)
def test_a_bad_map_is_refused_in_one_line(text, sentence):
    with pytest.raises(DomainError, match=sentence) as caught:
        polinfer.make("gridworld", map=text)
    assert len(str(caught.value).splitlines()) == 1


@settings(derandomize=True, deadline=None, max_examples=300)
@given(text=st.one_of(st.text(alphabet=".RGWS#\n"), st.text(alphabet=".SG\n\r \tx#"), odd_text()))
def test_any_text_is_a_map_or_refused_in_one_line(text):
    try:
        mdp = polinfer.make("gridworld", map=text)
    except DomainError as error:
        line = str(error)
    else:
        assert {len(row) for row in mdp.rows} == {mdp.width}
        assert set("".join(mdp.rows)) <= set(".RGWS#")
        assert "S" in "".join(mdp.rows)
        assert mdp.horizon == 5 * max(mdp.width, mdp.height)
        return
    assert line
    assert len(line.splitlines()) == 1


@pytest.mark.parametrize("map", [None, 5, ["SG"], {"S": 1}, b"SG"])
def test_a_map_that_is_no_text_is_refused(map):
    with pytest.raises(DomainError, match="map"):
        polinfer.make("gridworld", map=map)


def test_one_line_and_one_cell_are_maps():
    assert polinfer.make("gridworld", map="S.G").rows == ("S.G",)
    assert polinfer.make("gridworld", map="S").horizon == 5
    assert polinfer.make("gridworld", map="\nS.\n.G\n\n").rows == ("S.", ".G")
    assert polinfer.make("gridworld", map="S.  \r\n.G\r\n").rows == ("S.", ".G")


@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_a_map_may_be_a_file(tmp_path, ending, mark):
    path = tmp_path / "map.txt"
    path.write_bytes((mark + ending.join(["S.G", ".W.", ""])).encode())
    mdp = polinfer.make("gridworld", map=str(path))
    assert mdp.rows == ("S.G", ".W.")
    assert mdp == polinfer.make("gridworld", map="S.G\n.W.")
    assert parse_map(str(path)) == mdp.rows


def test_a_map_file_may_be_given_as_a_path_object(tmp_path):
    path = tmp_path / "map.txt"
    path.write_text("S.G\n")
    try:
        mdp = polinfer.make("gridworld", map=path)
    except DomainError as error:
        assert "map" in str(error)  # noqa: PT017 (either is right)
    else:
        assert mdp.rows == ("S.G",)


@pytest.mark.parametrize(
    ("contents", "sentence"),
    [
        (b"\xff\xfe", "cannot be read as text"),
        (b"", "empty"),
        (b"S.\n.", "line 2"),
        (b"hello\n", "unknown letter 'h'"),
    ],
)
def test_a_bad_map_file_is_refused_in_one_line(tmp_path, contents, sentence):
    path = tmp_path / "map.txt"
    path.write_bytes(contents)
    with pytest.raises(DomainError, match=sentence) as caught:
        polinfer.make("gridworld", map=str(path))
    assert len(str(caught.value).splitlines()) == 1


def test_a_map_beyond_reason_is_refused():
    with pytest.raises(DomainError, match="more than 1,048,576 cells"):
        GridWorld(("S" * 2048,) * 1024)


# -- options ---------------------------------------------------------------------------------------------


def test_the_default_horizon_is_five_times_the_longer_side():
    assert polinfer.make("gridworld", map="S......G").horizon == 40
    assert polinfer.make("gridworld", map="S.\n..\n.G").horizon == 15
    assert polinfer.make("gridworld", map="S.G", horizon=4).horizon == 4


@pytest.mark.parametrize("name", ["gridworld/multimodal", "gridworld/ablation"])
def test_reward_scale_multiplies_every_reward(name):
    plain, scaled = listed(polinfer.make(name)), listed(polinfer.make(name, reward_scale=-2.0))
    for place, row in plain.items():
        want = {(to, round(-2 * reward, 5) + 0.0): p for (to, reward), p in row.items()}
        assert {(to, reward + 0.0): p for (to, reward), p in scaled[place].items()} == pytest.approx(want)


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), "2", None, [2.0], 10**400], ids=lambda v: str(v)[:9]
)
def test_rewards_must_be_finite_numbers(value):
    for option in ("reward_scale", "gravel_reward", "goal_reward", "swamp_reward", "step_reward"):
        with pytest.raises(PolinferError, match=f"{option} must be a finite number"):
            polinfer.make("gridworld/flat", **{option: value})


@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan"), "0.8", None, [0.8]])
def test_success_prob_must_be_a_probability(value):
    with pytest.raises(PolinferError, match=r"success_prob must lie in 0\.\.1"):
        polinfer.make("gridworld/flat", success_prob=value)


@pytest.mark.parametrize("value", [0, -1, 2.5, True, "5", "x", [5], float("nan"), float("inf")], ids=str)
def test_horizon_must_be_a_positive_whole_number(value):
    with pytest.raises(PolinferError, match="horizon must be"):
        polinfer.make("gridworld/flat", horizon=value)


@pytest.mark.parametrize("value", [5.0, np.int64(5)])
def test_a_whole_horizon_becomes_an_int(value):
    assert type(polinfer.make("gridworld/flat", horizon=value).horizon) is int


def test_equal_worlds_are_equal_and_hashable():
    one, other = (polinfer.make("gridworld/flat") for _ in range(2))
    assert one == other
    assert hash(one) == hash(other)
    assert one != polinfer.make("gridworld/flat", reward_scale=2.0)


# -- size ------------------------------------------------------------------------------------------------


def test_a_large_grid_is_written_out_in_seconds_and_correctly():
    rng = np.random.default_rng(0)
    letters = rng.choice(list("....R#"), (64, 64))
    letters[0, 63], letters[63, 0], letters[20, 30] = "G", "S", "W"
    text = "\n".join("".join(row) for row in letters)
    start = time.process_time()
    table = polinfer.tabulate(polinfer.make("gridworld", map=text))
    assert time.process_time() - start < 15
    want = oracle(text, 0.8, {"R": -1.0, "G": 5.0, "W": -5.0}, -0.1, 1.0)
    assert 2500 < table.num_states < len(want) / 4 + 1
    named = [tuple(int(n) for n in name[1:-1].split(",")) for name in table.state_names]
    assert len(set(named)) == table.num_states
    for s, a in np.ndindex(table.num_states, 4):
        row = {}
        for successor, p, reward in zip(
            table.successor[s, a], table.probability[s, a], table.reward[s, a], strict=True
        ):
            if p > 0:
                key = named[successor], round(float(reward), 5)
                row[key] = row.get(key, 0.0) + p
        assert row.keys() == want[named[s], ACTIONS[a]].keys()
        assert all(abs(p - want[named[s], ACTIONS[a]][key]) < 1e-12 for key, p in row.items())
