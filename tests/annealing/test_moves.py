from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from polinfer.annealing.bridge import bridge_target, log_bridge, log_weights
from polinfer.annealing.moves import (
    Kind,
    Target,
    Walkers,
    log_acceptance,
    log_density,
    propose,
    propose_from,
    transition_terms,
)
from polinfer.annealing.noise import fold, make_key
from polinfer.annealing.passes import make_evaluate, with_returns
from polinfer.annealing.problem import reduce_table
from polinfer.annealing.rows import make_rows
from polinfer.annealing.smoothing import conditionals, remainder
from polinfer.exact.enumeration import policy_posterior

from .cases import every_policy, loop, unreached

KINDS = {
    "by influence": (0.7, True, 1.0, False, False),
    "by influence, refresh": (0.7, True, 0.5, False, True),
    "few": (1.0, False, 1.0, False, False),
    "few, half tilt, refresh": (2.0, False, 0.5, False, True),
    "fill": (1.5, False, 0.0, True, False),
    "fill, everything": (1e9, False, 0.0, True, True),
}


def kind_of(name, count):
    size, by_influence, tilt, from_fill, refresh = KINDS[name]
    return Kind(*(jnp.full(count, value) for value in (size, by_influence, tilt, from_fill, refresh)))


@cache
def setting(name, inverse=0.6):
    """Every policy, its evaluation, and a target between a start and the posterior."""
    problem = reduce_table({"loop": loop, "returns": loop, "unreached": unreached}[name]())
    policy = jnp.asarray(every_policy(problem.legal))
    rng = np.random.default_rng(5)
    start = np.where(problem.legal, rng.uniform(0.2, 1, problem.legal.shape), 0)
    with np.errstate(divide="ignore"):
        log_start = jnp.asarray(np.log(start / start.sum(axis=1, keepdims=True)))
        log_even = jnp.asarray(np.log(problem.legal / problem.legal.sum(axis=1, keepdims=True)))
    evaluate = make_evaluate(*problem.gain.shape, 0, problem.horizon, policy.shape[1], 8)
    if name == "returns":
        evaluate = with_returns(evaluate)
    walkers = Walkers(policy, jax.jit(evaluate)(make_rows(problem, np.float64), policy))
    prior = log_bridge(log_start, log_even, jnp.float64(inverse))
    influence = jnp.asarray([0.9, 2.1, 0.6])
    target = Target(
        jnp.float64(1.3 * inverse), prior, log_start, influence, jnp.float64(2.5), jnp.asarray(inverse == 1)
    )
    return problem, walkers, target, (log_start, log_even)


@jax.jit
def _log_proposed(target, kind, before, tried):
    return transition_terms(propose_from(target, kind, before), before.policy, tried.policy).sum(axis=0)


_log_accepted, _drawn = jax.jit(log_acceptance), jax.jit(propose)


def take(walkers, index):
    return jax.tree.map(lambda leaf: leaf[..., index], walkers)


@pytest.mark.parametrize("table", ["loop", "returns", "unreached"])
@pytest.mark.parametrize("name", KINDS)
def test_each_kind_of_move_is_in_detailed_balance(table, name):
    with jax.enable_x64(True):
        _, walkers, target, _ = setting(table)
        count = walkers.policy.shape[1]
        x, y = (index.ravel() for index in np.indices((count, count)))
        kind = kind_of(name, count * count)
        before, tried = take(walkers, x), take(walkers, y)
        proposal = np.exp(np.asarray(_log_proposed(target, kind, before, tried))).reshape(count, count)
        ratio = np.asarray(_log_accepted(target, kind, before, tried)).reshape(count, count)
        density = np.exp(np.asarray(log_density(target, walkers)))
    np.testing.assert_allclose(proposal.sum(axis=1), 1, atol=1e-12)
    flow = density[:, None] * proposal * np.exp(np.minimum(np.where(proposal > 0, ratio, -np.inf), 0))
    np.fill_diagonal(flow, 0)
    assert flow.max() > 1e-4
    np.testing.assert_allclose(flow, flow.T, atol=1e-12 * density.max())


