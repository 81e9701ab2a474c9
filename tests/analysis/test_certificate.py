"""Certificates: which numbers each method has, and that what is known lies between the bounds."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import polinfer
from polinfer import (
    Certificate,
    Estimand,
    MethodConfig,
    Posterior,
    SacConfig,
    SviConfig,
    Target,
    Verdict,
    VsmcConfig,
    WakeConfig,
)
from polinfer.analysis import verdict
from polinfer.analysis.another_run import by_another_start
from polinfer.analysis.certificate import pareto_k
from polinfer.analysis.judgement import distance_to
from polinfer.problems.encoded import EncodedView
from polinfer.smc import as_simulator
from polinfer.smc.proposal import TableProposal

pytestmark = pytest.mark.usefixtures("compile_quickly")

ARMS = polinfer.make("probe/three-targets")
# log Z_w of the two worlds: B pays 4 in one of four, -4/3 in the others, and A nothing.
RICH, POOR = (math.log((1 + math.exp(pay)) / 2) for pay in (4, -4 / 3))
MEAN_OVER_WORLDS = 0.25 * RICH + 0.75 * POOR


ONE_WORLD = Estimand(Target.EXPECTED_SOFTMAX, "one world per sweep")
PAPER = Estimand(Target.EXP_EXPECTED_RETURN, "the paper's definition")


def untrained(config: MethodConfig) -> Posterior:
    """A posterior whose proposal is uniform: nothing needs to be compiled for it."""
    return Posterior(ARMS, ARMS, config, TableProposal(jnp.zeros((1, ARMS.num_states, 2))))


def bounds_of(certificate: Certificate) -> tuple[float, float, float, float]:
    found = (
        certificate.log_evidence_lower,
        certificate.log_evidence_stderr,
        certificate.log_evidence_upper,
        certificate.log_evidence_upper_stderr,
    )
    assert None not in found
    return found  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("config", "loose"),
    [(VsmcConfig(particles=3), True), (SviConfig(), True), (WakeConfig(worlds=1, particles=50), False)],
    ids=["vsmc", "svi", "wake"],
)
def test_sweeps_bound_the_mean_over_worlds(config: MethodConfig, loose: bool) -> None:
    certificate = polinfer.certify(untrained(config), sweeps=1500, seed=3)
    lower, lower_stderr, upper, upper_stderr = bounds_of(certificate)
    assert lower < MEAN_OVER_WORLDS + 4 * lower_stderr
    assert upper > MEAN_OVER_WORLDS - 4 * upper_stderr
    assert upper - MEAN_OVER_WORLDS < 4 * upper_stderr + 0.02, "a hundred particles are many for two policies"
    if loose:
        assert lower < MEAN_OVER_WORLDS - 4 * lower_stderr
    if isinstance(config, SviConfig):
        assert abs(lower - 0.0) < 4 * lower_stderr, "of one particle, the mean log weight: both arms pay 0"
    assert certificate.gap == pytest.approx(upper - lower)
    assert certificate.estimand == ONE_WORLD
    assert 0 < (certificate.ess or 0) <= 1
    assert (certificate.pareto_k is None) == (not isinstance(config, WakeConfig)), "a tail needs 25 weights"


def test_worlds_bring_the_bounds_down_to_the_paper_s_evidence() -> None:
    """With both arms worth nothing, log Z is 0; one world makes 0.4 of it."""
    certificate = polinfer.certify(untrained(WakeConfig(worlds=100)), sweeps=200)
    lower, lower_stderr, upper, upper_stderr = bounds_of(certificate)
    assert abs(lower) < 4 * lower_stderr + 0.02
    assert abs(upper) < 4 * upper_stderr + 0.02
    assert MEAN_OVER_WORLDS > 0.3
    assert certificate.estimand == (Target.EXP_EXPECTED_RETURN, "as the 100 worlds per sweep grow", True)
    assert str(certificate.estimand) == "1: exp(E[R]), as the 100 worlds per sweep grow"


@pytest.mark.parametrize("settings", [{"coupled": False}, {"start": "independent"}])
def test_where_particles_share_no_world_there_is_no_upper_bound(settings: dict[str, Any]) -> None:
    certificate = polinfer.certify(untrained(VsmcConfig(**settings)), sweeps=10)
    assert certificate.log_evidence_lower is not None
    assert certificate.ess is not None
    assert certificate.log_evidence_upper is certificate.log_evidence_upper_stderr is certificate.gap is None


def test_exact_weights_without_shared_worlds_have_the_paper_s_evidence_and_no_upper_bound() -> None:
    """Both arms are worth nothing on average: without luck every sweep has log Z = 0."""
    posterior = untrained(WakeConfig(weights="exact", worlds=2, particles=5, coupled=False))
    certificate = polinfer.certify(posterior, sweeps=4)
    assert certificate.log_evidence_upper is None
    assert certificate.log_evidence_lower == pytest.approx(0.0, abs=1e-5)


def test_enumeration_is_both_bounds() -> None:
    posterior = polinfer.infer(ARMS, "exact")
    certificate = polinfer.certify(posterior)
    assert certificate.log_evidence_lower == certificate.log_evidence_upper == pytest.approx(0.0)
    assert certificate.gap == certificate.log_evidence_stderr == certificate.log_evidence_upper_stderr == 0.0
    assert (certificate.known_from, certificate.verdict) == ("enumeration", Verdict.TRUST)
    assert certificate.distance == pytest.approx(0.0, abs=1e-6)
    assert certificate.ess is certificate.pareto_k is None


def test_a_sample_of_whole_policies_has_its_estimate_for_a_lower_bound_and_is_proven() -> None:
    mdp = polinfer.make("probe/slippery-loop")
    posterior = polinfer.infer(mdp, "tempered", policies=30, islands=4, enumerate_up_to=0)
    certificate = polinfer.certify(posterior)
    exact = polinfer.exact.policy_posterior(mdp).posterior
    assert exact is not None
    lower, stderr = certificate.log_evidence_lower, certificate.log_evidence_stderr
    assert lower is not None
    assert stderr is not None
    assert abs(lower - exact.log_evidence) < 5 * stderr + 1e-4
    back, back_stderr = certificate.log_evidence_upper, certificate.log_evidence_upper_stderr
    assert back is not None
    assert back_stderr is not None
    assert abs(back - exact.log_evidence) < 5 * back_stderr + 0.02
    assert certificate.proven_lower is not None
    assert certificate.proven_upper is not None
    assert certificate.proven_lower - 1e-9 <= exact.log_evidence <= certificate.proven_upper + 1e-9
    assert certificate.estimand == PAPER
    assert certificate.verdict is Verdict.TRUST
    assert certificate.ess is None


def test_rollouts_have_a_lower_bound_alone() -> None:
    posterior = polinfer.infer(ARMS, "rollouts", policies=100, rollouts=1)
    certificate = polinfer.certify(posterior)
    assert certificate.estimand == (Target.EXPECTED_EXP, "one rollout per policy", False)
    assert str(certificate.estimand) == "3: E[exp R], one rollout per policy"
    assert certificate.log_evidence_lower == pytest.approx(math.log((1 + 13.84) / 2), abs=0.2)
    assert certificate.log_evidence_upper is None
    assert certificate.verdict is Verdict.DISTRUST, "P(B) is 0.93, not a half"


def test_particles_are_bounded_by_sweeps_of_their_own() -> None:
    posterior = polinfer.infer(ARMS, "particles", particles=60, worlds=1, sweeps=50)
    certificate = polinfer.certify(posterior, sweeps=400)
    lower, lower_stderr, upper, upper_stderr = bounds_of(certificate)
    # The proposal of these sweeps is uniform; from the marginal policy they would start elsewhere.
    assert abs(lower - MEAN_OVER_WORLDS) < 4 * lower_stderr + 0.02
    assert abs(upper - MEAN_OVER_WORLDS) < 4 * upper_stderr + 0.02
    assert certificate.estimand == ONE_WORLD
    assert certificate.ess == pytest.approx(0.25 * _share(4.0) + 0.75 * _share(-4 / 3), abs=0.05)


def _share(pay: float) -> float:
    """Effective share of evenly drawn particles of weights 1 and exp(pay)."""
    return (1 + math.exp(pay)) ** 2 / 2 / (1 + math.exp(2 * pay))


def test_a_baseline_and_a_simulator_have_no_evidence() -> None:
    proposal = TableProposal(jnp.zeros((1, ARMS.num_states, 2)))
    view = EncodedView(as_simulator(ARMS))
    mixed = WakeConfig(surrogate_share=0.5, worlds=50)
    for posterior, target in (
        (Posterior(ARMS, ARMS, SacConfig(), proposal), Target.RETURN_PLUS_ENTROPY),
        (Posterior(as_simulator(ARMS), view, VsmcConfig(), proposal), Target.EXPECTED_SOFTMAX),
        (Posterior(as_simulator(ARMS), view, mixed, proposal), Target.MIXED),
    ):
        certificate = polinfer.certify(posterior)
        assert certificate.estimand.target is target
        assert certificate.verdict is Verdict.CARE
        values = certificate._asdict()
        assert {k for k, v in values.items() if v is not None} == {"estimand", "verdict", "reason", "remedy"}
        assert certificate.reason == "nothing is known to compare it with"


@pytest.mark.parametrize(
    ("move", "verdict"), [(0.02, Verdict.TRUST), (0.05, Verdict.CARE), (0.2, Verdict.DISTRUST)]
)
def test_the_verdict_goes_by_the_distance(move: float, verdict: Verdict) -> None:
    rows = np.log([[[0.5 - move, 0.5 + move], [0.5, 0.5]]])
    moved = replace(untrained(VsmcConfig()), proposal=TableProposal(jnp.asarray(rows)))
    certificate = polinfer.certify(moved, sweeps=2)
    assert certificate.distance == pytest.approx(move, abs=1e-6)
    assert certificate.verdict is verdict


@pytest.mark.parametrize("method", ["exact", "tempered"])
def test_no_verdict_is_read_from_a_sentence(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In other words, or none, the findings decide the same."""
    posterior = polinfer.infer(ARMS, method, **({"policies": 20} if method == "tempered" else {}))
    before = polinfer.certify(posterior)
    kind = type(polinfer.METHODS[method])
    plainly = kind.diagnose

    def mute(self: Any, given: Posterior) -> list[polinfer.Diagnostic]:
        return [found._replace(sentence="") for found in plainly(self, given)]

    monkeypatch.setattr(kind, "diagnose", mute)
    assert polinfer.certify(posterior) == before


