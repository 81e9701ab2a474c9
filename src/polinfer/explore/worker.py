"""The process that computes: it takes one request after another and sends back progress and records."""

from __future__ import annotations

import os
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import jax
import msgspec

from polinfer.core.errors import LONGEST_COMPLAINT, PolinferError, shorten
from polinfer.core.progress import Report
from polinfer.explore import answers, questions
from polinfer.explore.limits import make_problem
from polinfer.explore.records import MAX_SECONDS, GridProblem, JobRequest, NamedProblem, OpenedProblem
from polinfer.methods.inference import infer, resolve
from polinfer.posterior.posterior import Posterior
from polinfer.problems.registry import Problem
from polinfer.problems.tables import shared_table
from polinfer.problems.tabular import TabularMDP
from polinfer.runs.folder import load

READY = -1  # the number of the message that a worker starts with; its share is the time of day
_KEPT = 8  # posteriors
_NICE = 10  # the page goes before what it waits for
_TIME_LIMIT = 0.7 * MAX_SECONDS  # of one inference, which then ends its step


class Task(msgspec.Struct, frozen=True):
    """What the server sends."""

    number: int
    request: JobRequest
    sources: dict[str, str]
    save: str | None = None  # write the posterior into this folder


class Message(msgspec.Struct, frozen=True):
    """What the worker sends: a share while it computes, then a record or an error, or neither."""

    number: int
    share: float | None = None
    note: str = ""
    row: tuple[float, float] | None = None
    record: bytes | None = None
    error: str | None = None
    cancelled: bool = False


class CancelledError(Exception):
    """A newer request has come."""


def work(pipe: Connection, latest_cancelled: Any, cache: str) -> None:
    """Serve `pipe` until it closes; tasks up to number `latest_cancelled` stop at their next report."""
    if hasattr(os, "nice"):
        os.nice(_NICE)
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        # A worker that takes the place of another has its compiled programs.
        jax.config.update("jax_compilation_cache_dir", cache)  # type: ignore[no-untyped-call]
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)  # type: ignore[no-untyped-call]
    solver = Solver()
    pipe.send_bytes(msgspec.json.encode(Message(READY, time.time())))
    while True:
        try:
            task = msgspec.json.decode(pipe.recv_bytes(), type=Task)
        except (EOFError, OSError, KeyboardInterrupt):
            return
        try:
            pipe.send_bytes(msgspec.json.encode(_answer(solver, task, pipe, latest_cancelled)))
        except (BrokenPipeError, OSError, KeyboardInterrupt):
            return


def _answer(solver: Solver, task: Task, pipe: Connection, latest_cancelled: Any) -> Message:
    sent = 0.0

    def tell(share: float, note: str = "", row: tuple[float, float] | None = None) -> None:
        nonlocal sent
        if task.number <= latest_cancelled.value:
            raise CancelledError
        if pipe.poll():  # A quick question, which this pauses for.
            other = msgspec.json.decode(pipe.recv_bytes(), type=Task)
            pipe.send_bytes(msgspec.json.encode(_answer(solver, other, pipe, latest_cancelled)))
        now = time.monotonic()
        if row is not None or now - sent > 0.1:
            sent = now
            pipe.send_bytes(msgspec.json.encode(Message(task.number, share, note, row)))

    try:
        tell(0.0, "starting")
        solver.sources = task.sources
        if task.save is not None:
            posterior = solver.posterior(task.request, tell)
            if task.request.given:
                posterior = questions.condition(posterior, dict(task.request.given))
            posterior.save(task.save)
            return Message(task.number, record=msgspec.json.encode(Path(task.save).name))
        return Message(task.number, record=msgspec.json.encode(solver.solve(task.request, tell)))
    except CancelledError:
        return Message(task.number, cancelled=True)
    except PolinferError as error:
        return Message(task.number, error=shorten(str(error), LONGEST_COMPLAINT))
    except OSError as error:
        return Message(task.number, error=f"{error.strerror or error}")
    except Exception as error:  # A bug must not end the session.
        said = shorten(f"{type(error).__name__}: {error}", LONGEST_COMPLAINT)
        return Message(task.number, error=f"this failed unexpectedly ({said})")


Tell = Callable[..., None]


