"""Figures of the distribution of returns and of the course of training."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, MaxNLocator
from numpy.typing import ArrayLike

from polinfer.core.errors import PolinferError
from polinfer.core.formatting import number
from polinfer.exact.distribution import ReturnDistribution
from polinfer.plots.panels import panel_figure
from polinfer.plots.picture import Picture
from polinfer.plots.style import INK, PALETTE, SMALL_SIZE, TEXT_SIZE, line_colour, style_axes

_TAIL = 1e-3  # the axis ends where this much is beyond it, for every method
_BAND = (0.1, 0.9)
_STEPS = [1, 2, 5, 10]  # between ticks


def return_figure(distributions: Mapping[str, ReturnDistribution]) -> Figure:
    """Draw the cumulative distribution functions of the return, with a triangle at each mean.

    Examples
    --------
    >>> import polinfer
    >>> table = polinfer.make("bandit")
    >>> uniform = polinfer.exact.uniform_policy(table)
    >>> figure = return_figure({"uniform": polinfer.exact.return_distribution(table, uniform)})
    >>> figure.axes[0].get_xlabel()
    'return of an episode'
    """
    if not distributions:
        raise PolinferError("there is nothing to draw: give at least one distribution of returns")
    left = min(_quantile(d, _TAIL) for d in distributions.values())
    right = max(_quantile(d, 1 - _TAIL) for d in distributions.values())
    # Wide enough that the ends differ as numbers, however large they are.
    room = max(0.04 * (right - left) or 0.5, 1e-6 * abs(left), 1e-6 * abs(right))
    figure = Picture(figsize=(5.8, 2.9), layout="constrained", facecolor="white")
    ax = figure.add_subplot()
    style_axes(ax)
    for index, (name, distribution) in enumerate(distributions.items()):
        mean = float(distribution.probability @ distribution.returns)
        below, above = min(left, distribution.returns[0]), max(right, distribution.returns[-1])
        x = np.concatenate([[below - room], distribution.returns, [above + room]])
        y = np.concatenate([[0.0], np.cumsum(distribution.probability), [1.0]])
        # Later lines are thinner: where two agree, both are seen.
        thickness = np.linspace(2.0, 1.2, len(distributions))[index]
        colour, label = line_colour(index), f"mean {number(mean, 2)}".replace("-", "−")
        ax.step(x, y, where="post", color=colour, linewidth=thickness, label=f"{name}, {label}")
        ax.plot(mean, 0.0, "^", color=colour, markersize=6, markeredgecolor="white", clip_on=False, zorder=3)
    ax.set(xlim=(left - room, right + room), ylim=(0.0, 1.02))
    ax.set_xlabel("return of an episode", fontsize=TEXT_SIZE, color=INK)
    ax.set_ylabel("probability of at most this return", fontsize=TEXT_SIZE, color=INK)
    figure.legend(
        loc="outside right upper", fontsize=SMALL_SIZE, frameon=False, labelcolor=INK, handlelength=1.4
    )
    return figure


def training_figure(curves: Mapping[str, ArrayLike], sweeps: ArrayLike, unit: str = "sweeps") -> Figure:
    """Draw each of `curves` on a panel of its own: the median over seeds, and the band from 10% to 90%.

    Parameters
    ----------
    curves
        ``[seeds, points]`` by name; values that are not finite are left out.
    sweeps
        ``[points]``, the number of sweeps done at each point.
    unit
        What is counted, for the axis.

    Examples
    --------
    >>> figure = training_figure({"ESS": [[3.0, 5.0], [4.0, 6.0]]}, [100, 200])
    >>> figure.axes[0].get_lines()[0].get_ydata().tolist()
    [3.5, 5.5]
    """
    x = np.asarray(sweeps, np.float64)
    if x.ndim != 1:
        raise PolinferError(f"sweeps must have shape [points], got {list(x.shape)}")
    figure, axes = panel_figure(list(curves), 2.4, 1.6, margin=(0.3, 0.3))
    for ax, (name, values) in zip(axes, curves.items(), strict=True):
        curve = np.asarray(values, np.float64)
        if curve.ndim != 2 or curve.shape[1] != len(x) or len(curve) == 0:
            raise PolinferError(
                f"curve {name!r} must have shape [seeds, points] with {len(x)} points, "
                f"got {list(curve.shape)}"
            )
        style_axes(ax)
        curve = np.where(np.isfinite(curve), curve, np.nan)
        known = np.isfinite(curve).any(axis=0)
        low, median, high = np.nanquantile(curve[:, known], (_BAND[0], 0.5, _BAND[1]), axis=0)
        if len(curve) > 1:
            ax.fill_between(x[known], low, high, color=PALETTE[0], alpha=0.22, linewidth=0)
        ax.plot(x[known], median, color=PALETTE[0], linewidth=1.3)
        ax.margins(x=0.02)
        ax.xaxis.set_major_locator(MaxNLocator(4, steps=_STEPS))
        ax.yaxis.set_major_locator(MaxNLocator(5, steps=_STEPS))
        ax.xaxis.set_major_formatter(EngFormatter(sep=""))
        ax.set_xlabel(unit, fontsize=TEXT_SIZE, color=INK)
    return figure


def _quantile(distribution: ReturnDistribution, level: float) -> float:
    cumulative = np.cumsum(distribution.probability)
    index = min(int(np.searchsorted(cumulative, level)), len(cumulative) - 1)
    return float(distribution.returns[index])
