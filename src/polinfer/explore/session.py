"""One worker process, its queue, and the records that it left; a newer problem ends an older one's work."""

from __future__ import annotations

import math
import multiprocessing
import tempfile
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any

import msgspec

from polinfer.core.errors import PolinferError
from polinfer.explore.records import MAX_SECONDS, JobRequest, JobState
from polinfer.explore.worker import READY, Message, Task, work

_CACHED = 128  # records
_PATIENCE = 2.0  # seconds for a cancelled task to end by itself, at least
_ORDER = (
    "problem", "draft", "given", "explain", "soft", "neighbours", "path", "answer", "certificate", "vsmc"
)  # fmt: skip
_QUEUED = 32
_QUICK = frozenset(("problem", "draft", "given", "explain", "soft", "neighbours"))
"""Questions that a longer computation pauses for: the worker answers them between two of its steps."""

Listener = Callable[[JobState], None]


@dataclass
class _Job:
    number: int
    request: JobRequest
    save: str | None = None
    began: float = 0.0
    ended: float = 0.0  # when it was told to stop

    @property
    def key(self) -> str:
        return self.request.key if self.save is None else f"save-{self.request.key}"


def _overtaken(job: _Job, newer: JobRequest) -> bool:
    """Whether a request is of no use any more: the slider stands elsewhere, or other choices are given."""
    older = job.request
    passing = all(one.scale != 1.0 or bool(one.given) for one in (older, newer))
    same = older.kind == newer.kind and job.save is None
    return same and passing and older.key != newer.key


