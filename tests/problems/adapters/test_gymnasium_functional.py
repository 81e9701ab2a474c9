"""Functional environments in JAX: compiled, and doing what they do by themselves."""

from __future__ import annotations

from functools import partial

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.experimental.functional import FuncEnv
from gymnasium.wrappers import TimeLimit, TransformReward

import polinfer
from polinfer.core.errors import DomainError
from polinfer.problems.adapters.functional import FunctionalMDP
from polinfer.problems.adapters.snapshots import SnapshotSimulator
from polinfer.problems.conformance import check_mdp
from polinfer.smc import SweepConfig, run_sweep

pytestmark = pytest.mark.usefixtures("compile_quickly")

POLE = [[], [-0.5, 0.5], [-0.1, 0.0, 0.1], [-1.0, 0.0, 1.0]]


class Drift(FuncEnv):
    """A place on 0..6 and a switch; every function is random, and the first state has weaker types."""

    observation_space = spaces.Tuple([spaces.Discrete(7), spaces.Discrete(2, start=3)])
    action_space = spaces.Discrete(2, start=1)

    def initial(self, rng, params=None):
        return {"place": 3, "switch": jax.random.bernoulli(rng)}

    def transition(self, state, action, rng, params=None):
        push = jnp.where(jax.random.uniform(rng) < 0.8, 1, -1)
        place = jnp.clip(state["place"] + push * jnp.where(action == 2, 1, -1), 0, 6)
        return {"place": place.astype(jnp.float32), "switch": ~state["switch"]}

    def observation(self, state, rng, params=None):
        return state["place"], state["switch"] + 3

    def reward(self, state, action, next_state, rng, params=None):
        return state["place"] * 1.0 - 0.5 * action + jax.random.normal(rng)

    def terminal(self, state, rng, params=None):
        return state["place"] == 6

    def state_info(self, state, params=None):
        return {"action_mask": jnp.stack([state["place"] > 1, True])}


def test_a_fully_observed_environment_keeps_all_promises_of_an_mdp():
    mdp = polinfer.from_gymnasium(Drift(), horizon=12, reward_scale=0.25)
    assert isinstance(mdp, FunctionalMDP)
    assert (mdp.num_actions, mdp.action_names) == (2, ("1", "2"))
    seen = check_mdp(mdp, episodes=16)
    assert seen.terminated > 2
    start = mdp.init(jax.random.key(0))
    assert mdp.state_name(start) in ("(3, 3)", "(3, 4)")
    assert mdp.encode(start).shape == (9,)
    assert mdp.encode(start)[:7].tolist() == np.eye(7)[3].tolist()
    np.testing.assert_array_equal(mdp.encode(start)[7:], np.eye(2)[int(start.inner["switch"])])


def test_steps_are_the_environments_own_until_the_end_absorbs():
    env, mdp = Drift(), polinfer.from_gymnasium(Drift(), horizon=12, reward_scale=0.25)
    step = jax.jit(mdp.step)
    state, over = mdp.init(jax.random.key(0)), False
    for t in range(60):
        key = jax.random.fold_in(jax.random.key(1), t)
        moved = step(key, state, jnp.int32(1))
        if over:
            assert (float(moved.reward), bool(moved.terminated)) == (0.0, True)
            assert jax.tree.all(jax.tree.map(lambda a, b: bool((a == b).all()), moved.state, state))
            continue
        key_move, key_reward, key_end, key_observe = jax.random.split(key, 4)
        inner = env.transition(state.inner, 2, key_move)
        reward = 0.25 * env.reward(state.inner, 2, inner, key_reward)
        over = bool(env.terminal(inner, key_end))
        assert (float(moved.reward), bool(moved.terminated)) == (pytest.approx(float(reward), abs=1e-6), over)
        expected = [int(x) for x in env.observation(inner, key_observe)]
        assert mdp.identity(moved.state).tolist() == [*expected, int(over)]
        assert mdp.legal(moved.state).tolist() == [int(inner["place"]) > 1 or over, True]
        state = moved.state
    assert over


def uniform(mdp, state):
    legal = mdp.legal(state)
    return jnp.where(legal, -jnp.log(legal.sum()), -jnp.inf)


def sweep_of(mdp, seed, particles=6):
    run = jax.jit(
        partial(
            run_sweep, mdp=mdp, log_proposal=partial(uniform, mdp), config=SweepConfig(particles=particles)
        )
    )
    return run(jnp.array([seed, 7], jnp.uint32))


def test_compiled_sweeps_run_on_them():
    sweep = sweep_of(polinfer.from_gymnasium(Drift(), horizon=8), 3)
    assert np.isfinite(np.asarray(sweep.log_weight)).all()
    assert (np.asarray(sweep.reward)[~np.asarray(sweep.active)] == 0).all()


