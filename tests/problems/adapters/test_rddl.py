"""RDDL: our domains against pyRDDLGym's own simulator, step by step; problems from files; what is refused."""

import importlib
import re
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import polinfer
from polinfer import exact
from polinfer.core.errors import DomainError, PolinferError
from polinfer.problems.adapters import rddl
from polinfer.problems.conformance import check_mdp
from polinfer.problems.domains.ippc2014 import curriculum, tire_map

pytest.importorskip("pyRDDLGym")
pytest.importorskip("pyRDDLGym_jax")
pytest.importorskip("rddlrepository")

TIREWORLD = "TriangleTireworld_MDP_ippc2014"
ADVISING = "AcademicAdvising_MDP_ippc2014"


@pytest.fixture(autouse=True)
def _quick(compile_quickly):
    """Compile everything here quickly."""


def parse(domain, instance):
    packages = rddl._import_packages()
    with rddl._kept_quiet():
        return rddl._parse(packages, *rddl._find(domain, str(instance)))


class Forced:
    """A generator of uniform numbers that gives what it is told to."""

    value = 0.5

    def uniform(self, size=None):
        return np.broadcast_to(self.value, () if size is None else size)


class Simulator:
    """pyRDDLGym's own simulator, by tensors."""

    def __init__(self, domain, instance):
        core = importlib.import_module("pyRDDLGym.core.simulator")
        model = parse(domain, instance)
        with rddl._kept_quiet():
            self.sim = core.RDDLSimulator(model, keep_tensors=True)
        self.noop = dict(self.sim.noop_actions)

    def play(self, state, changed, uniform):
        """Return the next state and the reward, from a given state and uniform numbers."""
        self.sim.reset()
        self.sim.subs.update({name: np.asarray(value) for name, value in state.items()})
        self.sim.rng = Forced()
        self.sim.rng.value = uniform
        after, reward, done = self.sim.step({**self.noop, **changed})
        assert not done
        return {name: np.asarray(value).tolist() for name, value in after.items()}, float(reward)

    def episodes(self, count, rng, draw, seen):
        """Return the returns of `count` episodes of 40 steps, and the mean of `seen(state)` over steps."""
        returns, visits = np.zeros(count), []
        for i in range(count):
            self.sim.rng = rng
            state, _ = self.sim.reset()
            total = 0.0
            for _ in range(40):
                total = total + seen(state)
                state, reward, _ = self.sim.step({**self.noop, **draw(rng, state)})
                returns[i] += float(reward)
            visits.append(total)
        return returns, np.array(visits)


def some_states(mdp, count):
    """Return distinct states of `mdp` met by random play, on the host."""

    def episode(key):
        def step(state, key):
            key_action, key_move = jax.random.split(key)
            logits = jnp.where(mdp.legal(state), 0.0, -jnp.inf)
            action = jax.random.categorical(key_action, logits).astype(jnp.int32)
            return mdp.step(key_move, state, action).state, state

        start = mdp.init(key)
        return jax.lax.scan(step, start, jax.random.split(key, mdp.horizon))[1]

    states = jax.jit(jax.vmap(episode))(jax.random.split(jax.random.key(1), 64))
    flat = jax.tree.map(lambda x: np.asarray(x).reshape(-1, *x.shape[2:]), states)
    identity = np.asarray(jax.vmap(mdp.identity)(flat))
    _, where = np.unique(identity, axis=0, return_index=True)
    where = np.random.default_rng(0).permutation(where)[:count]
    return [jax.tree.map(lambda x, i=i: x[i], flat) for i in where]


def listing(mdp, states):
    """Return everything that each action can lead to from `states`, padded to one size."""
    stacked = jax.tree.map(lambda *x: np.stack(x), *states)
    actions = np.arange(mdp.num_actions, dtype=np.int32)
    every = jax.jit(jax.vmap(lambda s: (jax.vmap(lambda a: mdp.outcomes(s, a))(actions), mdp.legal(s))))
    return jax.tree.map(np.asarray, every(stacked))


# -- our states and actions in the words of the files -----------------------------------------------------


