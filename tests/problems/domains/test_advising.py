"""Academic Advising: the facts, and the dynamics that a second program in plain Python computes."""

import functools
import itertools
import random
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import polinfer
from polinfer import exact
from polinfer.core.errors import DomainError, PolinferError, TooLargeError
from polinfer.problems.conformance import check_mdp
from polinfer.problems.domains import Advising
from polinfer.problems.domains.ippc2014 import Curriculum, curriculum

# -- a second implementation: a record is (frozenset of passed courses, frozenset of taken ones) ---------

NEW = (frozenset(), frozenset())
PAPER = {"eligible": "unpassed", "before": False, "ends": True}
RDDL = {"eligible": "any", "before": True, "ends": False}


def complete(plan, record):
    return set(plan.required) <= record[0]


def chance(plan, record, course):
    """Return the probability that a course not yet passed is passed."""
    needed = [a for a, b in plan.prerequisites if b == course]
    if not needed:
        return 0.8
    return 0.2 + 0.8 * sum(c in record[0] for c in needed) / (1 + len(needed))


def choices(plan, record, rules):
    """Return the sets of courses that may be taken."""
    able = []
    for course in plan.courses:
        needed = {a for a, b in plan.prerequisites if b == course}
        if rules["eligible"] == "any" or (
            course not in record[0] and (rules["eligible"] == "unpassed" or needed <= record[0])
        ):
            able.append(course)
    return [s for n in range(plan.load + 1) for s in itertools.combinations(able, n)]


def happens(plan, record, chosen, rules):
    """Return ``{(record, reward, over): probability}``."""
    passed, taken = record
    if rules["ends"] and complete(plan, record):
        return {(record, 0.0, True): 1.0}
    cost = sum(-2 if course in taken else -1 for course in chosen)
    unsure = [course for course in chosen if course not in passed]
    result = {}
    for outcome in itertools.product([True, False], repeat=len(unsure)):
        p = 1.0
        for course, ok in zip(unsure, outcome, strict=True):
            p *= chance(plan, record, course) if ok else 1 - chance(plan, record, course)
        after = passed | set(itertools.compress(unsure, outcome)), taken | set(chosen)
        penalty = 0 if complete(plan, record if rules["before"] else after) else -5
        result[after, float(cost + penalty), rules["ends"] and complete(plan, after)] = p
    return result


def value(plan, rules, horizon, best):
    """Return the expected return from the start, of the best or the uniform choices."""

    @functools.cache
    def of(record, left):
        if left == 0 or (rules["ends"] and complete(plan, record)):
            return 0.0
        values = [
            sum(
                p * (reward + of(after, left - 1))
                for (after, reward, _), p in happens(plan, record, chosen, rules).items()
            )
            for chosen in choices(plan, record, rules)
        ]
        return max(values) if best else sum(values) / len(values)

    return of(NEW, horizon)


