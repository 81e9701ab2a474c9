"""Whether annealing back to the start finds what it must, and says where moves do not keep up."""

from dataclasses import replace

import numpy as np
import pytest

import polinfer
from polinfer import Verdict
from polinfer.analysis.another_run import by_another_start
from polinfer.annealing import TemperedConfig, anneal
from polinfer.annealing.annealer import Annealer
from polinfer.annealing.bridge import bennett
from polinfer.annealing.problem import arrange, reduce_table
from polinfer.annealing.state import WayBack
from polinfer.exact.enumeration import policy_posterior

from .cases import lattice, loop

pytestmark = pytest.mark.usefixtures("compile_module_fully")


def down(annealer, state):
    """Go back to the start of the ladder, from the population as it is."""
    nothing = np.zeros_like(state.log_evidence)
    state = state._replace(finished=False, way_back=WayBack(len(state.ladder) - 1, state.policy, nothing))
    while state.way_back.place:
        state = annealer.step(state)
    return state


def test_bennett_compares_two_ends_that_share_little():
    # Densities p and 2.5 q over five policies; the second and the last are nearly never drawn from one end.
    p, q = np.array([0.3, 0.4, 0.1, 0.195, 0.005]), np.array([0.25, 1e-6, 0.05, 0.3, 0.4 - 1e-6])
    log_ratio = np.log(2.5 * q / p)
    random = np.random.default_rng(3)
    below, above = (log_ratio[random.choice(5, (400, 64), p=density)] for density in (p, q))
    found = bennett(below, above)
    stderr = found.std() / 20
    assert stderr < 0.02
    assert abs(found.mean() - np.log(2.5)) < 4 * stderr
    inverse = -np.log(np.exp(-above).mean(axis=1))  # what the upper end alone would say
    assert inverse.mean() > np.log(2.5) + 0.3
    np.testing.assert_allclose(bennett(np.full((2, 3), 0.7), np.full((2, 3), 0.7)), 0.7)


def test_a_population_that_does_not_keep_up_is_seen():
    table, scale = lattice(4, 0.2), 4.0
    config = TemperedConfig(policies=32, islands=6, rounds=1, start="uniform")
    annealer = Annealer(arrange(reduce_table(table)), config, scale=scale)
    state = annealer.init()
    while state.inverse < 1:
        state = annealer.step(state)
    state = annealer.step(state)
    truth = policy_posterior(table.with_problem(reward_scale=scale)).posterior.log_evidence
    back = down(annealer, state)
    found, stderr = annealer.reverse(back)
    assert abs(found - truth) < 5 * stderr + 0.02
    assert annealer.disagreement(back) == 0
    stuck = down(annealer, state._replace(moves=0))
    assert annealer.reverse(stuck)[0] > truth + 0.5
    assert annealer.disagreement(stuck) > 0.3


def test_who_does_not_keep_up_takes_another_round_with_more_moves(monkeypatch):
    config = TemperedConfig(policies=32, islands=6, tolerance=0.02, rounds=4)
    annealer = Annealer(arrange(reduce_table(loop())), config)
    rounds, moves = [], []
    for gap in (0.0, 1.0):
        monkeypatch.setattr(annealer, "disagreement", lambda *_, gap=gap: gap)
        state = annealer.init()
        while not state.finished:
            state = annealer.step(state)
        rounds.append(1 + len(state.rounds.log_evidence))
        moves.append(state.moves)
    assert rounds == [3, 4]
    assert moves == [8, 16]


def test_no_trust_where_the_way_back_finds_more():
    table = polinfer.tabulate(polinfer.make("gridworld/ablation"))
    answer = polinfer.infer(table, "tempered", enumerate_up_to=0, policies=64)
    whole = answer.policies
    assert whole.reverse_log_evidence is not None
    for more, verdict in ((0.0, Verdict.TRUST), (1.5, Verdict.CARE)):
        found = replace(answer, policies=replace(whole, reverse_log_evidence=whole.log_evidence + more))
        judged = by_another_start(found, table, polinfer.diagnose(found), 0, "default")
        assert judged.verdict is verdict
        assert ("annealing back found 1.50 nats more" in judged.reason) == (more > 0)


def test_the_way_back_is_kept_with_the_answer(tmp_path):
    answer = polinfer.infer(loop(), "tempered", enumerate_up_to=0, policies=32, islands=6)
    answer.save(tmp_path / "answer")
    kept = polinfer.load(tmp_path / "answer").policies
    assert kept.reverse_log_evidence == answer.policies.reverse_log_evidence
    assert kept.reverse_log_evidence_stderr == answer.policies.reverse_log_evidence_stderr > 0


def test_a_run_goes_on_from_the_middle_of_its_way_back():
    config = TemperedConfig(enumerate_up_to=0, policies=32, islands=6, tolerance=0.02, rounds=3)
    saved = []
    whole = anneal(loop(), config, seed=4, checkpoint=saved.append).at(1.0)
    under_way = [arrays for arrays in saved if arrays.get("state.way_back.place", -1) > 0]
    assert under_way
    again = anneal(loop(), config, seed=4, resume=under_way[-1]).at(1.0)
    assert again.reverse_log_evidence == whole.reverse_log_evidence
    assert again.log_evidence == whole.log_evidence
    np.testing.assert_array_equal(again.policy, whole.policy)
