"""A whole run: the problem taken apart, small parts enumerated, the others annealed one by one.

A part in which ways of about the same worth part, and whose first rounds missed one of them, is split into
branches there; these are annealed one by one and merged.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from polinfer.annealing.annealer import Annealer
from polinfer.annealing.arrays import pack, unpack
from polinfer.annealing.branches import (
    WORTH_SPLITTING,
    Branch,
    Cut,
    branch_config,
    branch_problem,
    has_room,
    merge,
    split_branch,
    weigh,
)
from polinfer.annealing.buckets import padded
from polinfer.annealing.closed_form import closed_form
from polinfer.annealing.config import TemperedConfig, check_scales
from polinfer.annealing.decompose import split
from polinfer.annealing.enumerate import BATCH, Listed, list_classes, list_together
from polinfer.annealing.parting import Parting, came_elsewhere, find_parting, scout_of
from polinfer.annealing.parts import PartPosterior, annealed_posterior, join, listed_posterior
from polinfer.annealing.path import AnnealedPath
from polinfer.annealing.problem import arrange, reduce_table
from polinfer.annealing.remaining import work_of
from polinfer.annealing.state import Population, State
from polinfer.core.errors import PolinferError
from polinfer.core.stopping import stop_requested
from polinfer.exact.bounds import known_policies
from polinfer.problems.tabular.table import TabularMDP, check_table

R = TypeVar("R")
Progress = Callable[[float, float], None]
"""Called with the share of the work that is done, about, and one."""

_MOST_SAMPLED = 1 << 24  # entries of the sample


class AnnealingRun:
    """A run that can be stopped between steps, written down as arrays, and resumed with the same bits.

    Parameters
    ----------
    table
        The problem.
    config
        Settings.
    scales
        Reward scales to report, as multiples of the problem's own.
    seed
        Of the run.
    """

    def __init__(
        self,
        table: TabularMDP,
        config: TemperedConfig | None = None,
        *,
        scales: Iterable[float] = (1.0,),
        seed: int = 0,
    ) -> None:
        check_table(table)
        self.table, self.config, self.seed = table, config or TemperedConfig(), seed
        self.scales = check_scales(scales)
        whole = reduce_table(table)
        parts, self.constant = split(whole)
        if not parts:
            raise PolinferError("there is nothing to sample: no state of the problem has a choice")
        self._together = list_together(whole, parts) if self.config.enumerate_up_to >= BATCH else {}
        self.problems = [
            part if number in self._together else padded(arrange(part)) for number, part in enumerate(parts)
        ]
        # Errors of parts add up in squares.
        tolerance = self.config.evidence_tolerance / np.sqrt(len(parts))
        self.part_config = replace(self.config, evidence_tolerance=float(tolerance))
        each = min(self.config.policies, _MOST_SAMPLED // (table.num_states * self.config.islands))
        self.sampled = self.config.islands * max(1, each)
        self.done: list[PartPosterior] = []
        self.state: State | None = None
        self.population: Population | None = None  # of the same part at the scale before
        self._listed: tuple[int, Listed | None] = (-1, None)
        self._annealer: tuple[tuple[int, int, int, float], Annealer] | None = None
        self._parted: tuple[tuple[int, int, int, float], Parting | None, Annealer | None] | None = None
        self.scout: State | None = None  # of a round that looks for what was missed
        self.cut: Cut | None = None  # where the part that is being annealed was split

    @property
    def jobs(self) -> int:
        """Number of parts times number of scales."""
        return len(self.problems) * len(self.scales)

    @property
    def finished(self) -> bool:
        """Whether all jobs are done."""
        return len(self.done) == self.jobs

    @property
    def progress(self) -> float:
        """Share of the work that is done, estimated; it may go down where more turns out to be left."""
        if self.finished:
            return 1.0
        if self.state is None or self._annealer is None:
            return len(self.done) / self.jobs
        work = work_of(self._annealer[1], self.state)
        # Parts that were enumerated took no moves; those to come are taken to be like this one, by size.
        scales, size = len(self.scales), [problem.gain.size for problem in self.problems]
        part = len(self.done) // scales
        sampled = sum(size[n // scales] for n, found in enumerate(self.done) if not found.exact)
        to_come = sum(size[n] for n in range(part + 1, len(size)) if n not in self._together)
        left = (part + 1) * scales - len(self.done) - 1
        if self.cut is not None:
            left = len(self.cut.open) * scales - len(self.cut.found) % scales - 1
            sampled += len(self.cut.found) * size[part]
        others = scales * to_come + left * size[part]
        done = work.done + work.total * sampled / size[part]
        return done / (done + work.left + work.total * others / size[part])

    def step(self, *, hurry: bool = False) -> None:
        """Do some more: enumerate a part, or take a step of the one that is being annealed.

        With `hurry`, a part is finished as it is; one that has not reached the posterior goes there in one
        step, with the error that this has.
        """
        part, place = divmod(len(self.done), len(self.scales))
        if self.cut is not None:
            self._step_branch(part, self.cut, hurry)
            return
        # The largest scale first; the others go on from it.
        scale, own_seed = self.scales[-1 - place], self.seed + 7919 * part
        if self.state is None and self.config.enumerate_up_to:
            closed = closed_form(self.problems[part], scale, self.sampled, own_seed)
            if closed is not None:
                self.done.append(closed)
                return
            listed = self._list(part)
            if listed is not None:
                problem = self.problems[part]
                self.done.append(listed_posterior(problem, listed, scale, self.sampled, own_seed))
                return
        annealer = self._anneal(part, place, None)
        parting = None
        if self.state is None and not place and self.config.split == "always":
            parting = self._parting(annealer)
        elif self.scout is not None and not hurry:
            parting = self._look_around(annealer)
            if parting is None:
                return
        if parting is not None:
            whole = Branch(annealer.problem.prior, 0.0, annealer.known)
            self.cut, self.state = Cut(tuple(split_branch(annealer.problem, whole, parting)), (), ()), None
            return
        found = self._advance(annealer, self.done, place, own_seed, hurry)
        if found is not None:
            self.done.append(found)
        elif self._piloted(annealer, place):
            self._send_scout(annealer)

    def _advance(
        self, annealer: Annealer, before: Sequence[PartPosterior], place: int, own_seed: int, hurry: bool
    ) -> PartPosterior | None:
        """Take a step of what is being annealed, and return its posterior where that was the last one."""
        self.scout = None  # who is in a hurry does not wait for one
        population = self.population if place else None
        if self.state is None:
            self.state = annealer.init() if population is None else annealer.take_over(population)
        self.state = annealer.hasten(self.state) if hurry else annealer.step(self.state)
        if not self.state.finished:
            return None
        found = annealed_posterior(annealer, self.state, self.sampled, own_seed)
        if population is not None:
            total = float(np.hypot(found.log_evidence_stderr, before[-1].log_evidence_stderr))
            found = found._replace(log_evidence_stderr=total)
        self.population, self.state = annealer.hand_over(self.state), None
        return found

    def _piloted(self, annealer: Annealer, place: int) -> bool:
        """Whether what is being annealed has just ended its pilot rounds."""
        state = self.state
        ended = state is not None and not state.inverse and len(state.round_steps) == annealer.pilots
        return ended and not place

    def _parting(self, annealer: Annealer) -> Parting | None:
        """Return where ways part; not asked where moves take long."""
        number = self._number
        if self._parted is None or self._parted[0] != number:
            long = annealer.effort.long
            found = None if long else find_parting(annealer.ensemble, annealer.known)
            self._parted = (number, found, None if found is None else scout_of(annealer))
        return self._parted[1]

    def _send_scout(self, annealer: Annealer) -> None:
        """Begin to look for ways that pilot rounds from soft values missed, if there are any near ones."""
        asked = self.config.split == "auto" and self.config.start == "soft"
        parting = self._parting(annealer) if asked else None
        if parting is not None and (self.cut is None or has_room(self.cut, parting)):
            assert self._parted is not None
            assert self._parted[2] is not None
            self.scout = self._parted[2].init()

    def _look_around(self, annealer: Annealer) -> Parting | None:
        """Take a step of the scout; return where to split, if it came elsewhere."""
        parting = self._parting(annealer)
        assert self.scout is not None
        assert self.state is not None
        assert parting is not None
        assert self._parted is not None
        scout = self._parted[2]
        assert scout is not None
        self.scout = scout.step(self.scout)
        if not len(self.scout.round_steps) and not self.scout.finished:
            return None
        found, so_far, self.scout = scout.estimate(self.scout), annealer.estimate(self.state), None
        assert found is not None
        assert so_far is not None
        return parting if came_elsewhere(found, so_far, parting) else None

    def _step_branch(self, part: int, cut: Cut, hurry: bool) -> None:
        """Do some more of a part that was split; merge its branches after the last one."""
        scales, own_seed = len(self.scales), self.seed + 7919 * part
        place, branch = len(cut.found) % scales, cut.open[0]
        annealer = self._anneal(part, place, cut)
        if self.scout is not None and not hurry:
            parting = self._look_around(annealer)
            if parting is not None:
                branches = split_branch(annealer.problem, branch, parting)
                self.cut, self.state = cut._replace(open=(*branches, *cut.open[1:])), None
            return
        found = self._advance(annealer, cut.found, place, own_seed + 1 + len(cut.found), hurry)
        if found is None and self._piloted(annealer, place):
            assert self.state is not None
            so_far = annealer.estimate(self.state)
            assert so_far is not None
            branch = weigh(branch, so_far, cut)
            self.cut = cut._replace(open=(branch, *cut.open[1:]))
            if branch.weight >= WORTH_SPLITTING:
                self._send_scout(self._anneal(part, place, self.cut))
        if found is None:
            return
        cut = cut._replace(found=(*cut.found, found))
        if place + 1 == scales:
            cut = cut._replace(open=cut.open[1:], log_shares=(*cut.log_shares, branch.log_share))
        self.cut = cut
        if not cut.open:
            evaluate, islands = annealer.ensemble.evaluate, self.config.islands
            self.done += [
                merge(self.problems[part], cut.log_shares, cut.found[at::scales], evaluate, islands, own_seed)
                for at in range(scales)
            ]
            self.cut = None

    def _list(self, part: int) -> Listed | None:
        if part in self._together:
            return self._together[part]
        if self._listed[0] != part:
            limit = self.config.enumerate_up_to
            self._listed = (part, list_classes(self.problems[part], limit, self.seed))
        return self._listed[1]

    def _anneal(self, part: int, place: int, cut: Cut | None) -> Annealer:
        """Return the annealer of a part, or of the first open branch of one that was split, at a scale."""
        open_, closed = (0, 0) if cut is None else (len(cut.open), len(cut.log_shares))
        # At smaller scales a branch may hold another share than at the largest, where it was weighed.
        weight = 1.0 if cut is None or place else cut.open[0].weight
        number = (part * len(self.scales) + place, open_, closed, weight)
        if self._annealer is None or self._annealer[0] != number:
            problem, scale = self.problems[part], self.scales[-1 - place]
            seed = self.seed + 104_729 * number[0] + 15_485_863 * open_ + 49_979_687 * closed
            if cut is None:
                known = np.where(problem.occupied[:, None], self._good[:, problem.state].T, 0)
                annealer = Annealer(problem, self.part_config, scale=scale, seed=seed, known=known)
            else:
                branch = cut.open[0]._replace(weight=weight)
                annealer = Annealer(
                    branch_problem(problem, branch),
                    branch_config(self.part_config, branch),
                    scale=scale,
                    seed=seed,
                    known=branch.known,
                    around_known=True,
                )
            self._annealer = (number, annealer)
        return self._annealer[1]

    @property
    def _number(self) -> tuple[int, int, int, float]:
        """What is being annealed now."""
        assert self._annealer is not None
        return self._annealer[0]

    @cached_property
    def _good(self) -> NDArray[np.int64]:
        """Policies ``[K, S]`` that optimisation finds."""
        return known_policies(self.table)

    def answer(self) -> AnnealedPath:
        """Return the posterior as it is known now, with its error, at any moment; the run can go on after it.

        What was not begun is annealed in one step.
        """
        before = (list(self.done), self.state, self.population, self._annealer, self.cut, self.scout)
        while not self.finished:
            self.step(hurry=True)
        found = self.result()
        self.done, self.state, self.population, self._annealer, self.cut, self.scout = before
        return found

    def result(self) -> AnnealedPath:
        """Return the posterior at each scale."""
        if not self.finished:
            raise PolinferError("the run is not finished; take more steps")
        scales = self.scales
        points = [
            join(
                self.table,
                self.problems,
                self.done[len(scales) - 1 - place :: len(scales)],
                scale,
                self.constant,
            )
            for place, scale in enumerate(scales)
        ]
        annealed = sum(not part.exact for part in self.done[:: len(scales)])
        return AnnealedPath(self.table, tuple(points), len(self.problems), annealed)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return all that a run needs to go on, besides its table, settings and seed."""
        arrays = {"done": np.asarray(len(self.done))}
        for number, part in enumerate(self.done):
            arrays |= pack(f"part{number}", part)
        if self.state is not None:
            arrays |= pack("state", self.state)
        if self.scout is not None:
            arrays |= pack("scout", self.scout)
        if self.population is not None and len(self.scales) > 1:
            arrays |= pack("population", self.population)
        if self.cut is not None:
            arrays["cut.log_shares"] = np.array(self.cut.log_shares)
            for number, branch in enumerate(self.cut.open):
                arrays |= pack(f"cut.open{number}", branch)
            for number, found in enumerate(self.cut.found):
                arrays |= pack(f"cut.found{number}", found)
        return arrays

    def from_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Go on from where `to_arrays` was called."""
        count = int(arrays["done"])
        self.done = [unpack(f"part{number}", PartPosterior, arrays) for number in range(count)]
        running = any(name.startswith("state.") for name in arrays)
        self.state = unpack("state", State, arrays) if running else None
        scouting = any(name.startswith("scout.") for name in arrays)
        self.scout = unpack("scout", State, arrays) if scouting else None
        kept = any(name.startswith("population.") for name in arrays)
        self.population = unpack("population", Population, arrays) if kept else None
        self.cut = None
        if "cut.log_shares" in arrays:

            def listed(name: str, kind: type[R]) -> tuple[R, ...]:
                count = len({key.split(".")[1] for key in arrays if key.startswith(f"cut.{name}")})
                return tuple(unpack(f"cut.{name}{number}", kind, arrays) for number in range(count))

            shares = tuple(float(share) for share in arrays["cut.log_shares"])
            self.cut = Cut(listed("open", Branch), shares, listed("found", PartPosterior))


def states_where_ways_part(table: TabularMDP, config: TemperedConfig) -> NDArray[np.int64]:
    """Return the states at which ``split="always"`` splits a problem, one for each part that it splits."""
    run = AnnealingRun(table, config)
    states = []
    for part, problem in enumerate(run.problems):
        if run.config.enumerate_up_to and (
            closed_form(problem, 1.0, run.config.islands, 0) is not None or run._list(part) is not None
        ):
            continue
        parting = run._parting(run._anneal(part, 0, None))
        if parting is not None:
            states.append(problem.state[parting.slot])
    return np.array(states, np.int64)


def anneal(
    table: TabularMDP,
    config: TemperedConfig | None = None,
    *,
    scales: Iterable[float] = (1.0,),
    seed: int = 0,
    progress: Progress | None = None,
    checkpoint: Callable[[dict[str, NDArray[Any]]], None] | None = None,
    resume: Mapping[str, NDArray[Any]] | None = None,
) -> AnnealedPath:
    """Return the posterior over deterministic policies, ``p(pi) ∝ exp(scale * J(pi))``, at each scale.

    Parameters
    ----------
    table
        The problem.
    config
        Settings; `TemperedConfig` by default.
    scales
        Reward scales to report, as multiples of the problem's own.
    seed
        Of the run; the same seed gives the same bits.
    progress
        Called after each step.
    checkpoint
        Called after each step with arrays that `resume` takes.
    resume
        Where to go on.

    Examples
    --------
    >>> import polinfer
    >>> table = polinfer.tabulate(polinfer.make("gridworld/ablation"))
    >>> point = anneal(table).at(1.0)
    >>> exact = polinfer.exact.policy_posterior(table).posterior
    >>> point.exact, bool(abs(point.log_evidence - exact.log_evidence) < 1e-9)
    (True, True)
    """
    began = time.monotonic()
    run = AnnealingRun(table, config, scales=scales, seed=seed)
    limit = run.config.time_limit
    if resume is not None:
        run.from_arrays(resume)
    while not run.finished:
        late = limit is not None and time.monotonic() - began > limit
        run.step(hurry=late or bool(stop_requested()))
        if progress is not None:
            progress(run.progress, 1.0)
        if checkpoint is not None:
            checkpoint(run.to_arrays())
    return run.result()
