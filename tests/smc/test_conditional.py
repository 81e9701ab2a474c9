"""Conditional sweeps against the evidence of their worlds, computed from every policy."""

from __future__ import annotations

import itertools
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import polinfer
from polinfer.core.noise import (
    as_uniform,
    derive_words,
    draw_world_noise,
    query_words,
    seed_words,
    world_words,
)
from polinfer.smc import SweepConfig
from polinfer.smc.conditional import bracket_evidence, can_condition, keep_lineage, pick_lineage
from polinfer.smc.worlds import run_world_sweep

from .engines import QUICK

TABLE = polinfer.tabulate(polinfer.make("gridworld/ablation", horizon=6))
EVEN = jnp.asarray(np.log(np.full((TABLE.num_states, 4), 0.25)), jnp.float32)
SKEWED = jax.nn.log_softmax(jnp.asarray(np.random.default_rng(2).normal(0, 0.7, EVEN.shape), jnp.float32))
WORLDS = 3
SWEEPS = 600


def log_proposal(state: Any) -> Any:
    return SKEWED[state]


@cache
def exact_evidence_of() -> Any:
    """From a sweep's words to ``log Z_w``: all 256 policies, each through all its worlds."""
    acting = np.flatnonzero(~TABLE.absorbing)
    policies = np.zeros((4 ** len(acting), TABLE.num_states), np.int32)
    policies[:, acting] = list(itertools.product(range(4), repeat=len(acting)))
    cumulative = jnp.asarray(np.cumsum(TABLE.probability, axis=-1), jnp.float32)
    successor, reward = jnp.asarray(TABLE.successor), jnp.asarray(TABLE.reward, jnp.float32)

    def gained(policy: Any, own: Any) -> Any:
        def step(carry: Any, _: Any) -> Any:
            state, visits, total = carry
            action = policy[state]
            words = query_words(own, TABLE.identity(state), action, visits[state])
            slot = (as_uniform(words) >= cumulative[state, action]).sum()
            total = total + reward[state, action, slot]
            return (successor[state, action, slot], visits.at[state].add(1), total), None

        start = (jnp.argmax(jnp.asarray(TABLE.initial)), jnp.zeros(TABLE.num_states, jnp.int32), 0.0)
        return jax.lax.scan(step, start, None, length=TABLE.horizon)[0][2]

    def evidence(words: Any) -> Any:
        dynamics = draw_world_noise(words, 1, 1, 1).words
        own = jax.vmap(lambda world: world_words(dynamics, world))(jnp.arange(WORLDS))
        returns = jax.vmap(lambda policy: jax.vmap(lambda one: gained(policy, one))(own).mean())(policies)
        return jax.scipy.special.logsumexp(returns) - jnp.log(len(policies))

    return evidence


class Tried(NamedTuple):
    lower: np.ndarray  # [sweeps]
    upper: np.ndarray  # [sweeps]
    last: np.ndarray  # [sweeps] log Z-hat of the last conditional sweep
    truth: np.ndarray  # [sweeps] log Z_w


@cache
def tried() -> Tried:
    config = SweepConfig(particles=4, worlds=WORLDS, resample_below=0.8)

    def one(number: Any) -> Any:
        words = derive_words(seed_words(jnp.uint32(7)), number)
        found = bracket_evidence(words, TABLE, log_proposal, config, particles=12, rounds=8)
        return found.lower, found.upper, found.conditional[-1], exact_evidence_of()(words)

    run = jax.jit(lambda: jax.lax.map(one, jnp.arange(SWEEPS)), compiler_options=QUICK)
    return Tried(*(np.asarray(part, np.float64) for part in run()))


def mean(values: np.ndarray) -> tuple[float, float]:
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))


def test_the_evidence_of_the_worlds_lies_between_the_bounds() -> None:
    found = tried()
    below, below_stderr = mean(found.lower - found.truth)
    above, above_stderr = mean(found.upper - found.truth)
    assert below < -4 * below_stderr, "four particles are few: the bound is not tight"
    assert above > 4 * above_stderr, "and neither is the other"
    # The worlds differ by more than the bounds: they must be those of the sweep.
    assert np.corrcoef(found.upper, found.truth)[0, 1] > 0.9
    assert found.truth.std() > 0.5


def test_conditional_sweeps_estimate_the_inverse_evidence_without_bias() -> None:
    """What makes them a bound: ``E[Z_w / Z-hat] = 1``; without a kept policy, ``E[Z-hat / Z_w] = 1``."""
    found = tried()
    inverse, stderr = mean(np.exp(found.truth - found.last))
    assert abs(inverse - 1) < 4 * stderr
    assert stderr < 0.05
    forward, stderr = mean(np.exp(found.lower - found.truth))
    assert abs(forward - 1) < 4 * stderr


@pytest.mark.parametrize("problem", ["table", "no table"])
def test_a_kept_policy_is_the_first_particle_throughout(problem: str) -> None:
    """It meets the same states, does and earns the same, and survives, also where its weight is nothing."""
    mdp = TABLE if problem == "table" else polinfer.make("gridworld/ablation", horizon=6)
    propose = log_proposal if problem == "table" else lambda state: EVEN[0]
    config = SweepConfig(particles=6, worlds=WORLDS, resample_below=1, resampling="multinomial")

    def both(words: Any) -> Any:
        noise = draw_world_noise(words, mdp.horizon, 6, WORLDS)
        sweep = run_world_sweep(noise, mdp, propose, config)
        lineage = pick_lineage(
            words, noise, sweep, sweep.log_weight[-1], jnp.zeros((sweep.action.shape[1], 0))
        )
        fresh = draw_world_noise(derive_words(words, jnp.asarray(9)), mdp.horizon, 6, WORLDS)
        kept = keep_lineage(fresh._replace(words=noise.words, start=noise.start), lineage)
        return sweep, run_world_sweep(kept, mdp, propose, config)

    run = jax.jit(jax.vmap(both), compiler_options=QUICK)
    words = jax.vmap(seed_words)(jnp.arange(20, dtype=jnp.uint32))
    first, second = jax.tree.map(np.asarray, run(words))
    assert (second.ancestor[:, :, 0] == 0).all()
    assert (second.ancestor[:, :-1, 1:] != np.arange(1, 6)).any()
    for u in range(20):
        line = {}
        # One of the final particles of the first sweep has done what the kept one does.
        for last in range(6):
            slots, at = [last], last
            for t in reversed(range(mdp.horizon - 1)):
                at = first.ancestor[u, t, at]
                slots.insert(0, at)
            line[last] = np.array(slots)
        steps = np.arange(mdp.horizon)
        same = [
            np.array_equal(np.where(first.active[u, steps, own], first.action[u, steps, own], -1), done)
            and np.allclose(first.reward[u, steps, own], second.reward[u, :, 0])
            for own in line.values()
            for done in [np.where(second.active[u, :, 0], second.action[u, :, 0], -1)]
        ]
        assert any(same)


def test_only_shared_worlds_can_be_conditioned_on() -> None:
    assert can_condition(SweepConfig(start="averaged"))
    assert not can_condition(SweepConfig(coupled=False))
    assert not can_condition(SweepConfig(start="independent"))
