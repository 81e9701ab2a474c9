"""Searching among many particles finds what comparing finds."""

import jax.numpy as jnp
import numpy as np
import pytest

from polinfer.smc import resampling
from polinfer.smc.config import ResamplingScheme


@pytest.mark.parametrize("scheme", ["systematic", "stratified", "multinomial"])
def test_a_search_finds_the_same_ancestors(scheme: ResamplingScheme, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(3)
    uniform = jnp.asarray(random.random(300), jnp.float32)
    log_weight = jnp.asarray(
        np.where(random.random(300) < 0.2, -np.inf, random.normal(0, 2, 300)), jnp.float32
    )
    searched = resampling.pick_ancestors(uniform, log_weight, scheme)
    monkeypatch.setattr(resampling, "MANY", 300)
    compared = resampling.pick_ancestors(uniform, log_weight, scheme)
    assert searched.tolist() == compared.tolist()
    assert len(set(searched.tolist())) > 20
