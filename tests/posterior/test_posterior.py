"""What a user can do with a posterior, and that it survives the disk."""

from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import polinfer
from polinfer.core.errors import PolinferError
from polinfer.posterior.trace import Trace
from polinfer.smc.proposal import TableProposal

GRID = polinfer.make("gridworld/ablation")


@pytest.fixture(scope="module")
def exact() -> polinfer.Posterior:
    return polinfer.infer(GRID, "exact")


@pytest.fixture(scope="module")
def trained() -> polinfer.Posterior:
    return polinfer.infer(GRID, "vsmc", sweeps=200, seeds=3, learning_rate=1e-2)


def codes(posterior: polinfer.Posterior) -> list[str]:
    return [found.code for found in polinfer.diagnose(posterior)]


def with_column(trace: Trace, name: str, rows: np.ndarray) -> Trace:
    return replace(trace, columns={**trace.columns, name: rows})


def test_action_probs_of_the_users_own_states(exact: polinfer.Posterior) -> None:
    start = GRID.init(jax.random.key(0))
    table = polinfer.tabulate(GRID)
    solution = polinfer.exact.policy_posterior(table)
    np.testing.assert_allclose(exact.action_probs(start), solution.policy[0], rtol=1e-5)
    np.testing.assert_allclose(
        np.exp(exact.log_probs_by_seed(start)[0]), exact.action_probs(start), rtol=1e-6
    )


def test_action_probs_have_one_shape_whatever_the_seeds(
    exact: polinfer.Posterior, trained: polinfer.Posterior
) -> None:
    start = GRID.init(jax.random.key(0))
    by_seed = trained.action_probs_by_seed(start)
    assert by_seed.shape == (3, 4)
    assert exact.action_probs_by_seed(start).shape == (1, 4)
    assert exact.action_probs(start).shape == trained.action_probs(start).shape == (4,)
    np.testing.assert_allclose(trained.action_probs(start), by_seed.mean(axis=0), rtol=1e-6)
    assert np.ptp(by_seed, axis=0).max() > 1e-3
    np.testing.assert_allclose(trained[1].action_probs(start), by_seed[1], rtol=1e-6)
    assert trained[1].trace["log_evidence"].shape == (100, 1)
    assert (trained[1].seeds, trained[1].seed, trained[-1].seed) == (1, 1, 2)
    with pytest.raises(IndexError):
        trained[3]


def test_states_are_listed_in_the_order_of_the_rows_of_table_probs(trained: polinfer.Posterior) -> None:
    rows = trained.table_probs()
    assert rows is not None
    assert len(trained.states) == rows.shape[1]
    for state, row in zip(trained.states, rows.swapaxes(0, 1), strict=True):
        np.testing.assert_allclose(trained.action_probs_by_seed(state), row, rtol=1e-6)
    table = polinfer.tabulate(GRID)
    assert polinfer.infer(table, "exact").states == tuple(range(table.num_states))


def test_a_sampled_policy_is_consistent_and_follows_the_posterior(exact: polinfer.Posterior) -> None:
    start = GRID.init(jax.random.key(0))
    policy = exact.sample_policy(7)
    assert len({policy(start) for _ in range(3)}) == 1
    draws = np.bincount([exact.sample_policy(seed)(start) for seed in range(400)], minlength=4) / 400
    probs = exact.action_probs(start)
    assert (np.abs(draws - probs) < 5 * np.sqrt(probs * (1 - probs) / 400) + 1e-9).all()


def test_predict_follows_the_stable_baselines_convention(exact: polinfer.Posterior) -> None:
    start = GRID.init(jax.random.key(0))
    action, state = exact.predict(start, deterministic=True)
    assert (action, state) == (int(exact.action_probs(start).argmax()), None)
    # The whole signature: a hidden state and the flags of new episodes are taken, and the state handed back.
    hidden = np.zeros(2)
    assert exact.predict(start, hidden, np.array([True]), True) == (action, hidden)
    draws = [exact.predict(start, seed=i)[0] for i in range(300)]
    assert abs(np.mean(np.array(draws) == action) - exact.action_probs(start)[action]) < 5 * 0.5 / np.sqrt(
        300
    )


def test_an_unreachable_state_is_refused() -> None:
    walled = polinfer.make("gridworld", map="G#.\nS#.")
    posterior = polinfer.infer(walled, "exact")
    with pytest.raises(PolinferError, match="cannot be reached"):
        posterior.action_probs(np.int32(2))


