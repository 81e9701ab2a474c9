"""The reference engine: Algorithm 1 line by line, with dicts, for any simulator written in plain Python.

Names and line numbers are those of the paper's algorithm.  Only the settings and the record are shared with
the compiled engine, so that a test can replay the random decisions of one in the other.  Steps and particles
are counted from 0, as in the record; the visit count `k` of a query starts at 1, as in the paper.

The paper has one world.  With several, lines 12 to 30 run for each world of a particle in order; the worlds
share only the particle's memo of actions.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polinfer.core.errors import PolinferError, check_at_least
from polinfer.core.protocol import discount_of
from polinfer.core.simulator import Simulator
from polinfer.smc.config import ResamplingScheme, SweepConfig
from polinfer.smc.record import Sweep

Floats = NDArray[np.float64]
LogProposal = Callable[[Any], Sequence[float] | NDArray[Any]]


class SweepRandomness:
    """All randomness of one sweep, from Python's own generator; to replay a sweep, override the methods.

    Uniforms lie in ``[0, 1)``, seeds have 64 bits.  The world `m` is left out where there is only one.
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def start(self, m: int = 0, i: int = 0) -> int:
        """Return the seed of a first state; without a number, the one that all particles and worlds share."""
        return self._random.getrandbits(64)

    def action(self, t: int, i: int, m: int = 0) -> float:
        """Return the uniform that picks the action of particle `i` in world `m` at step `t`."""
        return self._random.random()

    def refresh(self, t: int, i: int, m: int = 0) -> float:
        """Return the uniform that decides whether a revisit draws."""
        return self._random.random()

    def resample(self, t: int, count: int) -> Sequence[float]:
        """Return the `count` uniforms that pick ancestors after step `t`."""
        return [self._random.random() for _ in range(count)]

    def query(self, s: Hashable, a: int, k: int, m: int = 0) -> int:
        """Return the seed of the k-th time that `a` is taken in `s` in a world; a coupled sweep asks once."""
        return self._random.getrandbits(64)

    def move(self, t: int, i: int, m: int = 0) -> int:
        """Return the seed of one transition of a particle in a world, for uncoupled sweeps."""
        return self._random.getrandbits(64)


class _Query(NamedTuple):
    """The first answer to the k-th query of an action in a state."""

    seed: int
    origin: Any
    moved: tuple[Any, float, bool]