def test_large_standard_errors_are_told_by_the_severity_of_a_finding() -> None:
    posterior = polinfer.infer(ARMS, "tempered", policies=20)
    assert posterior.policies is not None
    doubtful = replace(posterior, policies=replace(posterior.policies, log_evidence_stderr=0.5))
    findings = polinfer.diagnose(doubtful)
    severe = [found.code for found in findings if found.severity is not polinfer.Severity.FACT]
    assert severe == ["wide-standard-errors"]
    assert by_another_start(doubtful, ARMS, findings, 0, "default").verdict is Verdict.CARE


def test_verdicts_print_as_words() -> None:
    assert [str(verdict) for verdict in Verdict] == ["trust", "use with care", "do not trust"]


def test_the_distance_counts_states_by_how_often_they_are_visited() -> None:
    """The fork: half of the policies never come to the room, and the exact policy goes there more often."""
    fork = polinfer.make("probe/fork")
    known = polinfer.exact.policy_posterior(fork).policy
    rows = known.copy()
    rows[1] = 1 - rows[1]  # wrong in the room alone
    proposal = TableProposal(jnp.asarray(np.log(np.maximum(rows[None], 1e-30))))
    posterior = Posterior(fork, fork, VsmcConfig(), proposal)
    reached = known[0, 0]
    wrong = abs(known[1, 0] - known[1, 1])
    assert distance_to(posterior, known) == pytest.approx(reached * wrong / (1 + reached), abs=1e-5)


