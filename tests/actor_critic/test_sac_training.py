"""Training soft actor-critic: it arrives where soft value iteration says, and keeps its promises."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import polinfer
from polinfer import exact
from polinfer.actor_critic import fit
from polinfer.actor_critic.config import SacConfig
from polinfer.actor_critic.fit import sac_segments, sac_trainer
from polinfer.actor_critic.replay import lay_in
from polinfer.actor_critic.sac import make_sac_trainer
from polinfer.core.errors import PolinferError
from polinfer.problems.tables import Representation
from polinfer.problems.tabular import TabularMDP
from polinfer.smc import as_simulator

from .sac_cases import LEGAL, masked_softmax, outputs, slippery, soft_values, weights_of

ALPHAS = (0.25, 1.0)
FAST = SacConfig(
    gamma=0.8,
    steps=14_000,
    learning_starts=301,
    batch=128,
    steps_per_update=1,
    critic_rate=1e-3,
    actor_rate=5e-4,
    adam_epsilon=1e-6,
    target_every=1,
    tau=0.02,
    width=16,
    depth=1,
)


class Average(NamedTuple):
    """Over the second half of a run, which takes out the noise that constant rates leave."""

    policy: np.ndarray  # [seeds, S, A]
    values: np.ndarray  # [2, seeds, S, A], of each critic


def learn(table: TabularMDP, config: SacConfig, alphas: tuple[float, ...]) -> Average:
    """Train one seed per alpha, with one compilation: alpha is a part of what a run carries."""
    state = sac_trainer(table, config).init(range(len(alphas)))
    log_alpha = jnp.log(jnp.asarray(alphas, jnp.float32))
    state = state._replace(learner=state.learner._replace(log_alpha=log_alpha))
    features, seeds = np.eye(table.num_states), range(len(alphas))
    seen = []
    for piece in sac_segments(table, config, 0, state):
        learner = piece.state.learner
        if piece.done > config.steps // 2:
            logits = np.stack([outputs(weights_of(learner.actor, i), features) for i in seeds])
            policy = masked_softmax(logits, table.legal_actions)
            values = [
                np.stack([outputs(weights_of(learner.critics, i, k), features) for i in seeds])
                for k in range(2)
            ]
            seen.append(Average(policy, np.stack(values)))
    return Average(*(np.mean(part, axis=0) for part in zip(*seen, strict=True)))


@pytest.mark.slow
def test_it_finds_the_soft_optimum_of_a_slippery_table_where_only_ends_cut_off_the_future() -> None:
    table = slippery(horizon=3)
    found = learn(table, FAST, ALPHAS)
    for i, alpha in enumerate(ALPHAS):
        q_star, expected = soft_values(alpha, FAST.gamma)
        solved = exact.soft_stationary(table, alpha, FAST.gamma)
        np.testing.assert_allclose(solved.policy[:3], expected, atol=1e-7)
        distance = 0.5 * np.abs(found.policy[i, :3] - expected).sum(axis=1)
        assert distance.max() < 0.03, (alpha, distance)
        # Far enough from where it started for that to mean something.
        even = LEGAL[:3] / LEGAL[:3].sum(axis=1, keepdims=True)
        assert 0.5 * np.abs(even - expected).sum(axis=1).max() > 0.15
        for critic in range(2):
            error = np.abs(found.values[critic, i, :3] - q_star)[LEGAL[:3]].max()
            assert error < 0.08, (alpha, error)
        # In state 2 nothing ends: its value is that of infinitely many steps, not of the three played.
        (one_step,) = {alpha * np.log(np.exp(np.array([0.7, -0.3]) / alpha).sum())}
        endless, three = (0.8 * one_step * (1 - 0.8**n) / 0.2 for n in (np.inf, 2))
        assert abs(q_star[2, 1] - (0.7 + endless)) < 1e-6
        assert endless - three > 1.5
        # What leads to the end for certain is worth its reward and nothing more.
        assert q_star[0, 1] == 0.4


def test_it_finds_the_soft_optimum_of_the_continuation_example() -> None:
    loop = polinfer.make("continuation", rho=0.5, horizon=4)
    found = learn(loop, FAST, ALPHAS)
    for i, alpha in enumerate(ALPHAS):
        value = 0.0
        for _ in range(500):
            value = alpha * np.log(np.exp(0.8 * 0.5 * value / alpha) + np.exp(1 / alpha))
        leave = np.exp((1 - value) / alpha)
        assert abs(exact.soft_stationary(loop, alpha, 0.8).policy[0, 1] - leave) < 1e-7
        assert abs(found.policy[i, 0, 1] - leave) < 0.03


def test_it_finds_the_soft_optimum_where_absorbing_states_go_on() -> None:
    # At gamma rho = 1/2 and alpha 1, leaving has probability e / 2y with 2y = sqrt(y) + e; else 0.550.
    loop = polinfer.make("continuation", rho=0.625, horizon=4)
    found = learn(loop, replace(FAST, absorbing="continue"), (1.0,))
    y = ((1 + np.sqrt(1 + 8 * np.e)) / 4) ** 2
    assert abs(found.policy[0, 0, 1] - np.e / (2 * y)) < 0.03
    # The end is worth its entropy: log 2 at every later step.
    later = 0.8 * np.log(2) / (1 - 0.8)
    assert np.abs(found.values[:, 0, 1] - later).max() < 0.15


SHORT = SacConfig(
    alpha=0.3,
    gamma=0.9,
    steps=500,
    learning_starts=50,
    batch=16,
    steps_per_update=2,
    critic_rate=3e-3,
    actor_rate=3e-3,
    target_every=10,
    width=8,
    depth=1,
)


@pytest.fixture(scope="module")
def alone() -> polinfer.Posterior:
    """Seed 6, trained by a program in double precision; the first of the tests to compile `SHORT`."""
    with jax.enable_x64(True):
        return polinfer.infer(slippery(), SHORT, seed=6)


def test_a_program_in_double_precision_changes_nothing(alone: polinfer.Posterior) -> None:
    again = polinfer.infer(slippery(), SHORT, seed=6)
    for one, other in zip(jax.tree.leaves(alone.proposal), jax.tree.leaves(again.proposal), strict=True):
        assert one.dtype == np.float32
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(alone.trace["critic_loss"], again.trace["critic_loss"])


def test_a_seed_alone_is_the_same_as_in_a_batch(alone: polinfer.Posterior) -> None:
    together = polinfer.infer(slippery(), SHORT, seed=5, seeds=2)
    probs = together.table_probs()
    np.testing.assert_allclose(probs[1], alone.table_probs()[0], atol=1e-4)
    np.testing.assert_allclose(
        together.trace["critic_loss"][:, 1], alone.trace["critic_loss"][:, 0], rtol=1e-2
    )
    np.testing.assert_array_equal(together[1].table_probs()[0], probs[1])
    assert np.abs(probs[0] - probs[1]).max() > 1e-3
    even = LEGAL / LEGAL.sum(axis=1, keepdims=True)
    assert np.abs(probs[1] - even).max() > 0.05


def test_the_table_path_and_the_network_path_take_the_same_steps(
    alone: polinfer.Posterior, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        fit, "choose_sac_representation", lambda mdp, config: Representation(mdp, by_table=False)
    )
    trainer = sac_trainer(slippery(), SHORT)
    *_, last = sac_segments(slippery(), SHORT, 0, trainer.init([6]))
    found = masked_softmax(outputs(weights_of(last.state.learner.actor, 0), np.eye(4)), LEGAL)
    np.testing.assert_allclose(found, alone.table_probs()[0], atol=1e-4)


def test_it_does_not_matter_how_updates_are_cut_into_segments() -> None:
    # Targets move after 5 updates, 10, 15 and 20: within the long segment, at ends of some short ones.
    trainer = make_sac_trainer(slippery(), SHORT, True, 500)
    store = jnp.zeros((1, 1000, trainer.width), jnp.int32)

    def run(ends: list[int]) -> Any:
        state, rows, _ = trainer.collect(trainer.init([6]), store, *whole(0, 0, 25))
        kept, done = lay_in(store + 0, rows, *whole(0, 50)), 25
        for end in ends:
            state, rows, _ = trainer.learn(state, kept, *whole(2 * done, done, end))
            kept, done = lay_in(kept, rows, *whole(2 * done, 2 * (end - done))), end
        return state.learner

    def whole(*numbers: int) -> list[Any]:
        return [jnp.asarray(number, jnp.int32) for number in numbers]

    together, apart = run([52]), run([26, 30, 31, 35, 42, 52])
    for one, other in zip(jax.tree.leaves(together), jax.tree.leaves(apart), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)
    # Targets are those of the last move, not of the start and not of now.
    for other in (trainer.init([6]).learner.targets, together.critics):
        assert np.abs(weights_of(together.targets, 0, 0)[0] - weights_of(other, 0, 0)[0]).max() > 1e-4


def test_the_trace_tells_how_learning_went(alone: polinfer.Posterior) -> None:
    trace = alone.trace
    assert trace.unit == "steps"
    assert trace.done[0] == 6  # 500 // 100, in whole updates
    assert trace.done[-1] == 500
    assert (trace["alpha"] == np.float32(0.3)).all()
    before = trace.done <= 50
    assert (trace["critic_loss"][before] == 0).all()
    assert (trace["entropy"][before] == 0).all()
    assert (trace["critic_loss"][~before] > 0).all()
    # The policy starts uniform: of states with two or three actions.
    assert np.log(2) - 1e-3 <= trace["entropy"][~before][0, 0] <= np.log(3)
    assert 50 in trace.done


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"alpha": 0.0}, "alpha must be above zero, got 0.0"),
        ({"alpha": -0.2}, "alpha must be above zero"),
        ({"alpha": float("nan")}, "alpha must be above zero"),
        ({"gamma": 1.01}, r"gamma must lie in 0\.\.1"),
        ({"gamma": -0.1}, r"gamma must lie in 0\.\.1"),
        ({"tau": 1.5}, r"tau must lie in 0\.\.1"),
        ({"tau": 0}, "tau must be above zero"),
        ({"preset": "c"}, "unknown preset 'c'"),
        ({"aplha": 0.5}, "no setting 'aplha'.*did you mean 'alpha'"),
        ({"particles": 5}, "method 'sac' has no setting 'particles'"),
        ({"steps": 100, "learning_starts": 100}, "learning_starts 100 leaves nothing of 100 steps"),
        ({"steps": 0}, "steps must be at least 1"),
        ({"steps": 2_000_000_000}, "steps must be at most 1,000,000,000, got 2000000000"),
        ({"batch": 0}, "batch must be at least 1"),
        ({"buffer": 2.5}, "buffer must be a whole number"),
        ({"critic_rate": 0.0}, "critic_rate must be above zero"),
        ({"seeds": 0}, "seeds must be at least 1"),
        ({"seed": -1}, "seed must be at least 0"),
    ],
)
def test_bad_values_are_named(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(PolinferError, match=words) as caught:
        polinfer.infer(slippery(), "sac", **settings)
    assert "\n" not in str(caught.value)


def test_a_run_that_would_never_learn_is_refused() -> None:
    with pytest.raises(PolinferError, match="learning_starts"):
        SacConfig(steps=11, learning_starts=9, steps_per_update=4)


def test_a_simulator_in_plain_python_is_refused_by_what_cannot_play_it() -> None:
    plain = as_simulator(slippery())
    with pytest.raises(PolinferError, match="method 'sac' is compiled and cannot play a simulator") as caught:
        polinfer.infer(plain, "sac", steps=100)
    assert "\n" not in str(caught.value)
    # What wants a table explores one.
    assert polinfer.infer(plain, "exact").view.is_estimated


def test_presets_are_cleanrls() -> None:
    a, b = SacConfig(preset="a"), SacConfig()
    assert (a.buffer, a.learning_starts, a.batch, a.steps_per_update) == (1_000_000, 20_000, 64, 4)
    assert (a.critic_rate, a.actor_rate, a.adam_epsilon, a.target_every, a.tau) == (
        3e-4,
        3e-4,
        1e-4,
        8_000,
        1,
    )
    assert (b.learning_starts, b.batch, b.steps_per_update) == (5_000, 256, 1)
    assert (b.critic_rate, b.actor_rate, b.target_every, b.tau) == (1e-3, 3e-4, 1, 0.005)
    for config in (a, b):
        assert (config.steps, config.width, config.depth, config.autotune) == (1_000_000, 64, 2, False)
    assert SacConfig(preset="a", tau=0.5).tau == 0.5
    assert SacConfig(steps=20_000).learning_starts == 2_000
    assert SacConfig(steps=20_000, learning_starts=7).learning_starts == 7