class Session:
    """Takes requests from the page, in any thread, and hands them to the worker one by one.

    Parameters
    ----------
    sources
        Problems that were opened: digest to the path of a run folder or table.
    time_limit
        Seconds that one computation may take.
    """

    def __init__(self, sources: dict[str, str] | None = None, time_limit: float = MAX_SECONDS) -> None:
        self.sources = dict(sources or {})
        self.time_limit = time_limit
        self.scratch = tempfile.TemporaryDirectory(prefix="polinfer-explore-")
        self._context = multiprocessing.get_context("spawn")
        self._cancelled = self._context.Value("q", -1)
        self._lock = threading.RLock()
        self._wake = threading.Condition(self._lock)
        self._queue: list[_Job] = []
        self._running: _Job | None = None
        self._beside: _Job | None = None  # what the running one pauses for
        self._records: OrderedDict[str, bytes] = OrderedDict()
        self._states: dict[str, JobState] = {}
        self._listeners: list[Listener] = []
        self._number = 0
        self._problem = ""
        self._closed = False
        self._start_worker()
        self._thread = threading.Thread(target=self._run, name="polinfer-explore", daemon=True)
        self._thread.start()

    def submit(self, request: JobRequest) -> JobState:
        """Ask for something; equal requests are answered once."""
        return self._submit(request, None)

    def save(self, request: JobRequest, folder: Path) -> JobState:
        """Ask for the posterior to be written into a folder."""
        return self._submit(request, str(folder))

    def _submit(self, request: JobRequest, save: str | None) -> JobState:
        with self._wake:
            if request.problem_key != self._problem:
                self._problem = request.problem_key
                self._cancel(lambda job: job.request.problem_key != self._problem)
            if save is None:
                self._cancel(lambda job: _overtaken(job, request))
            job = _Job(self._number, request, save)
            if job.key in self._records and save is None:
                self._records.move_to_end(job.key)
                return JobState(job.key, "done", request.kind, 1.0)
            for other in (*self._queue, self._running, self._beside):
                if other is not None and other.key == job.key and not other.ended:
                    return self._states[job.key]
            if len(self._queue) >= _QUEUED:
                raise PolinferError("too much is being computed already; wait a moment")
            self._number += 1
            self._enqueue(job)
            state = self._tell(JobState(job.key, "queued", request.kind))
            self._wake.notify_all()
            return state

    def _enqueue(self, job: _Job) -> None:
        self._queue.append(job)
        self._queue.sort(key=lambda one: (_ORDER.index(one.request.kind), one.number))

    def cancel(self, key: str | None = None) -> None:
        """End one computation, or all."""
        with self._wake:
            self._cancel(lambda job: key is None or job.key == key)

    def _cancel(self, which: Callable[[_Job], bool]) -> None:
        for job in [job for job in self._queue if which(job)]:
            self._queue.remove(job)
            self._tell(JobState(job.key, "cancelled", job.request.kind))
        if self._running is not None and which(self._running) and not self._running.ended:
            self._running.ended = time.monotonic()
            self._cancelled.value = self._running.number

    def record(self, key: str) -> bytes | None:
        """Return what was computed, as JSON."""
        with self._lock:
            return self._records.get(key)

    def state(self, key: str) -> JobState | None:
        """Return where a computation stands."""
        with self._lock:
            return self._states.get(key)

    def running(self) -> list[JobState]:
        """Return where what is being computed stands, for who comes late."""
        with self._lock:
            jobs = [job for job in (self._running, self._beside) if job is not None and not job.ended]
            return [self._states[job.key] for job in jobs]

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` with every change, from another thread; return what ends that."""
        with self._lock:
            self._listeners.append(listener)

        def leave() -> None:
            with self._lock:
                if listener in self._listeners:
                    self._listeners.remove(listener)

        return leave

    def wait(self, key: str, seconds: float = 300.0) -> bytes:
        """Return a record when it is there."""
        until = time.monotonic() + seconds
        with self._wake:
            while key not in self._records:
                state = self._states.get(key)
                if state is not None and state.state in ("failed", "cancelled"):
                    raise PolinferError(state.note or state.state)
                if not self._wake.wait(until - time.monotonic()) and time.monotonic() > until:
                    raise PolinferError(f"no answer within {seconds:g} seconds")
            return self._records[key]

    def close(self) -> None:
        """End the worker."""
        with self._wake:
            self._closed = True
            self._wake.notify_all()
        self._thread.join(timeout=5)
        self._stop_worker()
        self.scratch.cleanup()

    def _start_worker(self) -> None:
        self._pipe, theirs = self._context.Pipe()
        cache = str(Path(self.scratch.name) / "compiled")
        self._process: SpawnProcess = self._context.Process(
            target=work, args=(theirs, self._cancelled, cache), daemon=True, name="polinfer-explore-worker"
        )
        self._process.start()
        theirs.close()
        self._started, self._starting, self._heard = time.time(), math.inf, 0.0

    def _stop_worker(self) -> None:
        self._pipe.close()
        self._process.kill()
        self._process.join(timeout=5)

    def _run(self) -> None:
        while True:
            with self._wake:
                while not self._queue and self._beside is None and not self._closed:
                    self._wake.wait(1.0)
                if self._closed:
                    return
                # The worker may have ended a computation just before it was to pause for this question.
                sent = self._beside is not None
                job = self._running = self._beside or self._queue.pop(0)
                self._beside = None
            if not sent:
                self._begin(job)
            outcome = self._compute(job, sent)
            with self._wake:
                self._running = None
                self._conclude(job, outcome)

    def _begin(self, job: _Job) -> None:
        job.began = time.monotonic()
        self._tell(JobState(job.key, "running", job.request.kind))

    def _conclude(self, job: _Job, outcome: Message) -> None:
        with self._wake:
            if outcome.record is not None:
                self._records[job.key] = outcome.record
                while len(self._records) > _CACHED:
                    self._records.popitem(last=False)
                self._tell(JobState(job.key, "done", job.request.kind, 1.0))
            elif outcome.cancelled:
                self._tell(JobState(job.key, "cancelled", job.request.kind))
            else:
                self._tell(JobState(job.key, "failed", job.request.kind, note=outcome.error or "failed"))
            self._wake.notify_all()

    def _send(self, job: _Job) -> None:
        self._pipe.send_bytes(msgspec.json.encode(Task(job.number, job.request, self.sources, job.save)))

    def _pause(self, job: _Job) -> None:
        """Let a long computation pause for a quick question, if there is one."""
        with self._lock:
            if self._beside is not None or job.ended or job.request.kind in _QUICK:
                return
            quick = [one for one in self._queue if one.request.kind in _QUICK and one.save is None]
            if not quick:
                return
            self._beside = quick[0]
            self._queue.remove(quick[0])
        self._begin(quick[0])
        self._send(quick[0])

    def _compute(self, job: _Job, sent: bool) -> Message:
        """Let the worker do one job; start another worker where this one ends or does not listen."""
        try:
            if not sent:
                self._send(job)
            while True:
                self._pause(job)
                if self._pipe.poll(0.1):
                    message = msgspec.json.decode(self._pipe.recv_bytes(), type=Message)
                    if message.number == READY:
                        self._starting = (message.share or 0.0) - self._started
                        self._heard = time.monotonic()
                        continue
                    beside = self._beside
                    if beside is not None and message.number == beside.number:
                        if message.share is None:
                            self._beside = None
                            self._conclude(beside, message)
                        else:
                            self._progress(beside, message)
                        continue
                    if message.number != job.number:
                        continue
                    if message.share is None:
                        return message
                    self._progress(job, message)
                    continue
                now = time.monotonic()
                if self._closed:
                    return Message(job.number, cancelled=True)
                if job.ended and self._is_deaf(job, now):
                    self._restart()
                    return Message(job.number, cancelled=True)
                if now - job.began > self.time_limit:
                    self._restart()
                    sentence = (
                        f"this took longer than {self.time_limit:g} seconds and was stopped; "
                        "try a smaller map or a shorter horizon, or polinfer plan"
                    )
                    return Message(job.number, error=sentence)
        except (EOFError, OSError):
            self._restart()
            return Message(job.number, error="the computation ended unexpectedly; memory may have run out")

    def _is_deaf(self, job: _Job, now: float) -> bool:
        """Whether a worker that was told to stop is to be replaced: not before another could have started."""
        return now - max(job.ended, self._heard) > max(_PATIENCE, self._starting)

    def _restart(self) -> None:
        self._stop_worker()
        with self._lock:
            if self._beside is not None:
                self._enqueue(self._beside)
                self._beside = None
        if not self._closed:
            self._start_worker()

    def _progress(self, job: _Job, message: Message) -> None:
        if not job.ended:
            share = max(0.0, min(1.0, message.share or 0.0))
            self._tell(JobState(job.key, "running", job.request.kind, share, message.note, message.row))

    def _tell(self, state: JobState) -> JobState:
        with self._lock:
            self._states[state.key] = state
            while len(self._states) > 8 * _CACHED:
                self._states.pop(next(iter(self._states)))
            for listener in list(self._listeners):
                listener(state)
        return state

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *details: Any) -> None:
        self.close()
