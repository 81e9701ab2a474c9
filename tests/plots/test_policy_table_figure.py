"""Heat maps of policies, and figures of every built-in problem."""

import io

import numpy as np
import pytest

import polinfer
from polinfer.plots import PolicyPanel, policy_map_figure, policy_table_figure
from polinfer.problems.domains.gridworld import GridWorld


def random_table(states, actions, legal=None):
    """A table in which every state leads to the next, and the last is terminal."""
    transitions = np.zeros((states, actions, states))
    transitions[np.arange(states), :, np.minimum(np.arange(states) + 1, states - 1)] = 1
    return polinfer.TabularMDP(transitions, np.zeros((states, actions)), 0, [states - 1], 5, legal=legal)


def labels(ticks):
    return [label.get_text() for label in ticks]


def test_rows_are_the_most_visited_states_that_decide():
    table = random_table(60, 3)
    visits = np.random.default_rng(0).permutation(60).astype(float)
    visits[-1] = 1000.0
    policy = np.full((60, 3), 1 / 3)
    (ax,) = policy_table_figure(table, [PolicyPanel("p", policy, visits)]).axes
    expected = np.argsort(-visits[:59])[:40]
    assert labels(ax.get_yticklabels()) == [str(s) for s in expected]
    assert ax.get_ylabel() == "the 40 most visited of 59 states"
    assert ax.yaxis_inverted()


def test_cells_show_the_probabilities_and_strike_out_what_is_illegal():
    legal = np.array([[True, True, False], [True, True, True], [True, False, True], [True, True, True]])
    policy = np.array([[0.3, 0.7, 0.0], [0.1, 0.2, 0.7], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]])
    table = random_table(4, 3, legal)
    panels = [PolicyPanel("one", policy, np.array([1.0, 3.0, 2.0, 9.0]))] * 2
    figure = policy_table_figure(table, panels)
    for ax in figure.axes:
        (mesh,) = [c for c in ax.collections if c.get_array() is not None]
        shown = np.ma.getdata(mesh.get_array()).reshape(3, 3)
        np.testing.assert_array_equal(shown, policy[[1, 2, 0]])
        np.testing.assert_array_equal(np.ma.getmaskarray(mesh.get_array()).reshape(3, 3), ~legal[[1, 2, 0]])
        text = {tuple(np.floor(t.get_position()).astype(int)): t.get_text() for t in ax.texts}
        assert text == {
            (0, 0): "0.10", (1, 0): "0.20", (2, 0): "0.70",
            (0, 1): "0", (2, 1): "1",
            (0, 2): "0.30", (1, 2): "0.70",
        }  # fmt: skip
        (strokes,) = [c for c in ax.collections if c.get_label() == "illegal"]
        middles = [tuple(path.vertices.mean(axis=0)) for path in strokes.get_paths()]
        assert middles == [(1.5, 1.5), (2.5, 2.5)]
    assert labels(figure.axes[0].get_yticklabels()) == ["1", "2", "0"]
    assert labels(figure.axes[1].get_yticklabels()) == ["", "", ""]


def test_many_actions_are_cut_to_those_taken_and_numbers_give_way_to_a_colour_bar():
    table = random_table(30, 70)
    policy = np.zeros((30, 70))
    policy[:, 65] = 0.6
    policy[:, 10] = 0.4
    figure = policy_table_figure(table, [PolicyPanel("p", policy, np.ones(30))])
    ax, bar = figure.axes
    assert not ax.texts
    assert bar.get_ylabel() == "probability"
    names = labels(ax.get_xticklabels())
    assert len(names) == 40
    assert {"10", "65"} <= set(names)
    assert "60" not in names
    assert names == sorted(names, key=int)
    assert ax.get_xlabel() == "40 of 70 actions"


def test_seeds_are_averaged():
    table = random_table(2, 2)
    policy = np.array([[[0.1, 0.9], [0.5, 0.5]], [[0.3, 0.7], [0.5, 0.5]]])
    (ax,) = policy_table_figure(table, [PolicyPanel("p", policy, np.ones(2))]).axes
    assert [t.get_text() for t in ax.texts] == ["0.20", "0.80"]


@pytest.mark.parametrize(
    ("policy", "occupancy", "message"),
    [
        (np.ones((3, 2)), np.ones(2), r"policy of panel 'mine' must have shape \[S, A\] = \[2, 2\]"),
        (np.ones((2, 2)), np.ones(3), r"occupancy of panel 'mine' must have shape \[S\] = \[2\]"),
    ],
)
def test_wrong_shapes_are_named(policy, occupancy, message):
    with pytest.raises(polinfer.PolinferError, match=message):
        policy_table_figure(random_table(2, 2), [PolicyPanel("mine", policy, occupancy)])


def test_no_panels_are_refused():
    with pytest.raises(polinfer.PolinferError, match="at least one panel"):
        policy_table_figure(random_table(2, 2), [])


def some_of_each_family():
    """The grid worlds, and the first problem of each other family that needs no options."""
    chosen, families = [], set()
    for name in polinfer.list_domains():
        family = name.split("/")[0]
        if name != "gridworld" and (family in ("gridworld", "probe") or family not in families):
            chosen.append(name)
            families.add(family)
    return chosen


# Blackjack's table has most rows, as others have many: drawing it takes longest.
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] * (name == "blackjack")) for name in some_of_each_family()],
)
def test_every_family_has_a_figure(name):
    mdp = polinfer.make(name)
    if isinstance(mdp, GridWorld):
        # By cell already: making a table would take longer than the figure.
        policy = np.full((mdp.width * mdp.height, 4), 0.25)
    else:
        try:
            table = polinfer.tabulate(mdp, limit=1000)
        except polinfer.PolinferError as error:
            pytest.skip(f"no quick table: {error}")
        policy = polinfer.exact.uniform_policy(table)
    visits = 1.0 / np.arange(1, len(policy) + 1)
    panels = [PolicyPanel("one", policy, visits), PolicyPanel("seeds", np.stack([policy] * 3), visits)]
    if isinstance(mdp, GridWorld):
        figure = policy_map_figure(mdp, panels)
    else:
        figure = policy_table_figure(table, panels)
    file = io.BytesIO()
    figure.savefig(file, format="png")
    assert len(file.getvalue()) > 2000
    assert [ax.get_title() for ax in figure.axes[:2]] == ["one", "seeds"]
