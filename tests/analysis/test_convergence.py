"""R-hat and effective sample sizes against ArviZ, and of the populations behind an annealed answer."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import polinfer
from polinfer.analysis.convergence import convergence, effective_size, split_r_hat
from polinfer.exact import evaluate_policy


@pytest.fixture(scope="module")
def arviz() -> Any:
    """ArviZ, which takes three seconds to import."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("arviz")


def chains(seed: int, sticky: float, apart: float) -> np.ndarray:
    """Choices made or not, four chains of 150; each repeats its last one with probability `sticky`."""
    random = np.random.default_rng(seed)
    share = np.clip(0.3 + apart * np.arange(4), 0, 1)
    made = random.random((4, 150)) < share[:, None]
    for step in range(1, 150):
        again = random.random(4) < sticky
        made[:, step] = np.where(again, made[:, step - 1], made[:, step])
    return made.astype(np.float64)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("sticky", "apart"), [(0.0, 0.0), (0.7, 0.0), (0.0, 0.2), (0.9, 0.1)])
def test_definitions_are_those_of_arviz(arviz: Any, seed: int, sticky: float, apart: float) -> None:
    draws = chains(seed, sticky, apart)
    assert split_r_hat(draws) == pytest.approx(float(arviz.rhat(draws, method="split")), rel=1e-9)
    assert split_r_hat(draws) == pytest.approx(float(arviz.rhat(draws, method="z_scale")), rel=1e-9)
    assert effective_size(draws) == pytest.approx(float(arviz.ess(draws, method="bulk")), rel=1e-6)


def test_islands_of_annealing_stay_apart_and_agree() -> None:
    mdp = polinfer.make("gridworld/ablation")
    posterior = polinfer.infer(mdp, "tempered", enumerate_up_to=0, islands=4, policies=64, rounds=2)
    whole, table = posterior.policies, posterior.view
    assert whole is not None
    assert whole.sampled_policies is not None
    assert (whole.chains, len(whole.sampled_policies)) == (4, 256)
    occupancy = np.where(
        table.absorbing, 0.0, evaluate_policy(table, posterior.table_probs()[0].astype(float)).occupancy
    )
    found = convergence(posterior, occupancy)
    assert found is not None
    assert found.r_hat < 1.05
    assert 50 < found.ess < 1000
    state, action = found.worst
    assert table.legal_actions[state, action]
    # Populations that disagree are seen.
    sample = whole.sampled_policies.copy()
    sample[:64] = sample[0]
    broken = replace(posterior, policies=replace(whole, sampled_policies=sample))
    assert convergence(broken, occupancy).r_hat > 1.1


def test_one_population_says_nothing() -> None:
    posterior = polinfer.infer(polinfer.make("gridworld/ablation"), "exact")
    assert convergence(posterior, np.ones(6)) is None
