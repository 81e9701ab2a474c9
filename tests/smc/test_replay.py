"""The two engines leave the same record when the reference replays the compiled engine's random decisions."""

from __future__ import annotations

from collections import defaultdict

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import polinfer
from polinfer.core.noise import draw_noise, seed_words
from polinfer.smc import SweepConfig, run_sweep
from polinfer.smc.compiled import run_sweep_from_noise
from polinfer.smc.record import Sweep

from .engines import LADDER, QUICK, log_linear, make_noise, pick, run_compiled, run_replayed

SWEEPS = 4
LONGEST = 8
# Compiled as users compile: a simulator, a table, and a simulator that is stepped by keys.
OPTIMISED = ("gridworld/ablation", "probe/fork", "ladder-default")
NEEDED = {"gridworld": {"map": "R.G\nS#W", "success_prob": 0.6}}


def registered() -> list[str]:
    """Every domain; of numbered instances, ``family/1`` .. ``family/10``, the first and the last."""
    names = list(polinfer.list_domains())
    numbered: dict[str, list[str]] = defaultdict(list)
    for name in names:
        if name.split("/")[-1].isdigit():
            numbered[name.rpartition("/")[0]].append(name)
    skipped = {name for instances in numbered.values() for name in instances[1:-1]}
    return [name for name in names if name not in skipped]


def make(name: str) -> polinfer.MDP:
    options = NEEDED.get(name, {})
    horizon = min(polinfer.make(name, **options).horizon, LONGEST)
    # A one-step problem is given a second step: particles then stand in its end.
    return polinfer.make(name, **options, horizon=max(horizon, 2))


def assert_replayed(mdp: polinfer.MDP, config: SweepConfig, seed: int = 0, quick: bool = False) -> Sweep:
    noise = make_noise(seed, SWEEPS, mdp.horizon, config.particles)
    compiled = run_compiled(mdp, config, noise, quick)
    for u in range(SWEEPS):
        one = pick(compiled, u)
        reference = run_replayed(mdp, config, jax.tree.map(lambda leaf, u=u: leaf[u], noise))
        np.testing.assert_array_equal(one.state, np.array(reference.state.tolist()), err_msg="state")
        for name in ("action", "drawn", "active", "resampled", "ancestor", "ended"):
            expected = getattr(reference, name)
            np.testing.assert_array_equal(getattr(one, name), expected, err_msg=name)
            assert getattr(one, name).dtype == expected.dtype, name
        for name in ("log_prior", "log_proposal", "reward", "log_weight", "ess", "log_mean", "log_evidence"):
            np.testing.assert_allclose(
                getattr(one, name), getattr(reference, name), rtol=1e-5, atol=1e-5, err_msg=name
            )
    return compiled


# One of each kind; the others are slow.
DOMAINS = [
    name
    if name in ("gridworld/ablation", "blackjack", "tireworld/1", "advising/1", "continuation")
    else pytest.param(name, marks=pytest.mark.slow)
    for name in registered()
]


@pytest.mark.parametrize("name", DOMAINS)
def test_engines_agree_on_every_domain(name: str) -> None:
    assert_replayed(make(name), SweepConfig(), quick=name not in OPTIMISED)


def test_engines_agree_on_a_table_as_on_its_simulator() -> None:
    simulator = make("gridworld/ablation")
    from_table = assert_replayed(polinfer.tabulate(simulator), SweepConfig(), seed=3, quick=True)
    noise = make_noise(3, SWEEPS, simulator.horizon, 10)
    from_simulator = run_compiled(simulator, SweepConfig(), noise, quick=True)
    for name in Sweep._fields:
        np.testing.assert_allclose(
            getattr(from_table, name), getattr(from_simulator, name), rtol=1e-5, atol=1e-5, err_msg=name
        )


OPTIONS = {
    "default": SweepConfig(),
    "one particle": SweepConfig(particles=1),
    "three particles": SweepConfig(particles=3, resample_below=1),
    "never resample": SweepConfig(resample_below=0),
    "resample always": SweepConfig(resample_below=1),
    "stratified": SweepConfig(resampling="stratified", resample_below=0.7),
    "multinomial": SweepConfig(resampling="multinomial", resample_below=0.7),
    "not deterministic": SweepConfig(deterministic=False),
    "not coupled": SweepConfig(coupled=False),
    "refreshed memo": SweepConfig(memo_refresh=0.3),
    "refreshed, stratified": SweepConfig(memo_refresh=0.3, resampling="stratified", resample_below=1),
    "uncoupled, multinomial": SweepConfig(coupled=False, resampling="multinomial", deterministic=False),
}

ONE_BY_ONE = list(OPTIONS)[:10]
FEW = ("one particle", "three particles", "never resample")
ON_LADDER = [("ladder", name) for name in ("default", *FEW)]
ON_GRID = [("gridworld/ablation", name) for name in list(OPTIONS)[10:]]
# Several at a time are in the last two, and on the grid as on the ladder.
AGAIN = [("ladder", name) for name in ONE_BY_ONE if name not in ("default", *FEW)]
AGAIN += [("gridworld/ablation", name) for name in FEW]


@pytest.mark.parametrize(
    ("problem", "option"),
    [*ON_LADDER, *ON_GRID, *(pytest.param(*again, marks=pytest.mark.slow) for again in AGAIN)],
)
def test_engines_agree_with_every_option(problem: str, option: str) -> None:
    mdp, config = LADDER if problem == "ladder" else make(problem), OPTIONS[option]
    sweeps = assert_replayed(mdp, config, seed=1, quick=f"{problem}-{option}" not in OPTIMISED)
    # The option must have had its effect, or agreeing on it says nothing.
    assert (sweeps.active & ~sweeps.drawn).any() == config.deterministic
    assert sweeps.resampled.any() == (option not in ("one particle", "never resample"))
    assert sweeps.ended.any() or option == "one particle"
    assert not sweeps.resampled[:, -1].any()
    if config.resample_below == 1:
        assert sweeps.resampled[:, :-1].all()


def test_a_sweep_from_words_is_the_sweep_from_their_noise() -> None:
    mdp, config, words = make("probe/fork"), SweepConfig(particles=3), seed_words(jnp.uint32(5))
    log_proposal = log_linear(mdp)
    one, other = jax.jit(
        lambda words: (
            run_sweep(words, mdp, log_proposal, config),
            run_sweep_from_noise(draw_noise(words, mdp.horizon, 3), mdp, log_proposal, config),
        ),
        compiler_options=QUICK,
    )(words)
    jax.tree.map(np.testing.assert_array_equal, one, other)
    replayed = run_replayed(mdp, config, draw_noise(words, mdp.horizon, 3))
    np.testing.assert_allclose(one.log_evidence, replayed.log_evidence, atol=1e-5)
