"""The particle posterior: the weighted policies of sweeps, without a network.

The weighted policies of one sweep are a sample of the posterior (target 1) with exact weights
(`polinfer.smc.weights`), or in the limit of many worlds.  Sweeps are independent, so standard errors are
taken over them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from polinfer.core.errors import PolinferError, check_at_least
from polinfer.core.noise import derive_words, seed_words
from polinfer.core.protocol import constant
from polinfer.exact.evaluation import deterministic_returns, draw_prior
from polinfer.exact.joint import describe_sample, pool, reach_policy
from polinfer.exact.returns import choices_of, visits_of
from polinfer.exact.solution import Floats, PolicyPosterior
from polinfer.problems.tabular.table import TabularMDP
from polinfer.smc.compiled import run_sweep
from polinfer.smc.config import SweepConfig
from polinfer.smc.lineage import committed_actions
from polinfer.smc.proposal import log_policy
from polinfer.smc.record import Sweep
from polinfer.smc.weights import Weights, draw_fill, make_weigher

_LEAST = 1e-30  # probability that a start may give a legal action
_DRAWN = 1000  # policies kept for questions about whole policies


@dataclass(frozen=True)
class ParticleConfig:
    """Settings of the particle posterior."""

    sweep: SweepConfig = field(default_factory=lambda: SweepConfig(particles=2000, resample_below=0.0))
    sweeps: int = 40
    """Independent sweeps whose answers are averaged."""
    weights: Weights = "exact"
    """What a policy is weighed by at the end of a sweep: its exact J, or its return in the sweep's worlds."""

    def __post_init__(self) -> None:
        if self.weights not in ("worlds", "exact"):
            raise PolinferError(f"weights must be worlds or exact, got {self.weights!r}")
        check_at_least("sweeps", self.sweeps, 2)
        if not self.sweep.deterministic or self.sweep.memo_refresh > 0:
            raise PolinferError(
                "particles are deterministic policies; leave out memo_refresh and deterministic"
            )


class WeightedPolicies(NamedTuple):
    """The weighted policies of one sweep."""

    actions: NDArray[np.int32]  # [N, S]; with weights from worlds, -1 in states not visited
    weight: Floats  # [N], sums to one
    log_evidence: float


def run_population(
    table: TabularMDP,
    config: ParticleConfig,
    seed: int,
    number: int,
    start: Floats | None = None,
    *,
    double: bool = False,
) -> WeightedPolicies:
    """Run one sweep; return its weighted policies.

    Actions are drawn from the policy `start` ``[S, A]``, or from the prior, and weighed for it, in `double`
    precision where single would not do.
    """
    with jax.enable_x64(double):
        rows = np.log(np.maximum(table.prior if start is None else start, _LEAST))
        log_q = log_policy(constant(rows), jnp.asarray(table.legal_actions))
        return _sweep(table, config, seed, number, log_q)


def combine(
    table: TabularMDP, config: ParticleConfig, populations: list[WeightedPolicies], seed: int
) -> tuple[Floats, PolicyPosterior]:
    """Return the marginal policy ``[S, A]`` and the posterior over whole policies from independent sweeps."""
    marginals = np.stack([marginal_policy(table, population) for population in populations])
    evidence = np.array([population.log_evidence for population in populations])
    log_evidence, log_evidence_stderr = pool(evidence)
    share = sweep_shares(evidence, config.weights)
    random = np.random.default_rng(seed)
    # At least one of each sweep, so that each sweep has a mean.
    counts = np.maximum(1, np.rint(_DRAWN * share).astype(np.int64))
    drawn = [draw_policies(table, *of, random) for of in zip(populations, counts.tolist(), strict=True)]
    sample = np.concatenate(drawn)
    returns = deterministic_returns(table, sample)
    means = np.array([part.mean() for part in np.split(returns, np.cumsum(counts)[:-1])])
    policy, policy_stderr = average_sweeps(marginals, share)
    expected_return, expected_return_stderr = average_sweeps(means, share)
    whole = describe_sample(
        table,
        sample,
        returns,
        policy=policy,
        log_evidence=log_evidence,
        log_evidence_stderr=log_evidence_stderr,
        expected_return=float(expected_return),
        expected_return_stderr=float(expected_return_stderr),
        policy_stderr=policy_stderr,
        reach_policy=reach_policy(policy, choices_of(table).state, sample, visits_of(table, sample)),
        seed=seed,
    )
    return policy, whole