@pytest.mark.parametrize("name", KINDS)
def test_proposals_are_drawn_from_what_they_are_weighed_by(name):
    draws = 40_000
    with jax.enable_x64(True):
        _, walkers, target, _ = setting("loop")
        count = walkers.policy.shape[1]
        origin = take(walkers, np.full(draws, 7))
        kind = kind_of(name, draws)
        drawn = np.asarray(_drawn(jnp.asarray(make_key(3)), target, kind, origin))
        one = take(walkers, np.full(count, 7))
        chance = np.exp(np.asarray(_log_proposed(target, kind_of(name, count), one, walkers)))
    every = np.asarray(walkers.policy)
    share = np.array([(drawn == every[:, [number]]).all(axis=0).mean() for number in range(count)])
    stderr = np.sqrt(chance * (1 - chance) / draws)
    assert (abs(share - chance) < 5 * stderr + 1e-9).all()


@pytest.mark.parametrize("table", ["loop", "returns", "unreached"])
def test_conditionals_and_what_they_lack_have_the_mean_of_indicators(table):
    with jax.enable_x64(True):
        _, walkers, target, _ = setting(table)
        count = walkers.policy.shape[1]
        x, y = (index.ravel() for index in np.indices((count, count)))
        kind = kind_of("few", count * count)
        before, tried = take(walkers, x), take(walkers, y)
        proposed = np.exp(np.asarray(_log_proposed(target, kind, before, tried)))
        ratio = np.where(proposed > 0, np.asarray(_log_accepted(target, kind, before, tried)), -np.inf)
        rest = remainder(target, kind, before, tried, jnp.asarray(np.exp(np.minimum(ratio, 0))))
        smooth = np.stack([np.asarray(part) for part in conditionals(target, walkers.evaluation)])
        density = np.exp(np.asarray(log_density(target, walkers)))
    assert np.asarray(rest.counted).all()
    weight = density / density.sum()
    lacking = np.stack([np.asarray(part) for part in rest.lacking]) @ (np.repeat(weight, count) * proposed)
    come, policy = np.asarray(walkers.evaluation.visits) > 0, np.asarray(walkers.policy)
    indicator = np.stack([(come & (policy == action)) @ weight for action in range(len(smooth))])
    assert abs(lacking).max() > 1e-3
    np.testing.assert_allclose(smooth @ weight + lacking, indicator, atol=1e-12)


def test_the_target_has_the_posteriors_marginals_where_policies_come():
    table = loop().with_problem(reward_scale=1.3)
    exact = policy_posterior(table)
    with jax.enable_x64(True):
        problem, walkers, target, _ = setting("loop", inverse=1.0)
        log_mass = np.asarray(log_density(target, walkers))
        come, policy = np.asarray(walkers.evaluation.visits) > 0, np.asarray(walkers.policy)
    mass = np.exp(log_mass)
    # The fill sums to one, so the mass is that of the prior itself: no count of policies is needed.
    assert np.log(mass.sum()) == pytest.approx(exact.posterior.log_evidence, abs=1e-12)
    weight = mass / mass.sum()
    even = problem.legal / problem.legal.sum(axis=1, keepdims=True)
    for slot, state in enumerate(problem.state):
        marginal = np.bincount(policy[slot], weight * come[slot], minlength=3)
        marginal = marginal + (1 - marginal.sum()) * even[slot]
        np.testing.assert_allclose(marginal, exact.policy[state], atol=1e-12)


def test_the_weights_are_the_slope_of_the_path():
    with jax.enable_x64(True):
        _, walkers, _, (log_start, log_even) = setting("unreached")
        found = log_weights(walkers, log_start, log_even, jnp.float64(1.3))

        def density(b):
            return log_density(bridge_target(log_start, log_even, jnp.float64(b), jnp.float64(1.3)), walkers)

        np.testing.assert_allclose(
            np.asarray(density(0.7) - density(0.2)), 0.5 * np.asarray(found), atol=1e-12
        )


def test_keys_differ():
    key = jnp.asarray(make_key(0))
    keys = np.asarray(jax.vmap(lambda number: fold(key, number))(jnp.arange(20_000)))
    assert len(np.unique(keys, axis=0)) == len(keys)
