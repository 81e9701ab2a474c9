"""Strategy charts of Blackjack: the player's total down, the dealer's open card across."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure
from numpy.typing import NDArray

from polinfer.core.errors import PolinferError
from polinfer.exact import action_values, finite_horizon_optimum
from polinfer.exact.solution import Floats
from polinfer.plots.panels import PER_ROW, PolicyPanel, check_panels, panel_figure
from polinfer.plots.policy import mean_policy
from polinfer.plots.style import FRAME, INK, PALETTE, SMALL_SIZE, TEXT_SIZE
from polinfer.problems.domains.blackjack import CARDS, Blackjack, hands_of
from polinfer.problems.tabular.table import TabularMDP

# Blue to stick, vermilion to hit: told apart by the colour-blind, and about equally dark.
COLOURS = LinearSegmentedColormap.from_list("stick or hit", [PALETTE[0], "#f5f5f5", PALETTE[1]])
_CELL = (0.27, 0.185)  # inches
_GAP = 0.9  # cells between the blocks
_NUMBER_SIZE = 5.5


class _Block(NamedTuple):
    name: str
    rows: tuple[str, ...]
    states: NDArray[np.int64]  # [rows, 10]; -1 where the table has no such state


def strategy_chart_figure(
    mdp: Blackjack,
    table: TabularMDP,
    panels: Sequence[PolicyPanel],
    margins: Sequence[Floats | None] | None = None,
) -> Figure:
    """Draw the probability of hitting of each panel, hard hands above soft ones, four panels in a row.

    Parameters
    ----------
    table
        Of `mdp`.  Where it tells naturals apart, they have a row of their own.
    panels
        Policies by state of `table`; several seeds are averaged.  Their occupancies are not drawn.
    margins
        For each panel what hitting is worth more than sticking, ``[S]`` (see `hit_margin`); its cells then
        show how much there is between the two.  Where it is None they show the probability of hitting, in
        percent.

    Examples
    --------
    >>> import polinfer
    >>> mdp = polinfer.make("blackjack")
    >>> table = polinfer.tabulate(mdp)
    >>> optimum = polinfer.exact.finite_horizon_optimum(table)
    >>> visits = polinfer.exact.evaluate_policy(table, optimum.policy).occupancy
    >>> panel = PolicyPanel("optimum", optimum.policy, visits)
    >>> figure = strategy_chart_figure(mdp, table, [panel], [hit_margin(table)])
    >>> [ax.get_title() for ax in figure.axes[:1]]
    ['optimum']
    """
    blocks = _lay_out(mdp, table)
    hits = [mean_policy(table, panel)[:, 1] for panel in check_panels(panels)]
    gaps = _check_margins(table, panels, margins)
    rows = sum(len(block.rows) for block in blocks) + _GAP * (len(blocks) - 1)
    size = (_CELL[0] * len(CARDS), _CELL[1] * rows)
    figure, axes = panel_figure([panel.title for panel in panels], *size, margin=(1.1, 0.45))
    for index, (ax, hit, gap) in enumerate(zip(axes, hits, gaps, strict=True)):
        _draw(ax, blocks, hit, gap, labelled=index % PER_ROW == 0)
    scale = ScalarMappable(Normalize(0.0, 1.0), COLOURS)
    bar = figure.colorbar(scale, ax=axes, shrink=0.5, aspect=30, fraction=0.02, pad=0.015)
    bar.set_ticks([0, 0.25, 0.5, 0.75, 1], labels=["0", "¼", "½", "¾", "1"])
    bar.ax.tick_params(labelsize=SMALL_SIZE, color=FRAME, labelcolor=INK, width=0.7, length=3)
    bar.set_label("probability of hitting", fontsize=TEXT_SIZE, color=INK)
    bar.outline.set(edgecolor=FRAME, linewidth=0.7)
    return figure


def hit_margin(table: TabularMDP) -> Floats:
    """Return how much more hitting is worth than sticking, ``[S]``, if the best is done after it."""
    q = action_values(table, finite_horizon_optimum(table).value)
    return np.asarray(q[:, 1] - q[:, 0])


def _lay_out(mdp: Blackjack, table: TabularMDP) -> list[_Block]:
    stranger = PolinferError("the table is not one of this Blackjack; make it with tabulate(mdp)")
    if table.identities.shape[1] != 1 or table.num_actions != mdp.num_actions:
        raise stranger
    hands = hands_of(table.identities)
    playing = hands.ending < 0
    inside = (hands.total >= 4) & (hands.total <= 21) & (hands.dealer >= 1) & (hands.dealer <= 10)
    if (playing == table.absorbing).any() or not inside[playing].all():
        raise stranger
    if bool(hands.natural.any()) != mdp.naturals_matter:
        raise stranger
    at = {
        (bool(hands.natural[s]), bool(hands.usable[s]), int(hands.total[s]), int(hands.dealer[s])): int(s)
        for s in np.flatnonzero(playing)
    }

    def block(name: str, rows: list[tuple[str, bool, bool, int]]) -> _Block:
        states = [[at.get((*row[1:], dealer), -1) for dealer in CARDS.tolist()] for row in rows]
        return _Block(name, tuple(row[0] for row in rows), np.array(states))

    hard = [(str(total), False, False, total) for total in range(21, 3, -1)]
    soft = [(str(total), False, True, total) for total in range(21, 11, -1)]
    natural = [("nat.", True, True, 21)] if mdp.naturals_matter else []
    return [block("hard total", hard), block("soft total", natural + soft)]


def _check_margins(
    table: TabularMDP, panels: Sequence[PolicyPanel], margins: Sequence[Floats | None] | None
) -> list[Floats | None]:
    if margins is None:
        return [None] * len(panels)
    if len(margins) != len(panels):
        raise PolinferError(f"margins must have one entry per panel, {len(panels)}, got {len(margins)}")
    gaps = [None if margin is None else abs(np.asarray(margin, np.float64)) for margin in margins]
    for gap, panel in zip(gaps, panels, strict=True):
        if gap is not None and gap.shape != (table.num_states,):
            raise PolinferError(
                f"the margin of panel {panel.title!r} must have shape [S] = {[table.num_states]}, "
                f"got {list(gap.shape)}"
            )
    return gaps


def _draw(ax: Axes, blocks: Sequence[_Block], hit: Floats, gap: Floats | None, *, labelled: bool) -> None:
    ticks: list[float] = []
    top = 0.0
    for block in blocks:
        count = len(block.rows)
        shown = np.where(block.states >= 0, hit[block.states], np.nan)
        ax.pcolormesh(
            np.arange(len(CARDS) + 1),
            top + np.arange(count + 1),
            np.ma.masked_invalid(shown),
            cmap=COLOURS,
            vmin=0.0,
            vmax=1.0,
            edgecolors="white",
            linewidth=0.6,
            label=block.name,
        )
        for row, column in np.argwhere(np.isfinite(shown)):
            p = float(shown[row, column])
            ax.text(
                column + 0.5,
                top + row + 0.5,
                f"{100 * p:.0f}" if gap is None else _number(gap[block.states[row, column]]),
                ha="center",
                va="center_baseline",
                fontsize=_NUMBER_SIZE,
                color="white" if abs(p - 0.5) > 0.36 else INK,
            )
        ticks += (top + np.arange(count) + 0.5).tolist()
        if labelled:
            ax.text(
                -0.13,
                top + count / 2,
                block.name,
                transform=ax.get_yaxis_transform(),
                rotation=90,
                ha="center",
                va="center",
                fontsize=TEXT_SIZE,
                color=INK,
            )
        top += count + _GAP
    ax.set(xlim=(0, len(CARDS)), ylim=(top - _GAP, 0))
    rows = [name for block in blocks for name in block.rows]
    ax.set_yticks(ticks, rows if labelled else [""] * len(rows))
    ax.set_xticks(np.arange(len(CARDS)) + 0.5, ["A", *map(str, CARDS[1:])])
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0, labelsize=SMALL_SIZE, labelcolor=INK, pad=2)
    numbers = "in %: probability of hitting" if gap is None else "numbers: |Q(hit) − Q(stick)|"
    ax.set_xlabel(f"dealer's card\n{numbers}", fontsize=TEXT_SIZE, color=INK)


def _number(gap: float) -> str:
    """Write a margin with two decimals, or with three digits where that does not fit."""
    text = f"{gap:.2f}"
    return text if len(text) <= 5 else f"{gap:.3g}"
