"""One case: files, a command, and what may come of it.  All cases of a run share one process."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import os
import shutil
import signal
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from polinfer.cli import main

KEPT = Path(__file__).parent / "kept"
PLACE = "@"  # stands for the folder of the case in the words of a command
PIPE = "|"  # as the target of a link, a pipe in its place


class Case(NamedTuple):
    """What is typed, in a folder with these files.

    A value that is a text is the target of a symbolic link, or `PIPE`; a name that ends in a slash is a folder.
    """

    kind: str
    seed: int
    words: list[str]
    files: dict[str, bytes | str]

    def to_json(self) -> dict[str, Any]:
        files = {
            name: {"link": data} if isinstance(data, str) else base64.b64encode(data).decode()
            for name, data in self.files.items()
        }
        return {"kind": self.kind, "seed": self.seed, "words": self.words, "files": files}

    @classmethod
    def from_json(cls, kept: dict[str, Any]) -> Case:
        files = {
            name: data["link"] if isinstance(data, dict) else base64.b64decode(data)
            for name, data in kept["files"].items()
        }
        return cls(kept["kind"], kept["seed"], kept["words"], files)


class Result(NamedTuple):
    """What came of a case."""

    code: Any
    out: str
    err: str
    seconds: float


class HangError(BaseException):
    """A case that took too long; no `Exception`, so that nothing swallows it."""


@contextlib.contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Interrupt what takes longer, by the processor's clock; what waits has ten times as long."""

    def stop(*_: Any) -> None:
        raise HangError(f"still running after {seconds:.0f} s of work, or ten times as long")

    # A busy machine makes everything slow, and a pipe that nobody writes to takes no work.
    clocks = {
        signal.ITIMER_PROF: (signal.SIGPROF, seconds),
        signal.ITIMER_REAL: (signal.SIGALRM, 10 * seconds),
    }
    before = {number: signal.signal(number, stop) for number, _ in clocks.values()}
    for clock, (_, limit) in clocks.items():
        signal.setitimer(clock, limit)
    try:
        yield
    finally:
        for clock in clocks:
            signal.setitimer(clock, 0)
        for number, handler in before.items():
            signal.signal(number, handler)


def run_case(case: Case, folder: Path, seconds: float = 60.0) -> Result:
    """Write the files and run the command in this process, with `folder` as the current one."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, data in case.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith("/"):
            path.mkdir()
        elif data == PIPE:
            os.mkfifo(path)
        elif isinstance(data, str):
            path.symlink_to(data)
        else:
            path.write_bytes(data)
    out, err = io.StringIO(), io.StringIO()
    began, here = time.perf_counter(), Path.cwd()
    os.chdir(folder)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), at_most(seconds):
            try:
                code: Any = main([word.replace(PLACE, str(folder)) for word in case.words])
            except SystemExit as stop:
                code = stop.code
    finally:
        os.chdir(here)
    return Result(code, out.getvalue(), err.getvalue(), time.perf_counter() - began)


def judge(result: Result) -> str | None:
    """Return what is wrong with a result; None where it is an answer or one clear sentence."""
    if result.code == 0:
        return None if _is_json_or_help(result.out) else f"not JSON on standard output: {result.out[:200]!r}"
    if result.code != 2:
        return f"exit code {result.code!r}"
    lines = [line for line in result.err.splitlines() if line.strip()]
    said = [line for line in lines if line.startswith("polinfer: ")]
    if len(said) != 1 or lines[-1] is not said[0]:
        return f"not one sentence: {result.err[-300:]!r}"
    if "Traceback" in result.err:
        return "a traceback"
    if len(said[0]) > 1000:
        return f"a sentence of {len(said[0])} letters: {said[0][:200]!r}"
    return None


def _is_json_or_help(out: str) -> bool:
    if "usage:" in out:
        return True
    try:
        json.loads(out)
    except ValueError:
        return False
    return True


def try_case(case: Case, folder: Path, seconds: float = 60.0) -> str | None:
    """Run a case; return what is wrong, None where nothing is."""
    try:
        return judge(run_case(case, folder, seconds))
    except HangError as hang:
        return str(hang)
    except BaseException:
        return "".join(traceback.format_exc().splitlines(keepends=True)[-7:])


def keep(case: Case) -> Path:
    """Write a case beside the tests, where it is run for ever after."""
    KEPT.mkdir(exist_ok=True)
    path = KEPT / f"{case.kind}-{case.seed}.json"
    path.write_text(json.dumps(case.to_json(), indent=1) + "\n")
    return path


def kept_cases() -> list[Case]:
    """Return the cases that once failed."""
    return [Case.from_json(json.loads(path.read_text())) for path in sorted(KEPT.glob("*.json"))]
