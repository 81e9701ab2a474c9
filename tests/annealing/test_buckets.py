import jax
import jax.numpy as jnp
import numpy as np
import pytest

from polinfer.annealing.buckets import bucket, capacity, padded
from polinfer.annealing.kernels import Shape
from polinfer.annealing.passes import make_evaluate, with_returns
from polinfer.annealing.problem import arrange, reduce_table
from polinfer.annealing.rows import make_rows

from .cases import lattice, loop


def evaluate(problem, policy):
    with jax.enable_x64(True):
        plain = make_evaluate(*problem.gain.shape, problem.width, capacity(problem), policy.shape[1], 8)
        found = jax.jit(with_returns(plain))(make_rows(problem, np.float64), jnp.asarray(policy))
        return jax.tree.map(np.asarray, found)


@pytest.mark.parametrize("table", [loop(), lattice(5)], ids=["loop", "lattice"])
def test_a_padded_problem_is_the_same_problem(table):
    plain = arrange(reduce_table(table))
    wide = padded(plain)
    assert wide.size > plain.size
    assert wide.log_count == pytest.approx(plain.log_count)
    random = np.random.default_rng(3)
    policy = np.argsort(~wide.legal, axis=1, kind="stable")[:, :1] + np.zeros((1, 6), np.int64)
    choice = wide.legal.sum(axis=1) > 1
    policy[choice] = random.integers(0, 2, (int(choice.sum()), 6))
    found = evaluate(wide, policy.astype(np.int16))
    want = evaluate(plain, policy[: plain.size].astype(np.int16))
    np.testing.assert_allclose(found.returns, want.returns, rtol=1e-12)
    np.testing.assert_allclose(found.visits[: plain.size], want.visits, rtol=1e-12)
    np.testing.assert_allclose(found.adjoint[: plain.size], want.adjoint, rtol=1e-12)
    assert not found.visits[plain.size :].any()


def test_small_problems_of_near_sizes_share_a_program():
    shapes = {
        (Shape.of(problem, 64, 4, 4), tuple(part.shape for part in make_rows(problem)))
        for horizon in (3, 7, 20)
        for problem in [padded(reduce_table(loop()))._replace(horizon=horizon)]
    }
    assert len(shapes) == 1


def test_large_problems_are_left_alone():
    large = reduce_table(lattice(12))
    assert padded(large) is large
    assert capacity(large) == large.horizon
    assert [bucket(count, 2) for count in (0, 1, 5)] == [0, 2, 6]
