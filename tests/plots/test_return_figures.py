"""Distributions of returns and training curves."""

import numpy as np
import pytest

import polinfer
from polinfer.exact import ReturnDistribution
from polinfer.plots import return_figure, save_figure, training_figure


def value_at(line, x):
    """The height of a step-wise line right after `x`."""
    return line.get_ydata()[np.searchsorted(line.get_xdata(), x, side="right") - 1]


def test_steps_are_the_cumulative_distribution():
    figure = return_figure(
        {
            "risky": ReturnDistribution(np.array([-4.0, 0.0, 8.0]), np.array([0.5, 0.2, 0.3])),
            "safe": ReturnDistribution(np.array([1.0]), np.array([1.0])),
        }
    )
    (ax,) = figure.axes
    risky, mean_risky, safe, mean_safe = ax.get_lines()
    assert risky.get_drawstyle() == safe.get_drawstyle() == "steps-post"
    heights = [value_at(risky, x) for x in (-4.01, -4.0, -0.01, 0.0, 7.99, 8.0)]
    np.testing.assert_allclose(heights, [0.0, 0.5, 0.5, 0.7, 0.7, 1.0])
    assert [value_at(safe, x) for x in (-4.2, 0.99, 1.0, 8.2)] == [0, 0, 1, 1]
    assert mean_risky.get_xdata() == pytest.approx([0.4])
    assert mean_safe.get_xdata() == pytest.approx([1.0])
    assert risky.get_color() == mean_risky.get_color() != safe.get_color()
    (legend,) = figure.legends
    assert [t.get_text() for t in legend.get_texts()] == ["risky, mean 0.40", "safe, mean 1.00"]


def test_the_axis_shows_all_but_the_rarest_returns():
    rare = ReturnDistribution(np.array([-900.0, 1.0, 3.0]), np.array([1e-5, 0.5, 0.5 - 1e-5]))
    (ax,) = return_figure({"rare": rare}).axes
    left, right = ax.get_xlim()
    assert 0 < left < 1
    assert 3 < right < 4


def test_one_return_is_drawn_too():
    (ax,) = return_figure({"sure": ReturnDistribution(np.array([2.0]), np.array([1.0]))}).axes
    assert ax.get_xlim() == (1.5, 2.5)


def test_training_shows_median_and_band():
    curves = {"ESS": np.arange(11.0)[:, None] + [0.0, 100.0, 50.0], "log Z-hat": -np.ones((11, 3))}
    figure = training_figure(curves, [10, 20, 40])
    first, second = figure.axes
    assert (first.get_title(), second.get_title()) == ("ESS", "log Z-hat")
    assert first.get_xlabel() == "sweeps"
    (line,) = first.get_lines()
    np.testing.assert_allclose(line.get_xdata(), [10, 20, 40])
    np.testing.assert_allclose(line.get_ydata(), [5, 105, 55])
    (band,) = first.collections
    corners = {tuple(corner) for corner in np.round(band.get_paths()[0].vertices, 9)}
    assert {(10, 1), (10, 9), (20, 101), (20, 109), (40, 51), (40, 59)} == corners


def test_what_is_not_finite_is_left_out():
    curve = np.array([[1.0, -np.inf, np.nan], [3.0, 5.0, np.nan]])
    (ax,) = training_figure({"log Z-hat": curve}, [1, 2, 3]).axes
    np.testing.assert_allclose(ax.get_lines()[0].get_xydata(), [[1, 2], [2, 5]])


def test_one_seed_has_no_band():
    (ax,) = training_figure({"ESS": [[1.0, 2.0]]}, [1, 2]).axes
    assert not ax.collections


def test_bad_input_is_named():
    with pytest.raises(polinfer.PolinferError, match="at least one distribution"):
        return_figure({})
    with pytest.raises(polinfer.PolinferError, match="at least one panel"):
        training_figure({}, [1, 2])
    with pytest.raises(polinfer.PolinferError, match=r"'ESS' must have shape .* 2 points, got \[3, 4\]"):
        training_figure({"ESS": np.zeros((3, 4))}, [1, 2])
    with pytest.raises(polinfer.PolinferError, match="sweeps must have shape"):
        training_figure({"ESS": np.zeros((3, 4))}, np.zeros((3, 4)))


def test_enormous_returns_are_drawn(tmp_path):
    """Rewards of 1e100 are within the limit; neither ticks nor legend may burst the figure."""
    one = ReturnDistribution(np.array([2.4592356553520166e101]), np.array([1.0]))
    figure = return_figure({"one": one})
    save_figure(figure, tmp_path / "enormous.png")
    (legend,) = figure.legends
    assert legend.get_texts()[0].get_text() == "one, mean 2.4592e+101"
