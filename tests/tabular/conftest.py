"""Settings for the tests in this folder."""

import jax
import pytest


@pytest.fixture(autouse=True)
def _compile_quickly():
    """Leave out XLA's optimisations: compiling is most of the time that these tests take."""
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", before)
