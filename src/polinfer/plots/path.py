"""The posterior as a function of the reward scale."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, NullLocator, ScalarFormatter
from numpy.typing import NDArray

from polinfer.analysis.reward_path import ScalePath
from polinfer.exact.evaluation import PolicyValue
from polinfer.plots.panels import panel_figure
from polinfer.plots.style import FRAME, INK, PALETTE, SMALL_SIZE, TEXT_SIZE, style_axes

_POSTERIOR, _EPISODE, _SOFT = PALETTE[0], PALETTE[5], PALETTE[1]
_TWO_SIGMA = 2.0
_APART = 0.01  # of the axis: the stationary optimum gets a line of its own if it is this far from the other
_ORDER = [
    "policy posterior",
    "soft value iteration",
    "optimum",
    "best stationary policy",
    "uniform policy",
    "prior",
    "own rewards",
    "suggested scale",
]
_OWN, _SUGGESTED = "own rewards, scale 1", "suggested scale, 90% of the way"
_MARK = PALETTE[3]
_LOG_TEN = float(np.log(10.0))
_MANY = 700.0  # nats: beyond, a number of policies has no float, and its logarithm is drawn


def path_figure(path: ScalePath) -> Figure:
    """Draw return, success, entropy per step and effectively distinct policies over the reward scale.

    Bands are two standard errors wide on either side, where the posterior was sampled.

    Examples
    --------
    >>> import polinfer
    >>> figure = path_figure(polinfer.scale_path(polinfer.make("probe/fork"), [0.1, 1, 10]))
    >>> [ax.get_title() for ax in figure.axes]
    ['return', 'success', 'entropy per step, nats', 'effective policies']
    """
    points = path.points
    scale = np.array([point.scale for point in points])
    with_success = path.uniform.success is not None
    titles = ["return", "success", "entropy per step, nats", "effective policies"]
    if not with_success:
        titles.remove("success")
    # The margin below holds the legend, too.
    figure, axes = panel_figure(titles, 2.25, 1.7, margin=(0.35, 0.5))
    for ax in axes:
        style_axes(ax)
        ax.set_xscale("log")
        ax.margins(x=0.03)
        ax.xaxis.set_major_locator(LogLocator(numticks=6))
        ax.xaxis.set_minor_locator(NullLocator())
        ax.set_xlabel("reward scale", fontsize=TEXT_SIZE, color=INK)
    returns, entropy, policies = axes[0], axes[-2], axes[-1]
    _mark_scales(axes, path)

    def lines(ax: Axes, of: Callable[[PolicyValue], float], stderrs: list[float]) -> None:
        _references(ax, path, of)
        soft = np.array([of(point.soft_value) for point in points])
        ax.plot(scale, soft, "--", color=_SOFT, linewidth=1.3, label="soft value iteration, α = 1 / scale")
        mean = np.array([of(point.value) for point in points])
        _banded(ax, scale, mean, np.array(stderrs), _POSTERIOR, "policy posterior, an action per step")

    lines(returns, lambda value: value.expected_return, [point.return_stderr for point in points])
    per_episode = np.array([point.expected_return for point in points])
    spread = np.array([point.expected_return_stderr for point in points])
    _banded(returns, scale, per_episode, spread, _EPISODE, "policy posterior, one policy per episode")
    if with_success:
        lines(axes[1], lambda value: value.success or 0.0, [point.success_stderr for point in points])
    lines(entropy, lambda value: value.entropy, [point.entropy_stderr for point in points])
    for ax in axes[:-1]:
        ax.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))
    _distinct(policies, path, scale)
    handles: dict[str, Any] = {}
    for ax in axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    labels = sorted(handles, key=lambda label: _ORDER.index(label.split(",")[0]))
    figure.legend(
        [handles[label] for label in labels],
        labels,
        loc="outside lower center",
        ncols=3,
        fontsize=SMALL_SIZE,
        frameon=False,
        labelcolor=INK,
        handlelength=2.0,
    )
    return figure


def _mark_scales(axes: list[Axes], path: ScalePath) -> None:
    """Mark the problem's own rewards, and the scale at which the policy is most of the way."""
    low, high = path.points[0].scale, path.points[-1].scale
    suggested = path.scale_at()
    for scale, line, label in ((1.0, (0, (1, 1)), _OWN), (suggested, (0, (4, 1.5, 1, 1.5)), _SUGGESTED)):
        if scale is not None and low <= scale <= high:
            for ax in axes:
                ax.axvline(scale, color=_MARK, linewidth=0.9, linestyle=line, zorder=1.2, label=label)


def _banded(
    ax: Axes,
    x: NDArray[np.float64],
    mean: NDArray[np.float64],
    stderr: NDArray[np.float64],
    colour: str,
    label: str,
) -> None:
    if (stderr > 0).any():
        low, high = mean - _TWO_SIGMA * stderr, mean + _TWO_SIGMA * stderr
        ax.fill_between(x, low, high, color=colour, alpha=0.25, linewidth=0)
    ax.plot(x, mean, "-", color=colour, linewidth=1.5, marker="o", markersize=2.4, label=label)


def _references(ax: Axes, path: ScalePath, of: Callable[[PolicyValue], float]) -> None:
    top, bottom = of(path.optimum), of(path.uniform)
    ax.axhline(top, color=INK, linewidth=0.9, zorder=1.5, label="optimum")
    if abs(of(path.stationary) - top) > _APART * (abs(top - bottom) or 1.0):
        ax.axhline(
            of(path.stationary),
            color=INK,
            linewidth=0.9,
            linestyle=(0, (1, 1.5)),
            zorder=1.5,
            label="best stationary policy",
        )
    name = "prior" if path.table.has_prior else "uniform policy"
    ax.axhline(bottom, color=FRAME, linewidth=0.9, linestyle=(0, (6, 3)), zorder=1.5, label=name)


def _distinct(ax: Axes, path: ScalePath, scale: NDArray[np.float64]) -> None:
    entropy = np.array([point.posterior_entropy for point in path.points])
    stderr = np.array([point.posterior_entropy_stderr for point in path.points])
    every = float(np.log(float(path.num_policies))) if path.num_policies < 10**300 else np.inf
    if not every < _MANY:
        _banded(ax, scale, entropy / _LOG_TEN, stderr / _LOG_TEN, _POSTERIOR, "")
        ax.set_ylabel("power of ten", fontsize=TEXT_SIZE, color=INK)
        return
    low, high = np.exp(np.maximum(entropy - _TWO_SIGMA * stderr, 0.0)), np.exp(entropy + _TWO_SIGMA * stderr)
    if (stderr > 0).any():
        ax.fill_between(scale, low, high, color=_POSTERIOR, alpha=0.25, linewidth=0)
    ax.plot(scale, np.exp(entropy), "-", color=_POSTERIOR, linewidth=1.5, marker="o", markersize=2.4)
    ax.axhline(np.exp(every), color=FRAME, linewidth=0.9, linestyle=(0, (6, 3)), zorder=1.5)
    ax.set_yscale("log")
    ax.set_ylim(*np.exp([-0.04 * max(every, 1.0), every + 0.04 * max(every, 1.0)]))
    if every < 2 * _LOG_TEN:
        ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        ax.yaxis.set_major_formatter(ScalarFormatter())
        ax.yaxis.set_minor_locator(NullLocator())
    else:
        ax.yaxis.set_major_locator(LogLocator(numticks=6))
        ax.yaxis.set_minor_formatter(NullFormatter())
