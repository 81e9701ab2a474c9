"""The share of the work that is done: what a bar shows and time left is made from."""

from __future__ import annotations

import numpy as np
import pytest

import polinfer
from polinfer.annealing.config import TemperedConfig
from polinfer.annealing.remaining import work_of
from polinfer.annealing.run import AnnealingRun


@pytest.fixture(scope="module")
def followed(compile_module_fully):
    """Return what was done, and what the run said is its share, after each step."""
    table = polinfer.tabulate(polinfer.make("gridworld/multimodal"))
    run = AnnealingRun(table, TemperedConfig(policies=32, islands=4, enumerate_up_to=0))
    seen = []
    while not run.finished:
        run.step()
        if run.state is not None:
            seen.append((work_of(run._annealer[1], run.state).done, run.progress))
    assert run.progress == 1.0
    return np.array(seen)


def test_the_moves_left_are_right_within_a_factor_of_two(followed):
    done, share = followed.T
    total = done[-1]
    middle = (done > 0.1 * total) & (done < 0.9 * total)
    said, true = done[middle] / share[middle] - done[middle], total - done[middle]
    assert middle.sum() >= 5
    near = (said < 2 * true) & (said > true / 2)
    assert near.mean() >= 0.7, said / true


def test_a_first_round_at_the_posterior_is_not_nearly_the_end(followed):
    done, share = followed.T
    early = done < 0.3 * done[-1]
    assert early.any()
    assert share[early].max() < 0.6
