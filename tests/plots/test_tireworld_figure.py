"""Maps of Tireworld: which width, number and colour stands for which road and location."""

import io
from functools import cache

import numpy as np
import pytest

import polinfer
from polinfer import exact
from polinfer.plots import PolicyPanel, tireworld_figure
from polinfer.plots.tireworld import _WIDEST, _lay_out


@cache
def world(**options):
    mdp = polinfer.make("tireworld/1", **options)
    return mdp, polinfer.tabulate(mdp)


def drawn(policy, occupancy=None, **options):
    mdp, table = world(**options)
    visits = exact.evaluate_policy(table, policy).occupancy if occupancy is None else occupancy
    return tireworld_figure(mdp, table, [PolicyPanel("panel", policy, visits)])


def part(ax, label):
    (found,) = [c for c in ax.collections if c.get_label() == label]
    return found


def widths(ax, mdp):
    """Return ``{road: width as a share of the widest}``, measured on the shapes."""
    shapes = [path.vertices for path in part(ax, "moves").get_paths()]
    return {
        road: float(np.linalg.norm(v[0] - v[6])) / _WIDEST
        for road, v in zip(mdp.map.roads, shapes, strict=True)
    }


def test_an_arrow_is_as_wide_as_the_share_of_the_moves_that_take_it():
    mdp, table = world()
    rng = np.random.default_rng(1)
    policy = np.where(table.legal_actions, rng.uniform(0.1, 1.0, table.legal_actions.shape), 0.0)
    policy /= policy.sum(axis=1, keepdims=True)
    occupancy = rng.uniform(0.1, 1.0, table.num_states)
    ax, _ = drawn(policy, occupancy).axes
    got = widths(ax, mdp)
    for place in ("la1a1", "la1a2", "la2a1", "la2a2", "la3a1"):
        # Names begin with the place; where the episode is over nobody moves.
        here = [
            s for s, name in enumerate(table.state_names)
            if name.split(",")[0] == place and not table.absorbing[s]
        ]  # fmt: skip
        share = occupancy[here] @ policy[here] / occupancy[here].sum()
        roads = [road for road in mdp.map.roads if road[0] == place]
        for road, p in zip(roads, share, strict=False):
            assert got[road] == pytest.approx(p)
    assert (
        len([s for s, n in enumerate(table.state_names) if n.startswith("la1a2") and not table.absorbing[s]])
        == 2
    )


def test_arrows_lead_from_place_to_place_on_a_lattice():
    mdp, table = world()
    ax, _ = drawn(exact.uniform_policy(table)).axes
    centre = dict(zip(mdp.map.locations, part(ax, "locations").get_offsets(), strict=True))
    assert centre["la1a1"][1] == centre["la1a3"][1] < centre["la2a1"][1] < centre["la3a1"][1]
    for (origin, target), path in zip(mdp.map.roads, part(ax, "moves").get_paths(), strict=True):
        way = centre[target] - centre[origin]
        assert np.linalg.norm(way) == pytest.approx(1.0)
        root, tip = (path.vertices[0] + path.vertices[6]) / 2, path.vertices[3]
        for point, towards in ((root - centre[origin], way), (centre[target] - tip, way)):
            assert point @ towards == pytest.approx(
                np.linalg.norm(point)
            )  # on the road, and in its direction
            assert 0.2 < np.linalg.norm(point) < 0.3


