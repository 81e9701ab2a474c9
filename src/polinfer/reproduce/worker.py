"""Doing one unit: train with checkpoints, evaluate, and say how long it took."""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import jax

from polinfer.core.errors import PolinferError
from polinfer.core.files import read_json, write_json
from polinfer.learning.fit import train
from polinfer.methods.inference import config_for
from polinfer.posterior.posterior import Posterior
from polinfer.posterior.saving import CONFIG
from polinfer.problems.registry import make
from polinfer.reproduce.answers import answer
from polinfer.reproduce.outcome import describe_bounds, describe_run
from polinfer.reproduce.samples import sample
from polinfer.reproduce.store import Outcome, Times, lock_of
from polinfer.reproduce.unit import SAMPLED, Unit
from polinfer.runs.folder import train_in_folder

PROGRESS = "progress.json"
_UNITS_KEPT = 24  # whose programs a worker keeps
_units = count(1)  # done by this process


class Done(NamedTuple):
    """A unit that is finished."""

    unit: Unit
    outcome: Outcome
    times: Times


class Failed(NamedTuple):
    """A unit that cannot be done."""

    unit: Unit
    reason: str


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
    _optimise(unit.optimised)
    try:
        if scratch is None:
            return _timed(unit, None, lambda report: _train(unit, None, report))
        with _alone(scratch):
            return _timed(
                unit, scratch, lambda report: _train(unit, scratch / "run", _watching(owner, report))
            )
    except PolinferError as error:
        return Failed(unit, str(error))
    finally:
        _optimise(True)
        _forget_programs()


def _forget_programs() -> None:
    """Now and then drop compiled programs: neighbouring units share some, but all of them fill the memory."""
    if next(_units) % _UNITS_KEPT == 0:
        jax.clear_caches()  # type: ignore[no-untyped-call]


def _optimise(on: bool) -> None:
    jax.config.update("jax_disable_most_optimizations", not on)  # type: ignore[no-untyped-call]


def _timed(unit: Unit, scratch: Path | None, run: Callable[[Callable[[int, Any], None]], Posterior]) -> Done:
    before = _spent(scratch)
    clock, cpu = time.perf_counter(), time.process_time()

    def so_far() -> Times:
        return Times(
            before.seconds + time.perf_counter() - clock, before.cpu_seconds + time.process_time() - cpu
        )

    def report(done: int, _: Any) -> None:
        if scratch is not None:
            write_json(scratch / PROGRESS, {"done": done, **so_far()._asdict()})

    return Done(unit, _outcome(unit, lambda: run(report)), so_far())


def _outcome(unit: Unit, run: Callable[[], Posterior]) -> Outcome:
    if unit.method in SAMPLED:
        return sample(unit)
    if not unit.is_trained:
        return answer(unit)
    posterior = run()
    outcome = describe_run(posterior, unit.episodes)
    return Outcome({**outcome.arrays, **describe_bounds(posterior)}) if unit.certified else outcome


def _spent(scratch: Path | None) -> Times:
    """Return what earlier attempts at a unit took."""
    try:
        found = {} if scratch is None else read_json(scratch / PROGRESS)
        return Times(float(found.get("seconds", 0.0)), float(found.get("cpu_seconds", 0.0)))
    except (PolinferError, TypeError, ValueError):
        return Times(0.0, 0.0)


def _train(unit: Unit, folder: Path | None, report: Callable[[int, Any], None]) -> Posterior:
    mdp, config = make(unit.domain, **unit.options), config_for(unit.method, **unit.settings)
    if folder is None:
        return train(mdp, unit.method, config, seed=unit.first_seed, seeds=unit.seeds, progress=report)

    def attempt(resume: bool) -> Posterior:
        return train_in_folder(
            mdp,
            unit.method,
            config,
            folder,
            seed=unit.first_seed,
            seeds=unit.seeds,
            resume=resume,
            progress=report,
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
    with lock_of(scratch).open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        scratch.mkdir(exist_ok=True)
        yield


def _watching(owner: int | None, report: Callable[[int, Any], None]) -> Callable[[int, Any], None]:
    """Return `report`, but end this process when it is a worker whose owner is gone."""

    def watch(done: int, trace: Any) -> None:
        if owner is not None and owner not in (os.getpid(), os.getppid()):
            os._exit(1)
        report(done, trace)

    return watch
