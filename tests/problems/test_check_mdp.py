"""`check_mdp` passes what is well formed, and names the culprit in whatever is not."""

import inspect
import re
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

import polinfer
from polinfer.core.errors import ConformanceError, PolinferError, TooLargeError
from polinfer.core.protocol import Ending, Outcomes, Starts, Transition, sample_outcome, sample_start
from polinfer.problems.conformance import check_mdp

END = 3
# Of numbered instances the first; their families' own tests go through the others.
READY = [
    name
    for name, domain in polinfer.list_domains().items()
    if not any(default is inspect.Parameter.empty for default in domain.options.values())
    and not re.fullmatch(r".*/([2-9]|10)", name)
]
SMALL = [
    "gridworld/flat",
    "gridworld/unimodal",
    "gridworld/multimodal",
    "gridworld/ablation",
    "bandit",
    "continuation",
    "probe/three-targets",
    "probe/fork",
    "probe/slippery-loop",
]


class Walk:
    """A corridor 0..3 that ends at 3: `go` moves on or stays; `jump`, not from 0, moves by two or back."""

    num_actions = 2
    horizon = 8
    action_names = ("go", "jump")
    endings = (Ending("out", True),)

    def starts(self) -> Starts:
        return Starts(jnp.array([0.25, 0.75]), jnp.array([0, 1], jnp.int32))

    def outcomes(self, state: Array, action: Array) -> Outcomes:
        jumps = action == 1
        on = jnp.minimum(state + jnp.where(jumps, 2, 1), END)
        back = jnp.maximum(state - jnp.where(jumps, 1, 0), 0)
        over = state == END
        reached = jnp.where(over, state, jnp.stack([on, back]))
        reward = jnp.where(over, 0.0, jnp.where(reached == END, 2.0, -0.25) - jnp.where(jumps, 0.5, 0.0))
        probability = jnp.where(jumps, jnp.array([0.4, 0.6]), jnp.array([0.7, 0.3]))
        return Outcomes(probability, Transition(reached, reward, reached == END))

    def init(self, key: Array) -> Array:
        return sample_start(key, self.starts())

    def step(self, key: Array, state: Array, action: Array) -> Transition:
        return sample_outcome(key, self.outcomes(state, action))

    def encode(self, state: Array) -> Array:
        return jax.nn.one_hot(state, END + 1, dtype=jnp.float32)

    def identity(self, state: Array) -> Array:
        return state[None]

    def legal(self, state: Array) -> Array:
        return jnp.stack([jnp.asarray(True), state > 0])

    def ending(self, state: Array) -> Array:
        return jnp.where(state == END, 0, -1).astype(jnp.int32)

    def state_name(self, state) -> str:
        return f"cell {int(state)}"


def simulator(**members):
    """Return a `Walk` that only simulates, with some members replaced."""
    hidden = {"starts": None, "outcomes": None}
    kept = {name: member for name, member in vars(Walk).items() if name not in hidden}
    walk = Walk()
    base = {
        **kept,
        "init": lambda self, key: walk.init(key),
        "step": lambda self, key, state, action: walk.step(key, state, action),
    }
    return type("Broken", (), {**base, **members})()


def broken(**members):
    """Return a `Walk` with some members replaced."""
    return type("Broken", (Walk,), members)()


def changed_step(change):
    """Return a `step` whose transition is put through `change(before, action, transition)`."""

    def step(self, key, state, action):
        return change(state, action, Walk().step(key, state, action))

    return step


def counting(function):
    """Return a method that is given how often it was called before: impure."""
    calls = iter(range(1_000_000))

    def method(self, *arguments):
        return function(next(calls), *arguments)

    return method


pytestmark = pytest.mark.usefixtures("compile_quickly")


# -- what is well formed ---------------------------------------------------------------------------------


# One of each kind; the others are slow.
REGISTERED = [
    name
    if name in ("gridworld/ablation", "blackjack", "tireworld/1", "advising/1", "probe/fork")
    else pytest.param(name, marks=pytest.mark.slow)
    for name in READY
]
TABULATED = [
    name if name == "gridworld/ablation" else pytest.param(name, marks=pytest.mark.slow) for name in READY
]


@pytest.mark.parametrize("name", REGISTERED)
def test_every_registered_domain_conforms(name):
    mdp = polinfer.make(name)
    seen = check_mdp(mdp, episodes=32)
    assert seen.episodes == 32
    assert 32 <= seen.steps <= 32 * (mdp.horizon + 2)
    assert seen.distinct_states >= 2


