"""Maps of tables whose states are named by row and column."""

import numpy as np
import pytest

import polinfer
from polinfer.plots import PolicyPanel
from polinfer.plots.lattice import lattice_figure, lattice_of
from polinfer.plots.run import policy_figure


def _panel(table):
    policy = polinfer.exact.uniform_policy(table)
    return PolicyPanel("even", policy, polinfer.exact.evaluate_policy(table, policy).occupancy)


def _labels(ax):
    return [collection.get_label() for collection in ax.collections]


def test_frozen_lake_is_a_map_whose_arrows_lead_where_the_actions_do():
    table = polinfer.make("gym:FrozenLake-v1")
    lattice = lattice_of(table)
    assert lattice.layers == ("",)
    policy = np.eye(4)[np.full(table.num_states, 2)]  # right
    panel = _panel(table)._replace(policy=policy)
    (ax,) = lattice_figure(table, lattice, [panel]).axes
    (arrow,) = [c for c in ax.collections if c.get_label() == "policy"]
    points = np.concatenate([path.vertices for path in arrow.get_paths()])
    # The first state is the top left cell, whose centre is (1, 4).
    first = points[np.abs(points - (1, 4)).max(axis=1) < 0.5] - (1, 4)
    assert first[:, 0].max() > 0.4
    assert np.abs(first[:, 1]).max() < 0.3
    marks = [c for c in ax.collections if c.get_label() == "marks"]
    assert len(marks[0].get_paths()) == 5  # four holes and the goal


def test_taxi_has_a_map_for_each_of_the_most_visited_layers():
    table = polinfer.make("gym:Taxi-v4", horizon=20)
    figure = policy_figure(table, table, [_panel(table)])
    assert len(figure.axes) == 8
    assert all("passenger" in ax.get_title() for ax in figure.axes)
    assert "start" not in _labels(figure.axes[0])  # everywhere is one


def test_turning_left_is_no_step_to_the_left():
    rows = [
        ("column 1 row 1 facing right", "forward", "column 2 row 1 facing right", 1.0, 0.0),
        ("column 1 row 1 facing right", "left", "column 1 row 1 facing up", 1.0, 0.0),
        ("column 1 row 1 facing up", "forward", "column 1 row 1 facing up", 1.0, 0.0),
        ("column 1 row 1 facing up", "left", "column 1 row 1 facing up", 1.0, 0.0),
        ("column 2 row 1 facing right", "forward", "column 2 row 1 facing right", 1.0, 1.0),
        ("column 2 row 1 facing right", "left", "column 2 row 1 facing right", 1.0, 0.0),
    ]
    from polinfer.problems.domains.worked import table_from_rows

    table = table_from_rows(rows, start="column 1 row 1 facing right", horizon=4)
    lattice = lattice_of(table)
    assert lattice.layers == ("facing right", "facing up")
    forward = table.action_names.index("forward")
    policy = np.eye(2)[np.full(table.num_states, forward)]
    axes = lattice_figure(table, lattice, [_panel(table)._replace(policy=policy)]).axes
    shown = {ax.get_title().split(": ")[1]: ax for ax in axes}
    for name, place in (("facing right", 0), ("facing up", 1)):
        (arrow,) = [c for c in shown[name].collections if c.get_label() == "policy"]
        points = arrow.get_paths()[0].vertices
        spread = np.ptp(points[:7], axis=0)
        assert spread.argmax() == place


@pytest.mark.parametrize("name", ["bandit", "probe/fork"])
def test_tables_without_places_are_no_lattice(name):
    assert lattice_of(polinfer.make(name)) is None
