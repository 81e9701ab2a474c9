"""Prerequisite graphs of Advising: what is counted, and where it stands."""

import io
import itertools
from functools import cache

import numpy as np
import pytest
from matplotlib import colormaps

import polinfer
from polinfer import exact
from polinfer.plots import PolicyPanel, advising_figure
from polinfer.plots.advising import _BOX, _lay_out
from polinfer.plots.layers import lay_out
from polinfer.problems.domains import Advising
from polinfer.problems.domains.ippc2014 import Curriculum, curriculum

PLAN = Curriculum(("A1", "A2", "B2"), (("A1", "B2"), ("A2", "B2")), ("A2", "B2"), 2, 6)


@cache
def program():
    mdp = Advising(PLAN, "unpassed", "after", "ends", 6)
    return mdp, polinfer.tabulate(mdp)


def mixed(table, seed=0):
    rng = np.random.default_rng(seed)
    policy = np.where(table.legal_actions, rng.uniform(0.1, 1.0, table.legal_actions.shape), 0.0)
    return policy / policy.sum(axis=1, keepdims=True)


def drawn(*policies, occupancy=None):
    mdp, table = program()
    panels = []
    for i, policy in enumerate(policies):
        visits = exact.evaluate_policy(table, policy).occupancy if occupancy is None else occupancy
        panels.append(PolicyPanel(f"panel {i}", policy, visits))
    return advising_figure(mdp, table, panels)


def part(ax, label):
    (found,) = [c for c in ax.collections if c.get_label() == label]
    return found


def bars(ax):
    """Return the length of each bar as a share of a box."""
    return np.array([np.ptp(path.vertices[:, 0]) for path in part(ax, "first").get_paths()]) / _BOX[0]


def play(mdp, table, policy, episodes, seed):
    """Return ``[episodes, C]`` how often each course was taken, by playing the table."""
    rng = np.random.default_rng(seed)
    courses = [name.removeprefix("enrol ").split("+") for name in mdp.action_names]
    taken = np.zeros((episodes, len(mdp.curriculum.courses)))
    for counts in taken:
        s = int(table.initial.argmax())
        for _ in range(table.horizon):
            if table.absorbing[s]:
                break
            a = rng.choice(table.num_actions, p=policy[s])
            counts += [course in courses[a] for course in mdp.curriculum.courses]
            s = int(rng.choice(table.successor[s, a], p=table.probability[s, a]))
    return taken


def test_numbers_and_colours_are_those_of_episodes_that_were_played():
    mdp, table = program()
    policy = mixed(table)
    ax, bar = drawn(policy).axes
    taken = play(mdp, table, policy, 2000, seed=3)
    texts = [text.get_text() for text in ax.texts]
    names, means = texts[0:6:2], np.array(texts[1:6:2], float)
    assert names == list(PLAN.courses)
    error = 5 * taken.std(axis=0) / np.sqrt(len(taken)) + 0.005
    assert (abs(means - taken.mean(axis=0)) <= error).all()
    ever = (taken > 0).mean(axis=0)
    assert bar.get_ylabel() == "probability of ever enrolling"
    boxes = part(ax, "courses").get_facecolors()
    # Read back from the colours: the nearest of a thousand.
    grid = np.linspace(0, 1, 1001)
    nearest = grid[abs(colormaps["Blues"](grid)[:, None] - boxes).sum(axis=-1).argmin(axis=0)]
    assert (abs(nearest - ever) <= 5 * np.sqrt(ever * (1 - ever) / len(taken)) + 0.006).all()
    assert len(set(np.round(ever, 2))) > 1


def test_bars_are_the_first_enrolment():
    mdp, table = program()
    policy = mixed(table, seed=5)
    ax, _ = drawn(policy).axes
    start = int(table.initial.argmax())
    wanted = [
        sum(p for p, name in zip(policy[start], mdp.action_names, strict=True) if course in name)
        for course in PLAN.courses
    ]
    np.testing.assert_allclose(bars(ax), wanted)
    assert len(set(np.round(wanted, 3))) == 3


