"""Policies beside their exact aim and beside each other, against sums over every possible episode."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import polinfer
from polinfer import exact
from polinfer.actor_critic.config import SacConfig
from polinfer.actor_critic.oracle import soft_oracle
from polinfer.posterior.diagnostics import Severity
from polinfer.posterior.trace import Trace
from polinfer.problems.tabular import TabularMDP
from polinfer.smc.proposal import TableProposal

from .sac_cases import LEGAL, ROWS, slippery, soft_values


def learned(table: Any, policies: np.ndarray, method: str = "sac", **settings: Any) -> polinfer.Posterior:
    """A posterior with given policies ``[seeds, S, A]``, as if they had been learned."""
    with np.errstate(divide="ignore"):
        logits = np.maximum(np.log(policies), -80)
    proposal = TableProposal(jnp.asarray(logits, jnp.float32))
    config: polinfer.MethodConfig = polinfer.VsmcConfig()
    trace = Trace()
    if method == "sac":
        config = SacConfig(**settings)
        trace = trace_of_alpha(settings.get("alpha", 1.0), len(policies))
    view = polinfer.tabulate(table)
    return polinfer.Posterior(table, view, config, proposal, len(policies), trace=trace)


def trace_of_alpha(alpha: float, seeds: int) -> Trace:
    return Trace("steps", np.array([SacConfig().steps]), {"alpha": np.full((1, seeds), alpha, np.float32)})


POLICIES = np.array(
    [
        [[0.5, 0.2, 0.3], [0.9, 0.0, 0.1], [0.0, 0.35, 0.65], [0.2, 0.5, 0.3]],
        [[0.1, 0.25, 0.65], [0.3, 0.0, 0.7], [0.0, 0.8, 0.2], [0.1, 0.1, 0.8]],
    ]
)


def test_distances_to_the_soft_optimum_are_averages_over_acting_states() -> None:
    oracle = soft_oracle(learned(slippery(), POLICIES, alpha=0.4, gamma=0.7))
    assert oracle is not None
    assert oracle.settings == {"alpha": 0.4, "gamma": 0.7}
    _, expected = soft_values(0.4, 0.7)
    by_hand = [
        np.mean([0.5 * sum(abs(policy[s, a] - expected[s, a]) for a in range(3)) for s in range(3)])
        for policy in POLICIES
    ]
    np.testing.assert_allclose(oracle.distances, by_hand, atol=1e-5)
    assert abs(by_hand[0] - by_hand[1]) > 0.05
    # What the exact policy earns in the three steps that are played, undiscounted and without the bonus.
    value = np.zeros(4)
    for _ in range(3):
        step = np.zeros(4)
        for s, a, p, t, r in ROWS:
            step[s] += expected[s, a] * p * (r + value[t])
        value = step
    np.testing.assert_allclose(oracle.expected_return, value @ [0.5, 0.2, 0.3, 0.0], atol=1e-6)


def test_findings_follow_the_distance() -> None:
    _, expected = soft_values(0.4, 0.7)
    near = np.concatenate([expected, [[1 / 3] * 3]])[None]
    found = polinfer.diagnose(learned(slippery(), near, alpha=0.4, gamma=0.7))
    assert [finding.code for finding in found] == ["near-soft-values", "no-posterior"]
    assert all(finding.severity is Severity.FACT for finding in found)
    assert "0.000 away" in found[0].sentence
    far, about = polinfer.diagnose(learned(slippery(), POLICIES, alpha=0.4, gamma=0.7))
    assert (far.code, far.severity) == ("far-from-soft-values", Severity.WARNING)
    assert "no posterior" in about.sentence
    assert "0.4 times its entropy" in about.sentence
    assert "discounted by 0.7" in about.sentence


def test_without_a_fixed_point_there_are_no_distances_and_a_finding_says_so() -> None:
    grid = polinfer.make("gridworld/ablation")
    even = np.full((1, 6, 4), 0.25)
    posterior = learned(grid, even, alpha=1.0, gamma=1.0)
    oracle = soft_oracle(posterior)
    assert oracle is not None
    assert oracle.distances is None
    found = polinfer.diagnose(posterior)[0]
    assert (found.code, found.severity) == ("no-fixed-point", Severity.ERROR)
    assert "With alpha 1 and gamma 1 staying alive pays for ever" in found.sentence
    assert "use gamma below 1 or a smaller alpha" in found.sentence
    # Discounted there is one.
    discounted = soft_oracle(learned(grid, even, alpha=1.0, gamma=0.9))
    assert discounted is not None
    assert discounted.distances is not None


def test_the_aim_reads_absorbing_states_as_the_run_did() -> None:
    found = {}
    for word in ("end", "continue"):
        oracle = soft_oracle(learned(slippery(), POLICIES, alpha=0.4, gamma=0.7, absorbing=word))
        assert oracle is not None
        found[word] = oracle
    wanted = exact.soft_stationary(slippery(), 0.4, 0.7, absorbing="continue").policy
    np.testing.assert_array_equal(found["continue"].solution.policy, wanted)
    assert np.abs(found["end"].solution.policy - wanted).max() > 0.01
    assert found["continue"].name == "soft, no horizon (alpha=0.4, gamma=0.7, absorbing=continue)"
    endless = learned(slippery(), POLICIES, alpha=0.4, gamma=1.0, absorbing="continue")
    no_answer, about = polinfer.diagnose(endless)
    assert "absorbing states pay entropy for ever" in no_answer.sentence
    assert about.sentence.endswith("; episodes go on in absorbing states, which pay entropy.")


def test_only_soft_actor_critic_has_a_soft_aim() -> None:
    assert soft_oracle(learned(slippery(), POLICIES, method="vsmc")) is None


def test_a_tuned_alpha_is_the_one_that_is_aimed_at() -> None:
    posterior = learned(slippery(), POLICIES[:1], alpha=1.0, gamma=0.7, autotune=True)
    oracle = soft_oracle(replace(posterior, trace=trace_of_alpha(0.4, 1)))
    assert oracle is not None
    assert abs(oracle.settings["alpha"] - 0.4) < 1e-6
    _, expected = soft_values(0.4, 0.7)
    np.testing.assert_allclose(
        oracle.distances, 0.5 * np.abs(POLICIES[0, :3] - expected).sum(axis=1).mean(), atol=1e-5
    )


def episodes(policy: np.ndarray, horizon: int) -> list[tuple[float, float, int, int | None]]:
    """Every episode: probability, return, length, and the last state where it ended."""
    found, live = [], [(p, 0.0, s) for s, p in enumerate([0.5, 0.2, 0.3]) if p]
    for t in range(horizon):
        after = []
        for probability, gained, state in live:
            for s, a, p, successor, r in ROWS:
                if s != state:
                    continue
                path = (probability * policy[s, a] * p, gained + r, successor)
                if successor == 3:
                    found.append((path[0], path[1], t + 1, 3))
                else:
                    after.append(path)
        live = after
    return found + [(p, g, horizon, None) for p, g, _ in live]


def summarise(weighted: list[tuple[float, float, int, int | None]]) -> dict[str, float]:
    chance = np.array([e[0] for e in weighted])
    returns = np.round([e[1] for e in weighted], 9)
    order = np.argsort(returns)
    cumulative = np.cumsum(chance[order])
    low = returns[order][np.argmax(cumulative >= 0.05)]
    high = returns[order][np.argmax(cumulative >= 0.95)]
    mean = chance @ returns

    def tail(mask: np.ndarray) -> float:
        return float((chance * returns)[mask].sum() / chance[mask].sum())

    return {
        "mean": mean,
        "std": np.sqrt(chance @ (returns - mean) ** 2),
        "q05": low,
        "q95": high,
        "cvar05": tail(returns <= low),
        "cvar95": tail(returns >= high),
        "length": chance @ [e[2] for e in weighted],
        "ended": chance[[e[3] is not None for e in weighted]].sum(),
    }


@pytest.fixture(scope="module")
def problem() -> TabularMDP:
    return slippery(horizon=4)


@pytest.mark.parametrize("seeds", [1, 2])
@pytest.mark.parametrize("method", ["sac", "vsmc"])
def test_learned_rows_are_mixtures_over_seeds(problem: TabularMDP, seeds: int, method: str) -> None:
    policies = POLICIES[:seeds]
    settings = {"alpha": 0.4, "gamma": 0.7} if method == "sac" else {}
    mine = learned(problem, policies, method, **settings)
    result = polinfer.compare(problem, learned={"mine": mine}, limit=1)
    index = [answer.name for answer in result.answers].index("mine")
    row = result.answers[index]
    each = [episodes(policy, 4) for policy in policies]
    expected = summarise([(e[0] / seeds, *e[1:]) for part in each for e in part])
    for name in row.returns._fields:
        np.testing.assert_allclose(getattr(row.returns, name), expected[name], atol=2e-6, err_msg=name)
    assert abs(row.value.expected_return - expected["mean"]) < 2e-6
    assert abs(np.sqrt(row.value.variance) - expected["std"]) < 2e-6
    assert abs(row.value.length - expected["length"]) < 2e-6
    # One seed's row: the average over its steps of the entropy of its choices is checked by its own tests.
    np.testing.assert_allclose(row.solution.policy, policies.mean(axis=0), atol=1e-6)
    assert str(row.solution.result) == "learned"
    assert row.seeds == seeds
    means = [summarise(part)["mean"] for part in each]
    assert abs(row.spread - np.std(means)) < 2e-6
    assert (row.spread > 0.05) == (seeds == 2)
    # Next to soft actor-critic stands its aim.
    following = [answer.name for answer in result.answers[index + 1 :]]
    assert following == (["soft, no horizon (alpha=0.4, gamma=0.7)"] if method == "sac" else [])
    if method == "sac":
        np.testing.assert_allclose(
            result.answers[-1].solution.policy[:3], soft_values(0.4, 0.7)[1], atol=1e-7
        )


def test_an_aim_that_does_not_exist_is_not_shown(problem: TabularMDP) -> None:
    # In state 2 every step pays, and with gamma 1 for ever.
    mine = learned(problem, POLICIES, alpha=0.4, gamma=1.0)
    assert [answer.name for answer in polinfer.compare(problem, learned={"mine": mine}, limit=1).answers][
        -1
    ] == ("mine")


def test_a_learned_answer_to_another_problem_is_refused_by_name(problem: TabularMDP) -> None:
    other = learned(slippery(horizon=5), POLICIES, alpha=0.4)
    with pytest.raises(polinfer.core.errors.PolinferError, match="'mine' was inferred for another problem"):
        polinfer.compare(problem, learned={"mine": other})


def test_the_cases_are_asymmetric() -> None:
    assert (POLICIES[:, ~LEGAL] == 0).all()
    assert (
        abs(summarise(episodes(POLICIES[0], 4))["ended"] - summarise(episodes(POLICIES[1], 4))["ended"])
        > 0.01
    )
