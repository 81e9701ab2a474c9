"""Reference posteriors: those that can be enumerated are right within their own errors; all can be read."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import polinfer
from polinfer import Posterior, exact
from polinfer.analysis.judgement import distance_to
from polinfer.analysis.references import list_references, reference_for
from polinfer.exact.enumeration import count_policies, decision_states
from polinfer.smc.proposal import TableProposal

pytestmark = pytest.mark.usefixtures("compile_quickly")

# Twelve thousand policies at most; the rest has a hundred million and more.
ENUMERABLE = [
    ("gridworld/ablation", 1.0),
    pytest.param("tireworld/4", 0.2, marks=pytest.mark.slow),
    pytest.param("tireworld/4", 1.0, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("domain", "scale"), ENUMERABLE)
def test_a_reference_is_the_enumerated_posterior_within_its_errors(domain: str, scale: float) -> None:
    mdp = polinfer.make(domain, reward_scale=scale)
    table, found = polinfer.tabulate(mdp), reference_for(mdp)
    assert found is not None
    solution = exact.policy_posterior(table, reach=False)
    truth = solution.posterior
    assert truth is not None
    assert (found.domain, found.scale) == (domain, scale)
    assert abs(found.log_evidence - truth.log_evidence) < 5 * found.log_evidence_stderr + 1e-4
    assert abs(found.expected_return - truth.expected_return) < 5 * found.expected_return_stderr + 1e-4
    assert abs(found.entropy - truth.entropy) < 0.05
    # A few of hundreds of entries may be further off than four errors, none by six.
    off = abs(found.policy - solution.policy) / (found.policy_stderr + 1e-4)
    assert off.max() < 6
    rows = np.log(np.maximum(solution.policy[None], 1e-30))
    posterior = Posterior(mdp, table, polinfer.ExactConfig(), TableProposal(jnp.asarray(rows)), 1)
    assert distance_to(posterior, found.policy) < 0.005
    even = exact.uniform_policy(table)
    assert abs(even - solution.policy).max() > 0.1, "or any policy would do"


def test_the_reward_scale_belongs_to_the_reference() -> None:
    one, fifth = (reference_for(polinfer.make("tireworld/4", reward_scale=scale)) for scale in (1.0, 0.2))
    assert one is not None
    assert fifth is not None
    assert abs(one.policy - fifth.policy).max() > 0.1
    assert reference_for(polinfer.make("tireworld/4", reward_scale=0.7)) is None
    assert reference_for(polinfer.make("tireworld/4", horizon=7)) is None


def test_every_reference_fits_its_problem() -> None:
    for entry in list_references():
        if entry["domain"].startswith("tireworld") and entry["domain"][-1] in "6789":
            continue  # the same code, larger tables
        for scale in entry["scales"]:
            found = reference_for(polinfer.make(entry["domain"], reward_scale=scale, **entry["options"]))
            assert found is not None
            for name in ("policy", "reach_policy"):
                np.testing.assert_allclose(getattr(found, name).sum(axis=1), 1.0, atol=1e-5)
            assert (found.policy_stderr < 0.05).all()
            assert np.isfinite([found.log_evidence, found.expected_return, found.entropy]).all()


def test_problems_without_enumeration_are_judged_by_their_reference() -> None:
    mdp = polinfer.make("gridworld/unimodal")
    table, found = polinfer.tabulate(mdp), reference_for(mdp)
    assert count_policies(table, decision_states(table, table.horizon)) > 100_000
    assert found is not None
    assert found.policy.shape == (table.num_states, table.num_actions)