def sweep_shares(log_evidence: Floats, weights: Weights) -> Floats:
    """Return the weight of each sweep, ``[K]``, summing to one.

    With exact weights all sweeps estimate the same ``Z`` and are weighted by their estimates, which makes
    numerator and denominator unbiased.  Otherwise ``Z-hat`` depends on the sweep's worlds, and the weights
    are equal.
    """
    if weights == "worlds":
        return np.full(len(log_evidence), 1.0 / len(log_evidence))
    relative = np.exp(log_evidence - log_evidence.max())
    return np.asarray(relative / relative.sum())


def average_sweeps(values: Floats, share: Floats) -> tuple[Floats, Floats]:
    """Return the mean over sweeps ``[K, ...]`` by their shares, and its standard error (of a ratio)."""
    mean = np.tensordot(share, values, axes=1)
    apart = share.reshape(-1, *[1] * (values.ndim - 1)) * (values - mean)
    count = len(share)
    return mean, np.sqrt((apart**2).sum(axis=0) * count / (count - 1))


def marginal_policy(table: TabularMDP, population: WeightedPolicies) -> Floats:
    """Return ``Pr[pi(s) = a]`` ``[S, A]``; that of the prior where a particle did not come."""
    policy = np.zeros((table.num_states, table.num_actions))
    for action in range(table.num_actions):
        policy[:, action] = population.weight @ (population.actions == action)
    return policy + (population.weight @ (population.actions < 0))[:, None] * table.prior


def draw_policies(
    table: TabularMDP, population: WeightedPolicies, count: int, random: np.random.Generator
) -> NDArray[np.int32]:
    """Draw whole policies ``[count, S]``; from the prior in states that a particle did not visit."""
    picked = random.choice(len(population.weight), count, p=population.weight)
    drawn = population.actions[picked]
    fresh = draw_prior(table.prior, random.random(drawn.shape).T).T
    return np.where(drawn >= 0, drawn, fresh).astype(np.int32)


def _sweep(
    table: TabularMDP, config: ParticleConfig, seed: int, number: int, log_q: Array
) -> WeightedPolicies:
    words = derive_words(seed_words(jnp.asarray(seed, jnp.uint32)), jnp.asarray(number))
    if config.weights == "exact":
        weighed = _run_exactly(table, config.sweep, log_q.dtype == np.float64)(words, log_q)
        weight = np.exp(np.asarray(weighed.log_weight, np.float64))
        return WeightedPolicies(
            np.asarray(weighed.actions, np.int32), weight / weight.sum(), float(weighed.log_evidence)
        )
    record = _run(table, config.sweep)(words, log_q)
    last = np.asarray(record.log_weight[-1], np.float64)
    weight = np.exp(last - last.max())
    return WeightedPolicies(
        np.asarray(committed_actions(record, table.num_states), np.int32),
        weight / weight.sum(),
        float(record.log_evidence),
    )


@lru_cache(maxsize=16)
def _run(table: TabularMDP, config: SweepConfig) -> Any:
    """Return the compiled sweep with a proposal ``log q`` ``[S, A]``."""

    def run(words: Any, log_q: Array) -> Sweep:
        return run_sweep(words, table, lambda state: log_q[state], config)

    return jax.jit(run)


@lru_cache(maxsize=16)
def _run_exactly(table: TabularMDP, config: SweepConfig, double: bool) -> Any:
    """Return the compiled sweep with exact weights in the end, for the precision in force."""
    del double  # what is prepared for one precision is not used for the other
    run, weigh = _run(table, config), make_weigher(table)
    return jax.jit(
        lambda words, log_q: weigh(run(words, log_q), draw_fill(words, config.particles, table.num_states))
    )
