"""Annealing of one problem at one reward scale, in steps that can be written down and resumed.

A run is a sequence of rounds.  A round draws a population from its start `q0`, takes it to the posterior
along `polinfer.annealing.bridge`, and samples there until the islands agree.  The next round starts from the
choices that this one ended with, so that it has a shorter way and checks the first.

The last round is annealed back as well, through the same values of `b`.  Where moves do not keep up with
the steps, the way there finds too little evidence and the way back too much, on all islands alike (Grosse,
Ghahramani and Adams 2015): then another round takes more moves.

Where a policy that is known beforehand earns more than all that were drawn, and there is evidence around it,
a further round starts there; and so does the next one where the classes that were met refute the estimate.

A run at a smaller scale may take over the population of a larger one: then its first ladder goes through the
scales between them.  Down, and not up: who comes from small scales has never seen what pays at large ones.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from polinfer.annealing.bridge import bennett, bridge_target, longest_step, resample
from polinfer.annealing.classes import Classes, add_classes, class_codes, codes_of, log_total, no_classes
from polinfer.annealing.config import TemperedConfig
from polinfer.annealing.kernels import Shape, compile_kernels
from polinfer.annealing.known import start_around
from polinfer.annealing.moves import Target
from polinfer.annealing.noise import fold, make_key, uniform
from polinfer.annealing.passes import Evaluation, make_rows
from polinfer.annealing.problem import Problem, transition_matrix
from polinfer.annealing.refit import refit, uniform_share
from polinfer.annealing.rounds import Estimate, Rounds, estimate
from polinfer.annealing.softstart import mixed, soft_policy, stays_of, visit_weights
from polinfer.annealing.stage import Stage, Sums, join_stages
from polinfer.core.threads import thread_limit
from polinfer.exact.joint import pool as pool_evidence
from polinfer.exact.solution import Floats

_SOFT_ROUNDS = 3
_SOFT_DRAWS = 256
_SOFT_REPEATED = 4  # soft starts that are averaged
_SOFT_CHEAP = 200_000  # states times steps, up to which they are
_LARGEST = 1 << 25  # entries of the population's adjoints
_LONGEST = 2e10  # multiplications in one move of the population: some seconds
_DOUBLE_FROM = 500.0  # largest |scale J|, from which on passes run in double precision
_REFUTED = 0.02  # by which a lower bound must exceed log Z to refute it
_OVERLOOKED = 0.5  # nats by which a known policy must be better than all that were drawn
_WORTH = 3.0  # nats of evidence that may be missing around it, so that a round is worth its time
_HASTY = 4  # moves at the end of a run that is out of time
_AT_ONCE = 2e10  # multiplications in one compiled call, about: a second or two
_BLOCK = 16  # moves between looks at the precision
_MOST_MOVES = 512  # at the end of a round, times what `moves` is over its first value
_PILOT = 64  # moves at the end of a round before the first refit, at most
_GROUPS = 4  # of islands, that may be moved side by side
_GROUP_STREAM = 0x5EED
_BACK_STREAM = 0xBAC4
_AROUND_STREAM = 0xA40D
_FRESH = 0.05  # share of the reference measure in what a population that is taken over draws anew from
_PROPOSING = 40  # multiplications per entry that a proposal costs, about
_CHEAP = 4e9  # multiplications that the last sampling of a round takes in any case


class WayBack(NamedTuple):
    """Annealing from the posterior back to the start of a round."""

    place: int  # of the ladder, where it is; -1 before it begins
    policy: NDArray[np.int16]  # [N, P]; [N, 0] before it begins
    log_evidence: Floats  # [I] as it is found on the way


class State(NamedTuple):
    """A run between two steps: arrays and numbers only."""

    policy: NDArray[np.int16]  # [N, P]
    start: Floats  # [N, A] q0
    inverse: float  # b
    origin: float  # scale that this round's ladder comes from; 0 where it comes from `start`
    taken_over: bool  # whether the first round did not begin from a start
    log_evidence: Floats  # [I]
    log_size: float  # adapted size of moves
    moves: int  # per step of the ladder
    pilots: int  # rounds that only show where to start from
    calls: int  # compiled calls so far; keys are made of it
    ladder: Floats  # [L] values of `b` that this round came through, from 0
    way_back: WayBack
    accepted: float
    sums: Sums  # over the moves at the end of this round
    rounds: Rounds  # of the rounds before
    round_steps: NDArray[np.int64]  # [R] steps that each took
    round_starts: Floats  # [R, N, A] where each started
    round_classes: NDArray[np.uint64]  # [R, P] classes of the populations that they ended with
    members: NDArray[np.uint64]  # [P] classes of the population now
    classes: Classes
    best_return: float
    best_policy: NDArray[np.int16]  # [N]
    finished: bool


class Population(NamedTuple):
    """Policies at the end of a run, for one at a smaller scale."""

    scale: float
    policy: NDArray[np.int16]  # [N, P]
    start: Floats  # [N, A] what choices are drawn from where policies do not come
    log_evidence: float
    log_size: float  # adapted size of moves


class Annealer:
    """A problem, a scale and settings; `init` and `step` are functions of the state alone."""

    def __init__(
        self,
        problem: Problem,
        config: TemperedConfig,
        *,
        scale: float = 1.0,
        seed: int = 0,
        known: NDArray[np.integer] | None = None,
    ) -> None:
        self.problem, self.config, self.scale = problem, config, scale
        size, actions = problem.gain.shape
        outcomes = problem.successor.shape[2] + problem.origin.shape[1]
        steps = 1 if problem.width else problem.horizon
        alone = size * actions * (outcomes * steps + _PROPOSING)  # multiplications in a move of one policy
        fits = min(_LARGEST // max(1, size * actions), int(_LONGEST / max(alone, 1)))
        self.count = config.islands * min(config.policies, max(2, fits // config.islands))
        large = scale * _largest_return(problem, _DOUBLE_FROM / scale) > _DOUBLE_FROM
        self.dtype = np.float64 if large else np.float32
        work = alone * self.count
        self.least = int(np.clip(_CHEAP / max(work, 1), _BLOCK, _MOST_MOVES // 2))
        self.most_at_once = max(1, int(_AT_ONCE / max(work, 1)))
        self.seed, self.key = seed, make_key(seed)
        self.prior = problem.prior
        self.codes = class_codes(size, actions)
        with jax.enable_x64(True):
            self.rows = make_rows(problem, self.dtype)
        itemsize = np.dtype(self.dtype).itemsize
        # Not by the number of cores: the same seed gives the same bits on every machine.
        self.groups = math.gcd(config.islands, _GROUPS)
        self.kernels = compile_kernels(Shape.of(problem, self.count, config.islands, itemsize), self.groups)
        self.pilots = 2 if config.start == "soft" and not problem.width else 1
        # [N, K] policies that are good, whatever is sampled.
        self.known = np.zeros((size, 0), np.int16) if known is None else known.astype(np.int16)

    def init(self) -> State:
        """Return the state before the first step."""
        start = self.prior if self.config.start == "uniform" else self._soft_start(committed=False)
        return self._begin(self._blank(start))

    def take_over(self, population: Population) -> State:
        """Return the state before the first step down from a larger scale.

        Where policies do not come, their choices are drawn anew, from a start that is as much nearer to the
        reference measure: whatever they are drawn from, the posterior is the same.
        """
        share = self.scale / population.scale
        start = np.where(self.problem.legal, np.maximum(population.start, 1e-300), 1.0) ** share
        start = np.where(self.problem.legal, start * self.prior ** (1.0 - share), 0.0)
        start = mixed(start / start.sum(axis=1, keepdims=True), self.prior, _FRESH)
        state = self._blank(start)
        _, visits = self.evaluate(population.policy)
        with jax.enable_x64(True):
            fresh = np.asarray(self.kernels.draw(self._own_key(state.calls), self._log(start)))
        return state._replace(
            policy=np.where(visits > 0, population.policy, fresh),
            origin=population.scale,
            taken_over=True,
            log_evidence=np.full(self.config.islands, population.log_evidence),
            log_size=population.log_size,
            calls=state.calls + 1,
        )

    def hand_over(self, state: State) -> Population:
        """Return what a run at a smaller scale takes over."""
        found = self.estimate(state)
        assert found is not None
        best = max(found.log_evidence, log_total(state.classes))
        return Population(self.scale, state.policy, state.start, best, state.log_size)

    def _blank(self, start: Floats) -> State:
        (size, actions), islands = self.problem.gain.shape, self.config.islands
        empty = Rounds(
            np.zeros((0, islands)),
            np.zeros((0, size, actions, islands)),
            np.zeros((0, size, actions, islands)),
            np.zeros((0, size, islands)),
            np.zeros((0, islands)),
        )
        blank = State(
            policy=np.zeros((size, self.count), np.int16),
            start=start,
            inverse=0.0,
            origin=0.0,
            taken_over=False,
            log_evidence=np.zeros(islands),
            log_size=0.0,
            moves=self.config.moves,
            pilots=self.pilots,
            calls=_SOFT_ROUNDS + 1,
            ladder=np.zeros(1),
            way_back=self._not_back(),
            accepted=1.0,
            sums=self._no_sums(),
            rounds=empty,
            round_steps=np.zeros(0, np.int64),
            round_starts=np.zeros((0, size, actions)),
            round_classes=np.zeros((0, self.count), np.uint64),
            members=np.zeros(self.count, np.uint64),
            classes=no_classes(size),
            best_return=-np.inf,
            best_policy=np.zeros(size, np.int16),
            finished=False,
        )
        if not self.known.shape[1]:
            return blank
        returns, visits = self.evaluate(self.known)
        return blank._replace(classes=self._met(blank.classes, self.known, returns, visits > 0))

    def step(self, state: State) -> State:
        """Take a step of the ladder, sample some more at its end, or go back; perhaps begin another round."""
        with jax.enable_x64(True):
            if state.inverse < 1.0:
                return self._climb(state)
            return self._sample(state) if state.way_back.place < 0 else self._descend(state)

    def hasten(self, state: State) -> State:
        """Go to the posterior in one step, so that there is an answer, whatever its error."""
        with jax.enable_x64(True):
            if state.inverse < 1.0:
                state = self._climb(state._replace(moves=1), all_the_way=True)
            if self.estimate(state) is None:
                state = self._add_moves(state, _HASTY)
            return state._replace(finished=True)

    def estimate(self, state: State) -> Estimate | None:
        """Return what is known so far; None before the end of the first round's ladder."""
        rounds = self.all_rounds(state)
        return estimate(rounds, self.problem.prior) if len(rounds.log_evidence) else None

    def reverse(self, state: State) -> tuple[float, float] | None:
        """Return ``log Z`` as the way back found it, with its standard error; None where there was none."""
        if state.way_back.place != 0:
            return None
        found = state.way_back.log_evidence
        return float(found.mean()), float(found.std(ddof=1) / math.sqrt(len(found)))

    def disagreement(self, state: State) -> float:
        """Return by how much the way back found more evidence than this round's way there, beyond noise."""
        back = self.reverse(state)
        if back is None:
            return 0.0
        there = pool_evidence(state.log_evidence)
        return max(0.0, back[0] - there[0] - 3 * float(np.hypot(back[1], there[1])))

    def all_rounds(self, state: State) -> Rounds:
        """Return what each island of each round found so far."""
        if not state.sums.moves:
            return state.rounds
        return Rounds(*(np.concatenate(pair) for pair in zip(state.rounds, self._round(state), strict=True)))

    def evaluate(self, policy: NDArray[np.int16]) -> tuple[Floats, Floats]:
        """Return ``J`` ``[P]`` and the expected visits ``[N, P]`` of some policies."""
        each = self.count // self.groups
        pieces = [policy[:, first : first + each] for first in range(0, policy.shape[1], each)]
        found = [(self._evaluate(piece), piece.shape[1]) for piece in pieces]
        return (
            np.concatenate([np.asarray(part.returns, np.float64)[:some] for part, some in found]),
            np.concatenate([np.asarray(part.visits, np.float64)[:, :some] for part, some in found], axis=1),
        )

    def _evaluate(self, policy: NDArray[np.int16]) -> Evaluation:
        """Evaluate at most a group of policies ``[N, P]``, repeated until they are one."""
        places = np.arange(self.count // self.groups) % policy.shape[1]
        with jax.enable_x64(True):
            return cast(Evaluation, self.kernels.evaluate(self.rows, jnp.asarray(policy[:, places])))

    def _round(self, state: State) -> Rounds:
        """Return what each island found in this round, ``[1, ...]``."""
        sums, moves = state.sums, float(state.sums.moves)
        smooth = sums.smooth / moves + sums.defect / np.maximum(sums.few, 1e-9)
        plain = sums.chosen / moves
        return Rounds(
            state.log_evidence[None],
            plain[None],
            (plain if self.problem.width else smooth)[None],
            (sums.visits / moves)[None],
            (sums.returns / moves)[None],
        )

    def _not_back(self) -> WayBack:
        empty = np.zeros((self.problem.size, 0), np.int16)
        return WayBack(-1, empty, np.zeros(self.config.islands))

    def _no_sums(self) -> Sums:
        (size, actions), islands = self.problem.gain.shape, self.config.islands
        by_action = np.zeros((size, actions, islands))
        by_island = np.zeros(islands)
        return Sums(
            by_action, by_action, by_action, by_island, np.zeros((size, islands)), by_island, np.zeros(())
        )

    def _own_key(self, calls: int) -> Array:
        return fold(jnp.asarray(self.key), calls)

    def _log(self, policy: Floats) -> Array:
        with np.errstate(divide="ignore"):
            return jnp.asarray(np.log(np.where(self.problem.legal, policy, 0.0)).astype(np.float64))

    def _stage(
        self, key: Array, state: State, policy: Any, inverse: float, moves: int, adapt: float
    ) -> Stage:
        """Move the groups of islands, side by side where there are cores for it."""
        key = fold(key, _GROUP_STREAM)
        each = self.count // self.groups

        def move(group: int) -> Stage:
            # Each thread has its own setting of the precision.
            with jax.enable_x64(True):
                target = self._target(state, inverse)
                stage = self.kernels.stage(
                    self.rows,
                    jnp.asarray(policy[:, group * each : (group + 1) * each]),
                    target,
                    fold(key, group),
                    jnp.int32(moves),
                    jnp.float32(state.log_size),
                    jnp.float32(adapt),
                )
                return cast(Stage, jax.tree.map(np.asarray, stage))

        threads = min(self.groups, thread_limit())
        if threads == 1:
            return join_stages([move(group) for group in range(self.groups)])
        with ThreadPoolExecutor(threads) as pool:
            return join_stages(list(pool.map(move, range(self.groups))))

    def _target(self, state: State, inverse: float) -> Target:
        scale = state.origin + inverse * (self.scale - state.origin) if state.origin else self.scale
        along = 1.0 if state.origin else inverse
        start, prior = self._log(state.start), self._log(self.prior)
        return bridge_target(start, prior, jnp.float64(along), jnp.float64(scale))

    def _slopes(self, state: State, stage: Stage) -> Floats:
        """Return the log weights ``[I, P]`` that policies get from the whole ladder."""
        if state.origin:
            slopes = (self.scale - state.origin) * np.asarray(stage.walkers.evaluation.returns, np.float64)
        else:
            start, prior = self._log(state.start), self._log(self.prior)
            found = self.kernels.log_weights(stage.walkers, start, prior, jnp.float64(self.scale))
            slopes = np.asarray(found, np.float64)
        return slopes.reshape(self.config.islands, -1)

    def _soft_start(self, committed: bool) -> Floats:
        """Return the reach-weighted soft policy: the mean of some, where loops make each lean to one mode.

        Weights come from policies that were drawn.  Where two ways are worth the same, a few per cent more
        visits on one of them tilt the values, the next draws follow, and the other way is lost.  Which of
        them it is differs from one repetition to the next.
        """
        problem = self.problem
        cheap = not problem.width and problem.size * problem.horizon <= _SOFT_CHEAP
        count = _SOFT_REPEATED if cheap else 1
        starts = [self._one_soft_start(committed, make_key(self.seed, 1 + number)) for number in range(count)]
        return np.asarray(np.mean(starts, axis=0))

    def _one_soft_start(self, committed: bool, key: NDArray[np.uint32]) -> Floats:
        """Return one reach-weighted soft policy, from some rounds of drawing policies."""
        problem, behaviour, weight = self.problem, self.prior, np.ones(self.problem.size)
        stays, share = stays_of(problem, committed), uniform_share(1.0)
        choice = problem.legal.sum(axis=1) > 1
        with jax.enable_x64(True):
            for number in range(_SOFT_ROUNDS + 1):
                soft = soft_policy(problem, self.scale, weight, behaviour, stays).policy
                behaviour = mixed(soft, problem.prior, share)
                if number < _SOFT_ROUNDS:
                    drawn = self.kernels.draw(fold(jnp.asarray(key), number), self._log(behaviour))
                    each = self.count // self.groups
                    few = min(self.count, -(-_SOFT_DRAWS // each) * each)
                    some = np.asarray(drawn)[:, :few]
                    _, visits = self.evaluate(some)
                    weight = visit_weights(problem, stays, some, visits, committed)
                    share = uniform_share(float((visits[choice] > 0).sum(axis=0).mean()))
        return behaviour

    def _begin(self, state: State) -> State:
        """Draw the population of a round."""
        with jax.enable_x64(True):
            policy = self.kernels.draw(self._own_key(state.calls), self._log(state.start))
        return state._replace(
            policy=np.asarray(policy),
            inverse=0.0,
            origin=0.0,
            log_evidence=np.zeros(self.config.islands),
            calls=state.calls + 1,
            ladder=np.zeros(1),
            way_back=self._not_back(),
            sums=self._no_sums(),
        )

    def _most_rounds(self, state: State) -> int:
        return self.config.rounds + state.pilots - self.pilots

    def _climb(self, state: State, all_the_way: bool = False) -> State:
        """Reweight, resample and move."""
        islands = self.config.islands
        here = self._stage(self._own_key(state.calls), state, state.policy, state.inverse, 0, 0.0)
        log_weight = self._slopes(state, here)
        step = longest_step(log_weight, 1.0 - state.inverse, self.config.ess)
        chosen = 1.0 if all_the_way or step >= 1.0 - state.inverse else state.inverse + step
        draws = np.asarray(uniform(self._own_key(state.calls + 1), (islands,)), np.float64)
        log_mean, picked = resample((chosen - state.inverse) * log_weight, draws)
        key = self._own_key(state.calls + 2)
        moved = self._stage(key, state, state.policy[:, picked], chosen, state.moves, 0.3)
        return self._record(state, moved)._replace(
            policy=np.asarray(moved.walkers.policy),
            inverse=chosen,
            log_evidence=state.log_evidence + log_mean,
            log_size=float(moved.log_size),
            calls=state.calls + 3,
            ladder=np.append(state.ladder, chosen),
            accepted=float(moved.accepted),
        )

    def _met(
        self, known: Classes, policy: NDArray[np.int16], returns: Floats, reached: NDArray[np.bool_]
    ) -> Classes:
        """Return the classes known, and those of policies ``[N, P]``."""
        log_prior = np.take_along_axis(self.problem.log_prior, policy.astype(np.int64), axis=1)
        log_mass = self.scale * returns + np.where(reached, log_prior, 0.0).sum(axis=0)
        return add_classes(known, self.codes, policy, reached, log_mass, returns)

    def _record(self, state: State, stage: Stage) -> State:
        """Remember the reach classes and the best policy."""
        returns, visits, _ = (np.asarray(part) for part in stage.walkers.evaluation)
        reached = visits > 0
        policy = np.asarray(stage.walkers.policy)
        classes = self._met(state.classes, policy, returns.astype(np.float64), reached)
        state = state._replace(classes=classes, members=codes_of(self.codes, policy, reached))
        if float(stage.best.returns) > state.best_return:
            state = state._replace(
                best_return=float(stage.best.returns), best_policy=np.asarray(stage.best.policy)
            )
        return state

    def _add_moves(self, state: State, moves: int) -> State:
        """Move at the end of the ladder, and add up what the policies say."""
        stage = self._stage(self._own_key(state.calls), state, state.policy, 1.0, moves, 0.0)
        sums = Sums(
            *(old + np.asarray(new, np.float64) for old, new in zip(state.sums, stage.sums, strict=True))
        )
        return self._record(state, stage)._replace(
            policy=np.asarray(stage.walkers.policy),
            calls=state.calls + 1,
            sums=sums,
            accepted=float(stage.accepted),
        )

    def _sample(self, state: State) -> State:
        """Sample some more, and decide whether to go on."""
        block = max(_BLOCK, int(state.sums.moves) // 4)
        state = self._add_moves(state, max(1, min(block, self.most_at_once)))
        config = self.config
        number = len(state.round_steps)
        summed = float(state.sums.moves)
        own = estimate(self._round(state), self.problem.prior)
        whole = estimate(self.all_rounds(state), self.problem.prior)
        most = _MOST_MOVES * state.moves // config.moves
        pilots = 0 if state.taken_over else state.pilots
        if number < min(pilots, self._most_rounds(state) - 1):
            # Rounds that only show where to start from.
            over = own.distance <= 4 * config.tolerance or summed >= _PILOT
        else:
            near = min(whole.distance, own.distance) <= config.tolerance
            over = (near and summed >= self.least) or summed >= most
        return self._conclude(state) if over else state

    def _descend(self, state: State) -> State:
        """Go back by one step of the ladder, as `_climb` came; at its foot the round is over."""
        islands, (place, policy, log_evidence) = self.config.islands, state.way_back
        high, low = state.ladder[place], state.ladder[place - 1]
        # Keys of their own: the answer is the same with and without the way back.
        key = fold(fold(self._own_key(state.calls), _BACK_STREAM), place)
        above = self._slopes(state, self._stage(key, state, policy, high, 0, 0.0))
        if place == 1:  # the start itself can be drawn from
            drawn = self.kernels.draw(fold(key, 1), self._log(state.start))
            moved = self._stage(fold(key, 2), state, drawn, low, 0, 0.0)
        else:
            draws = np.asarray(uniform(fold(key, 1), (islands,)), np.float64)
            _, picked = resample((low - high) * above, draws)
            moved = self._stage(fold(key, 2), state, policy[:, picked], low, state.moves, 0.0)
        log_ratio = bennett((high - low) * self._slopes(state, moved), (high - low) * above)
        kept = np.asarray(moved.walkers.policy) if place > 1 else policy[:, :0]
        back = state._replace(way_back=WayBack(place - 1, kept, log_evidence + log_ratio))
        return back if place > 1 else self._conclude(back)

    def _conclude(self, state: State) -> State:
        """End the run, go back before it ends, or begin another round."""
        config, number = self.config, len(state.round_steps)
        pilots = 0 if state.taken_over else state.pilots
        whole = self.estimate(state)
        assert whole is not None
        bound = log_total(state.classes)
        refuted = whole.log_evidence < bound - max(_REFUTED, 3 * whole.log_evidence_stderr)
        precise = number >= pilots and whole.precise(config.tolerance, config.evidence_tolerance)
        overlooked = None
        if number + 1 == pilots == self.pilots:
            overlooked = self._overlooked(state, whole.log_evidence)
        last = number + 1 >= self._most_rounds(state) and overlooked is None
        if (precise and not refuted) or last:
            if state.way_back.place < 0 and number >= pilots and not state.taken_over:
                way_back = WayBack(len(state.ladder) - 1, state.policy, np.zeros(config.islands))
                return state._replace(way_back=way_back)
            if last or self.disagreement(state) <= config.evidence_tolerance:
                return state._replace(finished=True)
        rounds = self.all_rounds(state)
        before = np.concatenate([state.round_starts, state.start[None]])
        if number + 1 < pilots:
            start = self._soft_start(committed=True)
        else:
            start = refit(rounds, before, self.problem.prior, self.count // config.islands)
            if overlooked is not None:
                start = overlooked
            elif refuted:
                heaviest = state.classes.heavy[0]
                start = self._around(np.where(heaviest >= 0, heaviest, start.argmax(axis=1)), start)
        more = number >= pilots
        return self._begin(
            state._replace(
                start=start,
                rounds=rounds,
                round_steps=np.append(state.round_steps, len(state.ladder) - 1),
                round_starts=before,
                round_classes=np.concatenate([state.round_classes, state.members[None]]),
                moves=state.moves * 2 if more else state.moves,
                pilots=state.pilots + (overlooked is not None),
            )
        )

    def _overlooked(self, state: State, log_evidence: float) -> Floats | None:
        """Return a start around the best policy known, if it may hold evidence that was missed.

        It has to be better than all that were drawn, and importance sampling from that start must not find
        much less evidence than there is already: where the posterior is wide, its best policy counts for
        little.
        """
        if not self.known.shape[1]:
            return None
        returns, _ = self.evaluate(self.known)
        best = int(np.argmax(returns))
        if self.scale * (float(returns[best]) - state.best_return) <= _OVERLOOKED:
            return None
        start = self._around(self.known[:, best], state.start)
        key = fold(self._own_key(state.calls), _AROUND_STREAM)
        there = state._replace(start=start, origin=0.0)
        with jax.enable_x64(True):
            drawn = self.kernels.draw(key, self._log(start))
            slopes = self._slopes(there, self._stage(key, there, drawn, 0.0, 0, 0.0))
        found = float(np.logaddexp.reduce(slopes.ravel()) - np.log(slopes.size))
        return start if found > log_evidence - _WORTH else None

    def _around(self, policy: NDArray[np.integer], elsewhere: Floats) -> Floats:
        """Return a start around a policy ``[N]``."""
        found = self._evaluate(policy[:, None].astype(np.int16))
        visits, adjoint = (np.asarray(part, np.float64)[..., 0] for part in found[1:])
        return start_around(policy, visits, adjoint, elsewhere, self.problem.prior, self.scale)


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
