"""Steps that repeat one are left out, and nobody can tell."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import polinfer
from polinfer.core.noise import seed_words
from polinfer.core.protocol import MDP
from polinfer.smc import SweepConfig, compiled
from polinfer.smc.record import Sweep


def plain_scan(step: Any, carry: Any, inputs: Any) -> Any:
    return jax.lax.scan(step, carry, inputs)[1]


def sweeps_of(mdp: MDP, config: SweepConfig) -> Sweep:
    def even(state: Any) -> jax.Array:
        legal = mdp.legal(state)
        return jnp.where(legal, -jnp.log(legal.sum().astype(jnp.float32)), -jnp.inf)

    words = jax.vmap(seed_words)(jnp.arange(6, dtype=jnp.uint32))
    found: Sweep = jax.jit(jax.vmap(lambda own: compiled.run_sweep(own, mdp, even, config)))(words)
    return found


@pytest.mark.parametrize(
    ("domain", "below"),
    [
        ("continuation", 0.5),
        pytest.param("blackjack", 0.5, marks=pytest.mark.slow),
        pytest.param("tireworld/1", 1.0, marks=pytest.mark.slow),
        pytest.param("blackjack", 1.0, marks=pytest.mark.slow),
        pytest.param("tireworld/1", 0.5, marks=pytest.mark.slow),
    ],
)
def test_the_record_is_that_of_a_plain_scan(
    domain: str, below: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    mdp = polinfer.make(domain)
    config = SweepConfig(particles=4, resample_below=below, resampling="multinomial")
    short = sweeps_of(mdp, config)
    monkeypatch.setattr(compiled, "scan_until_idle", plain_scan)
    jax.tree.map(np.testing.assert_array_equal, short, sweeps_of(mdp, config))
    assert not short.active[:, -1].any()  # there was something to leave out