def test_the_tail_of_weights_is_found() -> None:
    random = np.random.default_rng(0)
    heavy, light = random.pareto(1.0, 4000) + 1, random.exponential(size=4000)
    assert pareto_k(heavy / heavy.sum()) == pytest.approx(1.0, abs=0.3)
    assert abs(pareto_k(light / light.sum()) or 0.0) < 0.3
    assert pareto_k(np.full(100, 0.01)) == 0.0
    assert pareto_k(np.full(24, 1 / 24)) is None


@pytest.fixture
def run_quickly(compile_quickly: None) -> None:
    """Undo what makes compiling quick, where running is most of the time."""
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.mark.slow
@pytest.mark.usefixtures("run_quickly")
def test_a_way_that_no_sweep_found_is_found_out() -> None:
    """Two ways round the swamp: a proposal that knows one of them has bounds that agree on half of Z."""
    grid = polinfer.make("gridworld/multimodal", reward_scale=3)
    table = polinfer.tabulate(grid)
    one_way = np.full((1, table.num_states, 4), -4.0)
    one_way[..., 0] = 0.0  # right,
    one_way[:, [name[1] == "4" for name in table.state_names]] = [-4.0, 0.0, -4.0, -4.0]  # then up
    config = WakeConfig(proposal="table").filled(on_table=True)
    posterior = Posterior(grid, table, config, TableProposal(jnp.asarray(one_way, jnp.float32)))
    certificate = polinfer.certify(posterior, sweeps=20)
    assert certificate.known_from is not None
    assert certificate.verdict is Verdict.DISTRUST
    assert certificate.distance is not None
    assert certificate.distance > 0.2


def test_marginals_of_policies_that_hold_the_posterior_refute_another_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A lock that opens with nearly all of the posterior's mass, and an answer that is uniform."""
    monkeypatch.setattr(verdict, "_ENUMERATED", 0)
    digits, actions = 8, 3
    transitions = np.zeros((digits + 1, actions, digits + 1))
    for state in range(digits):
        transitions[state, :, 0] = 1.0
        transitions[state, state % actions] = np.eye(digits + 1)[state + 1]
    rewards = np.zeros((digits + 1, actions))
    rewards[digits - 1, (digits - 1) % actions] = 20.0
    lock = polinfer.TabularMDP(transitions, rewards, 0, [digits], digits)
    even = Posterior(lock, lock, WakeConfig(), TableProposal(jnp.zeros((1, digits + 1, actions))))
    judged = verdict.judge(even, verdict.prove(even, "default"), None, 0, "default")
    assert judged.verdict is Verdict.DISTRUST
    assert judged.known_from == "proof"
    assert "refuted: it is at least" in judged.reason
    assert judged.distance is not None
    assert judged.distance > 0.5
