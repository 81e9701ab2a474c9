"""Passes through a network, against automatic differentiation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from polinfer.actor_critic.passes import backward, forward
from polinfer.smc.proposal import NetworkProposal


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_passes_are_the_network_and_its_gradient(depth: int) -> None:
    random = np.random.default_rng(depth)
    network = NetworkProposal.initial(3, 5, 3, width=7, depth=depth, zero_last=False)
    features, slope = (jnp.asarray(random.normal(size=(6, n)), jnp.float32) for n in (5, 3))
    passed = forward(network, features)
    np.testing.assert_allclose(passed.outputs, network.logits(features), rtol=1e-6)
    expected = jax.grad(lambda network: (network.logits(features) * slope).sum())(network)
    found = backward(network, features, passed, slope)
    assert jax.tree.structure(found) == jax.tree.structure(network)
    for ours, theirs in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