@pytest.mark.parametrize("kind", ["exact", "trained"])
def test_save_and_load(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    posterior = request.getfixturevalue(kind)
    posterior.save(tmp_path / "run")
    again = polinfer.load(tmp_path / "run")
    np.testing.assert_array_equal(again.table_probs(), posterior.table_probs())
    np.testing.assert_array_equal(again.trace.done, posterior.trace.done)
    assert again.trace.columns.keys() == posterior.trace.columns.keys()
    for name, column in posterior.trace.columns.items():
        np.testing.assert_array_equal(again.trace[name], column)
    assert (again.config, again.seed, again.seeds) == (posterior.config, posterior.seed, posterior.seeds)
    assert polinfer.diagnose(again) == polinfer.diagnose(posterior)
    if posterior.policies is not None:
        assert again.policies is not None
        assert again.policies.log_evidence == posterior.policies.log_evidence
        np.testing.assert_array_equal(again.policies.top_policies, posterior.policies.top_policies)


def test_a_table_travels_with_its_posterior(tmp_path: Path) -> None:
    table = polinfer.TabularMDP(
        [[[0.9, 0.1], [1, 0]], [[0, 0], [0, 0]]], [[1.0, 0.5], [0, 0]], 0, [False, True], 5
    )
    posterior = polinfer.infer(table, "exact")
    posterior.save(tmp_path)
    np.testing.assert_array_equal(polinfer.load(tmp_path).table_probs(), posterior.table_probs())


@pytest.mark.parametrize(
    ("name", "damage", "words"),
    [
        ("config.json", lambda b: b[: len(b) // 2], "damaged"),
        (
            "config.json",
            lambda b: b.replace(b"polinfer posterior", b"something else"),
            "not the configuration",
        ),
        ("config.json", lambda b: b.replace(b'"version": 2', b'"version": 99'), "version 99"),
        (
            "config.json",
            lambda b: b.replace(b'"version": 2', b'"version": 1'),
            "version 1, and this polinfer",
        ),
        ("config.json", lambda b: b.replace(b'"seeds": 1', b'"seeds": "one"'), "seeds"),
        ("config.json", lambda b: b.replace(b'"top": 10', b'"top": "ten"'), "method 'exact'.*top"),
        ("config.json", lambda b: b.replace(b'"top": 10', b'"islands": 3'), "no setting 'islands'"),
        ("policy.safetensors", lambda b: b[: len(b) // 2], "damaged or not a safetensors file"),
        ("policy.safetensors", lambda b: b"PK\x03\x04 not tensors", "damaged or not a safetensors file"),
        ("policy.safetensors", None, "no such file"),
    ],
)
def test_damaged_and_foreign_files_are_refused(
    exact: polinfer.Posterior, tmp_path: Path, name: str, damage: object, words: str
) -> None:
    exact.save(tmp_path)
    path = tmp_path / name
    if damage is None:
        path.unlink()
    else:
        path.write_bytes(damage(path.read_bytes()))  # type: ignore[operator]
    with pytest.raises(PolinferError, match=words) as caught:
        polinfer.load(tmp_path)
    assert "\n" not in str(caught.value)


def test_diagnostics_name_what_is_wrong(trained: polinfer.Posterior, exact: polinfer.Posterior) -> None:
    assert codes(exact) == ["enumerated"]
    assert not {"not-converged", "low-ess"} & set(codes(trained))
    rising = np.linspace(-3, 0, 100, dtype=np.float32)[:, None] * np.ones((1, 3), np.float32)
    worse = replace(trained, trace=with_column(trained.trace, "log_evidence", rising))
    assert "not-converged" in codes(worse)
    poor = replace(trained, trace=with_column(trained.trace, "ess", np.full((100, 3), 0.12, np.float32)))
    (found,) = [one for one in polinfer.diagnose(poor) if one.code == "low-ess"]
    assert found.severity is polinfer.Severity.WARNING
    assert "effective sample size is 12%" in str(found)
    (nothing,) = polinfer.diagnose(replace(trained, trace=Trace()))
    assert (nothing.code, nothing.severity) == ("untrained", polinfer.Severity.ERROR)


@pytest.mark.parametrize(("start", "told"), [("shared", True), ("independent", True), ("averaged", False)])
def test_a_random_start_is_named_unless_sweeps_average_over_it(
    trained: polinfer.Posterior, start: str, told: bool
) -> None:
    moves = np.array([[[0.5, 0, 0.5], [0, 0.2, 0.8]], [[0, 0, 1], [0.6, 0, 0.4]], [[0, 0, 1], [0, 0, 1]]])
    table = polinfer.TabularMDP(moves, np.eye(3, 2), [0.3, 0.7, 0.0], [False, False, True], 4)
    config = replace(trained.config, start=start)  # type: ignore[call-arg]
    rows = TableProposal(jnp.asarray(np.log([[[0.9, 0.1], [0.2, 0.8], [0.5, 0.5]]]), jnp.float32))
    posterior = polinfer.Posterior(table, table, config, rows, trace=trained.trace.of_seed(0))
    assert ("random-start" in codes(posterior)) == told
    assert "random-start" not in codes(trained)
