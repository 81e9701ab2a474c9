"""Training against closed forms, and the promises that let it be batched, resumed and trusted."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import polinfer
from polinfer.core.errors import PolinferError
from polinfer.core.protocol import Transition
from polinfer.learning.train import make_trainer
from polinfer.problems.tables import shared_table, table_of
from polinfer.problems.tabular import TabularMDP
from polinfer.smc.proposal import table_log_policy

LOOP = polinfer.make("continuation", rho=0.5, horizon=4)


def probs_of(posterior: polinfer.Posterior) -> np.ndarray:
    table = posterior.table_probs()
    assert table is not None
    return table


@pytest.mark.slow
def test_one_particle_finds_the_posterior_of_the_continuation_example() -> None:
    posterior = polinfer.infer(LOOP, "svi", sweeps=20_000, seeds=4, learning_rate=3e-4)
    leave = probs_of(posterior)[:, 0, 1]
    assert np.abs(leave - np.e / (1 + np.e)).max() < 0.02
    # With one particle E[log Z-hat] is the evidence lower bound, tight where q is the posterior.
    last = posterior.trace["log_evidence"][-20:]
    assert abs(last.mean() - np.log((1 + np.e) / 2)) < 5 * last.std() / np.sqrt(last.size) + 0.001


def test_exact_answers_are_on_the_table_that_training_has() -> None:
    grid = polinfer.make("gridworld/ablation")
    assert polinfer.infer(grid, "exact").view is table_of(grid)
    assert shared_table(polinfer.make("gridworld/ablation")) is table_of(grid)
    assert shared_table(LOOP) is LOOP


@pytest.mark.slow
def test_one_particle_finds_the_posterior_of_a_bandit() -> None:
    means = (0.1, 0.5, 0.95)
    posterior = polinfer.infer(
        polinfer.make("bandit", means=means), "svi", sweeps=20_000, seeds=4, learning_rate=3e-4
    )
    expected = np.exp(means) / np.exp(means).sum()
    assert np.abs(probs_of(posterior)[:, 0] - expected).max() < 0.02


def test_a_seed_alone_is_the_same_as_in_a_batch() -> None:
    config = polinfer.VsmcConfig(sweeps=40, particles=3, learning_rate=1e-2).training()
    trainer = make_trainer(LOOP, config, True)
    start, end = jnp.asarray(0), jnp.asarray(40)
    # Eight, as in a whole group: the next test runs the same programs.
    together, _ = trainer.run(trainer.init(range(5, 13)), start, end)
    alone, _ = trainer.run(trainer.init([6]), start, end)
    rows = [jax.vmap(lambda p: table_log_policy(LOOP, p))(state.proposal) for state in (together, alone)]
    np.testing.assert_allclose(rows[0][1], rows[1][0], rtol=1e-4)
    assert np.abs(rows[0][0] - rows[0][1]).max() > 1e-4  # other seeds differ


def test_seeds_in_two_groups_are_the_same_as_alone() -> None:
    config = polinfer.VsmcConfig(sweeps=40, particles=3, learning_rate=1e-2).training()
    trainer = make_trainer(LOOP, config, True)
    start, middle, end = jnp.asarray(0), jnp.asarray(15), jnp.asarray(40)
    # Nine seeds: the second group is filled up with one of its own, which must not show.
    half, _ = trainer.run(trainer.init(range(9)), start, middle)
    together, metrics = trainer.run(half, middle, end)
    assert metrics.log_evidence.shape == (9,)
    for seed in (4, 5, 8):
        alone, _ = trainer.run(trainer.init([seed]), start, end)
        assert np.asarray(together.words[seed]).tolist() == np.asarray(alone.words[0]).tolist()
        jax.tree.map(
            lambda all_of, one, seed=seed: np.testing.assert_allclose(
                all_of[seed], one[0], rtol=1e-3, atol=1e-6
            ),
            together.proposal,
            alone.proposal,
        )
    spread = np.std([np.asarray(leaf) for leaf in metrics.log_evidence])
    assert spread > 1e-4  # other seeds differ


def test_table_path_and_network_path_take_the_same_steps() -> None:
    config = polinfer.VsmcConfig(sweeps=30, particles=4, learning_rate=1e-2, sweeps_per_update=2).training()
    grid = polinfer.tabulate(polinfer.make("gridworld/ablation", horizon=5))
    ends = []
    for by_table in (True, False):
        trainer = make_trainer(grid, config, by_table)
        state, _ = trainer.run(trainer.init([1]), jnp.asarray(0), jnp.asarray(15))
        ends.append(np.asarray(jax.vmap(lambda p: table_log_policy(grid, p))(state.proposal)))
    np.testing.assert_allclose(ends[0], ends[1], atol=1e-4)
    assert np.abs(ends[0] - np.log(0.25)).max() > 0.01


def test_training_compiles_once() -> None:
    make_trainer.cache_clear()
    for seed in (0, 3):
        polinfer.infer(LOOP, "svi", sweeps=250, seed=seed)
    assert make_trainer.cache_info().misses == 1
    trainer = make_trainer(LOOP, polinfer.SviConfig(sweeps=250).training(), True, False)
    assert trainer.run.__wrapped__._cache_size() == 1  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"baseline": "running", "resampling": "stratified"}, marks=pytest.mark.slow),
        {"baseline": "leave-one-out", "sweeps_per_update": 4, "coupled": False},
        pytest.param(
            {"proposal": "table", "learning_rate": 0.02, "resampling": "multinomial", "resample_below": 1.0},
            marks=pytest.mark.slow,
        ),
        # Without a baseline the score term carries log Z-hat = 5 as pure noise, and this one does not arrive.
        pytest.param({"deterministic": False, "baseline": "running"}, marks=pytest.mark.slow),
    ],
)
def test_training_reaches_the_evidence_of_its_target(settings: dict[str, object]) -> None:
    # Returns are certain, so log Z-hat at the best proposal is log Z; the uniform one falls short by 0.5.
    loud = polinfer.make("continuation", rho=0.0, horizon=4, reward_scale=6)
    posterior = polinfer.infer(
        loud, "vsmc", particles=3, seeds=2, **{"sweeps": 4_000, "learning_rate": 3e-3} | settings
    )
    log_evidence = np.log((1 + np.exp(6)) / 2)
    assert abs(posterior.trace["log_evidence"][-20:].mean() - log_evidence) < 0.02


def test_illegal_actions_keep_probability_zero() -> None:
    table = TabularMDP(
        np.eye(2)[np.array([[1, 1, 1], [1, 1, 1]])],
        [[1.0, 5.0, -1.0], [0.0, 0.0, 0.0]],
        0,
        [False, True],
        2,
        legal=np.array([[True, False, True], [True, True, True]]),
    )
    posterior = polinfer.infer(table, "svi", sweeps=5_000, learning_rate=1e-3)
    probs = posterior.action_probs(0)
    assert probs[1] == 0
    assert abs(probs[0] - np.exp(1) / (np.exp(1) + np.exp(-1))) < 0.03


@dataclass(frozen=True)
class Cracked:
    """A simulator whose reward is not a number in one state."""

    num_actions: int = 2
    horizon: int = 3

    def init(self, key: jax.Array) -> jax.Array:
        return jnp.zeros((), jnp.int32)

    def step(self, key: jax.Array, state: jax.Array, action: jax.Array) -> Transition:
        reward = jnp.where((state == 1) & (action == 1), jnp.nan, 0.5)
        return Transition(jnp.minimum(state + 1, 2), jnp.where(state == 2, 0.0, reward), state + 1 >= 2)

    def encode(self, state: jax.Array) -> jax.Array:
        return jax.nn.one_hot(state, 3, dtype=jnp.float32)

    def identity(self, state: jax.Array) -> jax.Array:
        return state[None]

    def legal(self, state: jax.Array) -> jax.Array:
        return jnp.ones(2, jnp.bool_)


class Lopsided(Cracked):
    """A simulator whose state changes its shape on the way."""

    def step(self, key: jax.Array, state: jax.Array, action: jax.Array) -> Transition:
        return Transition(jnp.zeros(2, jnp.int32), jnp.zeros(()), jnp.asarray(True))


def test_a_state_of_another_shape_ends_in_a_sentence() -> None:
    with pytest.raises(PolinferError, match=r"state like init's, int32\[\], got int32\[2\]"):
        polinfer.infer(Lopsided(), "wake", sweeps=50)


def test_a_reward_that_is_not_a_number_ends_in_a_sentence() -> None:
    with pytest.raises(PolinferError, match="not a finite number"):
        polinfer.infer(Cracked(), "wake", sweeps=50)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"particles": 0}, "particles must be at least 1"),
        ({"sweeps": 0}, "sweeps must be at least 1"),
        ({"learning_rate": -1.0}, "learning_rate must be above zero"),
        ({"learning_rate": float("nan")}, "learning_rate must be above zero"),
        ({"resample_below": 1.5}, r"resample_below must lie in 0..1"),
        ({"method": "vsmc", "memo_refresh": -0.1}, r"memo_refresh must lie in 0..1"),
        ({"resampling": "residual"}, "resampling must be"),
        ({"method": "vsmc", "baseline": "leave-one-out"}, "needs sweeps_per_update of at least 2"),
        ({"partcles": 3}, "did you mean 'particles'"),
        ({"method": "vsmcc"}, "did you mean 'vsmc'"),
        (
            {"method": "svi", "particles": 5},
            "'svi' has no setting 'particles'; it belongs to vsmc, iwae, wake",
        ),
        ({"method": "iwae", "resample_below": 0.5}, "'iwae' has no setting 'resample_below'"),
        ({"method": "vsmc", "objective": "wake"}, "'vsmc' has no setting 'objective'"),
        ({"memo_refresh": 0.5}, "'wake' has no setting 'memo_refresh'; it belongs to vsmc, svi and iwae"),
        ({"seeds": 0}, "seeds must be at least 1"),
        ({"method": "exact", "particles": 5}, "no setting 'particles'"),
    ],
)
def test_bad_values_are_named(settings: dict[str, object], words: str) -> None:
    with pytest.raises(PolinferError, match=words):
        polinfer.infer(LOOP, **{"method": "wake"} | settings)  # type: ignore[arg-type]


@pytest.mark.slow
def test_a_table_proposal_takes_tables_of_any_size() -> None:
    states = 5_000
    successor = np.append(np.arange(1, states), states - 1)
    rows = polinfer.problems.tabular.OutcomeRows(
        np.arange(states - 1),
        np.zeros(states - 1, int),
        successor[:-1],
        np.ones(states - 1),
        np.ones(states - 1),
    )
    table = TabularMDP.from_outcomes(rows, states, 1, 0, [states - 1], 3)
    posterior = polinfer.infer(table, "vsmc", proposal="table", sweeps=5, particles=2)
    assert posterior.action_probs(7).tolist() == [1.0]


def test_the_table_proposal_needs_a_table() -> None:
    with pytest.raises(PolinferError, match="needs a problem that fits a table"):
        polinfer.infer(Cracked(), "wake", proposal="table", sweeps=10)