def test_colours_numbers_and_marks():
    mdp, table = world()
    policy = exact.stationary_optimum(table).policy
    ax, bar = drawn(policy).axes
    places = part(ax, "locations")
    centre = dict(zip(mdp.map.locations, places.get_offsets(), strict=True))
    texts = {tuple(t.get_position()): t.get_text() for t in ax.texts}
    seen = {name: texts[tuple(at)] for name, at in centre.items()}
    # The direct way: the second location is reached, good tires or not, and the goal with those left.
    assert seen == {"la1a1": "1", "la1a2": "1", "la1a3": "0.60", "la2a1": "0", "la2a2": "0", "la3a1": "0"}
    dark = dict(zip(mdp.map.locations, places.get_facecolors()[:, :3].sum(axis=1), strict=True))
    assert dark["la1a1"] == dark["la1a2"] < dark["la1a3"] < dark["la2a1"] == dark["la3a1"]
    assert bar.get_ylabel() == "steps there per episode"
    assert {"start", "goal", "spare"} <= set(texts.values())
    assert tuple(part(ax, "start").get_offsets()[0]) == tuple(centre["la1a1"])
    assert tuple(part(ax, "goal").get_offsets()[0]) == tuple(centre["la1a3"])
    spares = part(ax, "spares").get_offsets()
    for at, name in zip(spares, mdp.map.spares, strict=True):
        assert abs(at - centre[name]).max() < 0.25
    got = widths(ax, mdp)
    assert {road for road, width in got.items() if width > 0} == {("la1a1", "la1a2"), ("la1a2", "la1a3")}
    file = io.BytesIO()
    ax.figure.savefig(file, format="png")
    assert len(file.getvalue()) > 10_000


def test_what_is_done_by_hand_is_no_move():
    mdp, table = world(semantics="rddl", forget_behind=True)
    policy = exact.uniform_policy(table)
    ax, _ = drawn(policy, semantics="rddl", forget_behind=True).axes
    got = widths(ax, mdp)
    for place in mdp.map.locations:
        shares = [width for road, width in got.items() if road[0] == place]
        assert shares == pytest.approx([1 / len(shares)] * len(shares)) if shares else place == "la1a3"


def test_seeds_are_averaged_and_panels_share_a_scale():
    mdp, table = world()
    best, uniform = exact.stationary_optimum(table).policy, exact.uniform_policy(table)
    visits = np.ones(table.num_states)
    panels = [PolicyPanel("a", np.stack([best, uniform]), visits), PolicyPanel("b", uniform, 2 * visits)]
    figure = tireworld_figure(mdp, table, panels)
    assert [ax.get_title() for ax in figure.axes[:2]] == ["a", "b"]
    assert widths(figure.axes[0], mdp)["la1a1", "la1a2"] == pytest.approx(0.75)
    light, dark = (part(ax, "locations").get_facecolors()[0, :3].sum() for ax in figure.axes[:2])
    assert light > dark


def test_unknown_probabilities_where_nobody_is_do_not_spread():
    mdp, table = world()
    policy = exact.stationary_optimum(table).policy
    visits = exact.evaluate_policy(table, policy).occupancy
    policy = np.where((visits > 0)[:, None], policy, np.nan)
    ax, _ = drawn(policy, visits).axes
    assert np.isfinite(list(widths(ax, mdp).values())).all()


def test_locations_with_other_names_lie_on_a_circle():
    at = _lay_out(("home", "shop", "la1a2", "work"))
    np.testing.assert_allclose(np.linalg.norm(at, axis=1), np.linalg.norm(at[0]))
    np.testing.assert_allclose(np.linalg.norm(np.diff(at, axis=0), axis=1), 1.0)


def test_strangers_are_refused():
    mdp, table = world()
    panel = PolicyPanel("mine", exact.uniform_policy(table), np.ones(table.num_states))
    with pytest.raises(polinfer.PolinferError, match="at least one panel"):
        tireworld_figure(mdp, table, [])
    with pytest.raises(polinfer.PolinferError, match="write \\[panel\\]"):
        tireworld_figure(mdp, table, panel)
    with pytest.raises(polinfer.PolinferError, match="occupancy of panel 'mine'"):
        tireworld_figure(mdp, table, [panel._replace(occupancy=np.zeros(3))])
    with pytest.raises(polinfer.PolinferError, match="policy of panel 'mine'"):
        tireworld_figure(mdp, table, [panel._replace(policy=np.zeros((3, 2)))])
    with pytest.raises(polinfer.PolinferError, match="not one of this Tireworld"):
        tireworld_figure(mdp, polinfer.make("continuation"), [panel])
