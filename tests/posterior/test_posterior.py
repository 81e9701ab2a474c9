"""What a user can do with a posterior, and that it survives the disk."""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import polinfer
from polinfer.core.errors import PolinferError
from polinfer.posterior.trace import pick_seed
from polinfer.smc.proposal import TableProposal

GRID = polinfer.make("gridworld/ablation")


@pytest.fixture(scope="module")
def exact() -> polinfer.Posterior:
    return polinfer.infer(GRID, "exact")


@pytest.fixture(scope="module")
def trained() -> polinfer.Posterior:
    return polinfer.infer(GRID, "vsmc", sweeps=200, seeds=3, learning_rate=1e-2)


def test_action_probs_of_the_users_own_states(exact: polinfer.Posterior) -> None:
    start = GRID.init(jax.random.key(0))
    table = polinfer.tabulate(GRID)
    solution = polinfer.exact.policy_posterior(table)
    np.testing.assert_allclose(exact.action_probs(start), solution.policy[0], rtol=1e-5)
    np.testing.assert_allclose(np.exp(exact.log_probs(start)), exact.action_probs(start), rtol=1e-6)


def test_several_seeds_have_a_leading_axis(trained: polinfer.Posterior) -> None:
    start = GRID.init(jax.random.key(0))
    probs = trained.action_probs(start)
    assert probs.shape == (3, 4)
    np.testing.assert_allclose(trained[1].action_probs(start), probs[1], rtol=1e-6)
    assert trained[1].trace.log_evidence.shape == (100, 1)
    with pytest.raises(IndexError):
        trained[3]


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
    np.testing.assert_array_equal(again.trace.log_evidence, posterior.trace.log_evidence)
    assert again.settings == json.loads(json.dumps(posterior.settings))
    assert again.diagnostics() == posterior.diagnostics()
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
        ("config.json", lambda b: b.replace(b'"version": 1', b'"version": 99'), "version 99"),
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
    assert exact.diagnostics()[0] == "Trust: exact."
    assert trained.diagnostics()[0] != "Trust: exact."
    rising = trained.trace._replace(
        log_evidence=np.linspace(-3, 0, 100, dtype=np.float32)[:, None] * np.ones((1, 3), np.float32)
    )
    worse = polinfer.Posterior(
        trained.mdp, trained.view, "vsmc", trained.proposal, 3, trained.settings, rising
    )
    assert any("still rising" in line for line in worse.diagnostics())
    poor = polinfer.Posterior(
        trained.mdp,
        trained.view,
        "vsmc",
        trained.proposal,
        3,
        trained.settings,
        trained.trace._replace(ess=np.full((100, 3), 0.12, np.float32)),
    )
    assert any("effective sample size is 12%" in line for line in poor.diagnostics())


@pytest.mark.parametrize(("start", "told"), [("shared", True), ("independent", True), ("averaged", False)])
def test_a_random_start_is_named_unless_sweeps_average_over_it(
    trained: polinfer.Posterior, start: str, told: bool
) -> None:
    moves = np.array([[[0.5, 0, 0.5], [0, 0.2, 0.8]], [[0, 0, 1], [0.6, 0, 0.4]], [[0, 0, 1], [0, 0, 1]]])
    table = polinfer.TabularMDP(moves, np.eye(3, 2), [0.3, 0.7, 0.0], [False, False, True], 4)
    train = trained.settings["train"]
    settings = {"train": train | {"sweep": train["sweep"] | {"start": start}}}
    rows = TableProposal(jnp.asarray(np.log([[[0.9, 0.1], [0.2, 0.8], [0.5, 0.5]]]), jnp.float32))
    posterior = polinfer.Posterior(table, table, "vsmc", rows, 1, settings, pick_seed(trained.trace, 0))
    assert any("conditions on one start" in line for line in posterior.diagnostics()) == told
    assert not any("conditions on one start" in line for line in trained.diagnostics())
