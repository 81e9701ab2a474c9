"""Strategy charts: which number and colour stands in which cell."""

import io
from functools import cache

import numpy as np
import pytest

import polinfer
from polinfer import exact
from polinfer.plots import PolicyPanel, hit_margin, strategy_chart_figure
from polinfer.plots.blackjack import COLOURS
from polinfer.problems.domains import Blackjack

CARDS = ["A", "2", "3", "4", "5", "6", "7", "8", "9", "10"]


@cache
def game(natural=False, sab=True, reward_scale=1.0):
    mdp = Blackjack(natural=natural, sab=sab, reward_scale=reward_scale)
    return mdp, polinfer.tabulate(mdp)


def numbered(table):
    """A policy that hits in state `s` of `S` with probability s/S."""
    hit = np.arange(table.num_states) / table.num_states
    return np.stack([1 - hit, hit], axis=1)


def chart(panels, margins=None, **options):
    mdp, table = game(**options)
    visits = np.zeros(table.num_states)
    shown = [PolicyPanel(f"panel {i}", policy, visits) for i, policy in enumerate(panels)]
    return strategy_chart_figure(mdp, table, shown, margins)


def read(ax, labels):
    """Return ``{state's name: (colour's value, text)}`` and the order of rows, from the artists alone."""
    columns = {
        tick: label.get_text() for tick, label in zip(ax.get_xticks(), ax.get_xticklabels(), strict=True)
    }
    assert list(columns.values()) == CARDS
    rows = dict(zip(ax.get_yticks(), labels, strict=True))
    numbers = {tuple(t.get_position()): t.get_text() for t in ax.texts if t.get_rotation() == 0}
    cells, order = {}, []
    for mesh in ax.collections:
        kind = mesh.get_label().split()[0]
        corners = mesh.get_coordinates()
        values = mesh.get_array()
        for row, column in np.ndindex(values.shape):
            x, y = (corners[row, column] + corners[row + 1, column + 1]) / 2
            card = columns[x].replace("A", "ace")
            player = "natural" if rows[y] == "nat." else f"{kind} {rows[y]}"
            filled = values[row, column] is not np.ma.masked
            cells[f"{player} vs {card}"] = (
                (float(values[row, column]), numbers.pop((x, y))) if filled else None
            )
            order += [player] if column == 0 else []
    assert not numbers
    assert ax.yaxis_inverted()
    return cells, order


def labels(ax):
    return [label.get_text() for label in ax.get_yticklabels()]


@pytest.mark.parametrize("options", [{}, {"sab": False}], ids=str)
def test_every_hand_has_its_cell_with_its_probability(options):
    _, table = game(**options)
    policy = numbered(table)
    ax, bar = chart([policy], **options).axes
    cells, order = read(ax, labels(ax))
    names = [name for s, name in enumerate(table.state_names) if not table.absorbing[s]]
    assert cells.keys() == set(names)
    for name in names:
        p = policy[table.state_names.index(name), 1]
        assert cells[name] == (pytest.approx(p), f"{100 * p:.0f}")
    naturals = ["natural"] if any(name.startswith("natural") for name in names) else []
    assert order == [
        *(f"hard {t}" for t in range(21, 3, -1)), *naturals, *(f"soft {t}" for t in range(21, 11, -1))
    ]  # fmt: skip
    assert bool(naturals) == (options != {"sab": False})
    assert bar.get_ylabel() == "probability of hitting"
    assert {t.get_text() for t in ax.texts if t.get_rotation() == 90} == {"hard total", "soft total"}


def test_the_optimum_shows_how_close_its_choices_are():
    _, table = game()
    optimum, margin = exact.finite_horizon_optimum(table), hit_margin(table)
    ax, _ = chart([optimum.policy], [margin]).axes
    cells, _ = read(ax, labels(ax))
    for s in np.flatnonzero(~table.absorbing):
        colour, text = cells[table.state_names[s]]
        assert colour == (margin[s] > 0)
        assert text == f"{abs(margin[s]):.2f}"
    assert cells["hard 16 vs 10"] == (1.0, "0.01")
    assert cells["hard 12 vs 4"] == (0.0, "0.00")
    assert "|Q(hit) − Q(stick)|" in ax.get_xlabel()
    file = io.BytesIO()
    ax.figure.savefig(file, format="png")
    assert len(file.getvalue()) > 20_000


