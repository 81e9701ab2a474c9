"""Doing one unit: train with checkpoints, evaluate, and say how long it took."""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import NamedTuple

import jax
import msgspec

from polinfer.core.errors import PolinferError
from polinfer.core.files import read_record, write_json
from polinfer.core.progress import Progress, Report
from polinfer.methods import infer
from polinfer.posterior.posterior import Posterior
from polinfer.posterior.saving import CONFIG
from polinfer.problems.registry import Problem, make
from polinfer.reproduce.answers import answer
from polinfer.reproduce.outcome import describe_bounds, describe_run, describe_samples
from polinfer.reproduce.problems import table_for
from polinfer.reproduce.store import Outcome, Times, lock_of
from polinfer.reproduce.unit import Unit
from polinfer.runs.folder import infer_in_folder
from polinfer.runs.lock import release_all, remove_parts

PROGRESS = "progress.json"
_UNITS_KEPT = 24  # whose programs a worker keeps
_units = count(1)  # done by this process


class Attempt(msgspec.Struct, frozen=True):
    """How far a unit is, and what it has taken, over all attempts."""

    done: float
    total: float
    seconds: float
    cpu_seconds: float


class Done(NamedTuple):
    """A unit that is finished."""

    unit: Unit
    outcome: Outcome
    times: Times


class Failed(NamedTuple):
    """A unit that cannot be done."""

    unit: Unit
    reason: str
    again: bool = False  # worth another attempt


def do_unit(unit: Unit, scratch: Path | None, owner: int | None) -> Done | Failed:
    """Run `unit` to its end, going on from where it stopped the last time.

    Parameters
    ----------
    unit
        What to run.
    scratch
        Folder for checkpoints on this machine; None where there is none to share, as on a cluster.
    owner
        The process that asked.  When it is gone, so is the reason to go on: whoever asks again would be
        waiting for this one.
    """
    try:
        with _optimised(unit.optimised):
            if scratch is None:
                return _timed(unit, None, owner)
            with _alone(scratch):
                return _timed(unit, scratch, owner)
    except PolinferError as error:
        return Failed(unit, str(error))
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "RESOURCE_EXHAUSTED" not in str(error):
            raise
        return Failed(unit, "there was not enough memory", again=True)
    finally:
        _forget_programs()


def _forget_programs() -> None:
    """Now and then drop compiled programs: neighbouring units share some, but all of them fill the memory."""
    if next(_units) % _UNITS_KEPT == 0:
        jax.clear_caches()  # type: ignore[no-untyped-call]


@contextmanager
def _optimised(on: bool) -> Iterator[None]:
    """Compile for speed, or for a short time to compile; then as before."""
    before: bool = jax.config.read("jax_disable_most_optimizations")  # type: ignore[no-untyped-call]
    jax.config.update("jax_disable_most_optimizations", not on)  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        jax.config.update("jax_disable_most_optimizations", before)  # type: ignore[no-untyped-call]


def _timed(unit: Unit, scratch: Path | None, owner: int | None) -> Done:
    before = _spent(scratch)
    clock, cpu = time.perf_counter(), time.process_time()

    def so_far() -> Times:
        return Times(
            before.seconds + time.perf_counter() - clock, before.cpu_seconds + time.process_time() - cpu
        )

    def report(now: Report) -> None:
        _leave_if_orphaned(owner)
        if scratch is not None:
            spent = so_far()
            attempt = Attempt(now.done, now.total, spent.seconds, spent.cpu_seconds)
            write_json(scratch / PROGRESS, msgspec.to_builtins(attempt))

    return Done(unit, _outcome(unit, scratch, report), so_far())


def _outcome(unit: Unit, scratch: Path | None, report: Progress) -> Outcome:
    if not unit.is_inferred:
        return answer(unit)
    mdp = make(unit.domain, **unit.options)
    if unit.is_trained:
        runs = [_infer(unit, mdp, scratch, report, unit.first_seed, unit.seeds)]
        outcome = describe_run(runs[0], unit.episodes)
    else:
        members = range(unit.first_seed, unit.first_seed + unit.seeds)
        runs = [_infer(unit, mdp, scratch, report, seed, 1) for seed in members]
        outcome = describe_samples(table_for(mdp), runs)
    return Outcome({**outcome.arrays, **describe_bounds(runs[0])}) if unit.certified else outcome


def _spent(scratch: Path | None) -> Times:
    """Return what earlier attempts at a unit took."""
    try:
        found = None if scratch is None else read_record(scratch / PROGRESS, Attempt)
    except PolinferError:
        found = None
    return Times(0.0, 0.0) if found is None else Times(found.seconds, found.cpu_seconds)


def _infer(
    unit: Unit, mdp: Problem, scratch: Path | None, report: Progress, seed: int, seeds: int
) -> Posterior:
    """Run the method of a unit, in a folder from which it can be resumed where there is one."""
    if scratch is None:
        return infer(mdp, unit.method, seed=seed, seeds=seeds, progress=report, **unit.settings)
    folder = scratch / f"run-{seed}"

    def attempt(resume: bool) -> Posterior:
        return infer_in_folder(
            mdp, unit.method, folder, seed=seed, seeds=seeds, resume=resume, progress=report, **unit.settings
        )

    if (folder / CONFIG).exists():
        try:
            return attempt(resume=True)
        except PolinferError:
            # A damaged checkpoint: the unit starts again.
            shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)
    return attempt(resume=False)


@contextmanager
def _alone(scratch: Path) -> Iterator[None]:
    """Hold a unit's folder; a worker that outlived its owner may need a moment to let go of it."""
    scratch.parent.mkdir(parents=True, exist_ok=True)
    # Nothing is written: what somebody put in its place is neither followed, emptied nor waited for.
    file = os.open(lock_of(scratch), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        scratch.mkdir(exist_ok=True)
        remove_parts(scratch)
        yield
    finally:
        release_all()
        os.close(file)


def _leave_if_orphaned(owner: int | None) -> None:
    """End this process when it is a worker whose owner is gone."""
    if owner is not None and owner not in (os.getpid(), os.getppid()):
        os._exit(1)
