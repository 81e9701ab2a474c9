"""The coefficients are the gradient of the paper's surrogate as written, by automatic differentiation."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.special import logsumexp

from polinfer.learning.objective import evidence_to_go, leave_one_out, segment_weights, vsmc_coefficients
from polinfer.smc import SweepConfig
from polinfer.smc.record import Sweep
from polinfer.smc.reference import SweepRandomness, run_reference_sweep, surrogate

from .engines import QUICK, PlainTable, Row, atlas, proposal_rows, sweep_many, sweep_plainly, table

ATLAS = atlas()
PROPOSAL = proposal_rows(ATLAS)


def written_surrogate(log_q: jax.Array, sweep: Sweep) -> jax.Array:
    """Eq. det-surrogate-objective-stratified, from ``log q`` ``[T, N]`` of the drawn actions.

    Resampling is stopped: after it, weights start again from one.
    """
    log_w, log_means, scores = jnp.zeros(log_q.shape[1]), [], []
    for t in range(log_q.shape[0]):
        before = logsumexp(log_w)
        log_w = log_w + sweep.reward[t] + jnp.where(sweep.drawn[t], sweep.log_prior[t] - log_q[t], 0.0)
        log_means.append(logsumexp(log_w) - before)
        scores.append(jnp.where(sweep.drawn[t], log_q[t], 0.0).sum())
        log_w = jnp.where(sweep.resampled[t], 0.0, log_w)
    total = sum(log_means)
    for t, score in enumerate(scores):
        total = total + jax.lax.stop_gradient(sum(log_means[t:])) * score
    return total


def from_logits(logits: jax.Array, sweep: Sweep) -> jax.Array:
    """``log q(a|s)`` ``[T, N]`` of a table of logits over legal actions."""
    rows = jax.nn.log_softmax(jnp.where(ATLAS.legal_actions, logits, -jnp.inf))
    return rows[sweep.state, sweep.action]


class Gradients(NamedTuple):
    value: Any  # [] the written surrogate
    coefficients: Any  # [T, N]
    by_log_q: Any  # [T, N] the surrogate's derivative by log q of the drawn actions
    by_logits: Any  # [S, A] ... by the logits of a table
    weighted_scores: Any  # [S, A] what ascending the coefficients does to those logits


@partial(jax.jit, compiler_options=QUICK)
def differentiate(sweep: Sweep) -> Gradients:
    coefficients = vsmc_coefficients(sweep)
    value, by_log_q = jax.value_and_grad(written_surrogate)(sweep.log_proposal, sweep)
    logits = jnp.where(ATLAS.legal_actions, PROPOSAL, 0.0)
    by_logits = jax.grad(lambda x: written_surrogate(from_logits(x, sweep), sweep))(logits)
    weighted = jax.grad(lambda x: (coefficients * jnp.where(sweep.drawn, from_logits(x, sweep), 0.0)).sum())(
        logits
    )
    return Gradients(value, coefficients, by_log_q, by_logits, weighted)


CONFIGS = [
    SweepConfig(particles=particles, resample_below=below)
    for particles, below in itertools.product((1, 5, 10), (0, 0.5, 1))
    if particles > 1 or below == 1
]


def eventful(config: SweepConfig, count: int) -> list[Sweep]:
    """Sweeps in which particles end early, and some of whose steps resample while others do not."""
    found = []
    for sweep in sweep_plainly(ATLAS, config, 200, seed=config.particles):
        some = sweep.resampled[:-1].any() and not sweep.resampled[:-1].all()
        if sweep.ended.any() and (some or config.resample_below != 0.5):
            found.append(sweep._replace(state=sweep.state.astype(np.int32)))
    assert len(found) >= count
    return found[:count]


@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: f"{c.particles}-{c.resample_below}")
def test_coefficients_are_the_gradient_of_the_written_surrogate(config: SweepConfig) -> None:
    for sweep in eventful(config, 4):
        found = differentiate(sweep)
        assert float(found.value) == pytest.approx(surrogate(sweep), rel=1e-5)
        np.testing.assert_allclose(found.coefficients, found.by_log_q, atol=1e-5)
        np.testing.assert_allclose(found.weighted_scores, found.by_logits, atol=1e-5)
        assert abs(np.asarray(found.by_logits)).max() > 0.01


def test_the_comparison_notices_a_wrong_term() -> None:
    """No share of the segment, that of the step, all of log Z-hat, a prefix of it: each is told apart."""
    (sweep,) = eventful(SweepConfig(), 1)
    right = np.asarray(vsmc_coefficients(sweep))
    to_go, ell = np.asarray(evidence_to_go(sweep))[:, None], sweep.log_mean
    share = np.asarray(segment_weights(sweep))
    of_step = np.exp(sweep.log_weight - sweep.log_weight.max(axis=1, keepdims=True))
    wrong = {
        "no share": to_go + 0 * share,
        "share added": to_go + share,
        "share of the step": to_go - of_step / of_step.sum(axis=1, keepdims=True),
        "all of log Z-hat": ell.sum() - share,
        "prefix": ell.cumsum()[:, None] - share,
        "step alone": ell[:, None] - share,
    }
    np.testing.assert_allclose(np.where(sweep.drawn, to_go - share, 0.0), right, atol=1e-6)
    for name, signal in wrong.items():
        assert abs(np.where(sweep.drawn, signal, 0.0) - right).max() > 1e-2, name


def test_segment_weights_are_those_at_the_next_resampling() -> None:
    (sweep,) = eventful(SweepConfig(particles=5), 1)
    share = np.asarray(segment_weights(sweep))
    end = [
        next(u for u in range(t, 5) if sweep.resampled[u] or u == 4)  # A sweep of the atlas has five steps.
        for t in range(5)
    ]
    expected = np.exp(sweep.log_weight[end])
    np.testing.assert_allclose(share, expected / expected.sum(axis=1, keepdims=True), rtol=1e-5)
    np.testing.assert_allclose(share.sum(axis=1), 1.0, rtol=1e-5)


# Two choices a particle, the second in a state that depends on the first; nothing is random.
_TREE: list[Row] = [
    (0, 0, 1.0, 1, 0.4),
    (0, 1, 1.0, 2, -0.9),
    (1, 0, 1.0, 3, 1.3),
    (1, 1, 1.0, 3, -0.2),
    (2, 0, 1.0, 3, 0.7),
    (2, 1, 1.0, 3, 2.1),
]
TREE = table(_TREE, num_states=4, num_actions=2, starts=[0], horizon=2)


class Scripted(SweepRandomness):
    """Actions as told: 0 or 1 for each step and particle."""

    def __init__(self, script: np.ndarray) -> None:
        super().__init__(0)
        self.script = script

    def action(self, t: int, i: int) -> float:
        return 1e-9 if self.script[t, i] == 0 else 1 - 1e-9


def test_expected_gradient_is_that_of_the_expected_log_evidence() -> None:
    """Without resampling nothing is stopped: summed over all actions, the identity is exact (Prop. 3)."""
    config, simulator = SweepConfig(particles=2, resample_below=0), PlainTable(TREE)

    def weighted_sweeps(logits: np.ndarray) -> Iterator[tuple[float, Sweep]]:
        log_q = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        for bits in itertools.product((0, 1), repeat=4):
            randomness = Scripted(np.reshape(bits, (2, 2)))
            sweep = run_reference_sweep(simulator, log_q.__getitem__, config, randomness)
            yield math.exp(sweep.log_proposal.sum()), sweep

    def mean(logits: np.ndarray) -> float:
        return sum(chance * sweep.log_evidence for chance, sweep in weighted_sweeps(logits))

    logits = np.random.default_rng(3).normal(0, 0.7, (4, 2))
    gradient = np.zeros_like(logits)
    coefficients_of = jax.jit(vsmc_coefficients)
    for chance, sweep in weighted_sweeps(logits):
        coefficients = coefficients_of(sweep._replace(state=0))
        for t, i in np.ndindex(2, 2):
            s = sweep.state[t, i]
            score = np.eye(2)[sweep.action[t, i]] - np.exp(logits[s]) / np.exp(logits[s]).sum()
            gradient[s] += chance * float(coefficients[t, i]) * score
    for s, a in itertools.product(range(3), range(2)):
        step = np.zeros_like(logits)
        step[s, a] = 1e-4
        slope = (mean(logits + step) - mean(logits - step)) / 2e-4
        assert gradient[s, a] == pytest.approx(slope, abs=1e-5)
    assert abs(gradient[:3]).min() > 1e-3


GROUP = 8


def gradients(sweeps: Sweep, coefficients: np.ndarray) -> np.ndarray:
    """The gradient of each sweep with respect to a table of logits, ``[U, S * A]``."""
    states, actions = np.eye(ATLAS.num_states)[sweeps.state[..., 0]], np.eye(3)[sweeps.action]
    score = actions - np.exp(PROPOSAL)[sweeps.state[..., 0]]
    return np.einsum("utn,utns,utna->usa", coefficients, states, score).reshape(len(coefficients), -1)


@pytest.mark.slow
def test_baselines_leave_the_mean_gradient_as_it_is() -> None:
    sweeps = sweep_many(ATLAS, SweepConfig(particles=3), 16_384, seed=8)
    to_go = np.asarray(jax.vmap(evidence_to_go)(sweeps))  # [U, T]
    groups = to_go.reshape(-1, GROUP, to_go.shape[1])
    others = np.asarray(jax.vmap(leave_one_out)(groups)).reshape(to_go.shape)
    plain = gradients(sweeps, np.asarray(jax.vmap(vsmc_coefficients)(sweeps)))

    def shift(baseline: np.ndarray) -> np.ndarray:
        """By how many standard errors the mean gradient moves, for every logit that has one."""
        with_baseline = gradients(sweeps, np.asarray(jax.vmap(vsmc_coefficients)(sweeps, baseline)))
        moved = (with_baseline - plain).reshape(len(groups), GROUP, -1).mean(axis=1)
        moves = moved.std(axis=0) > 0
        assert moves.sum() >= 15
        return (moved.mean(axis=0) / (moved.std(axis=0, ddof=1) / math.sqrt(len(groups)) + 1e-30))[moves]

    constant = np.broadcast_to(np.array([1.0, -0.5, 2.0, 0.3, -1.5]), to_go.shape)
    assert abs(shift(constant)).max() < 5
    assert abs(shift(others)).max() < 5
    # What depends on the sweep's own actions is no baseline, and the test sees it.
    assert abs(shift(0.2 * to_go)).max() > 10


def test_leave_one_out_is_the_mean_of_the_others() -> None:
    to_go = np.array([[1.0, 5.0], [2.0, -1.0], [6.0, 0.5]])
    np.testing.assert_allclose(leave_one_out(to_go), [[4.0, -0.25], [3.5, 2.75], [1.5, 2.0]])