def run_reference_sweep(
    simulator: Simulator,
    log_proposal: LogProposal,
    config: SweepConfig,
    randomness: SweepRandomness,
) -> Sweep:
    """Run one sweep of Algorithm 1; `log_proposal` gives ``log q(.|s)``, -inf where illegal.

    Returns
    -------
    Sweep
        NumPy arrays; `state` is an object array ``[T, N]`` of the simulator's states.  With several worlds
        or independent starts the fields of a visit have a last axis for the worlds, ``[T, N, M]``.

    Raises
    ------
    PolinferError
        Where the simulator or the proposal breaks its contract.
    """
    H, N, M = check_at_least("horizon", simulator.horizon, 1), config.particles, config.worlds
    M_T: list[dict[tuple[Hashable, int, int], _Query]] = [{} for _ in range(M)]  # Line 2, for each world.
    s_of = _starts(simulator, config, randomness)  # Lines 3-7.
    M_A: list[dict[Hashable, int]] = [{} for _ in range(N)]
    M_C: list[list[dict[tuple[Hashable, int], int]]] = [[{} for _ in range(M)] for _ in range(N)]
    over, log_w = [[False] * M for _ in range(N)], np.zeros(N)
    discount = discount_of(simulator)
    record = _empty_record(H, N, M)  # Lines 8, 9: `log_mean` is ell, the sums of `log_proposal` are g.
    for t in range(H):  # Line 10.
        log_before = _log_sum_exp(log_w)
        for i, m in itertools.product(range(N), range(M)):  # Line 11.
            here = (t, i, m) if M > 1 else (t, i)
            s = record.state[t, i, m] = s_of[i][m]  # Line 12.
            # Not in the paper, whose episodes last H steps: after the end nothing is drawn or earned.
            if over[i][m]:
                continue
            record.active[t, i, m] = True
            # Lines 13-20.  Refreshing a memo is the paper's stochastic memoisation; always, its ablation.
            if s in M_A[i] and randomness.refresh(*here) >= config.refresh:
                a, log_p, log_q = M_A[i][s], 0.0, 0.0  # Lines 14, 15.
                _check_legal(simulator, s, a)
            else:
                a, log_p, log_q = _draw(simulator, log_proposal, s, randomness.action(*here))  # Lines 17, 18.
                M_A[i][s] = a
                record.drawn[t, i, m] = True
            k = M_C[i][m].get((s, a), 0) + 1  # Line 21.
            M_C[i][m][s, a] = k  # Line 22.
            if not config.coupled:
                moved = _step(simulator, randomness.move(*here), s, a)
            elif (s, a, k) in M_T[m] and M_T[m][s, a, k].origin is s:  # Line 23.
                moved = M_T[m][s, a, k].moved  # Line 24.
            else:
                # An equal state that is another object may hold another snapshot behind the same abstraction:
                # it shares the noise of the query, and moves from where it is.
                known = M_T[m].get((s, a, k))
                seed = known.seed if known else randomness.query(s, a, k, *here[2:])
                moved = _step(simulator, seed, s, a)  # Line 26.
                M_T[m].setdefault((s, a, k), _Query(seed, s, moved))  # Line 27.
            s_of[i][m], reward, over[i][m] = moved  # Line 30.
            reward *= discount**t
            # Line 29, added up since the last resampling: the mean reward over worlds, and every draw.
            log_w[i] += reward / M + log_p - log_q
            record.action[t, i, m], record.reward[t, i, m] = a, reward
            record.log_prior[t, i, m], record.log_proposal[t, i, m] = log_p, log_q
        record.log_weight[t] = log_w
        # Line 32: with log_w = 0 before the step this is log sum exp w - log N.
        record.log_mean[t] = _log_sum_exp(log_w) - log_before
        record.ess[t] = math.exp(2 * _log_sum_exp(log_w) - _log_sum_exp(2 * log_w))
        few = record.ess[t] < config.resample_below * N or config.resample_below >= 1
        # Line 33.  Not after the last step, whose weights are the result of the sweep.
        if few and t < H - 1:
            picked = _pick_ancestors(randomness.resample(t, N), log_w, config.resampling)
            record.resampled[t], record.ancestor[t] = True, picked
            # Copy: two children of one parent must diverge at states not yet seen.
            s_of, over = [list(s_of[j]) for j in picked], [list(over[j]) for j in picked]
            M_A, M_C = [dict(M_A[j]) for j in picked], [[dict(count) for count in M_C[j]] for j in picked]
            log_w = np.zeros(N)
    record.ended[:] = over
    return record if M > 1 or config.start == "independent" else _of_one_world(record)


def surrogate(sweep: Sweep) -> float:
    """Return the value of the paper's surrogate, Eq. det-surrogate-objective-stratified (lines 35-40)."""
    ell = np.asarray(sweep.log_mean)
    g = np.asarray(sweep.log_proposal).reshape(len(ell), -1).sum(axis=1)
    log_Z = float(ell.sum())  # Line 35.
    log_Z_after, total = 0.0, 0.0  # Line 36.
    for t in reversed(range(len(ell))):  # Line 37.
        log_Z_after += ell[t]  # Line 38.
        total += log_Z_after * g[t]
    return log_Z + total  # Line 40.


def _starts(simulator: Simulator, config: SweepConfig, randomness: SweepRandomness) -> list[list[Any]]:
    """Return the first state of each particle in each of its worlds."""
    N, M = config.particles, config.worlds

    def first(*whose: int) -> Any:
        return _hashable(simulator.init(randomness.start(*whose)))

    if config.start == "independent":
        return [[first(m, i) for m in range(M)] for i in range(N)]
    # With a single world, shared and averaged starts are the same.
    states = [first(m) for m in range(M)] if config.start == "averaged" and M > 1 else [first()] * M
    return [list(states) for _ in range(N)]


