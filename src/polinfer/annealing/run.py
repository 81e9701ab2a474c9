"""A whole run: the problem taken apart, small parts enumerated, the others annealed one by one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polinfer.annealing.annealer import Annealer
from polinfer.annealing.arrays import pack, unpack
from polinfer.annealing.buckets import padded
from polinfer.annealing.closed_form import closed_form
from polinfer.annealing.config import TemperedConfig, check_scales
from polinfer.annealing.decompose import split
from polinfer.annealing.enumerate import BATCH, Listed, list_classes, list_together
from polinfer.annealing.parts import PartPosterior, annealed_posterior, join, listed_posterior
from polinfer.annealing.path import AnnealedPath
from polinfer.annealing.problem import arrange, reduce_table
from polinfer.annealing.remaining import work_of
from polinfer.annealing.state import Population, State
from polinfer.core.errors import PolinferError
from polinfer.core.stopping import stop_requested
from polinfer.exact.bounds import known_policies
from polinfer.problems.tabular.table import TabularMDP, check_table

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
        self._annealer: tuple[int, Annealer] | None = None

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
        others = scales * to_come + ((part + 1) * scales - len(self.done) - 1) * size[part]
        done = work.done + work.total * sampled / size[part]
        return done / (done + work.left + work.total * others / size[part])

    def step(self, *, hurry: bool = False) -> None:
        """Do some more: enumerate a part, or take a step of the one that is being annealed.

        With `hurry`, a part is finished as it is; one that has not reached the posterior goes there in one
        step, with the error that this has.
        """
        number = len(self.done)
        part, place = divmod(number, len(self.scales))
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
        annealer = self._anneal(number, part, scale)
        population = self.population if place else None
        if self.state is None:
            self.state = annealer.init() if population is None else annealer.take_over(population)
        self.state = annealer.hasten(self.state) if hurry else annealer.step(self.state)
        if self.state.finished:
            found = annealed_posterior(annealer, self.state, self.sampled, own_seed)
            if population is not None:
                before = self.done[-1].log_evidence_stderr
                total = float(np.hypot(found.log_evidence_stderr, before))
                found = found._replace(log_evidence_stderr=total)
            self.done.append(found)
            self.population, self.state = annealer.hand_over(self.state), None

    def _list(self, part: int) -> Listed | None:
        if part in self._together:
            return self._together[part]
        if self._listed[0] != part:
            limit = self.config.enumerate_up_to
            self._listed = (part, list_classes(self.problems[part], limit, self.seed))
        return self._listed[1]

    def _anneal(self, number: int, part: int, scale: float) -> Annealer:
        if self._annealer is None or self._annealer[0] != number:
            seed = self.seed + 104729 * number
            problem = self.problems[part]
            known = np.where(problem.occupied[:, None], self._good[:, problem.state].T, 0)
            annealer = Annealer(problem, self.part_config, scale=scale, seed=seed, known=known)
            self._annealer = (number, annealer)
        return self._annealer[1]

    @cached_property
    def _good(self) -> NDArray[np.int64]:
        """Policies ``[K, S]`` that optimisation finds."""
        return known_policies(self.table)

    def answer(self) -> AnnealedPath:
        """Return the posterior as it is known now, with its error, at any moment; the run can go on after it.

        What was not begun is annealed in one step.
        """
        before = (list(self.done), self.state, self.population, self._annealer)
        while not self.finished:
            self.step(hurry=True)
        found = self.result()
        self.done, self.state, self.population, self._annealer = before
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
        if self.population is not None and len(self.scales) > 1:
            arrays |= pack("population", self.population)
        return arrays

    def from_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Go on from where `to_arrays` was called."""
        count = int(arrays["done"])
        self.done = [unpack(f"part{number}", PartPosterior, arrays) for number in range(count)]
        running = any(name.startswith("state.") for name in arrays)
        self.state = unpack("state", State, arrays) if running else None
        kept = any(name.startswith("population.") for name in arrays)
        self.population = unpack("population", Population, arrays) if kept else None


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