def drive_fluents(mdp, state):
    place, spares = int(state.location), np.asarray(state.spares).tolist()
    lying = [s for i, s in enumerate(mdp.map.spares) if spares[i // 31] >> (i % 31) & 1]
    return {
        "vehicle-at": [i == place for i in range(len(mdp.map.locations))],
        "spare-in": [name in lying for name in mdp.map.locations],
        "not-flattire": not state.flat,
        "hasspare": bool(state.has_spare),
        "goal-reward-received": bool(state.paid),
    }


def drive_action(mdp, state, action):
    name, size = mdp.action_name(state, action), len(mdp.map.locations)
    here = int(state.location)
    if name.startswith("move"):
        moves = np.zeros((size, size), bool)
        moves[here, mdp.map.locations.index(name.split()[1])] = True
        return {"move-car": moves}
    return {"load": {"loadtire": np.arange(size) == here}, "change tire": {"changetire": True}}.get(name, {})


def record_fluents(mdp, state):
    count = len(mdp.curriculum.courses)
    return {
        name: [bool(np.asarray(words)[i // 31] >> (i % 31) & 1) for i in range(count)]
        for name, words in (("passed", state.passed), ("taken", state.taken))
    }


def enrolment(mdp, action):
    names = mdp.action_names[action].removeprefix("enrol ").split("+")
    return np.array([course in names for course in mdp.curriculum.courses])


def as_lists(fluents):
    return {name: np.asarray(value).tolist() for name, value in fluents.items()}


# -- facts -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("instance", range(1, 11))
def test_our_facts_are_those_of_the_files(instance):
    map, model = tire_map(instance), parse(TIREWORLD, instance)
    initial = importlib.import_module("pyRDDLGym.core.compiler.initializer").RDDLValueInitializer(model)
    values = initial.initialize()
    places = model.type_to_objects["location"]
    assert set(map.locations) == set(places)
    assert set(map.roads) == {(places[a], places[b]) for a, b in np.argwhere(values["road"])}
    assert set(map.spares) == {places[i] for (i,) in np.argwhere(values["spare-in"])}
    assert [map.start, map.goal] == [
        places[int(np.argmax(values[name]))] for name in ("vehicle-at", "goal-location")
    ]
    assert (map.flat_prob, map.horizon) == (float(values["FLAT-PROB"]), model.horizon)

    plan, model = curriculum(instance), parse(ADVISING, instance)
    values = type(initial)(model).initialize()
    courses = model.type_to_objects["course"]
    assert list(plan.courses) == courses
    assert set(plan.prerequisites) == {(courses[a], courses[b]) for a, b in np.argwhere(values["PREREQ"])}
    assert set(plan.required) == {courses[i] for (i,) in np.argwhere(values["PROGRAM_REQUIREMENT"])}
    assert (plan.load, plan.horizon) == (model.max_allowed_actions, model.horizon)


# -- step by step, with forced outcomes ------------------------------------------------------------------


@pytest.mark.parametrize("instance", [1, 2, 4])
def test_tireworld_steps_are_those_of_the_simulator(instance):
    mdp = polinfer.make(f"tireworld/{instance}", semantics="rddl")
    simulator = Simulator(TIREWORLD, instance)
    states = some_states(mdp, 40)
    outcomes, legal = listing(mdp, states)
    good = 1 - mdp.flat_prob  # of the tires after a move
    rng = np.random.default_rng(instance)
    seen = set()
    for i, state in enumerate(states):
        before = drive_fluents(mdp, state)

        def check(changed, action, i=i, state=state, before=before):
            # The simulator's tires stay good iff its number is at most their probability: this pins it.
            for flat, uniform in ((0, good * (1 - 1e-5)), (1, good * (1 + 1e-5))):
                after, reward = simulator.play(before, changed, uniform)
                slot = flat if outcomes.probability[i, action, flat] > 0 else 0
                ours, pay, _ = jax.tree.map(lambda x, at=(i, action, slot): x[at], outcomes.transition)
                assert reward == pytest.approx(float(pay), abs=1e-5)
                if not state.paid:  # ours absorbs; theirs goes on and earns nothing
                    assert as_lists(drive_fluents(mdp, ours)) == after
                seen.add((mdp.action_name(state, action).split()[0], reward))

        for action in np.flatnonzero(legal[i]):
            check(drive_action(mdp, state, int(action)), int(action))
        # Any other grounded action does nothing, which is why a wait can stand for all of them.
        names, places = mdp.map.locations, len(mdp.map.locations)
        for origin, target in rng.integers(0, places, (6, 2)):
            road = origin == state.location and (names[origin], names[target]) in mdp.map.roads
            if state.flat or not road:
                move = np.zeros((places, places), bool)
                move[origin, target] = True
                check({"move-car": move}, mdp.num_actions - 1)
        for place in rng.integers(0, places, 3):
            if place != state.location or not before["spare-in"][place]:
                check({"loadtire": np.arange(places) == place}, mdp.num_actions - 1)
    assert {"move", "load", "change", "wait"} == {kind for kind, _ in seen}
    assert {reward for _, reward in seen} >= ({-1.0, 100.0, 0.0} if instance != 4 else {-1.0})


@pytest.mark.parametrize("instance", [1, 2, 4])
def test_advising_steps_are_those_of_the_simulator(instance):
    mdp = polinfer.make(f"advising/{instance}", semantics="rddl")
    simulator = Simulator(ADVISING, instance)
    states = some_states(mdp, 30)
    outcomes, legal = listing(mdp, states)
    assert legal.all()
    rng = np.random.default_rng(instance)
    odds = jax.jit(mdp._pass_odds)
    for i, state in enumerate(states):
        for action in rng.permutation(mdp.num_actions)[:12]:
            chosen = enrolment(mdp, action)
            p = np.zeros(len(chosen))
            p[np.flatnonzero(chosen)] = np.asarray(odds(state, np.int32(action)))[: chosen.sum()]
            for case, probability in enumerate(outcomes.probability[i, action]):
                ours, pay, _ = jax.tree.map(lambda x, at=(i, action, case): x[at], outcomes.transition)
                if probability == 0:
                    continue
                passed = np.array(record_fluents(mdp, ours)["passed"]) & chosen
                uniform = np.where(passed, p * (1 - 1e-5), p * (1 + 1e-5))
                after, reward = simulator.play(record_fluents(mdp, state), {"takeCourse": chosen}, uniform)
                assert as_lists(record_fluents(mdp, ours)) == after
                assert reward == pytest.approx(float(pay))


# -- whole episodes of fixed random policies ---------------------------------------------------------------


def play_compiled(mdp, logits, seen, episodes, seed):
    """Return the returns, and the sum of `seen(state)` over 40 steps, of the policy with `logits(state)`."""

    def episode(key):
        def step(state, key):
            key_action, key_move = jax.random.split(key)
            action = jax.random.categorical(key_action, logits(state)).astype(jnp.int32)
            moved = mdp.step(key_move, state, action)
            return moved.state, (moved.reward, seen(state))

        _, (rewards, sights) = jax.lax.scan(step, mdp.init(key), jax.random.split(key, 40))
        return rewards.sum(), sights.sum(axis=0)

    played = jax.jit(jax.vmap(episode))(jax.random.split(jax.random.key(seed), episodes))
    return tuple(np.asarray(x, np.float64) for x in played)


def assert_same_means(sample, want, least=-np.inf, std=None):
    """Compare the means of a sample ``[n, ...]`` with exact ones or with those of a larger sample.

    Means below `least` are left out: what is seen in few episodes has no good standard error.
    """
    error = (sample.var(axis=0) if std is None else std**2) / len(sample)
    if want.ndim == sample.ndim:
        error = error + want.var(axis=0) / len(want)
        want = want.mean(axis=0)
    compared = want >= least
    assert np.sum(compared) >= min(3, np.size(want))
    assert (abs(sample.mean(axis=0) - want) <= 5 * np.sqrt(error) + 1e-6)[compared].all()


@pytest.mark.parametrize("instance", [1, 2, 4])
def test_tireworld_episodes_are_those_of_both_simulators(instance):
    mdp = polinfer.make(f"tireworld/{instance}", semantics="rddl", forget_behind=True)
    theirs = polinfer.make(f"rddl:{TIREWORLD}/{instance}")
    places, rng = mdp.map.locations, np.random.default_rng(instance)
    # A policy by location: what is possible nowhere else, and a change of tires, each with a random weight.
    weight = {
        place: {
            **{f"move-car({place},{to})": rng.exponential() for start, to in mdp.map.roads if start == place},
            **{f"loadtire({place})": rng.exponential(), "changetire": rng.exponential()},
        }
        for place in places
    }
    odds = {place: {n: w / sum(here.values()) for n, w in here.items()} for place, here in weight.items()}

    table = polinfer.tabulate(mdp)
    policy = np.zeros((table.num_states, mdp.num_actions))
    located = [name.split(",")[0] for name in table.state_names]
    for s, place in enumerate(located):
        *roads, load, change = odds[place].values()
        empty = [0.0] * (mdp.num_actions - 3 - len(roads))
        policy[s] = np.array([*roads, *empty, load, change, 0.0]) * table.legal_actions[s]
        policy[s, -1] = 1 - policy[s].sum()
    value = exact.evaluate_policy(table, policy)
    stays = np.array([sum(value.occupancy[s] for s, p in enumerate(located) if p == q) for q in places])
    away = [i for i, place in enumerate(places) if place != mdp.map.goal]

    def check(returns, visits):
        assert_same_means(returns, np.array(value.expected_return), std=value.std)
        assert_same_means(visits[:, away], stays[away], least=1.5)

    simulator = Simulator(TIREWORLD, instance)
    objects = simulator.sim.rddl.type_to_objects["location"]
    order = [objects.index(place) for place in places]
    table_of = np.log([[odds[p].get(n, 1e-30) for n in theirs.action_names] for p in objects])
    check(
        *play_compiled(
            theirs,
            lambda s: jnp.asarray(table_of)[jnp.argmax(s["vehicle-at"])],
            lambda s: s["vehicle-at"].astype(jnp.float32)[jnp.array(order)],
            1500,
            instance,
        )
    )

    def draw(rng, state):
        here = odds[objects[int(np.argmax(state["vehicle-at"]))]]
        kind, _, rest = rng.choice(list(here), p=list(here.values())).partition("(")
        if not rest:
            return {kind: True}
        tensor = np.zeros_like(simulator.noop[kind])
        tensor[tuple(objects.index(place) for place in rest[:-1].split(","))] = True
        return {kind: tensor}

    seen = lambda s: np.asarray(s["vehicle-at"], float)[order]  # noqa: E731
    check(*simulator.episodes(60, np.random.default_rng(1), draw, seen))


@pytest.mark.parametrize("instance", [1, 2, 4])
def test_advising_episodes_are_those_of_both_simulators(instance):
    ours = polinfer.make(f"advising/{instance}", semantics="rddl")
    theirs = polinfer.make(f"rddl:{ADVISING}/{instance}")
    named = [name.removeprefix("enrol ") for name in ours.action_names]
    rephrased = [re.sub(r"takeCourse|[() ]", "", name) for name in theirs.action_names]
    assert named == ["nothing", *rephrased[1:]]
    weights = np.random.default_rng(instance).exponential(size=ours.num_actions)
    count = len(ours.curriculum.courses)
    logits = jnp.log(jnp.asarray(weights, jnp.float32))
    one = play_compiled(ours, lambda _: logits, ours.encode, 1500, 3)
    other = play_compiled(
        theirs,
        lambda _: logits,
        lambda s: jnp.concatenate([s["passed"], s["taken"]]).astype(jnp.float32),
        1500,
        4,
    )
    simulator = Simulator(ADVISING, instance)
    odds = weights / weights.sum()
    third = simulator.episodes(
        60,
        np.random.default_rng(1),
        lambda rng, _: {"takeCourse": enrolment(ours, rng.choice(ours.num_actions, p=odds))},
        lambda s: np.concatenate([s["passed"], s["taken"]]).astype(float),
    )
    assert one[1].shape[1] == 2 * count
    for sample in (other, third):
        assert_same_means(sample[0], one[0])
        assert_same_means(sample[1], one[1], least=3.0)


# -- any other problem -------------------------------------------------------------------------------------

DOMAIN = """
domain bins {
  types { bin : object; colour : {@red, @green, @blue}; };
  pvariables {
    LIMIT : { non-fluent, int, default = 4 };
    amount(bin) : { state-fluent, int, default = 0 };
    lamp : { state-fluent, colour, default = @red };
    lit : { state-fluent, bool, default = false };
    total : { interm-fluent, real };
    put(bin) : { action-fluent, int, default = 0 };
    press : { action-fluent, bool, default = false };
  };
  cpfs {
    total = sum_{?b : bin} [put(?b)];
    amount'(?b) = amount(?b) + put(?b);
    lamp' = if (press) then @blue else lamp;
    lit' = lit | (press ^ Bernoulli(0.25));
  };
  reward = 1.5 * total - press;
  termination { (sum_{?b : bin} [amount(?b)]) >= LIMIT; };
  state-invariants {
    forall_{?b : bin} [amount(?b) >= 0];
    forall_{?b : bin} [amount(?b) <= 9];
  };
  action-preconditions {
    forall_{?b : bin} [put(?b) >= 0];
    forall_{?b : bin} [put(?b) <= 2];
    press => ~lit;
  };
}
"""
INSTANCE = """
non-fluents nf_bins { domain = bins; objects { bin : {b1, b2}; }; non-fluents { LIMIT = 4; }; }
instance inst_bins {
  domain = bins; non-fluents = nf_bins; init-state { amount(b2) = 1; };
  max-nondef-actions = 2; horizon = 6; discount = 1.0;
}
"""


@pytest.fixture
def files(tmp_path):
    """Write a pair of files, with replacements, and return their paths."""

    def write(*replacements):
        domain, instance = DOMAIN, INSTANCE
        for old, new in replacements:
            assert old in domain + instance
            domain, instance = domain.replace(old, new), instance.replace(old, new)
        paths = tmp_path / "domain.rddl", tmp_path / "instance.rddl"
        for path, text in zip(paths, (domain, instance), strict=True):
            path.write_text(text)
        return paths

    return write


def test_integers_enumerations_preconditions_and_termination(files):
    domain, instance = files()
    mdp = polinfer.make(f"rddl:{domain},{instance}", reward_scale=2.0)
    assert mdp == polinfer.from_rddl(domain, instance, reward_scale=2.0)
    assert hash(mdp) == hash(polinfer.from_rddl(domain, instance, reward_scale=2.0))
    assert mdp != polinfer.from_rddl(domain, instance)
    assert (mdp.horizon, polinfer.from_rddl(domain, instance, horizon=3).horizon) == (6, 3)
    assert len(mdp.action_names) == mdp.num_actions == 1 + 5 + 4 + 4
    assert mdp.action_names[:7] == (
        *("no-op", "put(b1)=1", "put(b1)=2", "put(b2)=1", "put(b2)=2", "press"),
        "put(b1)=1 + put(b2)=1",
    )
    state = mdp.init(jax.random.key(0))
    assert mdp.state_name(state) == "amount(b1)=0, amount(b2)=1, lamp=red"
    assert np.asarray(mdp.legal(state)).all()
    features = np.asarray(mdp.encode(state))
    one_hot = np.eye(10)
    assert features.tolist() == [*one_hot[0], *one_hot[1], 1.0, 0.0, 0.0, 0.0]

    keys, step = jax.random.split(jax.random.key(0), 4000), jax.jit(mdp.step)
    press = mdp.action_names.index("put(b1)=2 + press")
    moved = jax.jit(jax.vmap(lambda k: mdp.step(k, state, jnp.int32(press))))(keys)
    assert set(np.asarray(moved.state["lamp"]).tolist()) == {2}
    assert np.asarray(moved.state["amount"]).tolist() == [[2, 1]] * 4000
    np.testing.assert_allclose(moved.reward, 2.0 * (1.5 * 2 - 1))
    assert not np.asarray(moved.terminated).any()
    lit = np.asarray(moved.state["lit"])
    assert abs(lit.mean() - 0.25) <= 5 * np.sqrt(0.25 * 0.75 / 4000)

    after = jax.tree.map(lambda x: x[int(np.argmax(lit))], moved.state)
    legal = np.asarray(mdp.legal(after))
    assert legal.tolist() == ["press" not in name for name in mdp.action_names]
    end = step(keys[0], after, jnp.int32(mdp.action_names.index("put(b2)=1")))
    assert bool(end.terminated)
    again = step(keys[1], end.state, jnp.int32(1))
    assert bool(again.terminated)
    assert float(again.reward) == 0.0
    assert jax.tree.map(np.array_equal, again.state, end.state) == dict.fromkeys(end.state, True)
    check_mdp(mdp, episodes=16)


def test_plans_in_an_rddl_problem():
    mdp = polinfer.make(f"rddl:{TIREWORLD}/1", reward_scale=0.05, horizon=4)
    posterior = polinfer.infer(mdp, method="vsmc", seed=0, sweeps=2, particles=3)
    probabilities = np.asarray(posterior.action_probs(mdp.init(jax.random.key(0))))
    assert probabilities.sum() == pytest.approx(1.0, abs=1e-5)


def test_making_a_problem_leaves_jax_as_it_was(files, capsys):
    domain, instance = files()
    assert not jax.config.jax_enable_x64
    try:
        jax.config.update("jax_enable_x64", True)
        polinfer.from_rddl(domain, instance)
        assert jax.config.jax_enable_x64
    finally:
        jax.config.update("jax_enable_x64", False)
    with jax.enable_x64(True):
        polinfer.from_rddl(domain, instance)
        assert jax.config.jax_enable_x64
    assert not jax.config.jax_enable_x64
    assert capsys.readouterr().out == ""


def test_a_discount_is_that_of_the_problem(files):
    mdp = polinfer.from_rddl(*files(("discount = 1.0", "discount = 0.9")))
    assert mdp.discount == 0.9
    table = polinfer.tabulate(mdp)
    assert table.discount == 0.9
    assert polinfer.tabulate(polinfer.with_terms(mdp, discount=1.0)).discount == 1.0


def test_where_no_action_is_allowed_the_no_op_is(files):
    mdp = polinfer.from_rddl(*files(("press => ~lit;", "press ^ ~press;")))
    assert np.asarray(mdp.legal(mdp.init(jax.random.key(0)))).tolist() == [True] + [False] * 13


# -- refusals ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "options", "sentence"),
    [
        ("TriangleTireworld_POMDP_ippc2014/1", {}, "is a POMDP .it observes"),
        ("Reservoir_ippc2023/1", {}, "continuous state fluent 'rlevel'"),
        ("ChromaticDice_ippc2018/1", {}, "536,870,912 actions .sets of at most 29 of 29"),
        (f"{ADVISING}/10", {"max_actions": 465}, "466 actions .sets of at most 2 of 30"),
        (f"{TIREWORLD}/11", {}, "no instance '11'; it has 1, 2, 3"),
        (f"{TIREWORLD}/x", {}, "no instance 'x'"),
        ("TriangleTireworld_MDP_ippc2041/1", {}, "did you mean 'TriangleTireworld_MDP_ippc2014'"),
        ("", {}, "needs a problem and an instance"),
        ("SysAdmin", {}, "needs a problem and an instance"),
        ("a.rddl,", {}, "needs a problem and an instance"),
        ("a.rddl,b.rddl", {}, "'a.rddl' does not exist"),
        (f"{TIREWORLD}/1", {"horizn": 3}, "no option 'horizn' .did you mean 'horizon'"),
        (f"{TIREWORLD}/1", {"horizon": 0}, "horizon must be at least 1"),
        (f"{TIREWORLD}/1", {"reward_scale": "x"}, "reward_scale must be a finite number"),
        (f"{TIREWORLD}/1", {"max_actions": 0}, "max_actions must be at least 1"),
    ],
)
def test_what_cannot_be_planned_in_is_refused_in_one_line(address, options, sentence):
    with pytest.raises(PolinferError, match=sentence) as caught:
        polinfer.make(f"rddl:{address}", **options)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("replacement", "sentence"),
    [
        (("state-fluent, int", "state-fluent, real"), "continuous state fluent 'amount'"),
        (("action-fluent, int", "action-fluent, real"), "continuous action fluent 'put'"),
        (("[put(?b) <= 2]", "[put(?b) <= amount(?b)]"), "'put' without bounds"),
        (("reward =", "reward"), "cannot be read"),
        (("cpfs {", "cpfs"), "cannot be read"),
        (("amount'(?b) = amount(?b)", "amount'(?b) = nothing(?b)"), "cannot be (read|compiled)"),
        (("instance inst_bins", "nothing"), "cannot be read"),
    ],
)
def test_bad_files_are_refused_in_one_line(files, replacement, sentence):
    with pytest.raises(DomainError, match=sentence) as caught:
        polinfer.from_rddl(*files(replacement))
    assert len(str(caught.value).splitlines()) == 1


def test_nothing_is_warned_of(files):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        polinfer.from_rddl(*files())
