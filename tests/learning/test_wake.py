"""The wake objective: each drawn action counts by the final weights of those that descend from it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import polinfer
from polinfer import VsmcConfig, WakeConfig, exact
from polinfer.core.errors import PolinferError
from polinfer.learning.config import TrainConfig
from polinfer.learning.objective import wake_coefficients
from polinfer.learning.train import empty_sums, make_learning
from polinfer.smc import SweepConfig, SweepRandomness, run_reference_sweep
from polinfer.smc.proposal import table_log_policy
from polinfer.smc.record import Sweep
from smc.engines import QUICK, PlainTable, atlas, proposal_rows, table

ATLAS = atlas()
CONFIGS = [
    SweepConfig(particles=1),
    SweepConfig(particles=6, resample_below=0),
    SweepConfig(particles=6, resample_below=1, resampling="multinomial"),
    SweepConfig(particles=6, resample_below=0.8, worlds=3, start="averaged"),
    SweepConfig(particles=6, resample_below=1, worlds=2, memo_refresh=0.3),
]


def sweeps_of(config: SweepConfig, count: int) -> list[Sweep]:
    """Sweeps of the reference engine, every one with an episode that ended."""
    simulator, rows, randomness = PlainTable(ATLAS), proposal_rows(ATLAS), SweepRandomness(4)
    found = [run_reference_sweep(simulator, rows.__getitem__, config, randomness) for _ in range(40)]
    found = [sweep for sweep in found if sweep.ended.any() and len(set(sweep.ancestor[0].tolist())) > 1]
    found = found or [run_reference_sweep(simulator, rows.__getitem__, config, randomness)]
    return [sweep._replace(state=sweep.state.astype(np.int32)) for sweep in found[:count]]


def walked(sweep: Sweep) -> np.ndarray:
    """The coefficients by walking up every line of descent from the end, in plain Python."""
    horizon, count = sweep.log_weight.shape
    weight = np.exp(sweep.log_weight[-1] - sweep.log_weight[-1].max())
    weight = weight / weight.sum()
    total = np.zeros(sweep.drawn.shape)
    for last in range(count):
        i = last
        for t in reversed(range(horizon)):
            if t < horizon - 1:
                i = int(sweep.ancestor[t, i])
            for world in np.ndindex(sweep.drawn.shape[2:]):
                if sweep.drawn[(t, i, *world)]:
                    total[(t, i, *world)] += weight[last]
    return total


@pytest.mark.parametrize("config", CONFIGS, ids=range(len(CONFIGS)))
def test_coefficients_are_those_of_a_walk_over_lines_of_descent(config: SweepConfig) -> None:
    for sweep in sweeps_of(config, 4):
        found = np.asarray(wake_coefficients(sweep._replace(state=0)))
        np.testing.assert_allclose(found, walked(sweep), atol=1e-6)
        # In the first step every particle draws once where all start in one state: all weight is there.
        if config.start == "shared" and config.memo_refresh == 0:
            assert found[0].sum() == pytest.approx(1, abs=1e-5)


def test_the_comparison_notices_a_wrong_weight() -> None:
    """The step's own weights, no descent, the ancestors of the wrong step: each is told apart."""
    sweep = next(s for s in sweeps_of(replace(CONFIGS[2], particles=6), 4) if s.resampled.any())
    right = walked(sweep)
    share = np.exp(sweep.log_weight - sweep.log_weight.max(axis=1, keepdims=True))
    share /= share.sum(axis=1, keepdims=True)
    shifted = walked(sweep._replace(ancestor=np.roll(sweep.ancestor, 1, axis=0)))
    for wrong in (share, np.broadcast_to(share[-1], share.shape), 1 / 6 + 0 * share, shifted, -right):
        assert abs(np.where(sweep.drawn, wrong, 0.0) - right).max() > 1e-2


