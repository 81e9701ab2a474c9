"""`polinfer reproduce`: the paper's tables and figures, again."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from polinfer.cli.output import OutputFlags, print_json, remarks, tables
from polinfer.cli.report import claims_table
from polinfer.core.errors import PolinferError, check_at_least, suggest
from polinfer.core.files import read_record
from polinfer.core.threads import thread_limit
from polinfer.reproduce.budgets import budget_named
from polinfer.reproduce.experiments import EXPERIMENTS
from polinfer.reproduce.findings import as_json, gather
from polinfer.reproduce.page import write_page
from polinfer.reproduce.runner import Finished, missing, run_units
from polinfer.reproduce.schedule import Expectation, Known, longest_first, time_left
from polinfer.reproduce.store import TIMES, UNITS, Store
from polinfer.reproduce.unit import Unit
from polinfer.reproduce.worker import PROGRESS, Attempt, Done
from polinfer.runs.lock import hold

_LOOK = 2.0  # seconds between looks at what units are doing
_TELLING = 0.05  # of a unit; from here on its own progress says how long it takes
_HOUR = 3600


@dataclass(frozen=True)
class Reproduce(OutputFlags):
    """Rerun the paper's tables and figures, and judge its claims.

    Everything is kept in --out as it is finished: stopped or killed at any moment, the same command goes on.
    Budgets: smoke shows that all runs (minutes), quick gives a first impression, paper is the paper's own:
    25 seeds, 10 particles, 50,000 sweeps, 1,000,000 steps of SAC, 10,000 episodes a run (hours).

    Examples: 'polinfer reproduce all --budget smoke', 'polinfer reproduce blackjack tireworld --budget quick
    --jobs 2', 'polinfer reproduce all --budget paper --cluster tcp://10.0.0.1:8786'.
    """

    experiments: tyro.conf.Positional[tuple[str, ...]]
    """Names from 'polinfer list', or 'all'."""
    budget: Literal["smoke", "quick", "paper"] = "quick"
    """How much to spend."""
    out: Path = Path("runs/reproduce")
    """Folder for the results; what is finished there is not run again."""
    jobs: Annotated[int, tyro.conf.arg(help_behavior_hint="(default: one per core)")] = thread_limit()
    """Units to run at a time, each in a process of its own."""
    cluster: str | None = None
    """Address of a Dask scheduler whose workers do the work, such as tcp://10.0.0.1:8786."""
    methods: tuple[str, ...] = ()
    """Run only units of these methods now (vsmc, wake, sac, ...); the others wait for another time."""
    dry_run: bool = False
    """Run nothing; say what is missing and about how long it takes, judged by what is finished in --out."""

    def run(self) -> None:
        """Run what is missing, then tell what came of it."""
        names = check_names(self.experiments)
        check_at_least("jobs", self.jobs, 1)
        budget, store = budget_named(self.budget), Store(self.out)
        units = [unit for name in names for unit in EXPERIMENTS[name].units(budget)]
        todo = [u for u in missing(units, store) if not self.methods or u.method in self.methods]
        known = _finished_times(units, store)
        if budget.optimised:
            todo = longest_first(todo, Expectation(known))
        else:
            # One problem after the other, whichever experiments it is in: its units share programs.
            todo.sort(key=lambda unit: unit.domain)
        if self.methods and not any(unit.method in self.methods for unit in units):
            names_known = sorted({unit.method for unit in units})
            raise PolinferError(
                f"no unit has the method {self.methods[0]!r}; there are {', '.join(names_known)}"
            )
        if self.dry_run:
            self._tell_expected(todo, known)
            return
        if not budget.optimised:
            _compile_quickly()
        hold(self.out, UNITS, TIMES)
        with _progress(todo, len(units), store, known, self.jobs) as finished:
            failed = run_units(todo, store, jobs=self.jobs, cluster=self.cluster, finished=finished)
        store.clear(units)
        findings = gather(store, budget, names)
        page = self.out / "report.html"
        write_page(findings, page, self._command())
        if self.json:
            print_json(as_json(findings) | {"report": str(page)})
        else:
            tables().print(claims_table(findings))
            remarks().print(f"report: {page}", markup=False, soft_wrap=True)
        if failed:
            first = failed[0]
            raise PolinferError(
                f"{len(failed)} of {len(todo)} units could not be done, the first being {first.unit.method} "
                f"on {first.unit.domain}: {first.reason}"
            )

    def _tell_expected(self, todo: list[Unit], known: Known) -> None:
        expectation = Expectation(known)
        seconds = [expectation.seconds(unit) for unit in todo]
        left = time_left(seconds, (), self.jobs)
        if self.json:
            print_json(
                {
                    "missing": len(todo),
                    "worker_seconds": sum(seconds),
                    "seconds": left,
                    "measured": len(known),
                }
            )
            return
        remarks().print(
            f"{len(todo)} units are missing: about {_duration(left)} with {self.jobs} jobs "
            f"({_duration(sum(seconds))} of work), judged by {len(known)} finished units",
            soft_wrap=True,
        )

    def _command(self) -> str:
        return f"polinfer reproduce {' '.join(self.experiments)} --budget {self.budget}"


