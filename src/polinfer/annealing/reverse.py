"""The way back: a sample of the posterior, cooled down to the uniform measure, bounds ``log Z`` from above.

Annealing estimates ``Z`` without bias, so its logarithm is on average too small.  The same walk from the
posterior to the uniform measure estimates ``1 / Z`` without bias, and minus its logarithm is on average too
large: bidirectional Monte Carlo (Grosse, Ghahramani and Adams 2015).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from polinfer.annealing.components import Part, rest_return, split
from polinfer.annealing.config import TemperedConfig
from polinfer.annealing.moves import Population
from polinfer.annealing.reweighting import longest_step, reweight
from polinfer.annealing.sampler import make_kernels
from polinfer.core.errors import PolinferError
from polinfer.exact.joint import pool
from polinfer.exact.solution import Floats
from polinfer.problems.tabular.table import TabularMDP


class UpperBound(NamedTuple):
    """A bound from above on ``log Z``; the standard error is over islands."""

    log_evidence: float  # minus the log of the mean of all islands' estimates of 1 / Z
    stderr: float
    islands: Floats  # [islands] minus the log of each island's own: looser, and an upper bound on average


def reverse_evidence(
    table: TabularMDP,
    sample: NDArray[np.int32],
    config: TemperedConfig | None = None,
    *,
    scale: float = 1.0,
    seed: int = 0,
) -> UpperBound:
    """Cool a `sample` ``[policies, S]`` of the posterior at a reward scale down to the uniform measure.

    It is an upper bound as far as the sample is one of the posterior, and the steps, which the population
    itself decides, are those of a large one.  Where a run missed a mode, both bounds miss it: that they agree
    is necessary, not enough.

    The sample is dealt out to islands, and moved once after each step: a few times cheaper than the way up.

    Examples
    --------
    >>> import polinfer
    >>> table = polinfer.tabulate(polinfer.make("gridworld/ablation"))
    >>> exact = polinfer.exact.policy_posterior(table).posterior
    >>> upper = reverse_evidence(table, exact.sampled_policies)
    >>> bool(abs(upper.log_evidence - exact.log_evidence) < 4 * upper.stderr + 1e-3)
    True
    """
    settings = config or TemperedConfig()
    if len(sample) < 2 * settings.islands:
        raise PolinferError(f"{settings.islands} islands need at least {2 * settings.islands} policies")
    dealt = sample[: len(sample) // settings.islands * settings.islands]
    parts = split(table)
    random = np.random.default_rng(seed)
    with jax.enable_x64(False):
        inverse = [_cool(part, dealt, settings, scale * part.mass, random) for part in parts]
    rest = scale * rest_return(table, parts)
    pooled = [pool(part) for part in inverse]
    return UpperBound(
        rest - sum(log_inverse for log_inverse, _ in pooled),
        math.sqrt(sum(stderr**2 for _, stderr in pooled)),
        rest - np.sum(inverse, axis=0),
    )


def _cool(
    part: Part, sample: NDArray[np.int32], config: TemperedConfig, scale: float, random: np.random.Generator
) -> Floats:
    """Return the log of each island's estimate of ``1 / Z`` for one part, ``[islands]``."""
    kernels = make_kernels(part.table, config.islands, config.moves)
    actions = jnp.asarray(sample[:, kernels.choices.state].T)
    population = Population(actions, kernels.returns(actions))
    key = jax.random.key(int(random.integers(2**32)))
    inverse = np.zeros(config.islands)
    while scale > 0:
        returns = np.asarray(population.returns, np.float64).reshape(config.islands, -1)
        step = longest_step(-returns, scale, config.ess)
        log_mean, index = reweight(-step * returns, random)
        inverse += log_mean
        scale -= step
        if scale > 0:
            population = jax.tree.map(lambda leaf, index=index: leaf[..., jnp.asarray(index)], population)
            key, own = jax.random.split(key)
            population = kernels.scan(own, population, jnp.asarray(scale, jnp.float32)).population
    return inverse
