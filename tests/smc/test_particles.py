"""The particle posterior against enumeration: marginals, joint choices, evidence, and whose luck counts."""

from __future__ import annotations

import math
from functools import cache

import jax.numpy as jnp
import numpy as np
import pytest

import polinfer
from exact.brute_force import posterior as brute_force_posterior
from exact.brute_force import random_plain
from polinfer import ParticlesConfig, Posterior, exact
from polinfer.core.errors import PolinferError
from polinfer.smc import SweepConfig
from polinfer.smc.lineage import committed_actions
from polinfer.smc.particles import ParticleConfig, WeightedPolicies, draw_policies, marginal_policy
from polinfer.smc.record import Sweep

pytestmark = pytest.mark.usefixtures("compile_quickly")

# Certain moves: then one world is all there are.  Episodes come back to states, and the start is certain.
PLAIN = random_plain(20, horizon=6, radices=(3, 2, 2, 3), branches=1, reward=1.5)
CERTAIN = PLAIN._replace(initial=[float(p == max(PLAIN.initial)) for p in PLAIN.initial])


@cache
def certain() -> Posterior:
    settings = {"particles": 300, "worlds": 1, "sweeps": 40, "resample_below": 1.0}
    return polinfer.infer(CERTAIN.table(), "particles", seed=5, **settings)


def test_marginals_and_evidence_are_those_of_enumeration() -> None:
    posterior, truth = certain(), brute_force_posterior(CERTAIN, CERTAIN.horizon)
    facts, policy = posterior.policies, posterior.table_probs()
    assert facts is not None
    assert facts.policy_stderr is not None
    assert policy is not None
    for (s, a), share in truth.marginal.items():
        assert abs(policy[0, s, a] - share) < 5 * facts.policy_stderr[s, a] + 1e-4, (s, a)
        assert facts.policy_stderr[s, a] < 0.02
    assert abs(facts.log_evidence - truth.log_evidence) < 4 * facts.log_evidence_stderr
    assert abs(facts.expected_return - truth.mean) < 4 * facts.expected_return_stderr
    assert facts.top_returns[0] == pytest.approx(truth.ranked[0][1])
    assert max(truth.marginal.values()) > 0.7, "a posterior that has decided nothing tests nothing"


def test_the_probability_of_two_choices_is_that_of_one_policy_making_both() -> None:
    posterior, truth = certain(), brute_force_posterior(CERTAIN, CERTAIN.horizon)
    checked = 0
    for s, a in truth.marginal:
        for t, b in truth.marginal:
            if s >= t:
                continue
            known = sum(share for share, _, policy in truth.ranked if (policy[s], policy[t]) == (a, b))
            found = posterior.probability({s: a, t: b})
            assert abs(found.probability - known) < 4 * found.stderr + 1e-3, (s, a, t, b)
            assert found.stderr < 0.03
            checked += abs(known - truth.marginal[s, a] * truth.marginal[t, b]) > 0.1
    assert checked > 0, "some choices must depend on each other"


@pytest.mark.parametrize("worlds", [1, pytest.param(2, marks=pytest.mark.slow), 150])
def test_luck_is_shared_in_one_world_and_averaged_over_many(worlds: int) -> None:
    """P(B) is 0.402 where particles share one world, 0.5 in many; where each has its own luck, 0.933."""
    table = polinfer.make("probe/three-targets")
    one = exact.world_averaged_policy(table)[0, 1]
    # Two worlds: both lucky, one of them, or none.
    two = sum(p / (1 + math.exp(-pay)) for p, pay in ((1 / 16, 4), (6 / 16, 4 / 3), (9 / 16, -4 / 3)))
    sweeps, share = {1: (200, one), 2: (200, two), 150: (20, 0.5)}[worlds]
    posterior = polinfer.infer(table, "particles", particles=100, worlds=worlds, sweeps=sweeps)
    policy, facts = posterior.table_probs(), posterior.policies
    assert policy is not None
    assert facts is not None
    assert facts.policy_stderr is not None
    assert abs(policy[0, 0, 1] - share) < 4 * facts.policy_stderr[0, 1] + 0.01


def test_a_policy_is_gathered_along_its_line_of_descent() -> None:
    """Two particles: the second dies after the first step, and both go on from the first."""
    sweep = Sweep(**dict.fromkeys(Sweep._fields))._replace(
        state=np.array([[0, 0], [1, 2], [0, 2]], np.int32),
        action=np.array([[1, 0], [2, 1], [1, 1]], np.int32),
        drawn=np.array([[True, True], [True, True], [False, False]]),
        ancestor=np.array([[0, 0], [0, 1], [1, 0]], np.int32),  # The last row is not one: nothing follows.
    )
    assert committed_actions(sweep, 4).tolist() == [[1, 2, -1, -1], [1, -1, 1, -1]]
    worlds = sweep._replace(
        state=np.stack([sweep.state, np.full((3, 2), 3, np.int32)], axis=-1),
        action=np.stack([sweep.action, np.full((3, 2), 2, np.int32)], axis=-1),
        drawn=np.stack([sweep.drawn, np.array([[False, True], [False, False], [True, False]])], axis=-1),
    )
    assert committed_actions(worlds, 4).tolist() == [[1, 2, -1, 2], [1, -1, 1, -1]]


def test_where_a_particle_never_came_its_action_is_uniform() -> None:
    fork = polinfer.make("probe/fork")
    population = WeightedPolicies(
        np.array([[0, 1, -1, -1, -1], [1, -1, -1, -1, -1]], np.int32), np.array([0.3, 0.7]), 0.0
    )
    policy = marginal_policy(fork, population)
    np.testing.assert_allclose(policy[:2], [[0.3, 0.7], [0.35, 0.65]])
    drawn = draw_policies(fork, population, 20_000, np.random.default_rng(0))
    held = (drawn[:, None, :2, None] == np.arange(2)).mean(axis=0)[0]
    np.testing.assert_allclose(held, policy[:2], atol=5 * 0.5 / np.sqrt(20_000))
    assert ((drawn[:, 0] == 0) <= (drawn[:, 1] == 1)).all(), "who goes in has decided"
    assert drawn.dtype == jnp.int32


def test_weights_are_exact_unless_worlds_are_asked_for_and_those_are_many() -> None:
    assert ParticlesConfig().settings().weights == "exact"
    assert ParticlesConfig(weights="worlds").settings().sweep == SweepConfig(particles=500, worlds=200)
    assert ParticlesConfig(worlds=3).filled() == ParticlesConfig(worlds=3, weights="worlds").filled()
    assert ParticlesConfig(worlds=3, weights="exact").settings().weights == "exact"


def test_only_deterministic_policies_are_particles() -> None:
    for settings in ({"deterministic": False}, {"memo_refresh": 0.1}):
        with pytest.raises(PolinferError, match="particles are deterministic policies"):
            ParticleConfig(SweepConfig(**settings))
        with pytest.raises(PolinferError, match="'particles' has no setting"):
            polinfer.infer(CERTAIN.table(), "particles", **settings)
    assert SweepConfig().deterministic