@pytest.mark.slow
def test_gymnasiums_own_cart_pole_is_followed_step_by_step():
    cartpole = pytest.importorskip("gymnasium.envs.phys2d.cartpole")
    env = cartpole.CartPoleFunctional()
    mdp = polinfer.from_gymnasium(env, horizon=40, edges=POLE)
    sweep = sweep_of(mdp, 1)
    played = np.asarray(sweep.active)
    assert sweep.state.seen.shape == (40, 6, 3)
    inner, action = np.asarray(sweep.state.inner), np.asarray(sweep.action)
    for i in range(6):
        for t in range(39):
            if not played[t, i] or bool(sweep.resampled[t]):
                continue
            reached = np.asarray(env.transition(inner[t, i], int(action[t, i]), None))
            np.testing.assert_allclose(inner[t + 1, i], reached, atol=1e-5)
            assert bool(sweep.state.over[t + 1, i]) == bool(env.terminal(reached, None))
    bins = [np.searchsorted(cuts, inner[..., k], side="right") for k, cuts in enumerate(POLE) if cuts]
    np.testing.assert_array_equal(sweep.state.seen, np.stack(bins, axis=-1))
    assert mdp.encode(mdp.init(jax.random.key(0))).shape == (3 + 4 + 4,)


@pytest.mark.parametrize("name", ["tabular/Blackjack-v0", "tabular/CliffWalking-v0"])
def test_environments_around_functional_ones_are_unwrapped_and_compile(name):
    pytest.importorskip("flax")
    mdp = polinfer.make(f"gym:{name}", horizon=9)
    assert isinstance(mdp, FunctionalMDP)
    sweep = sweep_of(mdp, 0)
    assert np.isfinite(np.asarray(sweep.log_weight)).all()
    if name == "tabular/CliffWalking-v0":
        assert mdp.num_actions == 4
        assert np.asarray(sweep.state.seen)[0].ravel().tolist() == [36] * 6


def test_a_limit_of_steps_becomes_the_horizon_and_other_wrappers_mean_snapshots():
    pytest.importorskip("flax")
    env = gymnasium.make("tabular/Blackjack-v0")
    assert polinfer.from_gymnasium(TimeLimit(env, 14)).horizon == 14
    halved = polinfer.from_gymnasium(TransformReward(env, lambda r: r / 2), horizon=5)
    assert isinstance(halved, SnapshotSimulator)
    start = halved.init(0)
    assert halved.init(0) == start
    assert {halved.step(seed, start, 0)[1] for seed in range(12)} == {-0.5, 0.5}


def test_abstractions_are_integers_that_can_be_traced():
    pairs = polinfer.from_gymnasium(Drift(), horizon=5, abstraction=lambda seen: (seen[0] // 2).astype(int))
    start = pairs.init(jax.random.key(0))
    assert (pairs.identity(start).tolist(), pairs.encode(start).tolist()) == ([1, 0], [1.0])
    named = polinfer.from_gymnasium(Drift(), horizon=5, encode=lambda seen: seen[:1] / 7)
    assert named.encode(start._replace(seen=jnp.array([3, 3]))).tolist() == pytest.approx([3 / 7])
    for abstraction, complaint in [
        (lambda seen: seen[0] / 2, "abstraction must give integers for Drift"),
        (lambda seen: int(seen[0]), "Drift cannot be traced by JAX .* jax.numpy"),
    ]:
        with pytest.raises(DomainError, match=complaint):
            polinfer.from_gymnasium(Drift(), horizon=5, abstraction=abstraction)


class Grows(Drift):
    def transition(self, state, action, rng, params=None):
        return {"place": jnp.zeros(2), "switch": state["switch"]}


class Floats(Drift):
    observation_space = spaces.Box(0, 6, (1,), np.float32)


class Torque(Drift):
    action_space = spaces.Box(-1, 1, (1,), np.float32)


@pytest.mark.parametrize(
    ("make", "options", "complaint"),
    [
        (Drift, {}, "Drift has no limit on the steps of an episode; pass horizon="),
        (Grows, {"horizon": 3}, "states of Grows change shape"),
        (Floats, {"horizon": 3}, "not discrete; pass edges=.*traceable"),
        (Torque, {"horizon": 3}, "action space Box.* a Discrete or MultiDiscrete choice"),
        (Drift, {"horizon": 3, "edges": [[1]]}, "edges cut a Box, and Drift observes Tuple"),
    ],
)
def test_refusals(make, options, complaint):
    with pytest.raises(DomainError, match=complaint):
        polinfer.from_gymnasium(make(), **options)
