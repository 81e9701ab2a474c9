"""Run malformed inputs of every kind from their seeds, save what came of each, go on where it was stopped.

    python studies/malformed.py [--count 10000] [--kinds flag folder ...] [--out runs/malformed]

The cases of `tests/fuzz`, in one process at a time, which is replaced when it has grown.  Every case is a
line of KIND.tsv: seed, seconds of the processor's clock, and what is wrong, if anything is.  Kinds are gone
through in rounds that double, so that all have been tried when it is stopped.  What does not depend on the
case is done once for all (`fuzz.cheaply`): pictures, sampled bounds and horizons that take up to a minute
are computed in one case of ten (pictures of odd names in every other).  The kind `request` is of requests to
the explorer, computing left out.  Prints a table in Markdown.
"""

import argparse
import contextlib
import io
import os
import resource
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

for name, value in {
    "POLINFER_CACHE": "off",
    "JAX_DISABLE_MOST_OPTIMIZATIONS": "true",
    "XLA_FLAGS": "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1",
    "NPROC": "1",
    # The process is replaced now and then; compiled programs stay.
    "JAX_COMPILATION_CACHE_DIR": str(Path(tempfile.gettempdir()) / "polinfer-malformed-jax"),
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.02",
}.items():
    os.environ.setdefault(name, value)  # as the tests do

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import pytest  # noqa: E402

from fuzz.cheaply import Turn, make_cheap  # noqa: E402
from fuzz.harness import Case, try_case  # noqa: E402
from fuzz.test_fuzz import KINDS, MEMORY, nothing_to_compute  # noqa: E402
from fuzz.test_requests import PORT, TOKEN, UncomputedSession, fault, request_case  # noqa: E402
from polinfer.explore.server import Start, make_app  # noqa: E402

REQUEST = "request"
MEMORY_DISK = Path("/dev/shm")  # where nothing waits for a disk
MOST = 3 << 30  # bytes that the process may have grown to before it is replaced


class Done(NamedTuple):
    """A case that was tried."""

    seed: int
    seconds: float
    wrong: str


def read(path: Path) -> dict[int, Done]:
    """Return what came of the cases of one kind; a line that was cut short is left out."""
    found = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        seed, seconds, wrong, *rest = [*line.split("\t"), "", ""]
        if rest[1:]:
            found[int(seed)] = Done(int(seed), float(seconds), wrong)
    return found


def attempt(case: Case, folder: Path) -> Done:
    """Try one case with bounded memory."""
    used, (_, most) = resident("size"), resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, most))
    began = time.process_time()
    try:
        wrong = try_case(case, folder)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    return Done(case.seed, time.process_time() - began, wrong or "")


def resident(which: str) -> int:
    """Return the bytes of this process: its address space, or what of it is in memory."""
    words = Path("/proc/self/statm").read_text().split()
    return int(words[0 if which == "size" else 1]) * resource.getpagesize()


def go_on_with_requests(count: int, out: Path) -> None:
    """Send those requests to the explorer, in this process, that have not been sent."""
    path = out / f"{REQUEST}.tsv"
    done = read(path)
    with (
        tempfile.TemporaryDirectory() as place,
        UncomputedSession() as session,
        path.open("a") as file,
    ):
        app = make_app(session, Start(folder=Path(place)), token=TOKEN, host="127.0.0.1", port=PORT)
        for seed in sorted(set(range(count)) - done.keys()):
            began = time.process_time()
            wrong = fault(app, request_case(seed)) or " ".join(session.wrong)
            session.wrong.clear()
            wrong = " ".join(wrong.split())
            file.write(f"{seed}\t{time.process_time() - began:.3f}\t{wrong}\n")
            file.flush()
            if wrong:
                print(f"{REQUEST} {seed}: {wrong}", file=sys.stderr, flush=True)


def go_on(kind: str, count: int, out: Path, turn: Turn) -> None:
    """Try those cases below `count` that have not been tried."""
    path = out / f"{kind}.tsv"
    done = read(path)
    place = MEMORY_DISK if os.access(MEMORY_DISK, os.W_OK) else out
    top = place / f"polinfer-malformed-{os.getpid()}"
    with path.open("a") as file:
        for seed in range(count):
            if seed in done:
                continue
            with contextlib.redirect_stdout(io.StringIO()):  # the runs that are damaged are made at first
                case = KINDS[kind](seed)
            turn.take(kind, seed)
            found = attempt(case, top / "above" / "case")
            shutil.rmtree(top)  # some cases write beside their folder
            wrong = " ".join(found.wrong.split())
            file.write(f"{seed}\t{found.seconds:.3f}\t{wrong}\n")
            file.flush()
            if wrong:
                print(f"{kind} {seed}: {wrong}", file=sys.stderr, flush=True)
            if resident("memory") > MOST:
                os.execv(sys.executable, [sys.executable, *sys.argv])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--kinds", nargs="+", default=[*KINDS, REQUEST], choices=[*KINDS, REQUEST])
    parser.add_argument("--out", type=Path, default=Path("runs/malformed"))
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    count = 0
    while count < given.count:
        count = min(max(2 * count, 100), given.count)
        for kind in given.kinds:
            if kind == REQUEST:
                go_on_with_requests(count, given.out.resolve())
                continue
            with pytest.MonkeyPatch.context() as patch:
                turn = make_cheap(patch)
                if kind == "flag":
                    nothing_to_compute(patch)
                go_on(kind, count, given.out.resolve(), turn)
    return tell(given.kinds, given.out)


def tell(kinds: list[str], out: Path) -> int:
    """Print what came of all cases; return 1 if one of them failed."""
    print("| kind | cases | wrong | processor time of a case, median, s | longest, s |")
    print("| --- | --- | --- | --- | --- |")
    failed = 0
    for kind in kinds:
        done = read(out / f"{kind}.tsv").values()
        times = sorted(case.seconds for case in done)
        wrong = sum(bool(case.wrong) for case in done)
        failed += wrong
        print(f"| {kind} | {len(times)} | {wrong} | {times[len(times) // 2]:.3f} | {times[-1]:.1f} |")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
