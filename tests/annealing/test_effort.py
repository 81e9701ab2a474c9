"""What runs do less of where moves take long: the answer stays the posterior."""

from __future__ import annotations

import numpy as np

import polinfer
from polinfer.annealing import AnnealingRun, TemperedConfig, effort
from polinfer.annealing.effort import Effort


def test_the_longer_a_move_takes_the_less_is_done():
    quick, felt, long, dear = (Effort.of(work) for work in (1e6, 1e9, 5e9, 5e10))
    less = [(own.hurried, own.long, own.dear) for own in (quick, felt, long, dear)]
    assert less == [(False, False, False), (True, False, False), (True, True, False), (True, True, True)]
    assert quick.at_once > felt.at_once > long.at_once > dear.at_once == 1
    assert quick.least > felt.least >= long.least > dear.least > 1
    assert quick.pilot_pace(8, 0.7) == (8, 0.7)
    assert felt.pilot_pace(8, 0.7) == (4, 0.5)
    assert felt.pilot_pace(1, 0.3) == (1, 0.3)
    assert felt.pilot_moves < quick.pilot_moves


def test_an_answer_after_hurried_pilots_is_the_posterior(monkeypatch):
    table = polinfer.tabulate(polinfer.make("gridworld/ablation", reward_scale=3))
    truth = polinfer.infer(table, "exact")
    settings = TemperedConfig(enumerate_up_to=0, policies=32, islands=4, tolerance=0.02, start="uniform")

    def ladder(annealing):
        """Return the steps of the first round."""
        while annealing.state is None or not annealing.state.round_steps.size:
            annealing.step()
        return annealing.state.round_steps[0]

    usual = ladder(AnnealingRun(table, settings, seed=3))
    monkeypatch.setattr(effort, "_NOTICED", 0.0)
    hurried = AnnealingRun(table, settings, seed=3)
    assert ladder(hurried) < usual
    while not hurried.finished:
        hurried.step()
    point = hurried.result().at(1.0)
    assert abs(point.log_evidence - truth.policies.log_evidence) < 4 * point.log_evidence_stderr
    apart = np.abs(point.policy - truth.table_probs()[0])
    assert (apart < 5 * point.policy_stderr + 1e-6).all()