@dataclass
class Solver:
    """Posteriors that were computed, by problem, scale and precision."""

    sources: dict[str, str] = field(default_factory=dict)
    kept: OrderedDict[tuple[str, float, int, bool], Posterior] = field(default_factory=OrderedDict)

    def solve(self, request: JobRequest, tell: Tell) -> Any:
        """Return the record that a request asks for."""
        began = time.monotonic()
        match request.kind:
            case "problem":
                return answers.problem_info(self.problem(request), _title(request))
            case "draft":
                posterior = self.posterior(request, tell, draft=True)
                rough = posterior.config == answers.DRAFT
                return answers.answer_record(posterior, draft=rough, began=began, scale=request.scale)
            case "answer":
                posterior = self.posterior(request, tell)
                return answers.answer_record(posterior, draft=False, began=began, scale=request.scale)
            case "path":
                return self._path(request, tell)
            case "explain":
                posterior = self.posterior(request, tell, draft=request.draft)
                return answers.explanation_record(posterior, request.scale)
            case "certificate":
                return answers.certificate_record(self.posterior(request, tell))
            case "neighbours":
                return answers.neighbour_records(self.table(request), request.scale)
            case "soft":
                return answers.soft_record(self.table(request), request.scale)
            case "vsmc":
                return self._vsmc(request, tell)
            case "given":
                posterior = self.posterior(request, tell, draft=request.draft)
                rough = posterior.config == answers.DRAFT
                return questions.given_record(
                    posterior, dict(request.given), draft=rough, scale=request.scale
                )

    def problem(self, request: JobRequest) -> Problem:
        """Make the problem, at its own rewards."""
        return make_problem(request.problem, self.sources)

    def scaled(self, request: JobRequest) -> Problem:
        """Make the problem at the scale where the slider stands."""
        if request.scale == 1.0:
            return self.problem(request)
        scale = request.problem.reward_scale * request.scale
        problem = msgspec.structs.replace(request.problem, reward_scale=scale)
        return self.problem(msgspec.structs.replace(request, problem=problem))

    def table(self, request: JobRequest) -> TabularMDP:
        """Return the table at that scale."""
        return shared_table(self.scaled(request))

    def posterior(self, request: JobRequest, tell: Tell, draft: bool = False) -> Posterior:
        """Infer, or return what was inferred."""
        full = (request.problem_key, request.scale, request.seed, False)
        key = (*full[:3], draft)
        for known in (full, key):
            if known in self.kept:
                self.kept.move_to_end(known)
                return self.kept[known]
        run = self._run_folder(request)
        if run is not None:
            found = load(run)
            if found.table_probs() is None:
                raise PolinferError("the problem of this run has no table, so the page cannot draw it")
        else:
            problem = self.scaled(request)
            chosen = resolve(problem, "auto")
            if draft and chosen.config.method != "exact":
                found = infer(
                    problem, answers.DRAFT, seed=request.seed, progress=_teller(tell, "first answer")
                )
            else:
                # The best answer so far is better than none when the session's patience ends.
                found = infer(
                    problem, seed=request.seed, time_limit=_TIME_LIMIT, progress=_teller(tell, "posterior")
                )
                key = full
        self.kept[key] = found
        while len(self.kept) > _KEPT:
            self.kept.popitem(last=False)
        return found

    def _run_folder(self, request: JobRequest) -> Path | None:
        problem = request.problem
        plain = problem.horizon is None and problem.reward_scale == 1.0 and request.scale == 1.0
        if not isinstance(problem, OpenedProblem) or not plain:
            return None
        path = Path(self.sources.get(problem.digest, ""))
        return path if problem.digest in self.sources and path.is_dir() else None

    def _path(self, request: JobRequest, tell: Tell) -> Any:
        tell(0.0, "reward scales")
        return answers.follow_path(self.problem(request), seed=request.seed, progress=_teller(tell, ""))

    def _vsmc(self, request: JobRequest, tell: Tell) -> Any:
        """Train the paper's method for a short while, its learning curve live."""
        posterior = infer(
            self.scaled(request),
            "vsmc",
            sweeps=request.sweeps,
            seed=request.seed,
            progress=_teller(tell, "VSMC"),
            checkpoint=_Curve(tell, request.sweeps),
        )
        return answers.executed(
            self.table(request),
            "VSMC (paper)",
            answers.marginal_policy(posterior),
            note=f"ten particles, {request.sweeps:,} sweeps, seed {request.seed}",
            scale=request.scale,
        )


class _Curve:
    """Keeps nothing: hands the newest row of the trace to the page."""

    def __init__(self, tell: Tell, total: int) -> None:
        self._tell, self._total = tell, total

    def read(self) -> None:
        """There is nothing to go on from."""

    def write(self, snapshot: Any) -> None:
        """Send the last point of the learning curve."""
        trace = snapshot.trace
        if trace is not None and len(trace) and "log_evidence" in trace:
            row = (float(trace.done[-1]), float(trace["log_evidence"][-1].mean()))
            self._tell(row[0] / self._total, "VSMC", row)


def _teller(tell: Tell, what: str) -> Callable[[Report], None]:
    def progress(report: Report) -> None:
        tell(report.done / max(report.total, 1e-300), what or report.unit)

    return progress


def _title(request: JobRequest) -> str:
    problem = request.problem
    if isinstance(problem, GridProblem):
        return "your map"
    return problem.name if isinstance(problem, NamedProblem) else "opened problem"