def _empty_record(H: int, N: int, M: int) -> Sweep:
    return Sweep(
        state=np.empty((H, N, M), object),
        action=np.zeros((H, N, M), np.int32),
        drawn=np.zeros((H, N, M), np.bool_),
        active=np.zeros((H, N, M), np.bool_),
        log_prior=np.zeros((H, N, M)),
        log_proposal=np.zeros((H, N, M)),
        reward=np.zeros((H, N, M)),
        log_weight=np.zeros((H, N)),
        ess=np.zeros(H),
        resampled=np.zeros(H, np.bool_),
        ancestor=np.tile(np.arange(N, dtype=np.int32), (H, 1)),
        log_mean=np.zeros(H),
        ended=np.zeros((N, M), np.bool_),
    )


def _of_one_world(record: Sweep) -> Sweep:
    """Leave out the axis of the worlds."""
    visits = ("state", "action", "drawn", "active", "log_prior", "log_proposal", "reward", "ended")
    return record._replace(**{name: getattr(record, name)[..., 0] for name in visits})


def _log_sum_exp(values: Floats) -> float:
    top = float(values.max())
    return top + math.log(np.exp(values - top).sum())


def _pick(uniform: float | Floats, weight: Floats) -> Any:
    """Return the index that `uniform` falls on; a weight of zero is never picked."""
    cumulative = np.cumsum(weight)
    return np.searchsorted(cumulative[:-1], uniform * cumulative[-1], side="right")


def _pick_ancestors(uniform: Sequence[float], log_w: Floats, scheme: ResamplingScheme) -> list[int]:
    u, N = np.asarray(uniform, np.float64), len(log_w)
    slot = np.arange(N)
    position = {"systematic": (slot + u[0]) / N, "stratified": (slot + u) / N, "multinomial": u}[scheme]
    return [int(j) for j in _pick(position, np.exp(log_w - log_w.max()))]


def _draw(
    simulator: Simulator, log_proposal: LogProposal, s: Any, uniform: float
) -> tuple[int, float, float]:
    """Return an action and its log probability under the prior and the proposal."""
    log_q = np.asarray(log_proposal(s), np.float64)
    if log_q.shape != (simulator.num_actions,):
        raise PolinferError(
            f"log_proposal must give {simulator.num_actions} numbers, one per action, in state {s!r}, "
            f"got shape {list(log_q.shape)}"
        )
    with np.errstate(over="ignore"):
        total = float(np.exp(log_q).sum())
    if not abs(total - 1) < 1e-4:
        raise PolinferError(f"log_proposal's probabilities sum to {total:.6g} in state {s!r}, not to one")
    a = int(_pick(uniform, np.exp(log_q)))
    count = _check_legal(simulator, s, a)
    if not hasattr(simulator, "log_prior"):
        return a, -math.log(count), float(log_q[a])
    return a, float(np.asarray(simulator.log_prior(s))[a]), float(log_q[a])


def _check_legal(simulator: Simulator, s: Hashable, a: int) -> int:
    """Return the number of legal actions in `s`, of which `a` must be one."""
    legal = [bool(flag) for flag in simulator.legal(s)]
    if len(legal) != simulator.num_actions:
        raise PolinferError(f"legal must give {simulator.num_actions} flags in state {s!r}, got {len(legal)}")
    if not legal[a]:
        raise PolinferError(f"action {a} is not legal in state {s!r}; give it log probability -inf there")
    return sum(legal)


def _step(simulator: Simulator, seed: int, s: Hashable, a: int) -> tuple[Any, float, bool]:
    moved: Any = simulator.step(seed, s, a)
    if not isinstance(moved, tuple) or len(moved) != 3:
        raise PolinferError(f"step must return (state, reward, terminated), got {moved!r}")
    state, reward, terminated = moved
    try:
        gained = float(reward)
    except (TypeError, ValueError):
        gained = math.nan
    if not math.isfinite(gained):
        raise PolinferError(
            f"the reward of action {a} in state {s!r} is {reward!r}; it must be a finite number"
        )
    return _hashable(state), gained, bool(terminated)


def _hashable(state: Any) -> Any:
    try:
        hash(state)
    except TypeError:
        raise PolinferError(
            f"state {state!r} cannot be hashed; return a tuple or another hashable value"
        ) from None
    return state