@pytest.mark.parametrize("name", TABULATED)
def test_every_tabulated_domain_conforms(name):
    mdp = polinfer.make(name)
    if not isinstance(mdp, polinfer.EnumerableMDP):
        assert name not in SMALL
        pytest.skip("lists no outcomes")
    try:
        table = polinfer.tabulate(mdp, limit=10_000)
    except TooLargeError:
        assert name not in SMALL
        pytest.skip("more than 10,000 states")
    if table is mdp:  # a table already: the test above has checked it
        return
    seen = check_mdp(table, episodes=32)
    assert 2 <= seen.distinct_states <= table.num_states


def test_the_small_domains_are_registered():
    assert set(SMALL) <= set(READY)
    assert "gridworld" not in READY


def test_the_hand_written_mdp_conforms():
    seen = check_mdp(Walk(), episodes=200, seed=1)
    assert seen.episodes == 200
    assert seen.distinct_states == END + 1
    assert 150 <= seen.terminated <= 200
    assert 200 <= seen.steps <= 200 * (Walk.horizon + 2)


def test_an_mdp_that_only_simulates_conforms():
    mdp = simulator()
    assert not isinstance(mdp, polinfer.EnumerableMDP)
    assert check_mdp(mdp).distinct_states == END + 1


class Pair(NamedTuple):
    """A state of two leaves."""

    cell: Array
    luck: Array


def test_a_state_of_several_leaves_conforms():
    walk = Walk()

    def step(self, key, state, action):
        moved = walk.step(key, state.cell, action)
        luck = jnp.where(state.cell == END, state.luck, moved.reward > 0)
        return Transition(Pair(moved.state, luck), moved.reward, moved.terminated)

    mdp = simulator(
        init=lambda self, key: Pair(walk.init(key), jnp.asarray(False)),
        step=step,
        encode=lambda self, state: walk.encode(state.cell),
        identity=lambda self, state: jnp.stack([state.cell, state.luck.astype(jnp.int32)]),
        legal=lambda self, state: walk.legal(state.cell),
        ending=lambda self, state: walk.ending(state.cell),
        state_name=lambda self, state: f"cell {int(state.cell)}",
    )
    assert check_mdp(mdp).distinct_states >= END + 1


@pytest.mark.parametrize("episodes", [0, -3, 2.5, True])
def test_episodes_are_checked(episodes):
    with pytest.raises(PolinferError, match="episodes"):
        check_mdp(Walk(), episodes=episodes)


# -- one broken promise each -----------------------------------------------------------------------------

NOISE = np.random.default_rng(0)


def branching_step(self, key, state, action):
    if state < 2:
        return Walk().step(key, state, action)
    return Walk().step(key, state, 1 - action)


def branching_outcomes(self, state, action):
    if state < 2:
        return Walk().outcomes(state, action)
    return Walk().outcomes(state, 1 - action)


