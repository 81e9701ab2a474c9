"""Triangle Tireworld: the facts, and the dynamics that a second program in plain Python computes."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import polinfer
from polinfer import exact
from polinfer.core.errors import DomainError, PolinferError, TooLargeError
from polinfer.problems.conformance import check_mdp
from polinfer.problems.domains import Tireworld
from polinfer.problems.domains.ippc2014 import TireMap, tire_map

# -- a second implementation: a drive is (place, on board, flat, paid, frozenset of spares that lie) -----


PAPER = {
    "by_hand": (),
    "stuck_ends": True,
    "paid_later": False,
    "flat_goal": True,
    "goal": 10.0,
    "stuck": -10.0,
    "step": -0.1,
}
RDDL = {
    "by_hand": ("load", "change tire"),
    "stuck_ends": False,
    "paid_later": True,
    "flat_goal": True,
    "goal": 100.0,
    "stuck": 0.0,
    "step": -1.0,
}


def first(map):
    return map.start, False, False, False, frozenset(map.spares)


def at_goal(map, drive, rules):
    return drive[0] == map.goal and (rules["flat_goal"] or not drive[2])


def is_stuck(map, drive, rules):
    return drive[2] and not drive[1] and not at_goal(map, drive, rules)


def is_over(map, drive, rules):
    arrived = drive[3] if rules["paid_later"] else at_goal(map, drive, rules)
    return arrived or (rules["stuck_ends"] and is_stuck(map, drive, rules))


def choices(map, drive, rules):
    """Return the names of what may be done."""
    place, on_board, flat, _, lying = drive
    done = [] if flat else [f"move {to}" for origin, to in map.roads if origin == place]
    if "load" in rules["by_hand"] and place in lying:
        done.append("load")
    if "change tire" in rules["by_hand"] and on_board:
        done.append("change tire")
    if rules["paid_later"] or not rules["stuck_ends"]:
        done.append("wait")
    return done


def happens(map, drive, name, rules, flat_prob):
    """Return ``{(drive, reward, over): probability}``."""
    if is_over(map, drive, rules):
        return {(drive, 0.0, True): 1.0}
    result = {}
    moves = name.startswith("move")
    for puncture, chance in ((False, 1 - flat_prob), (True, flat_prob)) if moves else ((False, 1.0),):
        place, on_board, flat, paid, lying = drive
        if moves:
            place, flat = name.split()[1], puncture
        if name == "load":
            on_board, lying = True, lying - {place}
        mend = flat if "change tire" not in rules["by_hand"] else name == "change tire"
        if mend and on_board:
            on_board, flat = False, False
        if "load" not in rules["by_hand"] and moves and not flat and not on_board:
            on_board, lying = place in lying, lying - {place}
        reward = rules["step"]
        if rules["paid_later"] and at_goal(map, drive, rules):
            paid, reward = True, rules["goal"]
        after = (place, on_board, flat, paid, lying)
        if is_stuck(map, after, rules) and not is_stuck(map, drive, rules) and not paid:
            reward += rules["stuck"]
        if not rules["paid_later"] and at_goal(map, after, rules):
            reward += rules["goal"]
        if chance > 0:
            key = after, round(reward, 4), is_over(map, after, rules)
            result[key] = result.get(key, 0.0) + chance
    return result


def value(map, rules, flat_prob, horizon, best):
    """Return the expected return from the start, of the best or the uniform choices."""

    @functools.cache
    def of(drive, left):
        if left == 0 or is_over(map, drive, rules):
            return 0.0
        values = [
            sum(
                p * (reward + of(after, left - 1))
                for (after, reward, _), p in happens(map, drive, c, rules, flat_prob).items()
            )
            for c in choices(map, drive, rules)
        ]
        return max(values) if best else sum(values) / len(values)

    return of(first(map), horizon)


def read(mdp, state):
    """Return a state of `mdp` as a drive."""
    words = np.asarray(state.spares).tolist()
    lying = {s for i, s in enumerate(mdp.map.spares) if words[i // 31] >> (i % 31) & 1}
    flags = (bool(x) for x in (state.has_spare, state.flat, state.paid))
    return (mdp.map.locations[int(state.location)], *flags, frozenset(lying))


def write(mdp, drive):
    """Return a drive as a state of `mdp`."""
    place, on_board, flat, paid, lying = drive
    words = [0] * max(1, -(-len(mdp.map.spares) // 31))
    for i, spare in enumerate(mdp.map.spares):
        words[i // 31] |= (spare in lying) << (i % 31)
    like = mdp.init(jax.random.key(0))
    values = type(like)(mdp.map.locations.index(place), on_board, flat, paid, np.array(words))
    return jax.tree.map(lambda v, x: np.asarray(v, x.dtype), values, like)


def walk(map, rules, flat_prob, count, seed):
    """Return distinct drives that random choices lead to."""
    rng = np.random.default_rng(seed)
    found = {first(map): None}
    drive = first(map)
    for _ in range(40 * count):
        if is_over(map, drive, rules) or rng.random() < 0.03:
            drive = first(map)
        options = choices(map, drive, rules)
        after = list(happens(map, drive, options[rng.integers(len(options))], rules, flat_prob))
        drive = after[rng.integers(len(after))][0]
        found[drive] = None
        if len(found) == count:
            break
    return list(found)


def assert_same_dynamics(mdp, rules, flat_prob, count=40, seed=0, scale=1.0):
    drives = walk(mdp.map, rules, flat_prob, count, seed)
    # Padded to one size: one compilation.
    padded = drives + [drives[0]] * (count - len(drives))
    states = jax.tree.map(lambda *x: np.stack(x), *(write(mdp, drive) for drive in padded))
    actions = np.arange(mdp.num_actions, dtype=np.int32)
    listing = jax.jit(jax.vmap(lambda s: (jax.vmap(lambda a: mdp.outcomes(s, a))(actions), mdp.legal(s))))
    outcomes, legal = jax.tree.map(np.asarray, listing(states))
    for i, drive in enumerate(drives):
        state = jax.tree.map(lambda x, i=i: x[i], states)
        over = is_over(mdp.map, drive, rules)
        named = [mdp.action_name(state, a) for a in actions]
        if not over:
            assert [n for n, ok in zip(named, legal[i], strict=True) if ok] == choices(mdp.map, drive, rules)
        assert legal[i].any()
        for a in actions:
            got = {}
            for b in range(outcomes.probability.shape[2]):
                p, (after, reward, ends) = (
                    float(outcomes.probability[i, a, b]),
                    jax.tree.map(lambda x, at=(i, a, b): x[at], outcomes.transition),
                )
                key = read(mdp, after), round(float(reward) / scale, 4), bool(ends)
                if p > 0:
                    got[key] = got.get(key, 0.0) + p
            name = named[a] if legal[i, a] else "wait"
            assert got == pytest.approx(happens(mdp.map, drive, name, rules, flat_prob)), (drive, named[a])
    return drives


# -- facts -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("instance", "flat_prob", "side"),
    [
        *((1, 0.4, 3), (2, 0.499, 3), (3, 0.35, 5), (4, 0.45, 5), (5, 0.3, 7)),
        *((6, 0.4, 7), (7, 0.25, 9), (8, 0.35, 9), (9, 0.2, 11), (10, 0.3, 11)),
    ],
)
def test_the_maps_are_triangles(instance, flat_prob, side):
    map = tire_map(instance)
    assert map.flat_prob == flat_prob
    assert len(map.locations) == side * (side + 1) // 2
    assert len(map.roads) == len(set(map.roads)) == side * side - 1
    assert (map.start, map.goal, map.horizon) == ("la1a1", f"la1a{side}", 40)
    assert max(sum(a == place for a, _ in map.roads) for place in map.locations) == (2 if side == 3 else 3)
    # The edge of the triangle opposite the direct way is lined with spares.
    assert {f"la{i}a1" for i in range(2, side + 1)} <= set(map.spares)
    assert not {f"la1a{i}" for i in range(1, side + 1)} & set(map.spares)


def test_the_first_map_is_as_printed():
    map = tire_map(1)
    assert set(map.spares) == {"la2a1", "la2a2", "la3a1"}
    roads = "11-12 12-13 11-21 12-22 21-12 22-13 21-31 31-22"
    assert set(map.roads) == {tuple(f"la{p[0]}a{p[1]}" for p in road.split("-")) for road in roads.split()}


# -- dynamics --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("instance", [1, 4, 10])
def test_paper_dynamics_are_those_of_a_second_implementation(instance):
    mdp = polinfer.make(f"tireworld/{instance}", forget_behind=False)
    assert mdp.horizon == 20
    assert_same_dynamics(mdp, PAPER, tire_map(instance).flat_prob)


@pytest.mark.parametrize("instance", [1, 10])
def test_rddl_dynamics_are_those_of_a_second_implementation(instance):
    mdp = polinfer.make(f"tireworld/{instance}", semantics="rddl", reward_scale=-0.5)
    assert mdp.horizon == 40
    drives = assert_same_dynamics(mdp, RDDL, 1 - tire_map(instance).flat_prob, scale=-0.5)
    if instance == 1:
        assert {(drive[2], drive[1]) for drive in drives} == set(itertools.product([True, False], repeat=2))
        assert any(drive[3] for drive in drives)


RING = TireMap(("a", "b", "c", "d"), (("a", "b"), ("b", "a"), ("b", "c"), ("c", "b"), ("c", "d"), ("d", "a")),
               ("a", "b", "d"), "a", "d", 0.3, 9)  # fmt: skip


@pytest.mark.parametrize("loading", ["arrival", "hand"])
@pytest.mark.parametrize("changing", ["automatic", "hand"])
@pytest.mark.parametrize(
    ("stuck", "judged", "flat_goal"),
    [("ends", "after", False), ("waits", "after", True), ("ends", "before", False)],
)
def test_every_option_does_what_it_says_on_a_map_with_cycles(loading, changing, stuck, judged, flat_goal):
    mdp = Tireworld(
        RING, 0.3, loading, changing, stuck, judged, flat_goal, 7.0, -3.0, -0.25, horizon=9, reward_scale=2.0
    )
    by_hand = (*(("load",) if loading == "hand" else ()), *(("change tire",) if changing == "hand" else ()))
    rules = {"by_hand": by_hand, "stuck_ends": stuck == "ends", "paid_later": judged == "before"}
    rules |= {"flat_goal": flat_goal, "goal": 7.0, "stuck": -3.0, "step": -0.25}
    assert_same_dynamics(mdp, rules, 0.3, scale=2.0)


def test_steps_draw_flats_with_their_probability():
    mdp = polinfer.make("tireworld/1")
    start = mdp.init(jax.random.key(0))
    draws = 20_000
    keys = jax.random.split(jax.random.key(5), draws)
    moved = jax.jit(jax.vmap(lambda k: mdp.step(k, start, jnp.int32(0))))(keys)
    flat = np.asarray(moved.state.flat)
    assert abs(flat.mean() - 0.4) <= 5 * np.sqrt(0.24 / draws)
    assert (np.asarray(moved.terminated) == flat).all()
    np.testing.assert_allclose(moved.reward, np.where(flat, -10.1, -0.1), rtol=1e-6)


@pytest.mark.parametrize(
    "options",
    [
        {},
        pytest.param({"forget_behind": False}, marks=pytest.mark.slow),
        {"semantics": "rddl", "forget_behind": True},
    ],
    ids=str,
)
def test_conforms(options):
    check_mdp(polinfer.make("tireworld/10", **options, horizon=12), episodes=16)


# -- values ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("semantics", "rules"), [("paper", PAPER), ("rddl", RDDL)])
def test_exact_values_of_instance_one_are_those_of_a_recursion(semantics, rules):
    mdp = polinfer.make("tireworld/1", semantics=semantics, forget_behind=False)
    table = polinfer.tabulate(mdp)
    p = 0.4 if semantics == "paper" else 0.6
    uniform = exact.evaluate_policy(table, exact.uniform_policy(table))
    assert uniform.expected_return == pytest.approx(value(mdp.map, rules, p, mdp.horizon, False), abs=1e-9)
    best = exact.finite_horizon_optimum(table).objective
    assert best == pytest.approx(value(mdp.map, rules, p, mdp.horizon, True), abs=1e-9)
    assert round(best, 2) == {"paper": 1.84, "rddl": 93.12}[semantics]


@pytest.mark.parametrize(
    ("instance", "uniform", "best"),
    [
        (1, (0.53, 0.34), (0.60, 1.84)),
        (4, (0.28, -4.79), (0.55, 0.52)),
        pytest.param(7, (0.39, -2.90), (0.75, 3.77), marks=pytest.mark.slow),
        pytest.param(10, (0.23, -6.14), (0.70, 2.57), marks=pytest.mark.slow),
    ],
)
def test_values_fit_the_papers_table(instance, uniform, best):
    table = polinfer.tabulate(polinfer.make(f"tireworld/{instance}"))
    played = exact.evaluate_policy(table, exact.uniform_policy(table))
    assert (played.success, played.expected_return) == pytest.approx(uniform, abs=0.005)
    assert set(played.endings) == {"goal", "stuck"}
    assert sum(played.endings.values()) == pytest.approx(1.0)
    solved = exact.finite_horizon_optimum(table)
    assert solved.stages is not None
    played = exact.evaluate_policy(table, solved.stages)
    assert (played.success, played.expected_return) == pytest.approx(best, abs=0.0051)


@pytest.mark.parametrize("semantics", ["paper", "rddl"])
def test_forgetting_what_lies_behind_changes_no_value(semantics):
    def make(**options):
        return polinfer.make("tireworld/1", semantics=semantics, **options)

    tables = [polinfer.tabulate(make(forget_behind=forget)) for forget in (False, True)]
    assert make() == make(forget_behind=semantics == "paper")
    assert tables[0].num_states > 1.5 * tables[1].num_states
    for solve in (
        lambda t: exact.finite_horizon_optimum(t).objective,
        lambda t: exact.evaluate_policy(t, exact.uniform_policy(t)).expected_return,
    ):
        assert solve(tables[0]) == pytest.approx(solve(tables[1]), abs=1e-9)


def test_a_map_too_large_for_a_table_says_how_large_it_is():
    with pytest.raises(TooLargeError, match=r"at most 145,135,534,866,432"):
        polinfer.tabulate(polinfer.make("tireworld/10", forget_behind=False), limit=500)
    assert polinfer.make("tireworld/10", semantics="rddl").num_states_bound == 66 * 8 * 2**39


# -- names, features, endings ----------------------------------------------------------------------------


def test_names():
    mdp = polinfer.make("tireworld/1", forget_behind=False)
    start = mdp.init(jax.random.key(0))
    assert mdp.action_names == ("road 1", "road 2")
    assert [mdp.action_name(start, a) for a in range(2)] == ["move la1a2", "move la2a1"]
    assert mdp.state_name(start) == "la1a1"
    away = write(mdp, ("la1a2", True, True, False, frozenset({"la2a2", "la3a1"})))
    assert mdp.state_name(away) == "la1a2, spare on board, flat, taken la2a1"
    rddl = polinfer.make("tireworld/3", semantics="rddl")
    assert rddl.action_names == ("road 1", "road 2", "road 3", "load", "change tire", "wait")
    assert rddl.action_name(rddl.init(jax.random.key(0)), 3) == "load"
    assert rddl.action_name(rddl.init(jax.random.key(0)), 2) == "wait"
    forgetful = polinfer.make("tireworld/1", forget_behind=True)
    names = polinfer.tabulate(forgetful).state_names
    assert len(set(names)) == len(names)
    assert not any("taken" in name for name in names)


def test_features_show_location_spare_flat_and_lying_spares():
    mdp = polinfer.make("tireworld/4")
    drive = ("la1a2", True, False, False, frozenset({"la2a1", "la5a1"}))
    features = np.asarray(mdp.encode(write(mdp, drive)))
    assert features.dtype == np.float32
    assert len(features) == 15 + 2 + 9
    lying = [float(s in drive[4]) for s in mdp.map.spares]
    assert features.tolist() == [float(p == "la1a2") for p in mdp.map.locations] + [1.0, 0.0] + lying


def test_endings():
    paper, rddl = (polinfer.make("tireworld/1", semantics=s) for s in ("paper", "rddl"))
    assert [(e.name, e.success) for e in paper.endings] == [("goal", True), ("stuck", False)]
    assert [(e.name, e.success) for e in rddl.endings] == [("goal", True)]
    some = frozenset({"la2a1"})
    for mdp, drive, ending in (
        (paper, ("la1a3", False, True, False, some), 0),
        (paper, ("la1a2", False, True, False, some), 1),
        (paper, ("la1a2", False, False, False, some), -1),
        (rddl, ("la1a3", False, False, False, some), -1),
        (rddl, ("la1a3", False, False, True, some), 0),
        (rddl, ("la1a2", False, True, False, some), -1),
    ):
        assert int(mdp.ending(write(mdp, drive))) == ending


# -- options ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"semantics": "pddl"}, r"semantics must be 'paper' or 'rddl', got 'pddl'"),
        ({"loading": "arival"}, r"loading must be 'arrival' or 'hand'.*did you mean 'arrival'"),
        ({"changing": True}, "changing must be 'automatic' or 'hand'"),
        ({"stuck": ["ends"]}, "stuck must be 'ends' or 'waits'"),
        ({"goal_judged": "later"}, "goal_judged must be 'after' or 'before'"),
        ({"flat_prob": 1.5}, r"flat_prob must lie in 0\.\.1"),
        ({"goal_with_flat": 1}, "goal_with_flat must be true or false"),
        ({"forget_behind": "yes"}, "forget_behind must be true or false"),
        ({"goal_reward": float("nan")}, "goal_reward must be a finite number"),
        ({"stuck_reward": "x"}, "stuck_reward must be a finite number"),
        ({"step_reward": float("inf")}, "step_reward must be a finite number"),
        ({"reward_scale": None}, "reward_scale must be a finite number"),
        ({"horizon": 0}, "horizon must be at least 1"),
        ({"instance": 2}, "no option 'instance'"),
    ],
)
def test_bad_options_are_refused_in_one_line(options, sentence):
    with pytest.raises(PolinferError, match=sentence) as caught:
        polinfer.make("tireworld/1", **options)
    assert len(str(caught.value).splitlines()) == 1


def test_bad_maps_are_refused():
    options = ("arrival", "automatic", "ends", "after", True, 1.0, -1.0, 0.0, 5)
    with pytest.raises(DomainError, match="'z'"):
        Tireworld(RING._replace(goal="z"), 0.5, *options)
    with pytest.raises(DomainError, match="no road leads out of 'c'"):
        Tireworld(RING._replace(roads=RING.roads[:3] + RING.roads[5:]), 0.5, *options)
    with pytest.raises(DomainError, match="1 to 10, got 11"):
        tire_map(11)


def test_zero_is_an_option_and_not_a_missing_one():
    mdp = polinfer.make("tireworld/1", flat_prob=0, goal_with_flat=False, stuck_reward=0)
    assert (mdp.flat_prob, mdp.goal_with_flat, mdp.stuck_reward) == (0, False, 0)


def test_equal_problems_are_equal_and_hashable():
    one, other = (polinfer.make("tireworld/1") for _ in range(2))
    assert one == other
    assert hash(one) == hash(other)
    assert one != polinfer.make("tireworld/1", semantics="rddl")
    assert one != polinfer.make("tireworld/2", flat_prob=0.4)
