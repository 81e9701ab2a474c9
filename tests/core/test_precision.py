"""Single precision in simulation, double in exact answers, in either order and in one process."""

import jax
import jax.numpy as jnp
import numpy as np

import polinfer
from polinfer import exact
from polinfer.smc import SweepConfig, run_sweep


def test_a_program_in_double_precision_trains_in_single() -> None:
    # pyRDDLGym-jax, for one, switches the whole process.
    loop = polinfer.make("continuation", rho=0.5, horizon=4)
    with jax.enable_x64(True):
        posterior = polinfer.infer(loop, "vsmc", sweeps=20, particles=3)
        assert polinfer.evaluate(loop, posterior, episodes=10).length.shape == (1,)
    assert posterior.table_probs().dtype == np.float32


def test_exact_answers_keep_double_precision_after_a_sweep_has_seen_the_table() -> None:
    # jax 0.10.2 remembers the precision in which a trace first saw a NumPy array; see core.protocol.
    table = polinfer.tabulate(polinfer.make("gridworld/ablation", horizon=3))
    even = jnp.full((table.num_states, table.num_actions), -np.log(4.0), jnp.float32)
    sweep = jax.jit(jax.vmap(lambda words: run_sweep(words, table, lambda s: even[s], SweepConfig())))
    record = sweep(jnp.zeros((2, 2), jnp.uint32))
    assert record.reward.dtype == jnp.float32
    value = exact.evaluate_policy(table, exact.uniform_policy(table))
    fresh = polinfer.tabulate(polinfer.make("gridworld/ablation", horizon=3))
    assert value.value.dtype == np.float64
    np.testing.assert_array_equal(
        value.value, exact.evaluate_policy(fresh, exact.uniform_policy(fresh)).value
    )
    # And the other way round: what follows is single again.
    assert sweep(jnp.ones((2, 2), jnp.uint32)).reward.dtype == jnp.float32
