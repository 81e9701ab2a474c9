"""Policies that look at the step: layered tables against plain recursion and the finite-horizon optimum."""

import numpy as np
import pytest

import polinfer
from polinfer import exact
from polinfer.exact import bounds
from polinfer.problems.timed import layered_table, layers_of, with_steps

from .cases import random_table, truth


def small(seed=0, **options):
    return random_table(seed, states=3, actions=2, horizon=3, **options)


@pytest.mark.parametrize("seed", range(3))
def test_layers_are_what_tabulating_the_simulator_finds(seed):
    table = small(seed)
    lazily, layered = polinfer.tabulate(_generic(table)), layered_table(table)
    assert layered.num_states == lazily.num_states
    order = {tuple(row): i for i, row in enumerate(lazily.identities)}
    at = [order[tuple(row)] for row in layered.identities]
    np.testing.assert_array_equal(lazily.absorbing[at], layered.absorbing)
    np.testing.assert_allclose(lazily.prior[at][~layered.absorbing], layered.prior[~layered.absorbing])
    assert exact.policy_posterior(lazily).posterior.log_evidence == pytest.approx(
        exact.policy_posterior(layered).posterior.log_evidence, abs=1e-6
    )


def _generic(table):
    """Hide the shortcut: the pairs are found one by one."""
    problem = with_steps(table)

    class Hidden:
        def __getattr__(self, name):
            if name == "tabulated":
                raise AttributeError(name)
            return getattr(problem, name)

    hidden = Hidden()
    for name in ("num_actions", "horizon", "action_names"):
        setattr(Hidden, name, getattr(problem, name))
    for name in (
        "init",
        "step",
        "encode",
        "identity",
        "legal",
        "starts",
        "outcomes",
        "log_prior",
        "state_name",
    ):
        setattr(Hidden, name, staticmethod(getattr(problem, name)))
    Hidden.discount = problem.discount
    return hidden


@pytest.mark.parametrize("seed", range(4))
def test_the_posterior_is_that_of_policies_by_step(seed):
    layered = layered_table(small(seed))
    log_evidence, marginal, (policies, _, returns) = truth(layered)
    found = exact.policy_posterior(layered)
    assert found.posterior.log_evidence == pytest.approx(log_evidence, abs=1e-10)
    np.testing.assert_allclose(found.policy, marginal, atol=1e-10)
    assert returns.max() == pytest.approx(exact.finite_horizon_optimum(small(seed)).objective, abs=1e-10)
    whole = bounds.evidence_bounds(layered, policies)
    assert whole.lower - 1e-9 <= log_evidence <= whole.upper + 1e-9
    assert whole.method.endswith("no state comes twice") or "leaves" in whole.method


def test_questions_are_asked_by_step_and_state():
    problem = polinfer.with_terms(small(1), policies="time-dependent")
    posterior = polinfer.infer(problem, method="tempered")
    wanted = exact.policy_posterior(layered_table(small(1)))
    layers = layers_of(posterior.view)
    for row in np.flatnonzero(~posterior.view.absorbing):
        asked = (int(layers.step[row]), int(layers.state[row]))
        np.testing.assert_allclose(posterior.action_probs(asked), wanted.policy[row], atol=1e-5)


def test_compare_shows_what_stationarity_costs():
    # Pay once for waiting, then leave: the best action changes with the step.
    table = polinfer.TabularMDP(
        [[[1, 0], [0, 1]], [[0, 0], [0, 0]]], [[1.0, 2.5], [0, 0]], 0, [1], 4, action_names=["wait", "leave"]
    )
    stationary = polinfer.compare(table)
    timed = polinfer.compare(polinfer.with_terms(table, policies="time-dependent"))
    for found in (stationary, timed):
        earned = {answer.name: answer.value.expected_return for answer in found.answers}
        assert earned["stationary optimum"] == pytest.approx(4.0)
        assert earned["finite-horizon optimum"] == pytest.approx(5.5)
        assert any(note.startswith("Stationarity costs 1.5") for note in found.notes)
    posterior = timed.answers[0].solution
    # Policies that wait k times and then leave earn k + 2.5; k = 0..3, and 4 for waiting always.
    mass = np.array([2.0 ** -(k + 1) * np.exp(k + 2.5) for k in range(4)] + [2.0**-4 * np.exp(4.0)])
    assert posterior.posterior.log_evidence == pytest.approx(np.log(mass.sum()), abs=1e-10)


def test_a_run_remembers_the_step(tmp_path):
    problem = polinfer.with_terms(small(2), policies="time-dependent")
    posterior = polinfer.infer(problem, method="exact")
    posterior.save(tmp_path)
    again = polinfer.load(tmp_path)
    assert again.mdp == problem
    np.testing.assert_allclose(again.action_probs((0, 0)), posterior.action_probs((0, 0)))


def test_other_methods_see_the_steps_and_the_prior():
    problem = polinfer.with_terms(small(1), policies="time-dependent")
    wanted = exact.policy_posterior(polinfer.tabulate(problem))
    found = polinfer.infer(problem, method="particles", particles=2000, sweeps=8)
    assert abs(found.table_probs()[0] - wanted.policy).max() < 0.06


def test_figures_are_small_multiples_over_the_steps(tmp_path):
    from polinfer.plots import PolicyPanel
    from polinfer.plots.run import policy_figure, step_panels

    problem = polinfer.make("gridworld/ablation", policies="time-dependent", horizon=5)
    table = polinfer.tabulate(problem)
    value = exact.evaluate_policy(table, table.prior)
    panel = PolicyPanel("prior", np.array(table.prior), value.occupancy)
    panels = step_panels(layers_of(table), panel, most=3)
    assert [one.title for one in panels] == ["step 0", "step 2", "step 4"]
    assert panels[0].occupancy.sum() == pytest.approx(1.0)
    assert np.isfinite(panels[0].policy[:, 0]).sum() == 1  # one start
    for mdp in (problem, table):
        assert len(policy_figure(mdp, table, [panel]).axes) >= 5