def _compile_quickly() -> None:
    """Choose XLA's older code generator, in one piece, here and in workers: it takes a third of the time."""
    given = os.environ.get("XLA_FLAGS", "").split()
    chosen = ("--xla_cpu_use_fusion_emitters=false", "--xla_cpu_parallel_codegen_split_count=1")
    # Once each: JAX looks for compiled programs on disk by these flags, too.
    os.environ["XLA_FLAGS"] = " ".join([*given, *(flag for flag in chosen if flag not in given)])


def check_names(given: Sequence[str]) -> list[str]:
    """Return the experiments asked for, in the order of the paper."""
    if not given:
        raise PolinferError(f"name an experiment or all; there are {', '.join(EXPERIMENTS)}")
    for name in given:
        if name != "all" and name not in EXPERIMENTS:
            raise PolinferError(
                f"unknown experiment {name!r}{suggest(name, EXPERIMENTS)}; there are all, "
                + ", ".join(EXPERIMENTS)
            )
    return [name for name in EXPERIMENTS if "all" in given or name in given]


def _finished_times(units: list[Unit], store: Store) -> Known:
    times = {unit.key: (unit, store.read_times(unit)) for unit in units}
    return [(unit, found.seconds) for unit, found in times.values() if found is not None]


@contextmanager
def _progress(todo: list[Unit], total: int, store: Store, known: Known, jobs: int) -> Iterator[Finished]:
    """Show how many units are finished, how far those are that run, and about how much time is left."""
    known, ended = list(known), set[str]()
    bar = Progress(
        TextColumn("units"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[state]}"),
        console=remarks(),
    )
    task = bar.add_task("", total=len(todo), state="")
    over = threading.Event()

    def look() -> None:
        while not over.wait(_LOOK):
            waiting = [unit for unit in todo if unit.key not in ended]
            bar.update(task, state=_running(waiting, store, Expectation(known), jobs))

    def finished(done: Done) -> None:
        bar.advance(task)
        known.append((done.unit, done.times.seconds))
        ended.add(done.unit.key)
        if not bar.console.is_terminal:
            # In a log, a line for each; on a terminal the bar moves.
            bar.console.print(f"{time.strftime('%H:%M:%S')} {done.unit.key} {done.times.seconds:.0f} s")

    if not todo:
        remarks().print(f"all {total} units are finished already")
        yield finished
        return
    watcher = threading.Thread(target=look, daemon=True)
    with bar:
        watcher.start()
        try:
            yield finished
        finally:
            over.set()
            watcher.join()
            bar.update(task, state="")


def _running(unfinished: list[Unit], store: Store, expectation: Expectation, jobs: int) -> str:
    """Say which units are at work, how far they are, and how much time is left for all."""
    parts, running, waiting = [], [], []
    for unit in unfinished:
        try:
            now = read_record(store.scratch(unit) / PROGRESS, Attempt)
        except PolinferError:
            waiting.append(expectation.seconds(unit))
            continue
        if 0 < now.done < now.total:
            parts.append(f"{unit.domain} {unit.method} {100 * now.done / now.total:.0f}%")
        share = now.done / now.total if now.total else 0.0
        by_progress = now.seconds * (1 - share) / share if share > _TELLING else None
        running.append(
            max(0.0, expectation.seconds(unit) - now.seconds) if by_progress is None else by_progress
        )
    left = f"about {_duration(time_left(waiting, running, jobs))} left"
    return ", ".join([left, *parts[:4]])


def _duration(seconds: float) -> str:
    """Return a length of time as one would say it."""
    if seconds < _HOUR:
        return f"{max(1, round(seconds / 60))} min"
    return f"{seconds / _HOUR:.1f} h"
