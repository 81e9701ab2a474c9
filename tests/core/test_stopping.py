"""Ending early with the best answer so far."""

import signal
import time

import numpy as np
import pytest

import polinfer
from polinfer.cli.interrupt import interruptible
from polinfer.core.stopping import stop_requested, stopping


def test_the_first_request_counts_and_reaches_all_contexts():
    with stopping() as outer:
        with stopping(1e-9) as inner:
            time.sleep(0.001)
            assert stop_requested() == "the time limit of 1e-09 s"
        assert inner.answered
        assert outer.answered == inner.answered
        assert stop_requested() == ""


@pytest.mark.parametrize("limit", [0, -1, float("nan"), "soon"])
def test_a_bad_time_limit_is_refused_by_name(limit):
    with pytest.raises(polinfer.PolinferError, match="time_limit must be"):
        polinfer.infer(polinfer.make("bandit"), time_limit=limit)


@pytest.mark.parametrize("method", ["vsmc", "particles", "rollouts", "tempered"])
def test_every_method_ends_early_with_a_policy_and_says_so(method):
    mdp = polinfer.make("gridworld/ablation")
    fields = {"enumerate_up_to": 0} if method == "tempered" else {}
    posterior = polinfer.infer(mdp, method, time_limit=1e-6, **fields)
    probs = posterior.table_probs()
    np.testing.assert_allclose(probs.sum(axis=-1), 1, atol=1e-5)
    assert "stopped early by the time limit" in posterior.reason


def test_one_ctrl_c_asks_and_the_second_stops(capsys):
    before = signal.getsignal(signal.SIGINT)  # ignored, where the tests run in a shell's background
    with interruptible() as stopper:
        signal.raise_signal(signal.SIGINT)
        assert stopper.requested == "Ctrl-C"
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert "finishing this step" in capsys.readouterr().err
    assert signal.getsignal(signal.SIGINT) is before
