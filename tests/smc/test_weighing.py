"""Exact weights: whatever the worlds were, the weighted policies are those of ``exp(J)``."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from exact.brute_force import expected_return, random_plain
from exact.brute_force import posterior as brute_force_posterior
from polinfer.core.noise import derive_words, seed_words
from polinfer.smc import SweepConfig
from polinfer.smc.compiled import run_sweep
from polinfer.smc.conditional import bracket_evidence
from polinfer.smc.weights import draw_fill, make_weigher

# Random moves, random rewards, two starts, and a state that is often not met.
PLAIN = random_plain(3, horizon=4, radices=(3, 2, 2), branches=3, reward=2.0)
TABLE = PLAIN.table()
TRUTH = brute_force_posterior(PLAIN, PLAIN.horizon)
LOGITS = np.random.default_rng(1).normal(size=(TABLE.num_states, TABLE.num_actions))
LOG_Q = jax.nn.log_softmax(
    jnp.where(jnp.asarray(TABLE.legal_actions), jnp.asarray(LOGITS, jnp.float32), -jnp.inf)
)
PARTICLES, SWEEPS = 6, 4000
SWEEPING = {
    "one world": SweepConfig(particles=PARTICLES, resample_below=0.0),
    "resampled": SweepConfig(particles=PARTICLES, worlds=2, resample_below=0.9),
    "multinomial, own starts": SweepConfig(
        particles=PARTICLES, worlds=3, resample_below=1.0, resampling="multinomial", start="averaged"
    ),
}


class Tried(NamedTuple):
    actions: np.ndarray  # [sweeps, N, S]
    weight: np.ndarray  # [sweeps, N]
    evidence: np.ndarray  # [sweeps], relative to the truth


@cache
def tried(name: str) -> Tried:
    config, weigh = SWEEPING[name], make_weigher(TABLE)

    def one(number: Any) -> Any:
        words = derive_words(seed_words(jnp.uint32(11)), number)
        sweep = run_sweep(words, TABLE, lambda state: LOG_Q[state], config)
        return weigh(sweep, draw_fill(words, PARTICLES, TABLE.num_states))

    found = jax.jit(lambda: jax.lax.map(one, jnp.arange(SWEEPS), batch_size=100))()
    evidence = np.exp(np.asarray(found.log_evidence, np.float64) - TRUTH.log_evidence)
    return Tried(np.asarray(found.actions), np.exp(np.asarray(found.log_weight, np.float64)), evidence)


# The last resamples too, in more worlds.
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name == "resampled")) for name in SWEEPING]
)
def test_evidence_and_marginals_are_unbiased_however_few_the_worlds(name: str) -> None:
    found = tried(name)
    np.testing.assert_allclose(found.weight.sum(axis=1), 1.0, atol=1e-5)
    stderr = found.evidence.std() / np.sqrt(SWEEPS)
    assert abs(found.evidence.mean() - 1) < 4 * stderr
    assert stderr < 0.05
    for (s, a), share in TRUTH.marginal.items():
        term = found.evidence * (found.weight * (found.actions[:, :, s] == a)).sum(axis=1)
        assert abs(term.mean() - share) < 4 * term.std() / np.sqrt(SWEEPS), (s, a)
    assert max(TRUTH.marginal.values()) > 0.7, "a posterior that has decided nothing tests nothing"


def test_without_resampling_a_weight_is_prior_times_exp_j_over_proposal() -> None:
    """Two particles of one sweep that drew in the same states differ by their J and their proposals."""
    found = tried("one world")
    active, log_q = PLAIN.active, np.asarray(LOG_Q, np.float64)
    j = {
        tuple(row): expected_return(PLAIN, dict(zip(active, row, strict=True)), PLAIN.horizon)
        for row in np.unique(found.actions[:50, :, active].reshape(-1, len(active)), axis=0).tolist()
    }
    compared = 0
    for actions, weight in zip(found.actions[:50, :, active], found.weight[:50], strict=True):
        for one, other in zip(range(PARTICLES - 1), range(1, PARTICLES), strict=True):
            apart = np.log(weight[one] / weight[other]) - j[tuple(actions[one])] + j[tuple(actions[other])]
            # What is left is the proposal's, in the states where each of them drew.
            sums = [
                {
                    round(
                        -sum(
                            log_q[s, a] + np.log(len(PLAIN.legal(s)))
                            for s, a, k in zip(active, row, kept, strict=True)
                            if k
                        ),
                        4,
                    )
                    for kept in np.ndindex(*[2] * len(active))
                }
                for row in (actions[one].tolist(), actions[other].tolist())
            ]
            assert min(abs(apart - (x - y)) for x in sums[0] for y in sums[1]) < 1e-3
            compared += abs(apart) > 0.1
    assert compared > 20


def test_conditional_sweeps_bound_the_evidence_itself() -> None:
    config = SweepConfig(particles=2, resample_below=0.0)  # One world: much is not met, and J counts it.

    def one(number: Any) -> Any:
        words = derive_words(seed_words(jnp.uint32(5)), number)
        found = bracket_evidence(
            words, TABLE, lambda state: LOG_Q[state], config, particles=3, rounds=10, exact_weights=True
        )
        return found.lower, found.conditional[-1]

    lower, last = (
        np.asarray(part, np.float64) - TRUTH.log_evidence
        for part in jax.jit(lambda: jax.lax.map(one, jnp.arange(4000), batch_size=100))()
    )
    root = np.sqrt(len(lower))
    assert lower.mean() < -4 * lower.std() / root, "few particles: the bound is not tight"
    assert last.mean() > 4 * last.std() / root, "and neither is the other"
    inverse = np.exp(-last)
    assert abs(inverse.mean() - 1) < 4 * inverse.std() / root
    assert abs(np.exp(lower).mean() - 1) < 4 * np.exp(lower).std() / root
