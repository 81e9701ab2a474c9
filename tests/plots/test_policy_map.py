"""Policy and occupancy maps: what is drawn where, how long and how dark."""

import matplotlib.colors
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

import polinfer
from polinfer.plots import PolicyPanel, by_cell, draw_policy_map, policy_map_figure
from polinfer.plots.crosses import BEAM, cell_centres
from polinfer.plots.grid import DARKEST
from polinfer.plots.run import with_errors
from polinfer.problems.domains.gridworld import ACTIONS, CELL_COLOURS, gridworld


@pytest.fixture(scope="module")
def walled():
    grid = gridworld("..R\nG#.\nW.S")
    return grid, polinfer.tabulate(grid)


def drawn(grid, policy, occupancy=None, inches=2.0):
    """Draw on axes that fill the whole figure."""
    figure = Figure(figsize=(inches, inches * grid.height / grid.width), dpi=100)
    ax = figure.add_axes((0, 0, 1, 1))
    cells = grid.width * grid.height
    draw_policy_map(ax, grid, policy, np.zeros(cells) if occupancy is None else occupancy)
    return ax


def collection(ax, label):
    (found,) = [c for c in ax.collections if c.get_label() == label]
    return found


def pixels(ax):
    canvas = FigureCanvasAgg(ax.figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].astype(float)


def corners(ax, label="policy"):
    """The corners of all shapes of a collection, [n, 2]."""
    return np.concatenate([path.vertices for path in collection(ax, label).get_paths()])


def test_by_cell_puts_states_where_their_cells_are(walled):
    grid, table = walled
    assert table.num_states == 8
    names = by_cell(table, grid, np.arange(8))
    for state, name in enumerate(table.state_names):
        x, y = map(int, name.strip("()").split(","))
        assert names[(y - 1) * 3 + x - 1] == state
    assert np.isnan(names[4])
    assert np.isfinite(np.delete(names, 4)).all()


def test_by_cell_keeps_leading_seeds_and_trailing_actions(walled):
    grid, table = walled
    values = np.random.default_rng(0).random((5, 8, 4))
    out = by_cell(table, grid, values)
    assert out.shape == (5, 9, 4)
    for seed in range(5):
        np.testing.assert_array_equal(out[seed], by_cell(table, grid, values[seed]))
    assert by_cell(table, grid, values[..., 0]).shape == (5, 9)
    # As many seeds as states: three axes are read as [n, S, A], a matrix as [S, A] unless told.
    square = np.random.default_rng(1).random((8, 8, 4))
    np.testing.assert_array_equal(by_cell(table, grid, square)[3], by_cell(table, grid, square[3]))
    matrix = square[..., 0]
    assert by_cell(table, grid, matrix).shape == (9, 8)
    np.testing.assert_array_equal(by_cell(table, grid, matrix, axis=1)[3], by_cell(table, grid, matrix[3]))


def test_by_cell_refuses_strangers(walled):
    grid, table = walled
    with pytest.raises(polinfer.PolinferError, match=r"S = 8, got \[7\]"):
        by_cell(table, grid, np.zeros(7))
    with pytest.raises(polinfer.PolinferError, match="2x2 grid world"):
        by_cell(table, gridworld("..\n.S"), np.zeros(8))


def test_beams_end_at_their_probabilities():
    policy = np.full((9, 4), np.nan)
    policy[4] = [0.4, 0.3, 0.2, 0.1]  # the cell (2,2); right, up, down, left
    offset = corners(drawn(gridworld("...\n.S.\n..."), policy)) - 2.0
    ends = [offset[:, 0].max(), offset[:, 1].max(), -offset[:, 1].min(), -offset[:, 0].min()]
    np.testing.assert_allclose(ends, BEAM * policy[4], atol=1e-12)


