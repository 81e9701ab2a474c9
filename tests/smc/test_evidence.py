"""``E[Z-hat]`` is the exact evidence, and the weighted particles are the posterior's.

What a sweep's ``Z-hat`` estimates: given the world ``w`` (the outcome of every query ``(s, a, k)``), a sweep
is SMC in a deterministic problem, so ``E[Z-hat | w]`` is the mean of ``exp(R_w(pi))`` over the prior of
policies.  A policy meets each query at most once and queries are independent, so averaging over worlds gives
the mean of ``E[exp(R(pi))]``: target 3, which is the paper's evidence where nothing is random.  Without
coupling the transitions belong to the particles: SMC on pairs of policy and trajectory, with the dynamics as
their own proposal.  That has the same mean; coupling changes the variance, and what particles share.
The same holds for any prior of actions given the past, such as a memo that is refreshed now and then.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest

from polinfer import exact
from polinfer.smc import SweepConfig
from polinfer.smc.record import Sweep
from polinfer.smc.reference import surrogate

from .engines import CERTAIN, CHANCY, atlas, proposal_rows, sweep_many, sweep_plainly, table

SWEEPS = {1: 65_536, 3: 32_768, 10: 16_384}  # by particles

CONFIGS = [
    SweepConfig(particles=1),
    SweepConfig(particles=3),
    SweepConfig(particles=3, resample_below=0),
    SweepConfig(particles=3, resample_below=1),
    SweepConfig(particles=3, resampling="stratified"),
    SweepConfig(particles=3, resampling="multinomial"),
    SweepConfig(particles=3, resample_below=1, resampling="multinomial"),
    SweepConfig(),
    SweepConfig(resample_below=0),
    SweepConfig(resample_below=1, resampling="stratified"),
    SweepConfig(coupled=False),
    SweepConfig(particles=3, deterministic=False),
    SweepConfig(particles=3, deterministic=False, coupled=False, resample_below=1),
    SweepConfig(particles=3, memo_refresh=0.4),
    SweepConfig(particles=3, memo_refresh=0.4, coupled=False, resample_below=1),
]


@cache
def brute_force_evidence(start: int, refresh: float) -> float:
    """The mean of exp(return) over actions of the prior and over transitions, trajectory by trajectory."""
    problem = atlas(start)

    def walk(s: int, left: int, memo: dict[int, int]) -> float:
        if left == 0 or problem.absorbing[s]:
            return 1.0
        legal = np.nonzero(problem.legal_actions[s])[0]
        total = 0.0
        for a in map(int, legal):
            chance = 1 / len(legal)
            if s in memo:
                chance = refresh * chance + (1 - refresh) * (memo[s] == a)
            for p, n, r in zip(
                problem.probability[s, a], problem.successor[s, a], problem.reward[s, a], strict=True
            ):
                if chance * p > 0:
                    total += chance * p * math.exp(r) * walk(int(n), left - 1, {**memo, s: a})
        return total

    return walk(start, problem.horizon, {})


def test_the_targets_are_those_of_the_exact_solvers() -> None:
    certain, chancy = atlas(CERTAIN), atlas(CHANCY)
    assert exact.policy_posterior(certain).posterior.log_evidence == pytest.approx(
        math.log(brute_force_evidence(CERTAIN, 0.0)), abs=1e-9
    )
    assert exact.policy_posterior(chancy, target="exponential").posterior.log_evidence == pytest.approx(
        math.log(brute_force_evidence(CHANCY, 0.0)), abs=1e-9
    )
    # Drawing at every visit is the uniformly acting agent of control as inference.
    for start, problem in ((CERTAIN, certain), (CHANCY, chancy)):
        assert exact.control_as_inference(problem).objective == pytest.approx(
            math.log(brute_force_evidence(start, 1.0)), abs=1e-9
        )


def evidence_by_segments(sweep: Sweep) -> float:
    """log Z-hat from its definition: per stretch between resamplings, the mean of the product of weights."""
    increment = np.asarray(sweep.reward + sweep.log_prior - sweep.log_proposal, np.float64)
    last = {*np.nonzero(sweep.resampled)[0].tolist(), len(increment) - 1}
    total, first = 0.0, 0
    for t in sorted(last):
        total += math.log(np.exp(increment[first : t + 1].sum(axis=0)).mean())
        first = t + 1
    return total


def name_of(config: SweepConfig) -> str:
    """Name what differs from the default."""
    default = SweepConfig()
    changed = {k: v for k, v in vars(config).items() if v != getattr(default, k)}
    return ",".join(f"{k}={v}" for k, v in changed.items()) or "default"


# Every setting once; what only combines them is slow.
RARE = (
    SweepConfig(particles=1),
    SweepConfig(particles=3, resample_below=0),
    SweepConfig(particles=3, resample_below=1),
    SweepConfig(),
    SweepConfig(particles=3, memo_refresh=0.4, coupled=False, resample_below=1),
    SweepConfig(particles=3, resample_below=1, resampling="multinomial"),
    SweepConfig(resample_below=0),
    SweepConfig(resample_below=1, resampling="stratified"),
    SweepConfig(particles=3, deterministic=False, coupled=False, resample_below=1),
)


@pytest.mark.parametrize(
    "config",
    [
        pytest.param(config, id=name_of(config), marks=[pytest.mark.slow] if config in RARE else [])
        for config in CONFIGS
    ],
)
def test_mean_evidence_is_exact(config: SweepConfig) -> None:
    sweeps = sweep_many(atlas(), config, SWEEPS[config.particles])
    # Episodes must end at different times, and not all within the horizon: that is where sums go wrong.
    assert 0.1 < sweeps.ended.mean() < 0.95
    for u in range(20):
        one = Sweep(*(field[u] for field in sweeps))
        assert one.log_evidence == pytest.approx(evidence_by_segments(one), abs=1e-5)
    for start in (CERTAIN, CHANCY):
        here = np.exp(sweeps.log_evidence[sweeps.state[:, 0, 0, 0] == start].astype(np.float64))
        truth = brute_force_evidence(start, config.refresh)
        stderr = here.std(ddof=1) / math.sqrt(len(here))
        assert stderr < 0.02 * truth, "an error of a tenth would go unseen"
        assert abs(here.mean() - truth) < 5 * stderr


@pytest.mark.parametrize("start", [CERTAIN, CHANCY])
def test_mean_evidence_of_the_reference_engine_is_exact(start: int) -> None:
    sweeps = list(sweep_plainly(atlas(start), SweepConfig(particles=3), 4_000))
    here = np.exp([sweep.log_evidence for sweep in sweeps])
    truth, stderr = brute_force_evidence(start, 0.0), here.std(ddof=1) / math.sqrt(len(here))
    assert stderr < 0.03 * truth
    assert abs(here.mean() - truth) < 5 * stderr
    for sweep in sweeps[:50]:
        assert sweep.log_evidence == pytest.approx(evidence_by_segments(sweep), abs=1e-9)
        to_go = sweep.log_mean[::-1].cumsum()[::-1]
        by_hand = sweep.log_evidence + (to_go[:, None] * sweep.log_proposal).sum()
        assert surrogate(sweep) == pytest.approx(by_hand, abs=1e-9)


ONE_CHOICE = table([(0, 0, 1.0, 1, 1.3), (0, 1, 1.0, 1, -0.2)], 2, 2, [0], horizon=1)


def test_signs_of_reward_prior_and_proposal() -> None:
    """One particle, one choice: log Z-hat is reward + log 1/2 - log q, to the last digit."""
    sweeps = sweep_many(ONE_CHOICE, SweepConfig(particles=1), 32)
    log_q = proposal_rows(ONE_CHOICE)[0]
    assert abs(log_q[0] - log_q[1]) > 0.1
    for action in (0, 1):
        here = sweeps.action[:, 0, 0] == action
        expected = (1.3, -0.2)[action] + math.log(0.5) - log_q[action]
        assert here.any()
        np.testing.assert_allclose(sweeps.log_evidence[here], expected, atol=1e-6)


def test_weighted_particles_tend_to_the_posterior() -> None:
    """With many particles, the first state's action has the exact marginal where nothing is random."""
    config = SweepConfig(particles=400)
    sweeps = sweep_many(atlas(), config, 128, seed=4)
    here = sweeps.state[:, 0, 0, 0] == CERTAIN
    assert sweeps.resampled[here].any()
    shares = []
    for u in np.nonzero(here)[0]:
        first = np.arange(config.particles)
        for t in reversed(range(atlas().horizon - 1)):
            first = sweeps.ancestor[u, t][first]
        weight = np.exp(sweeps.log_weight[u, -1] - sweeps.log_weight[u, -1].max())
        shares.append(np.bincount(sweeps.action[u, 0][first], weight / weight.sum(), minlength=3))
    stderr = np.std(shares, axis=0, ddof=1) / math.sqrt(len(shares))
    truth = exact.policy_posterior(atlas(CERTAIN)).policy[CERTAIN]
    assert (stderr < 0.01).all()
    assert (abs(np.mean(shares, axis=0) - truth) < 5 * stderr).all()
    proposal = np.exp(proposal_rows(atlas())[CERTAIN])
    assert abs(proposal - truth).max() > 0.1, "the proposal is no answer already"