def memos_of(sweep: Sweep) -> np.ndarray:
    """The action of every last particle in every state, ``[N, S]``, -1 where it never came."""
    horizon, count = sweep.log_weight.shape
    memo = np.full((count, ATLAS.num_states), -1)
    for last in range(count):
        i = last
        for t in reversed(range(horizon)):
            i = int(sweep.ancestor[t, i]) if t < horizon - 1 else last
            where = np.nonzero(np.atleast_1d(sweep.drawn[t, i]))[0]
            memo[last, np.atleast_1d(sweep.state[t, i])[where]] = np.atleast_1d(sweep.action[t, i])[where]
    return memo


def objective(proposal: Any, weight: Any, memo: Any, everywhere: bool) -> Any:
    """``sum_i W_i sum_s log q(pi_i(s)|s)``; with `everywhere`, states without a memo count as uniform."""
    log_q = table_log_policy(ATLAS, proposal)
    log_q = jnp.where(ATLAS.legal_actions, log_q, 0.0)
    picked = jnp.take_along_axis(log_q[None], jnp.maximum(memo, 0)[..., None], axis=-1)[..., 0]
    even = log_q.sum(axis=1) / ATLAS.legal_actions.sum(axis=1) * ~ATLAS.absorbing
    return (weight[:, None] * jnp.where(memo >= 0, picked, even if everywhere else 0.0)).sum()


def gradient_of(config: TrainConfig, by_table: bool, sweeps: list[Sweep]) -> tuple[Any, np.ndarray]:
    """The proposal that training starts from, and the mean gradient of its first update."""
    learning = make_learning(ATLAS, config, by_table)
    state = jax.tree.map(lambda leaf: leaf[0], learning.init([0]))
    update = jax.jit(learning.update, compiler_options=QUICK)
    batch = jax.tree.map(lambda *leaves: np.stack(leaves).astype(_single(leaves[0])), *sweeps)
    _, sums = update(state, empty_sums(state.proposal), batch)
    return state.proposal, np.asarray(sums.gradient)


@pytest.mark.parametrize(
    ("by_table", "worlds"), [(True, 3), pytest.param(False, 1, marks=pytest.mark.slow), (False, 3)]
)
def test_the_update_ascends_the_weighted_log_likelihood_of_memos(by_table: bool, worlds: int) -> None:
    """What training differentiates is minus the objective, written over the particles' memos."""
    sweep_config = SweepConfig(particles=6, worlds=worlds, resample_below=0.8)
    config = TrainConfig(sweep=sweep_config, objective="wake", sweeps_per_update=2, width=4, depth=1)
    sweeps = sweeps_of(sweep_config, 2)
    proposal, found = gradient_of(config, by_table, sweeps)
    parts = []
    for sweep in sweeps:
        weight = np.asarray(jax.nn.softmax(sweep.log_weight[-1].astype(np.float32)))
        slope = jax.grad(partial(objective, everywhere=by_table))(proposal, weight, memos_of(sweep))
        parts.append(np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(slope)]))
    np.testing.assert_allclose(found, -np.mean(parts, axis=0), atol=1e-5)
    assert abs(found).max() > 0.05


@pytest.mark.parametrize("by_table", [True, False])
def test_a_mix_has_its_share_of_both_gradients(by_table: bool) -> None:
    sweep_config = SweepConfig(particles=6, worlds=2)
    common = {"sweeps_per_update": 2, "width": 4, "depth": 1}
    surrogate = TrainConfig(sweep=sweep_config, baseline="leave-one-out", **common)
    wake = TrainConfig(sweep=sweep_config, objective="wake", **common)
    mixed = replace(wake, surrogate_share=0.3, baseline="leave-one-out")
    sweeps = sweeps_of(sweep_config, 2)
    score, fit, both = (gradient_of(config, by_table, sweeps)[1] for config in (surrogate, wake, mixed))
    np.testing.assert_allclose(both, 0.3 * score + 0.7 * fit, atol=1e-5)
    assert abs(score - fit).max() > 0.05