@pytest.mark.parametrize("action", range(4), ids=ACTIONS)
def test_beams_point_where_the_action_leads(action):
    grid = gridworld("...\n...\n.S.", success_prob=1.0)
    reached = int(grid.outcomes(4, action).transition.state[0])
    direction = cell_centres(3, 3)[reached] - cell_centres(3, 3)[4]
    assert abs(direction).sum() == 1
    policy = np.full((9, 4), np.nan)
    policy[4] = np.eye(4)[action]
    points = corners(drawn(grid, policy)) - 2.0
    assert (points @ direction).max() == pytest.approx(BEAM)
    assert (points @ direction).min() > -0.1 * BEAM
    assert abs(points @ direction[::-1]).max() < 0.1 * BEAM


def test_the_optimum_leads_to_the_goal():
    grid = polinfer.make("gridworld/multimodal", success_prob=1.0)
    table = polinfer.tabulate(grid)
    policy = by_cell(table, grid, polinfer.exact.finite_horizon_optimum(table).policy)
    at = cell_centres(4, 4)[0]
    for _ in range(6):
        alone = np.full((16, 4), np.nan)
        cell = int((at[1] - 1) * 4 + at[0] - 1)
        alone[cell] = policy[cell]
        tip = corners(drawn(grid, alone)) - at
        at = at + np.round(tip[np.argmax(abs(tip).max(axis=1))] / BEAM)
    assert at.tolist() == [4, 4]


def test_no_cross_where_nothing_is_decided():
    grid = gridworld("GW#\nS..")
    policy = np.full((6, 4), 0.25)
    policy[2] = np.nan
    # The letters from below: S . . / G W #.  Two crosses of a hub and four beams, five corners each.
    assert corners(drawn(grid, policy)).shape == (2 * 5 * 5, 2)
    assert corners(drawn(grid, policy))[:, 1].max() < 1.5


def test_beams_within_the_hub_leave_it_whole():
    picture = pixels(drawn(gridworld("S"), [[0.0, 0.98, 0.02, 0.0]], inches=10.0))
    hub = picture[480:521, 480:521, 0]  # half its width is 0.027 of 1000 pixels
    assert (hub > 254).all()


def test_seeds_are_averaged_as_pictures():
    # All go up with half; right and left are reached by fewer and fewer seeds.
    right = np.array([0.4, 0.1, 0.3, 0.2])
    policy = np.stack([right, np.full(4, 0.5), np.zeros(4), 0.5 - right], axis=1)[:, None]
    picture = pixels(drawn(gridworld("S"), policy, inches=10.0))
    ground = 255 * matplotlib.colors.to_rgb(CELL_COLOURS["S"])[0]
    for p, seeds in ((0.08, 4), (0.15, 3), (0.25, 2), (0.35, 1), (0.45, 0)):
        expected = ground + (255 - ground) * seeds / 4
        assert picture[500, int(500 + 1000 * BEAM * p), 0] == pytest.approx(expected, abs=1.5), p
    assert picture[int(500 - 1000 * BEAM * 0.45), 500, 0] == pytest.approx(255, abs=1.5)


def test_more_visits_are_darker():
    grid = gridworld("G...\nS...")
    visits = np.array([2.0, 1.0, 0.5, 0.0, 9.0, np.nan, 1.5, 0.1])
    ax = drawn(grid, np.full((8, 4), np.nan), visits)
    shade = collection(ax, "occupancy").get_facecolor()[:, 3]
    # Relative to 2, the most of a cell that is not the goal; the goal cannot be darker than that.
    np.testing.assert_allclose(shade, DARKEST * np.array([1.0, 0.5, 0.25, 1.0, 0.75, 0.05]))
    picture = pixels(ax)
    middle = picture[75, 25::50, 0]
    assert (np.diff(middle) > 10).all()
    assert np.ptp(picture[55, 25 + 50 * np.arange(1, 4), 0]) < 1  # the rim shows the ground alone


def test_nothing_visited_is_not_dark():
    ax = drawn(gridworld("G.\nS."), np.full((4, 4), np.nan), np.array([0.0, 0.0, 3.0, 0.0]))
    assert len(collection(ax, "occupancy").get_paths()) == 0