BROKEN = {
    # name: (the MDP, what its sentence must say)
    "not hashable": (broken(__hash__=None), "Broken is not hashable"),
    "horizon of zero": (broken(horizon=0), "horizon.*at least 1.*0"),
    "horizon that is a float": (broken(horizon=8.0), r"horizon.*int.*8\.0"),
    "one action too many": (broken(num_actions=3), r"legal.*\[3\]"),
    "number of actions is a bool": (broken(num_actions=True), "num_actions.*True"),
    "step returns a tuple": (
        broken(step=changed_step(lambda s, a, t: tuple(t))),
        "step must return a polinfer.Transition, got tuple",
    ),
    "integer reward": (
        broken(step=changed_step(lambda s, a, t: t._replace(reward=t.reward.astype(jnp.int32)))),
        "reward must be a float scalar, got int32",
    ),
    "reward of shape [1]": (
        broken(step=changed_step(lambda s, a, t: t._replace(reward=t.reward[None]))),
        r"reward must be a float scalar, got float32\[1\]",
    ),
    "reward that is a pair": (
        broken(step=changed_step(lambda s, a, t: t._replace(reward=(t.reward, t.reward)))),
        "reward must be a float scalar",
    ),
    "terminated is a float": (
        broken(step=changed_step(lambda s, a, t: t._replace(terminated=t.terminated.astype(jnp.float32)))),
        "terminated must be a bool scalar, got float32",
    ),
    "terminated of shape [2]": (
        broken(step=changed_step(lambda s, a, t: t._replace(terminated=jnp.stack([t.terminated] * 2)))),
        r"terminated must be a bool scalar, got bool\[2\]",
    ),
    "state changes its dtype": (
        broken(step=changed_step(lambda s, a, t: t._replace(state=t.state.astype(jnp.float32)))),
        "state like init's, int32.*got float32",
    ),
    "state changes its structure": (
        broken(step=changed_step(lambda s, a, t: t._replace(state={"cell": t.state}))),
        "state like init's",
    ),
    "encode returns integers": (
        broken(encode=lambda self, state: state[None]),
        r"encode must return a float32 vector, got int32\[1\]",
    ),
    "encode returns a matrix": (
        broken(encode=lambda self, state: jnp.ones((2, 2))),
        r"encode must return a float32 vector, got float32\[2, 2\]",
    ),
    "encode returns a list": (
        broken(encode=lambda self, state: [state.astype(jnp.float32), jnp.float32(1.0)]),
        "encode must return a float32 vector",
    ),
    "encode returns nan": (
        broken(encode=lambda self, state: jnp.where(state == 2, jnp.nan, 1.0)[None]),
        "encode.*not finite",
    ),
    "identity is a float": (
        broken(identity=lambda self, state: state[None].astype(jnp.float32)),
        r"identity must return an? int32 vector, got float32\[1\]",
    ),
    "identity is a scalar": (
        broken(identity=lambda self, state: state),
        r"identity must return an? int32 vector, got int32\[\]",
    ),
    "legal is a list": (
        broken(legal=lambda self, state: [jnp.asarray(True), state > 0]),
        "legal must return bool",
    ),
    "legal is zeros and ones": (
        broken(legal=lambda self, state: jnp.ones(2, jnp.int32)),
        r"legal must return bool \[2\].*got int32\[2\]",
    ),
    "legal has three entries": (
        broken(legal=lambda self, state: jnp.ones(3, jnp.bool_)),
        r"legal must return bool \[2\].*got bool\[3\]",
    ),
    "nothing is legal": (
        broken(legal=lambda self, state: jnp.stack([state != 1, state > 1])),
        "no legal action",
    ),
    "terminal state earns": (
        broken(step=changed_step(lambda s, a, t: t._replace(reward=jnp.where(s == END, 0.5, t.reward)))),
        "terminal state earns",
    ),
    "terminal state moves": (
        simulator(
            step=changed_step(
                lambda s, a, t: Transition(
                    jnp.where(s >= END, s + 1, t.state).astype(jnp.int32),
                    jnp.where(s >= END, 0.0, t.reward),
                    t.terminated | (s >= END),
                )
            )
        ),
        "terminal state changes",
    ),
    "terminal state revives": (
        broken(step=changed_step(lambda s, a, t: t._replace(terminated=(t.state == END) & (s != END)))),
        "from a terminal state is not terminated",
    ),
    "reward is nan": (
        broken(step=changed_step(lambda s, a, t: t._replace(reward=jnp.where(s == 2, jnp.nan, t.reward)))),
        "reward is nan",
    ),
    "identity clash": (
        broken(identity=lambda self, state: jnp.minimum(state, 2)[None]),
        "two different states have the same identity",
    ),
    "identity not of the state alone": (
        broken(identity=counting(lambda calls, state: state[None] + 10 * calls)),
        "identity",
    ),
    "impure reward": (
        broken(step=counting(lambda calls, *given: Walk().step(*given)._replace(reward=jnp.float32(calls)))),
        "equal key",
    ),
    "impure in NumPy": (
        simulator(
            step=lambda self, key, state, action: Transition(
                jnp.int32(NOISE.integers(1000)), jnp.float32(0.0), jnp.asarray(False)
            )
        ),
        "equal key",
    ),
    # Large states: a tolerance meant for rewards must not blur them.
    "impure in a large state": (
        simulator(
            init=lambda self, key: jnp.int32(5_000_000),
            step=counting(
                lambda calls, key, state, action: Transition(
                    5_000_000 + (state + calls + 1) % 3, jnp.float32(0.0), jnp.asarray(False)
                )
            ),
            encode=lambda self, state: jnp.ones(1),
            legal=lambda self, state: jnp.ones(2, jnp.bool_),
        ),
        "equal key",
    ),
    "impure encode": (
        broken(encode=counting(lambda calls, state: jnp.float32(calls)[None])),
        "encode",
    ),
    "impure legal": (
        broken(legal=counting(lambda calls, state: jnp.array([True, calls % 2 == 0]))),
        "legal",
    ),
    "impure init": (
        broken(init=counting(lambda calls, key: jnp.int32(calls % 2))),
        "init",
    ),
    "if on a traced value": (broken(step=branching_step), "step.*traced.*jnp.where"),
    "if in legal": (
        broken(legal=lambda self, state: jnp.array([True, bool(state > 0)])),
        "legal.*traced",
    ),
    "method that fails": (
        broken(encode=lambda self, state: jnp.ones(3) + jnp.ones(2)),
        "encode.*failed",
    ),
    "key in the state": (
        simulator(init=lambda self, key: {"cell": jnp.int32(0), "key": key}),
        "random key",
    ),
    "outcomes sum to 0.9": (
        broken(outcomes=lambda self, s, a: Walk().outcomes(s, a)._replace(probability=jnp.array([0.6, 0.3]))),
        "outcomes' probabilities.*sum to one",
    ),
    "outcomes are negative": (
        broken(
            outcomes=lambda self, s, a: Walk().outcomes(s, a)._replace(probability=jnp.array([1.3, -0.3])),
            step=lambda self, key, s, a: Walk().step(key, s, a),
        ),
        "outcomes' probabilities.*at least zero",
    ),
    "outcomes are nan": (
        broken(
            outcomes=lambda self, s, a: Walk().outcomes(s, a)._replace(probability=jnp.array([jnp.nan, 0.3])),
            step=lambda self, key, s, a: Walk().step(key, s, a),
        ),
        "outcomes",
    ),
    "step draws another reward than listed": (
        broken(
            step=changed_step(lambda s, a, t: t._replace(reward=jnp.where(s == END, 0.0, t.reward + 0.125)))
        ),
        "outcomes does not list",
    ),
    "step draws another state than listed": (
        broken(
            step=changed_step(
                lambda s, a, t: t._replace(
                    state=jnp.where((s == 1) & ~t.terminated, 0, t.state).astype(jnp.int32)
                )
            )
        ),
        "outcomes does not list",
    ),
    "step draws by other odds than listed": (
        broken(
            step=lambda self, key, s, a: sample_outcome(
                key, Walk().outcomes(s, a)._replace(probability=jnp.array([0.02, 0.98]))
            )
        ),
        "outcomes",
    ),
    "outcomes cannot be traced": (
        broken(
            outcomes=branching_outcomes,
            step=lambda self, key, s, a: Walk().step(key, s, a),
        ),
        "outcomes.*traced",
    ),
    "outcomes lists states of another kind": (
        broken(
            outcomes=lambda self, s, a: (
                Walk()
                .outcomes(s, a)
                ._replace(
                    transition=Transition((jnp.zeros(2), jnp.zeros(2)), jnp.zeros(2), jnp.zeros(2, jnp.bool_))
                )
            ),
            step=lambda self, key, s, a: Walk().step(key, s, a),
        ),
        "outcomes",
    ),
    "starts sum to 0.9": (
        broken(starts=lambda self: Walk().starts()._replace(probability=jnp.array([0.2, 0.7]))),
        "starts' probabilities sum to 0.9",
    ),
    "starts are negative": (
        broken(
            starts=lambda self: Walk().starts()._replace(probability=jnp.array([1.5, -0.5])),
            init=lambda self, key: jnp.int32(0),
        ),
        "starts",
    ),
    "starts are nan": (
        broken(
            starts=lambda self: Walk().starts()._replace(probability=jnp.array([jnp.nan, 0.5])),
            init=lambda self, key: jnp.int32(0),
        ),
        "starts",
    ),
    "init draws what starts does not list": (
        broken(init=lambda self, key: jnp.int32(2)),
        "starts",
    ),
    "too few action names": (broken(action_names=("go",)), "action_names must hold 2 names, got 1"),
    "state name is a number": (
        broken(state_name=lambda self, state: int(state)),
        "state_name must return a str, got int",
    ),
    "ending out of range": (
        broken(ending=lambda self, state: jnp.where(state == END, 1, -1).astype(jnp.int32)),
        "ending must return -1 or an index of the 1 endings",
    ),
    "ending of a state that goes on": (
        broken(ending=lambda self, state: jnp.zeros((), jnp.int32)),
        "ending",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_promise_is_named(name):
    mdp, sentence = BROKEN[name]
    with pytest.raises(ConformanceError, match=sentence) as caught:
        check_mdp(mdp, episodes=32)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("member", ["num_actions", "horizon", "init", "step", "encode", "identity", "legal"])
def test_a_missing_member_is_named(member):
    members = {name: value for name, value in vars(Walk).items() if name != member}
    with pytest.raises(ConformanceError, match=f"Holey has no '{member}'"):
        check_mdp(type("Holey", (), members)())
