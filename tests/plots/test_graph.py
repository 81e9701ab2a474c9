"""Graphs of small tables without places."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.patches import FancyBboxPatch

import polinfer
from polinfer.plots.graph import MAX_NODES, graph_figure, graph_of
from polinfer.plots.panels import PolicyPanel
from polinfer.plots.run import policy_figure

ACTIONS = ("keep", "replace")


def machine(count=4):
    """A machine that wears out step by step, and may be replaced; the last state ends."""
    P, R = np.zeros((count, 2, count)), np.zeros((count, 2, count))
    for s in range(count - 1):
        P[s, 0, s], P[s, 0, s + 1] = 0.7, 0.3
        P[s, 1, 0] = 1.0
        R[s, 0] = 2.0 - s
    names = [f"wear {s}" for s in range(count)]
    return polinfer.TabularMDP(P, R, 0, [count - 1], 15, state_names=names, action_names=ACTIONS)


def panel(table, chance=0.9):
    policy = np.tile([chance, 1 - chance], (table.num_states, 1))
    return PolicyPanel("mostly keeps", policy, polinfer.exact.evaluate_policy(table, policy).occupancy)


def test_arrows_are_what_the_policy_does():
    table = machine()
    graph = graph_of(table, [panel(table)])
    assert graph.column.tolist() == [0, 1, 2, 3]
    assert sorted(graph.edges) == [(0, 1), (1, 0), (1, 2), (2, 0), (2, 3)]
    np.testing.assert_allclose(graph.steps[0][1], [0.1, 0.63, 0.27, 0.0])


def test_without_a_way_back_all_arrows_lead_on():
    P = np.zeros((4, 2, 4))
    for s, (a, b) in enumerate([(1, 2), (2, 3), (3, 3)]):
        P[s, 0, a] = P[s, 1, b] = 1.0
    table = polinfer.TabularMDP(P, np.zeros((4, 2)), 0, [3], 5)
    graph = graph_of(table, [panel(table, 0.6)])
    assert graph.column.tolist() == [0, 1, 2, 3]  # and not 0, 1, 1, 2, by the shortest ways
    assert len(graph.layers.routes) == len(graph.edges) == 5


def test_boxes_name_state_and_action_and_lie_inside():
    table = machine()
    figure = policy_figure(table, table, [panel(table)])
    (ax,) = figure.axes
    assert [text.get_text() for text in ax.texts[:3]] == ["wear 0", "keep: 0.90", "stays: 0.73"]
    (left, right), (low, high) = ax.get_xlim(), ax.get_ylim()
    boxes = [patch for patch in ax.patches if isinstance(patch, FancyBboxPatch)]
    assert len(boxes) == 2 * table.num_states
    for box in boxes:
        assert left < box.get_x() < box.get_x() + box.get_width() < right
        assert low < box.get_y() < box.get_y() + box.get_height() < high
    arrows = [patch.get_path().get_extents() for patch in ax.patches if patch not in boxes]
    assert min(extent.y0 for extent in arrows) > low
    assert figure.legends[0].get_texts()[1].get_text() == "start"


def test_an_even_choice_is_called_so():
    table = machine()
    shown = panel(table, 0.5)
    figure = graph_figure(table, graph_of(table, [shown]), [shown])
    assert figure.axes[0].texts[1].get_text() == "any action"


@pytest.mark.parametrize("crowded", [True, False])
def test_what_cannot_be_followed_is_a_heat_map(crowded):
    rng = np.random.default_rng(0)
    if crowded:  # everything leads everywhere
        table = polinfer.TabularMDP(rng.dirichlet(np.ones(9), (9, 2)), rng.normal(size=(9, 2)), 0, [], 9)
    else:
        table = machine(MAX_NODES + 1).with_problem(horizon=200)
    shown = panel(table)
    assert graph_of(table, [shown]) is None
    assert policy_figure(table, table, [shown]).axes[0].get_yticklabels()