@pytest.mark.slow
def test_a_mix_of_wake_and_surrogate_bounds_the_evidence_better_than_either() -> None:
    grid = polinfer.make("gridworld/multimodal")
    settings = {"particles": 10, "sweeps": 3000, "learning_rate": 3e-4, "seeds": 4}
    fits = {
        "surrogate": polinfer.infer(grid, "vsmc", baseline="running", **settings),
        "wake": polinfer.infer(grid, "wake", worlds=1, **settings),
        "mix": polinfer.infer(grid, "wake", worlds=1, surrogate_share=0.5, baseline="running", **settings),
    }
    last = {name: fit.trace["log_evidence"][-10:].mean(axis=0) for name, fit in fits.items()}
    for other in ("surrogate", "wake"):
        gain = last["mix"] - last[other]
        assert gain.mean() > 3 * gain.std(ddof=1) / 2


@pytest.mark.parametrize("settings", [{"memo_refresh": 0.5}, {"deterministic": False}])
def test_policies_that_are_not_deterministic_are_refused(settings: dict[str, Any]) -> None:
    """A particle that draws twice in a state would count twice."""
    with pytest.raises(PolinferError, match="fits deterministic policies"):
        TrainConfig(sweep=SweepConfig(**settings), objective="wake")


def _single(leaf: Any) -> Any:
    return np.float32 if leaf.dtype == np.float64 else leaf.dtype


# A fork whose branches are worth something only together with what follows; chance everywhere.
FORK = table(
    [
        (0, 0, 0.5, 1, 1.8),
        (0, 0, 0.5, 2, -1.0),
        (0, 1, 0.3, 2, 2.0),
        (0, 1, 0.7, 1, -1.4),
        (1, 0, 0.6, 3, 2.4),
        (1, 0, 0.4, 0, -1.5),
        (1, 1, 1.0, 3, -0.6),
        (2, 0, 0.5, 3, 0.7),
        (2, 0, 0.5, 0, 0.1),
        (2, 1, 1.0, 3, -0.9),
        (2, 2, 0.5, 3, 1.9),
        (2, 2, 0.5, 2, -1.2),
    ],
    num_states=4,
    num_actions=3,
    starts=[0],
    horizon=4,
)
TRUTH = exact.policy_posterior(FORK).policy
BUDGET = {"particles": 30, "worlds": 16, "sweeps": 500, "seeds": 2}
CLOSE = 0.04  # total variation


def distance(posterior: polinfer.Posterior) -> np.ndarray:
    """The largest total variation to ``p*`` over states, for each seed."""
    probs = posterior.table_probs()
    assert probs is not None
    return abs(probs - TRUTH)[:, :3].sum(axis=-1).max(axis=-1) / 2


@pytest.mark.parametrize("proposal", ["table", pytest.param("network", marks=pytest.mark.slow)])
def test_wake_reaches_the_posterior_where_the_surrogate_does_not(proposal: str) -> None:
    rate = {"table": 0.03, "network": 0.01}[proposal]
    settings = {**BUDGET, "proposal": proposal, "learning_rate": rate}
    wake = polinfer.infer(FORK, "wake", **settings)
    assert distance(wake).max() < CLOSE
    if proposal == "table":
        surrogate = polinfer.infer(FORK, "vsmc", **settings)
        assert distance(surrogate).min() > 4 * CLOSE


@pytest.mark.slow
def test_worlds_are_what_brings_wake_to_the_posterior() -> None:
    """With one world the same objective tends to another target, E_w softmax R_w."""
    one = polinfer.infer(
        FORK, "wake", **{**BUDGET, "worlds": 1, "sweeps": 1_500}, proposal="table", learning_rate=0.03
    )
    assert distance(one).min() > CLOSE


