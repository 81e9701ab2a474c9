"""The population on the device: policies of one problem are drawn, evaluated and moved, islands in groups.

Groups are moved side by side where there are cores for them; what comes out does not depend on their number.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from polinfer.annealing.bridge import bridge_target
from polinfer.annealing.config import TemperedConfig
from polinfer.annealing.kernels import Shape, compile_kernels
from polinfer.annealing.moves import Target, Walkers
from polinfer.annealing.noise import fold
from polinfer.annealing.problem import Problem, transition_matrix
from polinfer.annealing.rows import Evaluation, make_rows
from polinfer.annealing.stage import Order, Stage, join_stages
from polinfer.core.threads import thread_limit
from polinfer.exact.solution import Floats

_LARGEST = 1 << 25  # entries of the population's adjoints
_LONGEST = 2e10  # multiplications in one move of the population: some seconds
_DOUBLE_FROM = 500.0  # largest |scale J|, from which on passes run in double precision
_USUAL = 8  # islands that what fits is for
_GROUPS = (4, 3, 2)  # of two islands each or more, that may be moved side by side
_GROUP_STREAM = 0x5EED
_PROPOSING = 40  # multiplications per entry that a proposal costs, about


class Ensemble:
    """Policies of one problem at one reward scale: as many as fit, in groups of islands."""

    def __init__(self, problem: Problem, config: TemperedConfig, scale: float = 1.0) -> None:
        self.problem, self.islands, self.scale = problem, config.islands, scale
        size, actions = problem.gain.shape
        outcomes = problem.successor.shape[2] + problem.origin.shape[1]
        steps = 1 if problem.width else problem.horizon
        alone = size * actions * (outcomes * steps + _PROPOSING)
        fits = min(_LARGEST // max(1, size * actions), int(_LONGEST / max(alone, 1)))
        # Half the islands are half the work, also of a problem on which fewer policies fit.
        self.count = config.islands * min(config.policies, max(2, fits // max(config.islands, _USUAL)))
        self.work = alone * self.count  # multiplications in a move of all
        large = scale * _largest_return(problem, _DOUBLE_FROM / scale) > _DOUBLE_FROM
        self.dtype = np.float64 if large else np.float32
        with jax.enable_x64(True):
            self.rows = make_rows(problem, self.dtype)
        self.groups = _group_count(config.islands)
        each = self.count // self.groups, config.islands // self.groups
        self.kernels = compile_kernels(Shape.of(problem, *each, np.dtype(self.dtype).itemsize))

    def draw(self, key: Array, start: Floats) -> Array:
        """Draw all policies ``[N, P]`` from a start ``[N, A]``."""
        with jax.enable_x64(True):
            return cast(Array, self.kernels.draw(key, self._log(start), self.count))

    def evaluate(self, policy: NDArray[np.int16]) -> tuple[Floats, Floats]:
        """Return ``J`` ``[P]`` and the expected visits ``[N, P]`` of some policies."""
        each = self.count // self.groups
        pieces = [policy[:, first : first + each] for first in range(0, policy.shape[1], each)]
        found = [(self.evaluate_group(piece), piece.shape[1]) for piece in pieces]
        return (
            np.concatenate([np.asarray(part.returns, np.float64)[:some] for part, some in found]),
            np.concatenate([np.asarray(part.visits, np.float64)[:, :some] for part, some in found], axis=1),
        )

    def evaluate_group(self, policy: NDArray[np.int16]) -> Evaluation:
        """Evaluate at most a group of policies ``[N, P]``, repeated until they are one."""
        places = np.arange(self.count // self.groups) % policy.shape[1]
        with jax.enable_x64(True):
            return cast(Evaluation, self.kernels.evaluate(self.rows, jnp.asarray(policy[:, places])))

    def target(self, start: Floats, along: float, scale: float) -> Target:
        """Return the target `along` the way from a start to the posterior at `scale`."""
        with jax.enable_x64(True):
            logs = self._log(start), self._log(self.problem.prior)
            return bridge_target(*logs, jnp.float64(along), jnp.float64(scale))

    def meet(self, policy: Any) -> Walkers:
        """Evaluate all policies ``[N, P]``.

        A step begins with this and does not keep what the one before it knew: rounding depends on which
        policies are evaluated together, and a run that is resumed must draw what it would have drawn.
        """
        (size, actions), dtype = self.problem.gain.shape, self.dtype
        shapes = (self.count,), (size, self.count), (size, actions, self.count)
        blank = Evaluation(*(cast(Array, np.zeros(shape, dtype)) for shape in shapes))
        target = self.target(self.problem.prior, 1.0, self.scale)  # of no matter
        key = jnp.zeros(2, jnp.uint32)
        order = Order(0, 0.0, 0.0, evaluated=False)
        return self._run(key, Walkers(policy, blank), target, order).walkers

    def move(
        self,
        key: Array,
        walkers: Walkers,
        target: Target,
        moves: int,
        log_size: float,
        adapt: float = 0.0,
    ) -> Stage:
        """Move policies."""
        order = Order(moves, log_size, adapt, evaluated=True)
        return self._run(fold(key, _GROUP_STREAM), walkers, target, order)

    def _run(self, key: Array, walkers: Walkers, target: Target, order: Order) -> Stage:
        """Run the groups, side by side where there are cores for it."""
        each = self.count // self.groups

        def run(group: int) -> Stage:
            own = slice(group * each, (group + 1) * each)
            # Each thread has its own setting of the precision.
            with jax.enable_x64(True):
                stage = self.kernels.stage(
                    self.rows,
                    jax.tree.map(lambda part: jnp.asarray(part[..., own]), walkers),
                    target,
                    fold(key, group),
                    Order(
                        jnp.int32(order.moves),
                        jnp.float32(order.log_size),
                        jnp.float32(order.adapt),
                        jnp.bool_(order.evaluated),
                    ),
                )
                return cast(Stage, jax.tree.map(np.asarray, stage))

        threads = min(self.groups, thread_limit())
        if threads == 1:
            return join_stages([run(group) for group in range(self.groups)])
        with ThreadPoolExecutor(threads) as pool:
            return join_stages(list(pool.map(run, range(self.groups))))

    def picked(self, walkers: Walkers, places: NDArray[np.integer]) -> Walkers:
        """Return some of the policies, as often as they are named."""
        return cast(Walkers, jax.tree.map(lambda part: np.asarray(part)[..., places], walkers))

    def log_weights(self, walkers: Walkers, start: Floats) -> Floats:
        """Return the log weights ``[P]`` of policies that were drawn from a start, for the posterior."""
        with jax.enable_x64(True):
            logs = self._log(start), self._log(self.problem.prior)
            found = self.kernels.log_weights(walkers, *logs, jnp.float64(self.scale))
        return np.asarray(found, np.float64)

    def _log(self, policy: Floats) -> Array:
        with np.errstate(divide="ignore"):
            return jnp.asarray(np.log(np.where(self.problem.legal, policy, 0.0)).astype(np.float64))


def _group_count(islands: int) -> int:
    """Return how many groups to make; not by the number of cores: the bits are the same on every machine."""
    return next((groups for groups in _GROUPS if islands % (2 * groups) == 0), math.gcd(islands, 2))


def _largest_return(problem: Problem, enough: float) -> float:
    """Return the largest expected sum of absolute rewards, or something above `enough`."""
    gain = np.where(problem.legal, np.abs(problem.gain), 0.0)
    if problem.width:
        later = np.zeros(problem.size + 1)
        for first in range(problem.size - problem.width, -1, -problem.width):
            own = slice(first, first + problem.width)
            ahead = (problem.probability[own] * later[problem.successor[own]]).sum(axis=-1)
            later[own] = (gain[own] + ahead).max(axis=1)
        return float(problem.initial @ later[:-1])
    matrix, value = transition_matrix(problem), np.zeros(problem.size)
    for _ in range(problem.horizon):
        new = (gain + (matrix @ value).reshape(gain.shape)).max(axis=1)
        most = float(problem.initial @ new)
        if most > enough or np.array_equal(new, value):
            return most
        value = new
    return float(problem.initial @ value)