def test_required_courses_have_a_bold_frame_and_arrows_lead_to_the_right():
    _, table = program()
    ax, _ = drawn(mixed(table)).axes
    assert part(ax, "courses").get_linewidths() == [0.7, 1.8, 1.8]
    centre = [path.vertices[:4].mean(axis=0) for path in part(ax, "courses").get_paths()]
    for (first, second), path in zip([(0, 2), (1, 2)], part(ax, "prerequisites").get_paths(), strict=True):
        np.testing.assert_allclose(path.vertices[0], centre[first] + (_BOX[0] / 2, 0))
        assert centre[second][0] - _BOX[0] / 2 > path.vertices[-1][0] > path.vertices[0][0]
        assert path.vertices[-1][1] == pytest.approx(centre[second][1])
    assert {"level 1", "level 2"} <= {text.get_text() for text in ax.texts}
    file = io.BytesIO()
    ax.figure.savefig(file, format="png")
    assert len(file.getvalue()) > 10_000


@pytest.mark.parametrize("instance", range(1, 11))
def test_no_course_lies_on_another_or_on_an_arrow(instance):
    plan = curriculum(instance)
    levels, graph = _lay_out(plan)
    assert levels == [int(course[2]) for course in plan.courses]
    for a, b in itertools.combinations(graph.nodes, 2):
        assert (abs(a - b) >= _BOX).any()
    for (first, second), route in zip(plan.prerequisites, graph.routes, strict=True):
        assert tuple(route[0]) == tuple(graph.nodes[plan.courses.index(first)])
        assert tuple(route[-1]) == tuple(graph.nodes[plan.courses.index(second)])
        assert (np.diff(route[:, 0]) == 1).all()
        for x, y in route[1:-1]:
            for node in graph.nodes[graph.nodes[:, 0] == x]:
                assert abs(node[1] - y) > _BOX[1] / 2
    by_level = [graph.nodes[np.array(levels) == level, 0] for level in sorted(set(levels))]
    assert all(a.max() < b.min() for a, b in itertools.pairwise(by_level))


def test_crossings_that_can_be_avoided_are():
    nodes, routes = lay_out([0, 0, 0, 1, 1, 1], [(0, 5), (1, 4), (2, 3)])
    assert [nodes[5, 1], nodes[4, 1], nodes[3, 1]] == nodes[:3, 1].tolist()
    assert all(route[0, 1] == route[1, 1] for route in routes)
    # Two long edges of one node pass a column together.
    _, routes = lay_out([0, 1, 2, 2], [(0, 1), (0, 2), (0, 3)])
    assert tuple(routes[1][1]) == tuple(routes[2][1])


def test_seeds_are_averaged():
    mdp, table = program()
    one, other = mixed(table, 1), mixed(table, 2)
    visits = np.ones(table.num_states)
    figure = advising_figure(
        mdp,
        table,
        [PolicyPanel("both", np.stack([one, other]), visits), PolicyPanel("one", one, visits)],
    )
    assert [ax.get_title() for ax in figure.axes[:2]] == ["both", "one"]
    alone = [bars(drawn(policy, occupancy=visits).axes[0]) for policy in (one, other)]
    np.testing.assert_allclose(bars(figure.axes[0]), np.mean(alone, axis=0))


def test_strangers_are_refused():
    mdp, table = program()
    panel = PolicyPanel("mine", mixed(table), np.ones(table.num_states))
    with pytest.raises(polinfer.PolinferError, match="at least one panel"):
        advising_figure(mdp, table, [])
    with pytest.raises(polinfer.PolinferError, match="write \\[panel\\]"):
        advising_figure(mdp, table, panel)
    with pytest.raises(polinfer.PolinferError, match="occupancy of panel 'mine'"):
        advising_figure(mdp, table, [panel._replace(occupancy=np.zeros(3))])
    with pytest.raises(polinfer.PolinferError, match="not one of this Advising"):
        advising_figure(mdp, polinfer.make("continuation"), [panel])
    circle = PLAN._replace(prerequisites=(("A1", "B2"), ("B2", "A1")))
    with pytest.raises(polinfer.PolinferError, match="round in a circle"):
        _lay_out(circle)
