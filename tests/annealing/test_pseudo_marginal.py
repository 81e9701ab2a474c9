"""Policies judged by rollouts, against the target that so many rollouts stand for."""

from __future__ import annotations

import math
import random
from functools import cache

import numpy as np
import pytest

import polinfer
from exact.brute_force import Plain, Policy, random_plain
from exact.brute_force import posterior as brute_force_posterior
from polinfer import RolloutsConfig
from polinfer.analysis.judgement import distance_to
from polinfer.annealing import RolloutPosterior, pseudo_marginal
from polinfer.core.errors import PolinferError

# Legal masks, random starts, a state of which an episode may never come.
PROBLEM = random_plain(3, horizon=4, radices=(3, 2, 2, 1), reward=2.5)


class PlainSimulator:
    """A problem in plain Python; states are words, so that nothing can take them for numbers."""

    def __init__(self, plain: Plain) -> None:
        self.plain, self.num_actions, self.horizon = plain, plain.num_actions, plain.horizon

    def init(self, seed: int) -> str:
        [state] = random.Random(seed).choices(range(self.plain.num_states), self.plain.initial)
        return f"state {state}"

    def step(self, seed: int, state: str, action: int) -> tuple[str, float, bool]:
        rows = self.plain.outcomes[int(state.split()[1]), action]
        [(_, after, reward)] = random.Random(seed).choices(rows, [p for p, _, _ in rows])
        return f"state {after}", reward, after in self.plain.absorbing

    def legal(self, state: str) -> list[bool]:
        return [a in self.plain.legal(int(state.split()[1])) for a in range(self.num_actions)]

    def encode(self, state: str) -> list[float]:
        return [float(state.split()[1])]


def log_weight(plain: Plain, policy: Policy, rollouts: int) -> float:
    """``K log E[exp(R / K)]``, by recursion."""

    def value(s: int, left: int) -> float:
        if left == 0 or s in plain.absorbing:
            return 1.0
        return sum(
            p * math.exp(r / rollouts) * value(n, left - 1) for p, n, r in plain.outcomes[s, policy[s]]
        )

    total = sum(p * value(s, plain.horizon) for s, p in enumerate(plain.initial) if p > 0)
    return rollouts * math.log(total)


def check(found: RolloutPosterior, rollouts: int, name: str = "{}") -> None:
    truth = brute_force_posterior(
        PROBLEM, PROBLEM.horizon, lambda policy: log_weight(PROBLEM, policy, rollouts)
    )
    row = {str(state): i for i, state in enumerate(found.states)}
    for (s, a), share in truth.marginal.items():
        i = row[name.format(s)]
        assert abs(found.policy[i, a] - share) < 5 * found.policy_stderr[i, a] + 1e-9, (s, a)
        assert found.policy_stderr[i, a] < 0.05
    assert abs(found.log_evidence - truth.log_evidence) < 4 * found.log_evidence_stderr


@cache
def on_the_table(rollouts: int) -> RolloutPosterior:
    config = RolloutsConfig(policies=1000, islands=8, rollouts=rollouts)
    return pseudo_marginal(PROBLEM.table(), config, seed=2)


@pytest.mark.parametrize("rollouts", [1, 3])
def test_a_table_played_gives_the_target_of_so_many_rollouts(rollouts: int) -> None:
    check(on_the_table(rollouts), rollouts)


def test_a_simulator_played_gives_the_same() -> None:
    config = RolloutsConfig(policies=40, islands=8, rollouts=2)
    found = pseudo_marginal(PlainSimulator(PROBLEM), config, seed=4)
    check(found, 2, "state {}")
    assert all(isinstance(policy, dict) for policy in found.sample)
    assert 0.05 < found.accepted < 1


def test_the_targets_of_the_tests_differ() -> None:
    one, three = (on_the_table(rollouts).policy for rollouts in (1, 3))
    assert abs(one - three).max() > 0.1


@pytest.mark.parametrize("rollouts", [1, 2, 8])
def test_two_arms_with_equal_means(rollouts: int) -> None:
    """A pays 0; B pays 4 or -4/3.  P(B) is 0.933 with one rollout and comes down to 0.5."""
    table = polinfer.make("probe/three-targets")
    found = pseudo_marginal(table, RolloutsConfig(policies=1000, rollouts=rollouts), seed=1)
    weight = (0.25 * math.exp(4 / rollouts) + 0.75 * math.exp(-4 / 3 / rollouts)) ** rollouts
    assert abs(found.policy[0, 1] - weight / (1 + weight)) < 4 * found.policy_stderr[0, 1]
    assert abs(found.log_evidence - math.log((1 + weight) / 2)) < 4 * found.log_evidence_stderr
    if rollouts == 1:
        assert weight / (1 + weight) == pytest.approx(0.933, abs=1e-3)


def test_with_many_rollouts_the_posterior_is_the_paper_s() -> None:
    mdp = polinfer.make("gridworld/ablation")
    enumerated = polinfer.infer(mdp, "exact").table_probs()
    assert enumerated is not None
    few, many = (
        polinfer.infer(mdp, "rollouts", rollouts=rollouts, policies=50, scans=1) for rollouts in (2, 48)
    )
    assert many.policies is not None
    assert many.policies.policy_stderr is not None
    noise = float(many.policies.policy_stderr.sum(axis=1).max() / 2)
    assert distance_to(many, enumerated[0]) < 0.02 + noise
    assert distance_to(few, enumerated[0]) > 0.1
    estimand = polinfer.certify(many).estimand
    assert (estimand.target, estimand.in_the_limit) == (polinfer.Target.EXP_EXPECTED_RETURN, True)
    assert str(estimand) == "1: exp(E[R]), as the 48 rollouts per policy grow"
    (judged,) = [found for found in polinfer.diagnose(many) if found.code == "judged-by-rollouts"]
    assert "judged by 48 rollouts" in judged.sentence


def test_a_run_is_decided_by_its_seed() -> None:
    def run(seed: int) -> float:
        return pseudo_marginal(
            PlainSimulator(PROBLEM), RolloutsConfig(policies=4, islands=2, rollouts=1), seed=seed
        ).log_evidence

    assert run(3) == run(3) != run(5)


def test_mistakes_are_named() -> None:
    with pytest.raises(PolinferError, match="rollouts must be at least 1"):
        RolloutsConfig(rollouts=0)


def test_illegal_actions_are_never_taken() -> None:
    found = on_the_table(3)
    legal = PROBLEM.table().legal_actions
    assert legal[np.arange(legal.shape[0]), found.sample].all()
    assert (found.policy[~legal] == 0).all()