def courses_of(mdp, words):
    courses = mdp.curriculum.courses
    bits = np.asarray(words).tolist()
    return frozenset(c for i, c in enumerate(courses) if bits[i // 31] >> (i % 31) & 1)


def read(mdp, state):
    return courses_of(mdp, state.passed), courses_of(mdp, state.taken)


def write(mdp, record):
    like = mdp.init(jax.random.key(0))
    bits = [np.zeros(x.shape, x.dtype) for x in like]
    for words, chosen in zip(bits, record, strict=True):
        for course in chosen:
            i = mdp.curriculum.courses.index(course)
            words[i // 31] |= 1 << (i % 31)
    return type(like)(*bits)


def walk(plan, rules, count, seed):
    """Return distinct records that random choices lead to."""
    rng = random.Random(seed)
    found, record = {NEW: None}, NEW
    for _ in range(40 * count):
        if rng.random() < 0.02 or (rules["ends"] and complete(plan, record)):
            record = NEW
        after = happens(plan, record, rng.choice(choices(plan, record, rules)), rules)
        record = rng.choice(list(after))[0]
        found[record] = None
        if len(found) == count:
            break
    return list(found)


def assert_same_dynamics(mdp, rules, count=30, seed=0, scale=1.0):
    plan = mdp.curriculum
    records = walk(plan, rules, count, seed)
    padded = records + [records[0]] * (count - len(records))
    states = jax.tree.map(lambda *x: np.stack(x), *(write(mdp, record) for record in padded))
    actions = np.arange(mdp.num_actions, dtype=np.int32)
    listing = jax.jit(jax.vmap(lambda s: (jax.vmap(lambda a: mdp.outcomes(s, a))(actions), mdp.legal(s))))
    outcomes, legal = jax.tree.map(np.asarray, listing(states))
    sets = [tuple(n.removeprefix("enrol ").split("+")) for n in mdp.action_names]
    sets = [() if s == ("nothing",) else s for s in sets]
    rng = np.random.default_rng(seed)
    for i, record in enumerate(records):
        if not (rules["ends"] and complete(plan, record)):
            assert [s for s, ok in zip(sets, legal[i], strict=True) if ok] == choices(plan, record, rules)
        assert legal[i].any()
        for a in rng.permutation(mdp.num_actions)[:40]:
            got = {}
            for b in range(outcomes.probability.shape[2]):
                p = float(outcomes.probability[i, a, b])
                after, reward, ends = jax.tree.map(lambda x, at=(i, a, b): x[at], outcomes.transition)
                key = read(mdp, after), round(float(reward) / scale, 4), bool(ends)
                if p > 0:
                    got[key] = got.get(key, 0.0) + p
            assert got == pytest.approx(happens(plan, record, sets[a], rules), abs=1e-6), (record, sets[a])
    return records


# -- facts -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("instance", range(1, 11))
def test_the_curricula_have_the_papers_sizes(instance):
    plan = curriculum(instance)
    width = (instance + 3) // 2  # 2, 2, 3, 3, ...
    assert plan.courses == tuple(f"CS{i}{j}" for i in range(1, 6) for j in range(1, width + 1))
    assert plan.load == (1 if instance % 2 else 2)
    assert plan.horizon == 40
    assert set(plan.required) <= set(plan.courses)
    assert len(set(plan.prerequisites)) == len(plan.prerequisites)
    assert all(a < b for a, b in plan.prerequisites)
    first_year = {c for c in plan.courses if c not in {b for _, b in plan.prerequisites}}
    assert first_year == {f"CS1{j}" for j in range(1, width + 1)}
    count = len(plan.courses)
    want = 1 + count + (count * (count - 1) // 2 if plan.load == 2 else 0)
    assert polinfer.make(f"advising/{instance}").num_actions == want


def test_the_first_curriculum_is_as_printed():
    plan = curriculum(1)
    assert set(plan.required) == {"CS21", "CS22", "CS41"}
    needed = {"21": "11 12", "22": "12 21", "31": "11 21", "32": "11 22", "41": "11 22", "42": "11 31"}
    needed |= {"51": "12 41", "52": "22 31"}
    pairs = {(f"CS{a}", f"CS{b}") for b, before in needed.items() for a in before.split()}
    assert set(plan.prerequisites) == pairs
    assert plan.relevant() == ("CS11", "CS12", "CS21", "CS22", "CS41")
    assert [len(curriculum(i).relevant()) for i in range(1, 11)] == [5, 10, 5, 14, 17, 14, 17, 20, 24, 27]


# -- dynamics --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("semantics", "rules"), [("paper", PAPER), ("rddl", RDDL)])
@pytest.mark.parametrize("instance", [1, pytest.param(2, marks=pytest.mark.slow), 10])
def test_dynamics_are_those_of_a_second_implementation(semantics, rules, instance):
    mdp = polinfer.make(f"advising/{instance}", semantics=semantics, reward_scale=-0.5)
    assert mdp.horizon == 40
    assert_same_dynamics(mdp, rules, scale=-0.5)


SMALL = Curriculum(("A", "B", "C", "D"), (("A", "C"), ("B", "C"), ("C", "D")), ("C", "A"), 2, 12)


TOGETHER = [("after", "continues"), ("before", "ends"), ("after", "ends")]
ELIGIBLE = ["any", "unpassed", "prepared"]


# Each setting of each option; the other pairs are slow.
@pytest.mark.parametrize(
    ("eligible", "judged", "completion"),
    [
        pytest.param(eligible, *pair, marks=[] if i == k else [pytest.mark.slow])
        for i, eligible in enumerate(ELIGIBLE)
        for k, pair in enumerate(TOGETHER)
    ],
)
def test_every_option_does_what_it_says(eligible, judged, completion):
    mdp = Advising(SMALL, eligible, judged, completion, 12)
    rules = {"eligible": eligible, "before": judged == "before", "ends": completion == "ends"}
    assert any(complete(SMALL, record) for record in assert_same_dynamics(mdp, rules))


def test_a_load_of_three_has_eight_outcomes():
    mdp = polinfer.make("advising/1", load=3, relevant_only=True)
    assert mdp.num_actions == 1 + 5 + 10 + 10
    shape = jax.eval_shape(mdp.outcomes, mdp.init(jax.random.key(0)), jnp.int32(25))
    assert shape.probability.shape == (8,)
    assert_same_dynamics(mdp, PAPER, count=8)


def test_numbers_other_than_the_competitions():
    mdp = Advising(SMALL, "any", "before", "ends", 12, True, 0.5, 0.4, -1.5, -2.5, -7.0)
    state = write(mdp, (frozenset("A"), frozenset("AC")))
    names = list(mdp.action_names)
    listed = mdp.outcomes(state, jnp.int32(names.index("enrol B+C")))
    # B is new: 0.5.  C is a retake with one of two prerequisites: 0.4 + 0.6 / 3.
    want = {("B", "C"): 0.5 * 0.6, ("B",): 0.5 * 0.4, ("C",): 0.5 * 0.6, (): 0.5 * 0.4}
    got = {}
    for b in range(4):
        after = read(mdp, jax.tree.map(lambda x, b=b: x[b], listed.transition.state))
        got[tuple(sorted(after[0] - {"A"}))] = float(listed.probability[b])
        assert after[1] == {"A", "B", "C"}
        assert float(listed.transition.reward[b]) == pytest.approx(-1.5 - 2.5 - 7.0)
    assert got == pytest.approx(want)


def test_enrolling_in_nothing_may_be_forbidden():
    mdp = Advising(SMALL, "unpassed", "after", "continues", 12, allow_empty=False)
    legal = np.asarray(mdp.legal(mdp.init(jax.random.key(0))))
    assert not legal[0]
    assert legal[1:].all()
    everything = write(mdp, (frozenset("ABCD"), frozenset("ABCD")))
    assert np.asarray(mdp.legal(everything)).tolist() == [True] + [False] * 10


def test_courses_are_passed_with_their_probabilities_independently():
    mdp = polinfer.make("advising/2")
    state = write(mdp, (frozenset(["CS11"]), frozenset(["CS11"])))
    action = jnp.int32(mdp.action_names.index("enrol CS12+CS21"))
    draws = 20_000
    keys = jax.random.split(jax.random.key(5), draws)
    moved = jax.jit(jax.vmap(lambda k: mdp.step(k, state, action)))(keys)
    bits = np.asarray(moved.state.passed)[:, 0]
    one, other = (bits >> mdp.curriculum.courses.index(c) & 1 for c in ("CS12", "CS21"))
    for event, p in ((one, 0.8), (other, 0.2 + 0.8 / 3), (one * other, 0.8 * (0.2 + 0.8 / 3))):
        assert abs(event.mean() - p) <= 5 * np.sqrt(p * (1 - p) / draws)


@pytest.mark.parametrize(
    ("instance", "options"),
    [
        (10, {"semantics": "rddl"}),
        pytest.param(2, {"eligible": "prepared", "allow_empty": False}, marks=pytest.mark.slow),
    ],
)
def test_conforms(instance, options):
    check_mdp(polinfer.make(f"advising/{instance}", **options, horizon=20), episodes=8)


# -- values ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("instance", "semantics", "rules", "best"),
    [(1, "rddl", RDDL, -41.14), pytest.param(3, "paper", PAPER, -35.17, marks=pytest.mark.slow)],
)
def test_exact_values_of_the_relevant_courses_are_those_of_a_recursion(instance, semantics, rules, best):
    mdp = polinfer.make(f"advising/{instance}", semantics=semantics, relevant_only=True)
    table = polinfer.tabulate(mdp)
    assert table.num_states == 3**5
    uniform = exact.evaluate_policy(table, exact.uniform_policy(table)).expected_return
    assert uniform == pytest.approx(value(mdp.curriculum, rules, 40, False), abs=1e-9)
    solved = exact.finite_horizon_optimum(table).objective
    assert solved == pytest.approx(value(mdp.curriculum, rules, 40, True), abs=1e-9)
    assert round(solved, 2) == best


@pytest.mark.slow
def test_the_whole_first_instance_is_written_out_in_seconds():
    started = time.process_time()
    table = polinfer.tabulate(polinfer.make("advising/1"))
    assert time.process_time() - started < 30
    assert table.num_states == 3**10
    # Courses that are not relevant only cost, so the best return is that without them.
    assert exact.finite_horizon_optimum(table).objective == pytest.approx(
        value(curriculum(1).restrict(curriculum(1).relevant()), PAPER, 40, True), abs=1e-9
    )
    uniform = exact.evaluate_policy(table, exact.uniform_policy(table))
    plan, rng, returns = curriculum(1), random.Random(7), []
    for _ in range(1500):
        record, total = NEW, 0.0
        for _ in range(40):
            after = happens(plan, record, rng.choice(choices(plan, record, PAPER)), PAPER)
            (record, reward, over), *_ = rng.choices(list(after), list(after.values()))
            total += reward
            if over:
                break
        returns.append(total)
    assert abs(np.mean(returns) - uniform.expected_return) <= 5 * uniform.std / np.sqrt(len(returns))
    assert set(uniform.endings) == {"complete"}


def test_a_curriculum_too_large_for_a_table_says_how_large_it_is():
    with pytest.raises(TooLargeError, match=r"at most 14,348,907"):
        polinfer.tabulate(polinfer.make("advising/3"), limit=500)
    assert polinfer.make("advising/10", relevant_only=True).num_states_bound == 3**27


# -- names, features, endings ----------------------------------------------------------------------------


def test_names_and_features():
    mdp = polinfer.make("advising/2")
    assert mdp.action_names[:3] == ("enrol nothing", "enrol CS11", "enrol CS12")
    assert "enrol CS11+CS21" in mdp.action_names
    assert mdp.state_name(mdp.init(jax.random.key(0))) == "new"
    state = write(mdp, (frozenset(["CS11", "CS21"]), frozenset(["CS11", "CS21", "CS52"])))
    assert mdp.state_name(state) == "passed CS11+CS21, failed CS52"
    features = np.asarray(mdp.encode(state))
    assert features.dtype == np.float32
    courses = mdp.curriculum.courses
    passed = [float(c in ("CS11", "CS21")) for c in courses]
    assert features.tolist() == passed + [float(c in ("CS11", "CS21", "CS52")) for c in courses]


def test_endings():
    paper, rddl = (polinfer.make("advising/1", semantics=s) for s in ("paper", "rddl"))
    assert [(e.name, e.success) for e in paper.endings] == [("complete", True)]
    assert rddl.endings == ()
    done = frozenset(["CS21", "CS22", "CS41"])
    assert int(paper.ending(write(paper, (done, done)))) == 0
    assert int(paper.ending(write(paper, (done - {"CS22"}, done)))) == -1
    assert int(rddl.ending(write(rddl, (done, done)))) == -1


# -- options ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"semantics": "rdll"}, r"semantics must be 'paper' or 'rddl', got 'rdll' \(did you mean 'rddl'"),
        ({"eligible": "all"}, "eligible must be 'any' or 'unpassed' or 'prepared'"),
        ({"penalty_judged": 0}, "penalty_judged must be 'after' or 'before'"),
        ({"completion": "stops"}, "completion must be 'ends' or 'continues'"),
        ({"allow_empty": 0}, "allow_empty must be true or false"),
        ({"relevant_only": "x"}, "relevant_only must be true or false"),
        ({"load": 0}, "load must be at least 1"),
        ({"load": 1.5}, "load must be a whole number"),
        ({"horizon": -1}, "horizon must be at least 1"),
        ({"reward_scale": "x"}, "reward_scale must be a finite number"),
        ({"instance": 2}, "no option 'instance'"),
    ],
)
def test_bad_options_are_refused_in_one_line(options, sentence):
    with pytest.raises(PolinferError, match=sentence) as caught:
        polinfer.make("advising/1", **options)
    assert len(str(caught.value).splitlines()) == 1


def test_bad_curricula_are_refused():
    with pytest.raises(DomainError, match="'Z'"):
        Advising(SMALL._replace(required=("Z",)), "any", "after", "ends", 5)
    with pytest.raises(DomainError, match=r"174,437 sets of at most 5 of 30 courses"):
        polinfer.make("advising/10", load=5)
    with pytest.raises(DomainError, match="1 to 10, got 0"):
        curriculum(0)


def test_equal_problems_are_equal_and_hashable():
    one, other = (polinfer.make("advising/1") for _ in range(2))
    assert one == other
    assert hash(one) == hash(other)
    assert one != polinfer.make("advising/1", relevant_only=True)
