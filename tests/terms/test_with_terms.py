"""`with_terms` on every kind of problem, by hand, by name, from files and from runs."""

import jax.numpy as jnp
import numpy as np
import pytest

import polinfer
from polinfer import exact
from polinfer.core.errors import PolinferError
from polinfer.problems.domains import GridWorld

from .cases import random_table, truth

NAME = "gridworld/ablation"


def leaning(state):
    del state
    return jnp.array([0.3, -0.2, 1.1, 0.0])


def leaning_rows(table):
    mass = np.exp(np.array([0.3, -0.2, 1.1, 0.0]))
    return np.repeat((mass / mass.sum())[None], table.num_states, axis=0)


def test_a_function_and_rows_are_the_same_problem_and_keep_their_class():
    plain = polinfer.make(NAME)
    table = polinfer.tabulate(plain)
    rows = leaning_rows(table)
    by_function, by_rows = (polinfer.make(NAME, prior=p, discount=0.9) for p in (leaning, rows))
    assert isinstance(by_function, GridWorld)
    assert isinstance(by_rows, GridWorld)
    assert polinfer.tabulate(by_function).discount == 0.9
    np.testing.assert_allclose(
        polinfer.tabulate(by_function).prior[~table.absorbing], rows[~table.absorbing], atol=1e-12
    )
    assert by_rows == polinfer.make(NAME, prior=rows, discount=0.9) != plain
    assert hash(by_rows) == hash(polinfer.make(NAME, prior=rows, discount=0.9))
    wanted = truth(table.with_problem(prior=rows, discount=0.9))[0]
    for problem in (by_function, by_rows):
        found = polinfer.infer(problem, method="exact").policies
        assert found.log_evidence == pytest.approx(wanted, abs=1e-6)
    # On the simulator itself, looked up by identity.
    state = polinfer.infer(by_rows, method="exact").states[0]
    np.testing.assert_allclose(np.exp(by_rows.log_prior(state)), rows[0], rtol=1e-6)


def test_terms_survive_a_run_folder_and_a_run_is_a_prior(tmp_path):
    table = polinfer.tabulate(polinfer.make(NAME))
    posterior = polinfer.infer(
        polinfer.make(NAME), method="exact", prior=leaning_rows(table), prior_strength=0.5, discount=0.7
    )
    posterior.save(tmp_path / "run")
    again = polinfer.load(tmp_path / "run")
    assert again.mdp == posterior.mdp
    assert again.view.discount == 0.7
    second = polinfer.make(NAME, prior=str(tmp_path / "run"))
    by_hand = table.with_problem(prior=again.table_probs()[0].astype(float))
    assert polinfer.infer(second, method="exact").policies.log_evidence == pytest.approx(
        exact.policy_posterior(by_hand).posterior.log_evidence, abs=1e-6
    )


def test_a_prior_file_may_hold_the_prior_alone(tmp_path):
    table = random_table(0)
    np.savez(tmp_path / "prior.npz", prior=table.prior)
    plain = table.with_problem()
    again = polinfer.with_terms(plain, prior=str(tmp_path / "prior.npz"))
    assert again == table
    np.save(tmp_path / "other.npy", table.prior[:2])
    with pytest.raises(PolinferError, match=r"other\.npy"):
        polinfer.with_terms(plain, prior=tmp_path / "other.npy")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"policies": "markov"}, "policies must be stationary or time-dependent, got 'markov'"),
        ({"discount": 2}, "discount must be above 0 and at most 1, got 2"),
        ({"prior_strength": 2}, "prior_strength needs a prior"),
        ({"prior": "runs/nowhere"}, "no such run folder"),
        ({"prior": leaning, "prior_strength": -1}, "prior_strength must be"),
    ],
)
def test_bad_terms_are_refused(options, sentence):
    with pytest.raises(PolinferError, match=sentence):
        polinfer.infer(polinfer.make(NAME, **options), method="exact")


class Walk:
    """A simulator in plain Python: three steps to the left or right, paid at the end."""

    num_actions, horizon = 2, 3

    def init(self, seed):
        return (0, 0)

    def step(self, seed, state, action):
        step, place = state
        place += 2 * action - 1
        return (step + 1, place), (1.0 if step == 0 else 0.4) * place, step == 2

    def legal(self, state):
        return [True, True]

    def encode(self, state):
        return np.array(state, np.float32)


def masses(log_prior, discount):
    """Return the mass of going left and right first; all is deterministic, so a policy is its path."""
    mass = np.zeros(2)
    for code in range(8):
        place, gained, log_mass = 0, 0.0, 0.0
        for step in range(3):
            action = code >> step & 1
            log_mass += log_prior[action]
            place += 2 * action - 1
            gained += discount**step * (1.0 if step == 0 else 0.4) * place
        mass[code & 1] += np.exp(log_mass + gained)
    return mass


def test_a_plain_simulator_has_terms_too():
    from polinfer.smc import SweepConfig
    from polinfer.smc.reference import SweepRandomness, run_reference_sweep

    log_prior = np.log([0.2, 0.8])
    problem = polinfer.with_terms(Walk(), prior=lambda state: log_prior, discount=0.5)
    config = SweepConfig(particles=4000, resample_below=0.0)
    sweep = run_reference_sweep(problem, lambda s: np.log([0.5, 0.5]), config, SweepRandomness(3))
    wanted = masses(log_prior, 0.5)
    weight = np.exp(np.asarray(sweep.log_weight[-1]))
    assert abs(weight.mean() - wanted.sum()) < 5 * weight.std() / np.sqrt(len(weight))
    found = polinfer.infer(problem, method="rollouts", rollouts=1, policies=100)
    assert abs(found.action_probs((0, 0))[1] - wanted[1] / wanted.sum()) < 0.05


def test_an_infinite_horizon_is_cut_where_little_is_left():
    loop = [[[1.0]]]
    table = polinfer.TabularMDP(loop, [[2.0]], 0, None, None, discount=0.9)
    assert table.horizon == 132
    assert exact.evaluate_policy(table, np.array([0])).expected_return == pytest.approx(20.0, rel=2e-6)
    with pytest.raises(PolinferError, match="discount below 1"):
        polinfer.TabularMDP(loop, [[2.0]], 0, None, None)
