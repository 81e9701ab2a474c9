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

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from polinfer.annealing.bridge import bennett, longest_step, resample
from polinfer.annealing.classes import Classes, add_classes, class_codes, codes_of, log_total, no_classes
from polinfer.annealing.config import TemperedConfig
from polinfer.annealing.detours import detour, known_start
from polinfer.annealing.effort import BLOCK, MOST_MOVES, Effort
from polinfer.annealing.ensemble import Ensemble
from polinfer.annealing.moves import Walkers
from polinfer.annealing.noise import fold, make_key, uniform
from polinfer.annealing.problem import Problem
from polinfer.annealing.refit import refit
from polinfer.annealing.rounds import Estimate, Rounds, chosen_share, estimate
from polinfer.annealing.softstart import mixed
from polinfer.annealing.stage import Stage, Sums
from polinfer.annealing.starts import SOFT_ROUNDS, around, overlooked, soft_start
from polinfer.annealing.state import Population, State, WayBack
from polinfer.exact.joint import pool as pool_evidence
from polinfer.exact.solution import Floats

_REFUTED = 0.02  # by which a lower bound must exceed log Z to refute it
_HASTY = 4  # moves at the end of a run that is out of time
_BACK_STREAM = 0xBAC4
_AROUND_STREAM = 0xA40D
_DETOUR_STREAM = 0xDE70
_FURTHER = 3  # pilot rounds at most, around policies that optimisation knows
_FRESH = 0.05  # share of the reference measure in what a population that is taken over draws anew from


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
        around_known: bool = False,
    ) -> None:
        self.problem, self.config, self.scale = problem, config, scale
        self.ensemble = Ensemble(problem, config, scale)
        self.effort = Effort.of(self.ensemble.work)
        self.seed, self.key = seed, make_key(seed)
        self.codes = class_codes(*problem.gain.shape)
        # Whether the second pilot round starts around them, and not from committed values.
        self.around_known = around_known
        self.pilots = 2 if config.start == "soft" and not problem.width else 1
        # [N, K] policies that are good, whatever is sampled.
        self.known = np.zeros((problem.size, 0), np.int16) if known is None else known.astype(np.int16)

    def init(self) -> State:
        """Return the state before the first step."""
        if self.config.start == "known":
            start = known_start(self.ensemble, self.known, alone=self.effort.dear)
        elif self.config.start == "uniform":
            start = self.problem.prior
        else:
            start = soft_start(self.ensemble, self.seed)
        return self._begin(self._blank(start))

    def take_over(self, population: Population) -> State:
        """Return the state before the first step down from a larger scale.

        Where policies do not come, their choices are drawn anew, from a start that is as much nearer to the
        reference measure: whatever they are drawn from, the posterior is the same.
        """
        share = self.scale / population.scale
        start = np.where(self.problem.legal, np.maximum(population.start, 1e-300), 1.0) ** share
        start = np.where(self.problem.legal, start * self.problem.prior ** (1.0 - share), 0.0)
        start = mixed(start / start.sum(axis=1, keepdims=True), self.problem.prior, _FRESH)
        state = self._blank(start)
        _, visits = self.ensemble.evaluate(population.policy)
        fresh = np.asarray(self.ensemble.draw(self._own_key(state.calls), start))
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
            policy=np.zeros((size, self.ensemble.count), np.int16),
            start=start,
            inverse=0.0,
            origin=0.0,
            taken_over=False,
            log_evidence=np.zeros(islands),
            log_size=0.0,
            moves=self.config.moves,
            pilots=self.pilots,
            calls=SOFT_ROUNDS + 1,
            ladder=np.zeros(1),
            way_back=self._not_back(),
            accepted=1.0,
            sums=self._no_sums(),
            rounds=empty,
            round_steps=np.zeros(0, np.int64),
            round_starts=np.zeros((0, size, actions)),
            round_classes=np.zeros((0, self.ensemble.count), np.uint64),
            members=np.zeros(self.ensemble.count, np.uint64),
            classes=no_classes(size),
            best_return=-np.inf,
            best_policy=np.zeros(size, np.int16),
            finished=False,
        )
        if not self.known.shape[1]:
            return blank
        returns, visits = self.ensemble.evaluate(self.known)
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

    def _move(
        self, key: Array, state: State, walkers: Walkers, inverse: float, moves: int, adapt: float = 0.0
    ) -> Stage:
        """Move policies at a place of this round's ladder."""
        scale = state.origin + inverse * (self.scale - state.origin) if state.origin else self.scale
        target = self.ensemble.target(state.start, 1.0 if state.origin else inverse, scale)
        return self.ensemble.move(key, walkers, target, moves, state.log_size, adapt)

    def _slopes(self, state: State, walkers: Walkers) -> Floats:
        """Return the log weights ``[I, P]`` that policies get from the whole ladder."""
        if state.origin:
            slopes = (self.scale - state.origin) * np.asarray(walkers.evaluation.returns, np.float64)
        else:
            slopes = self.ensemble.log_weights(walkers, state.start)
        return slopes.reshape(self.config.islands, -1)

    def _begin(self, state: State) -> State:
        """Draw the population of a round."""
        return state._replace(
            policy=np.asarray(self.ensemble.draw(self._own_key(state.calls), state.start)),
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

    def _is_pilot(self, state: State) -> bool:
        """Whether this round only shows where to start from."""
        pilots = 0 if state.taken_over else state.pilots
        return len(state.round_steps) < min(pilots, self._most_rounds(state) - 1)

    def _pace(self, state: State) -> tuple[int, float]:
        """Return the moves after a step of the ladder, and the effective share of policies that it leaves."""
        usual = state.moves, self.config.ess
        return self.effort.pilot_pace(*usual) if self._is_pilot(state) else usual

    def _climb(self, state: State, all_the_way: bool = False) -> State:
        """Reweight, resample and move."""
        islands = self.config.islands
        here = self.ensemble.meet(state.policy)
        log_weight = self._slopes(state, here)
        moves, ess = self._pace(state)
        step = longest_step(log_weight, 1.0 - state.inverse, ess)
        chosen = 1.0 if all_the_way or step >= 1.0 - state.inverse else state.inverse + step
        draws = np.asarray(uniform(self._own_key(state.calls + 1), (islands,)), np.float64)
        log_mean, picked = resample((chosen - state.inverse) * log_weight, draws)
        key = self._own_key(state.calls + 2)
        moved = self._move(key, state, self.ensemble.picked(here, picked), chosen, moves, 0.3)
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
        here = self.ensemble.meet(state.policy)
        stage = self._move(self._own_key(state.calls), state, here, 1.0, moves)
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
        block = max(BLOCK, int(state.sums.moves) // 4)
        state = self._add_moves(state, max(1, min(block, self.effort.at_once)))
        config = self.config
        summed = float(state.sums.moves)
        own = estimate(self._round(state), self.problem.prior)
        whole = estimate(self.all_rounds(state), self.problem.prior)
        if self._is_pilot(state):
            over = own.distance <= 4 * config.tolerance or summed >= self.effort.pilot_moves
        else:
            near = min(whole.distance, own.distance) <= config.tolerance
            most = MOST_MOVES * state.moves // config.moves
            over = (near and summed >= self.effort.least) or summed >= most
        return self._conclude(state) if over else state

    def _descend(self, state: State) -> State:
        """Go back by one step of the ladder, as `_climb` came; at its foot the round is over."""
        islands, (place, policy, log_evidence) = self.config.islands, state.way_back
        high, low = state.ladder[place], state.ladder[place - 1]
        # Keys of their own: the answer is the same with and without the way back.
        key = fold(fold(self._own_key(state.calls), _BACK_STREAM), place)
        here = self.ensemble.meet(policy)
        above = self._slopes(state, here)
        if place == 1:  # the start itself can be drawn from
            moved = self.ensemble.meet(np.asarray(self.ensemble.draw(fold(key, 1), state.start)))
        else:
            draws = np.asarray(uniform(fold(key, 1), (islands,)), np.float64)
            _, picked = resample((low - high) * above, draws)
            picks = self.ensemble.picked(here, picked)
            moved = self._move(fold(key, 2), state, picks, low, state.moves).walkers
        log_ratio = bennett((high - low) * self._slopes(state, moved), (high - low) * above)
        kept = np.asarray(moved.policy) if place > 1 else policy[:, :0]
        back = state._replace(way_back=WayBack(place - 1, kept, log_evidence + log_ratio))
        return back if place > 1 else self._conclude(back)

    def _conclude(self, state: State) -> State:
        """End the run, go back before it ends, or begin another round."""
        config, number = self.config, len(state.round_steps)
        if self.effort.long and number == 0 and len(state.ladder) == 2:
            # Policies of the start weigh about the same: it is the posterior, nearly.
            state = state._replace(pilots=1)
        pilots = 0 if state.taken_over else state.pilots
        whole = self.estimate(state)
        assert whole is not None
        bound = log_total(state.classes)
        refuted = whole.log_evidence < bound - max(_REFUTED, 3 * whole.log_evidence_stderr)
        precise = number >= pilots and whole.precise(config.tolerance, config.evidence_tolerance)
        missed = self._missed(state, whole.log_evidence) if number + 1 == pilots else None
        last = number + 1 >= self._most_rounds(state) and missed is None
        if (precise and not refuted) or last:
            if state.way_back.place < 0 and number >= pilots and not state.taken_over:
                way_back = WayBack(len(state.ladder) - 1, state.policy, np.zeros(config.islands))
                return state._replace(way_back=way_back)
            if last or self.disagreement(state) <= config.evidence_tolerance:
                return state._replace(finished=True)
        rounds = self.all_rounds(state)
        before = np.concatenate([state.round_starts, state.start[None]])
        if number + 1 < pilots:
            start = (
                known_start(self.ensemble, self.known)
                if self.around_known
                else soft_start(self.ensemble, self.seed, committed=True)
            )
        else:
            start = refit(rounds, before, self.problem.prior, self.ensemble.count // config.islands)
            if missed is not None:
                start = missed
            elif refuted:
                heaviest = state.classes.heavy[0]
                start = around(self.ensemble, np.where(heaviest >= 0, heaviest, start.argmax(axis=1)), start)
        more = number >= pilots
        return self._begin(
            state._replace(
                start=start,
                rounds=rounds,
                round_steps=np.append(state.round_steps, len(state.ladder) - 1),
                round_starts=before,
                round_classes=np.concatenate([state.round_classes, state.members[None]]),
                moves=state.moves * 2 if more else state.moves,
                pilots=state.pilots + (missed is not None),
            )
        )

    def _missed(self, state: State, log_evidence: float) -> Floats | None:
        """Return a start around a policy that optimisation knows and this run has missed, if there is one."""
        further = state.pilots - self.pilots  # rounds of this kind so far
        if not self.known.shape[1] or further >= _FURTHER:
            return None
        start = self._overlooked(state, log_evidence) if further <= 0 else None
        return start if start is not None or self.effort.dear else self._detour(state, log_evidence)

    def _overlooked(self, state: State, log_evidence: float) -> Floats | None:
        key = fold(self._own_key(state.calls), _AROUND_STREAM)
        return overlooked(
            self.ensemble,
            self.known,
            key,
            best_return=state.best_return,
            log_evidence=log_evidence,
            elsewhere=state.start,
        )

    def _detour(self, state: State, log_evidence: float) -> Floats | None:
        key = fold(self._own_key(state.calls), _DETOUR_STREAM)
        return detour(
            self.ensemble,
            self.known,
            key,
            taken=chosen_share(self.all_rounds(state)),
            log_evidence=log_evidence,
            elsewhere=state.start,
        )
