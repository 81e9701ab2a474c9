"""Heat maps of policies: states down, actions across."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, QuadMesh
from matplotlib.figure import Figure
from numpy.typing import NDArray

from polinfer.core.errors import PolinferError
from polinfer.exact.solution import Floats
from polinfer.plots.panels import PER_ROW, PolicyPanel, check_panels, panel_figure
from polinfer.plots.style import FRAME, INK, SMALL_SIZE, TEXT_SIZE, text_width
from polinfer.problems.tabular.table import TabularMDP

MAX_STATES = 40
MAX_ACTIONS = 40
_MAX_NUMBERS = 240  # cells of a panel; with more, a colour bar replaces the numbers
_CELL_HEIGHT = 0.19  # inches
_NAME = 26  # letters of a state's or action's name


def policy_table_figure(table: TabularMDP, panels: Sequence[PolicyPanel]) -> Figure:
    """Draw the action probabilities of each panel, four panels in a row.

    The rows are the states in which something is decided, most visited first (on average over the panels), at
    most forty; likewise the actions, if there are more than forty, are those taken most often there.  Illegal
    actions are struck through, and what is NaN is left white.  Several seeds are averaged.

    Examples
    --------
    >>> import polinfer
    >>> table = polinfer.make("continuation")
    >>> policy = polinfer.exact.soft_value_iteration(table).policy
    >>> visits = polinfer.exact.evaluate_policy(table, policy).occupancy
    >>> figure = policy_table_figure(table, [PolicyPanel("soft", policy, visits)])
    >>> [label.get_text() for label in figure.axes[0].get_yticklabels()]
    ['s1']
    """
    policies = [mean_policy(table, panel) for panel in check_panels(panels)]
    if not policies:
        raise PolinferError("there is nothing to draw: give at least one panel")
    visits = np.mean([check_occupancy(table, panel) for panel in panels], axis=0)
    states = _most_visited(table, visits)
    taken = np.mean([visits[states] @ np.nan_to_num(policy[states]) for policy in policies], axis=0)
    actions = np.sort(np.argsort(-taken, kind="stable")[:MAX_ACTIONS])
    shown = np.ix_(states, actions)
    numbers = len(states) * len(actions) <= _MAX_NUMBERS
    cell_width = 0.4 if numbers else max(0.1, min(0.4, 4.0 / len(actions)))
    width = max(1.6, cell_width * len(actions))
    state_names = [_short(table.state_names[s]) for s in states]
    action_names = [_short(table.action_names[a]) for a in actions]
    beside = text_width(max(map(len, state_names)), SMALL_SIZE)
    below = text_width(max(map(len, action_names)), SMALL_SIZE)
    upright = below > width / len(actions)
    margin = (0.3 + beside + (0.0 if numbers else 0.6), 0.15 + (below if upright else 0.1))
    titles = [panel.title for panel in panels]
    figure, axes = panel_figure(titles, width, max(0.3, _CELL_HEIGHT * len(states)), margin=margin)
    for index, (ax, policy) in enumerate(zip(axes, policies, strict=True)):
        mesh = _draw(ax, policy[shown], table.legal_actions[shown], numbers)
        ax.set_xticks(np.arange(len(actions)) + 0.5, action_names, rotation=90 if upright else 0)
        ax.set_yticks(
            np.arange(len(states)) + 0.5, state_names if index % PER_ROW == 0 else [""] * len(states)
        )
    decisions = int((~table.absorbing).sum())
    if len(states) < decisions:
        axes[0].set_ylabel(
            f"the {len(states)} most visited of {decisions:,} states", fontsize=TEXT_SIZE, color=INK
        )
    if len(actions) < table.num_actions:
        axes[0].set_xlabel(f"{len(actions)} of {table.num_actions:,} actions", fontsize=TEXT_SIZE, color=INK)
    if not numbers:
        bar = figure.colorbar(
            mesh, ax=axes, shrink=0.6, aspect=40, fraction=0.02, pad=0.02, ticks=[0, 0.5, 1]
        )
        bar.ax.tick_params(labelsize=SMALL_SIZE, color=FRAME, labelcolor=INK, width=0.7, length=3)
        bar.set_label("probability", fontsize=TEXT_SIZE, color=INK)
        bar.outline.set(edgecolor=FRAME, linewidth=0.7)
    return figure


def mean_policy(table: TabularMDP, panel: PolicyPanel) -> Floats:
    """Return the panel's policy ``[S, A]``, averaged over seeds."""
    policy = np.asarray(panel.policy, np.float64)
    shape = (table.num_states, table.num_actions)
    if policy.ndim not in (2, 3) or policy.shape[-2:] != shape or policy.size == 0:
        raise PolinferError(
            f"the policy of panel {panel.title!r} must have shape [S, A] = {list(shape)} or [seeds, S, A], "
            f"got {list(policy.shape)}"
        )
    return np.asarray(policy.reshape(-1, *shape).mean(axis=0))


def check_occupancy(table: TabularMDP, panel: PolicyPanel) -> Floats:
    """Return the panel's visits ``[S]``, zero where they are NaN."""
    visits = np.asarray(panel.occupancy, np.float64)
    if visits.shape != (table.num_states,):
        raise PolinferError(
            f"the occupancy of panel {panel.title!r} must have shape [S] = {[table.num_states]}, "
            f"got {list(visits.shape)}"
        )
    return np.nan_to_num(visits)


def _most_visited(table: TabularMDP, visits: Floats) -> NDArray[np.int64]:
    (deciding,) = np.nonzero(~table.absorbing)
    if len(deciding) == 0:
        raise PolinferError("there is nothing to draw: every state of the table is terminal")
    return np.asarray(deciding[np.argsort(-visits[deciding], kind="stable")[:MAX_STATES]])


def _draw(ax: Axes, policy: Floats, legal: NDArray[np.bool_], numbers: bool) -> QuadMesh:
    mesh = ax.pcolormesh(
        np.ma.masked_where(~legal | ~np.isfinite(policy), policy),
        cmap="Blues",
        vmin=0.0,
        vmax=1.0,
        edgecolors="white",
        linewidth=0.6,
    )
    rows, columns = np.nonzero(~legal)
    strokes = np.stack([np.stack([columns, rows + 1], -1), np.stack([columns + 1, rows], -1)], axis=1)
    ax.add_collection(LineCollection(list(strokes), colors="#c8c8c8", linewidths=0.6, label="illegal"))
    if numbers:
        for row, column in np.argwhere(legal & np.isfinite(policy)):
            p = float(policy[row, column])
            ax.text(
                column + 0.5,
                row + 0.5,
                _number(p),
                ha="center",
                va="center_baseline",
                fontsize=SMALL_SIZE,
                color="white" if p > 0.55 else INK,
            )
    ax.invert_yaxis()
    ax.spines[:].set(color=FRAME, linewidth=0.7)
    ax.tick_params(length=0, labelsize=SMALL_SIZE, labelcolor=INK)
    return mesh


def _number(p: float) -> str:
    """Format a probability with two decimals; 0 and 1 without decimals."""
    text = f"{p:.2f}"
    return text[0] if text in ("0.00", "1.00") else text


def _short(name: str) -> str:
    return name if len(name) <= _NAME else name[: _NAME - 1] + "…"