def test_the_picture_is_the_map_with_its_top_line_on_top():
    rows = ("G.R", "#W.", "S.R")
    picture = pixels(drawn(gridworld("\n".join(rows)), np.full((9, 4), np.nan), inches=3.0))
    for line, row in enumerate(rows):
        for column, letter in enumerate(row):
            colour = picture[100 * line + 50, 100 * column + 50]
            np.testing.assert_allclose(
                colour, 255 * np.array(matplotlib.colors.to_rgb(CELL_COLOURS[letter])), atol=1
            )
    assert picture[297, 50].tolist() == [0, 0, 0]  # the border of the start
    assert picture[297, 150].tolist() != [0, 0, 0]


def test_panels_wrap_after_four_and_fit_their_titles():
    grid = gridworld("G.\nS.\n..")
    panel = PolicyPanel("one", np.full((6, 4), 0.25), np.ones(6))
    figure = policy_map_figure(grid, [panel._replace(title=f"method {i}") for i in range(5)])
    positions = [ax.get_subplotspec().get_geometry()[:3] for ax in figure.axes]
    assert positions == [(2, 4, 0), (2, 4, 1), (2, 4, 2), (2, 4, 3), (2, 4, 4)]
    assert [ax.get_title() for ax in figure.axes] == [f"method {i}" for i in range(5)]
    (ax,) = policy_map_figure(grid, [panel._replace(title="a rather long title for a small map")]).axes
    assert ax.get_title().count("\n") == 1


def test_a_large_map_has_few_artists_and_a_sensible_size():
    grid = gridworld("\n".join(["." * 64] * 63 + ["S" + "." * 62 + "G"]))
    panel = PolicyPanel("large", np.full((4096, 4), 0.25), np.ones(4096))
    figure = policy_map_figure(grid, [panel])
    assert len(figure.axes[0].collections) == 5
    assert 4 < max(figure.get_size_inches()) < 9
    small = policy_map_figure(gridworld("G.\nS."), [PolicyPanel("", np.full((4, 4), 0.25), np.ones(4))])
    assert 1 < max(small.get_size_inches()) < 3


@pytest.mark.parametrize(
    ("policy", "occupancy", "message"),
    [
        (np.ones((6, 4)), np.ones(4), r"policy must have shape \[C, 4\] = \[4, 4\]"),
        (np.ones((0, 4, 4)), np.ones(4), "policy must have shape"),
        (np.ones((4, 4)), np.ones(3), r"occupancy must have shape \[C\] = \[4\], got \[3\]"),
    ],
)
def test_wrong_shapes_are_named(policy, occupancy, message):
    with pytest.raises(polinfer.PolinferError, match=message):
        policy_map_figure(gridworld("G.\nS."), [PolicyPanel("", policy, occupancy)])


def test_no_panels_are_refused():
    grid = gridworld("G.\nS.")
    with pytest.raises(polinfer.PolinferError, match="at least one panel"):
        policy_map_figure(grid, [])
    with pytest.raises(polinfer.PolinferError, match=r"write \[panel\]"):
        policy_map_figure(grid, PolicyPanel("", np.ones((4, 4)), np.ones(4)))


def test_a_beam_fades_out_over_two_standard_errors():
    policy = np.array([[0.7, 0.2, 0.1, 0.0]])
    stderr = np.array([[0.05, 0.02, 0.01, 0.0]])
    several = with_errors(policy, stderr)
    np.testing.assert_allclose(several[[0, 4, 8]], policy + np.array([-2, 0, 2])[:, None, None] * stderr)
    assert with_errors(policy, None) is policy
    assert with_errors(policy, stderr + 0.5).min() == 0
    grid = gridworld("S")
    lengths = corners(drawn(grid, several))[:, 0].max() - corners(drawn(grid, policy))[:, 0].max()
    assert lengths == pytest.approx(2 * 0.05 * BEAM)