def test_with_exact_weights_one_world_is_enough() -> None:
    settings = {"particles": 60, "sweeps": 500, "seeds": 2, "proposal": "table", "learning_rate": 0.03}
    one = polinfer.infer(FORK, "wake", **settings)
    assert isinstance(one.config, WakeConfig)
    assert (one.config.weights, one.config.worlds, one.config.resample_below) == ("exact", 1, 0.0)
    assert distance(one).max() < CLOSE
    evidence = one.trace["log_evidence"][-50:].mean(axis=0)
    truth = exact.policy_posterior(FORK).posterior
    assert truth is not None
    assert (abs(evidence - truth.log_evidence) < 0.05).all()
    assert polinfer.METHODS["wake"].estimand(one.config).target is polinfer.Target.EXP_EXPECTED_RETURN


def on_table(**settings: Any) -> TrainConfig:
    return WakeConfig(**settings).filled(on_table=True).training()


def test_exact_weights_are_the_default_on_tables_unless_worlds_are_asked_for() -> None:
    assert on_table().weights == "exact"
    assert on_table(worlds=7).weights == "worlds"
    assert on_table(worlds=7).sweep.resample_below == SweepConfig().resample_below
    assert on_table(weights="worlds").sweep.worlds >= 50
    assert on_table(surrogate_share=0.5).weights == "worlds"
    assert WakeConfig().training().weights == VsmcConfig().training().weights == "worlds"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"weights": "rough"}, "weights must be auto, worlds or exact, got 'rough'"),
        ({"baseline": "running"}, "'wake' has no score term"),
        ({"baseline": "leave-one-out", "sweeps_per_update": 2}, "'wake' has no score term"),
        ({"surrogate_share": 1.2}, r"surrogate_share must lie in 0\.\.1"),
        ({"surrogate_share": 0.5, "weights": "exact"}, "surrogate_share has no part in weights .exact."),
        ({"worlds": 0}, "worlds must be at least 1"),
        ({"worlds": 1.5}, "worlds must be"),
        ({"start": "random"}, "start must be shared, averaged or independent, got 'random'"),
        ({"objective": "surrogate"}, "'wake' has no setting 'objective'"),
        ({"wrlds": 3}, "did you mean 'worlds'"),
    ],
)
def test_bad_values_are_named(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(PolinferError, match=words):
        polinfer.infer(FORK, "wake", **settings)


def test_exact_weights_are_for_wake_on_tables() -> None:
    with pytest.raises(PolinferError, match="'vsmc' has no setting 'weights'; it belongs to wake and part"):
        polinfer.infer(FORK, "vsmc", weights="exact")
    for problem in (PlainTable(FORK), polinfer.make("advising/3")):
        with pytest.raises(PolinferError, match="need a problem that fits a table"):
            polinfer.infer(problem, "wake", weights="exact", sweeps=2)


def test_only_wake_has_a_share_of_the_surrogate() -> None:
    with pytest.raises(PolinferError, match="'vsmc' has no setting 'surrogate_share'; it belongs to wake"):
        polinfer.infer(FORK, "vsmc", surrogate_share=0.5)


def test_an_unknown_objective_is_named() -> None:
    with pytest.raises(PolinferError, match="objective must be surrogate or wake, got 'sleep'"):
        TrainConfig(objective="sleep")  # type: ignore[arg-type]


def test_wake_means_many_particles_and_worlds_unless_told_otherwise() -> None:
    config = WakeConfig().training()
    assert config.objective == "wake"
    assert config.sweep.particles >= 100
    assert config.sweep.worlds >= 50
    assert WakeConfig(worlds=2, particles=5).training().sweep == SweepConfig(particles=5, worlds=2)
    assert VsmcConfig().training().objective == "surrogate"
    assert VsmcConfig().training().sweep == SweepConfig()


def test_wake_learns_from_a_simulator_in_plain_python() -> None:
    posterior = polinfer.infer(PlainTable(FORK), "wake", particles=3, worlds=2, sweeps=3, seed=1)
    assert posterior.action_probs(0).sum() == pytest.approx(1)


def test_no_share_of_the_surrogate_is_no_mix() -> None:
    assert on_table(surrogate_share=0.0) == on_table()