def test_margins_are_those_of_policies_that_differ_in_one_choice():
    _, table = game(natural=True, sab=False)
    optimum, margin = exact.finite_horizon_optimum(table), hit_margin(table)
    best = optimum.policy.argmax(axis=1)
    assert (margin[table.absorbing] == 0).all()
    for name in ("hard 16 vs 10", "soft 18 vs 9", "natural vs 6", "hard 4 vs ace"):
        s = table.state_names.index(name)
        # No hand comes back to a state that it has left, so that one choice is one action.
        worth = [
            exact.evaluate_policy(table, np.where(np.arange(len(best)) == s, a, best)).value for a in (0, 1)
        ]
        assert margin[s] == pytest.approx(worth[1][s] - worth[0][s], abs=1e-12)


def test_action_values_are_expectations():
    table = polinfer.TabularMDP(
        [[[0.25, 0.75, 0], [0, 0, 1]], [[0, 0, 1], [0, 0.5, 0.5]], [[0, 0, 0], [0, 0, 0]]],
        [[1.0, 2.0], [3.0, 4.0], [0.0, 0.0]],
        0,
        [2],
        5,
    )
    got = exact.action_values(table, np.array([10.0, 20.0, 40.0]))
    np.testing.assert_allclose(got, [[18.5, 42.0], [43.0, 34.0], [0.0, 0.0]])


def test_colours_diverge_about_one_half():
    middle = np.array(COLOURS(0.5)[:3])
    stick, hit = (np.array(COLOURS(x)[:3]) for x in (0.0, 1.0))
    assert (middle > 0.9).all()
    assert stick[2] > 0.6 > stick[0]  # blue
    assert hit[0] > 0.6 > hit[2]  # vermilion
    _, table = game()
    (mesh, _) = chart([numbered(table)]).axes[0].collections
    assert (mesh.norm.vmin, mesh.norm.vmax) == (0.0, 1.0)


def test_panels_may_mix_margins_and_percentages_and_seeds():
    _, table = game()
    policy = numbered(table)
    seeds = np.stack([policy, policy[:, ::-1]])
    margin = np.linspace(-300.0, 5.0, table.num_states)
    figure = chart([policy, seeds, policy, seeds, policy], [margin, None, margin, None, margin])
    assert [ax.get_title() for ax in figure.axes[:5]] == [f"panel {i}" for i in range(5)]
    first = figure.axes[0]
    for i, ax in enumerate(figure.axes[:5]):
        # Rows are named where a row of panels begins.
        assert labels(ax) == (labels(first) if i % 4 == 0 else [""] * 29)
        cells, _ = read(ax, labels(first))
        if i % 2:
            assert set(cells.values()) == {(0.5, "50")}
        else:
            assert cells["hard 4 vs ace"][1] == "300"
            assert {len(text) for _, text in cells.values()} <= {3, 4, 5}


def test_unknown_probabilities_are_left_white():
    _, table = game()
    policy = numbered(table)
    policy[table.state_names.index("soft 13 vs 9")] = np.nan
    ax, _ = chart([policy]).axes
    cells, _ = read(ax, labels(ax))
    assert [name for name, cell in cells.items() if cell is None] == ["soft 13 vs 9"]


def test_strangers_are_refused():
    mdp, table = game()
    visits = np.zeros(table.num_states)
    panel = PolicyPanel("mine", numbered(table), visits)
    with pytest.raises(polinfer.PolinferError, match="at least one panel"):
        strategy_chart_figure(mdp, table, [])
    with pytest.raises(polinfer.PolinferError, match="write \\[panel\\]"):
        strategy_chart_figure(mdp, table, panel)
    with pytest.raises(polinfer.PolinferError, match="one entry per panel, 1, got 2"):
        strategy_chart_figure(mdp, table, [panel], [None, None])
    with pytest.raises(
        polinfer.PolinferError, match=r"margin of panel 'mine' must have shape \[S\] = \[293\]"
    ):
        strategy_chart_figure(mdp, table, [panel], [np.zeros(5)])
    with pytest.raises(polinfer.PolinferError, match="policy of panel 'mine'"):
        strategy_chart_figure(mdp, table, [panel._replace(policy=np.zeros((3, 2)))])
    other, _ = game(sab=False)
    fork, ablation = (polinfer.tabulate(polinfer.make(n)) for n in ("probe/fork", "gridworld/ablation"))
    for blackjack, stranger in ((other, table), (mdp, fork), (mdp, ablation)):
        with pytest.raises(polinfer.PolinferError, match="not one of this Blackjack"):
            strategy_chart_figure(blackjack, stranger, [panel])
