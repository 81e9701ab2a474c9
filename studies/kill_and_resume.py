"""Kill runs again and again, also in the middle of writing, and compare their files with undisturbed ones.

    python studies/kill_and_resume.py [--kills 100] [--cases wake sac ...] [--quick] [--out FOLDER]

A kill is SIGKILL at a random moment of the processor's clock, which a busy machine does not change, to all
processes or to the parent of the workers alone, or a failing file operation (`faulty_files`).  A case is
resumed to its end; then every file must be there and nothing else, and answers, configurations and metrics
must be the same byte for byte.  Prints a table in Markdown and exits with 1 if anything differs.  With
--quick the runs are smaller, and what comes after the answer is not judged: most of a run's time goes there,
where nothing is left to lose, so most kills now come while the method is at work.

What was counted is written to the folder after every disturbance; the same command goes on from there.
"""

import argparse
import contextlib
import json
import math
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from dataclasses import asdict, dataclass, field
from pathlib import Path

from faulty_files import KINDS, install
from polinfer.analysis import summary
from polinfer.analysis.certificate import Certificate
from polinfer.analysis.judgement import Verdict
from polinfer.cli import main as polinfer_main
from polinfer.methods import METHODS
from polinfer.posterior.posterior import Posterior

GRID = ["gridworld/multimodal", "--reward-scale", "3", "--episodes", "100"]
PLANS = {
    "wake": [*GRID, "--method", "wake", "--sweeps", "1500", "--particles", "50"],
    "vsmc": [*GRID, "--method", "vsmc", "--sweeps", "15000"],
    "sac": [*GRID, "--method", "sac", "--steps", "30000"],
    "tempered": [*GRID, "--method", "tempered", "--enumerate-up-to", "0", "--tolerance", "0.001"],
    "particles": [*GRID, "--method", "particles", "--sweeps", "200"],
    "exploration": [
        *("gym:Blackjack-v1", "--horizon", "4", "--markov", "ignore", "--no-table-cache", "--draws", "2000"),
        *("--episodes", "100", "--method", "particles", "--sweeps", "40", "--particles", "200"),
    ],
    "replicas": [*GRID, "--method", "tempered", "--enumerate-up-to", "0", "--replicas", "4", "--jobs", "2"],
}
QUICK = {"--sweeps": 5, "--steps": 5, "--tolerance": 0.2, "--draws": 100}  # what the numbers are divided by
SMALL = [
    "--policies",
    "32",
    "--islands",
    "2",
    "--rounds",
    "2",
]  # of annealing; one round is one checkpoint or more
REPRODUCE = {"reproduce": ["worked", "ablations", "--budget", "smoke", "--jobs", "2"]}
ANSWERS = ("policy.safetensors", "config.json", "metrics.jsonl")


@dataclass
class Tally:
    """What came of one case."""

    seconds: float = 0.0
    kills: int = 0
    faults: int = 0
    finished: int = 0
    same: int = 0
    leftovers: list[str] = field(default_factory=list)
    orphans: int = 0
    wrong: list[str] = field(default_factory=list)
    over: bool = False

    @property
    def disturbances(self) -> int:
        return self.kills + self.faults


def smaller(words: list[str]) -> list[str]:
    """Return a plan with its budget divided."""
    found = list(words)
    for place, flag in enumerate(words):
        if flag in QUICK:
            found[place + 1] = f"{float(words[place + 1]) / QUICK[flag]:g}"
    return [*found, *SMALL] if "tempered" in found else found


def command(case: str, folder: Path) -> list[str]:
    if case in REPRODUCE:
        return ["reproduce", *REPRODUCE[case], "--out", str(folder)]
    words = ["plan", *PLANS[case], "--out", str(folder), "--json"]
    # Before the configuration is written there is nothing to resume.
    return [*words, "--resume"] if (folder / "config.json").exists() else [*words, "--overwrite"]


def leave_unjudged(posterior: Posterior, **_: object) -> Certificate:
    """Return a certificate that says nothing, at no cost."""
    found: dict[str, object] = dict.fromkeys(Certificate._fields)
    estimand = METHODS[posterior.method].estimand(posterior.config)
    found |= {"estimand": estimand, "verdict": Verdict.CARE, "reason": "not judged", "remedy": ""}
    return Certificate(**found)  # type: ignore[arg-type]


class Run:
    """A command in a process of its own, forked from this one, which has computed nothing yet."""

    quick = False  # whether answers are left without a certificate

    def __init__(self, case: str, folder: Path, fault: str = "") -> None:
        words = command(case, folder)
        quick = Run.quick
        self.log = tempfile.TemporaryFile()  # noqa: SIM115
        self.returncode: int | None = None
        self.work = 0.0  # seconds of the processor's clock, of all its processes
        self.pid = os.fork()
        if self.pid == 0:
            os.setsid()
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 1)
            os.dup2(self.log.fileno(), 2)
            if quick:
                summary.certify = leave_unjudged  # type: ignore[assignment]
            if fault:
                install(fault.partition(":")[0], int(fault.partition(":")[2]))
            code = 70
            try:
                code = polinfer_main(words)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)

    def wait(self, work: float = math.inf) -> bool:
        """Return whether it came to its end within some seconds of work."""
        while self.work < work:
            found, status, used = os.wait4(self.pid, os.WNOHANG)
            if found:
                self.returncode = os.waitstatus_to_exitcode(status)
                # Workers that are not waited for are in no count but that of their family.
                self.work = max(self.work, used.ru_utime + used.ru_stime)
                return True
            self.work = sum(family(self.pid).values())
            time.sleep(0.02)
        return False

    def said(self) -> bytes:
        self.log.seek(0)
        return self.log.read()


def files(folder: Path) -> dict[str, Path]:
    return {str(path.relative_to(folder)): path for path in sorted(folder.rglob("*")) if path.is_file()}


def compare(whole: Path, killed: Path, tally: Tally) -> None:
    """Count a finished run as the same, or say what differs."""
    wanted, found = files(whole), files(killed)
    tally.finished += 1
    tally.leftovers += sorted(found.keys() - wanted.keys())
    wrong = sorted(wanted.keys() - found.keys())
    for name in wanted.keys() & found.keys():
        compared = Path(name).name in ANSWERS or name.startswith("units/")
        if compared and wanted[name].read_bytes() != found[name].read_bytes():
            wrong.append(name)
    tally.wrong += wrong
    tally.same += not wrong


def family(process: int) -> dict[int, float]:
    """Return the processes of a session that are alive, with the seconds that they have worked."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                state = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(state[3]) == process and state[0] != "Z":
                found[int(entry.name)] = sum(map(int, state[11:15])) / os.sysconf("SC_CLK_TCK")
    return found


def disturb(case: str, folder: Path, chance: random.Random, tally: Tally) -> bool:
    """Start or resume once, with a kill or a fault on the way; return whether the run came to its end."""
    fault = f"{chance.choice(KINDS)}:{chance.randrange(1, 8)}" if chance.random() < 0.25 else ""
    run = Run(case, folder, fault)
    if not run.wait(math.inf if fault else chance.uniform(0.2, 0.9 * tally.seconds)):
        tally.kills += 1
        if case in ("reproduce", "replicas") and chance.random() < 0.5:
            # The parent alone: its workers must notice.
            os.kill(run.pid, signal.SIGKILL)
            run.wait()
            end = time.monotonic() + 10
            while family(run.pid) and time.monotonic() < end:
                time.sleep(0.2)
            tally.orphans += len(family(run.pid))
        kill_session(run.pid)
        if run.returncode is None:
            run.wait()
        return False
    said = run.said()
    if run.returncode in (2, 137) and fault:
        tally.faults += 1
        if run.returncode == 2 and (b"Traceback" in said or b"polinfer: " not in said):
            tally.wrong.append(f"fault {fault}: {said[-200:]!r}")
        return False
    if run.returncode != 0:
        tally.wrong.append(f"exit code {run.returncode}: {said[-300:]!r}")
    return True


def kill_session(group: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def study(case: str, kills: int, out: Path, seed: int) -> Tally:
    """Disturb one case until it was disturbed `kills` times; go on with what was counted before."""
    whole, killed, counted = out / case / "undisturbed", out / case / "killed", out / case / "tally.json"
    if counted.exists():
        tally = Tally(**json.loads(counted.read_text()))
    else:
        tally = Tally()
        shutil.rmtree(out / case, ignore_errors=True)
        for _ in range(2):  # the second one finds compiled programs, as those that are killed do
            shutil.rmtree(whole, ignore_errors=True)
            tally.seconds = _to_its_end(Run(case, whole), tally)
        assert not tally.wrong, tally.wrong
    while tally.disturbances < kills and len(tally.wrong) < 5:
        tally.over = False
        chance = random.Random(f"{case} {seed} {tally.disturbances} {tally.finished}")
        if disturb(case, killed, chance, tally):
            compare(whole, killed, tally)
            shutil.rmtree(killed, ignore_errors=True)
        counted.write_text(json.dumps(asdict(tally)))
        print(f"{case}: {tally.kills} kills, {tally.faults} faults", file=sys.stderr, flush=True)
    if not tally.over and killed.exists():
        _to_its_end(Run(case, killed), tally)
        compare(whole, killed, tally)
    tally.over = True
    counted.write_text(json.dumps(asdict(tally)))
    return tally


def _to_its_end(run: Run, tally: Tally) -> float:
    run.wait()
    if run.returncode != 0:
        tally.wrong.append(f"exit code {run.returncode}: {run.said()[-300:]!r}")
    return run.work


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--cases", nargs="+", default=[*PLANS, *REPRODUCE], choices=[*PLANS, *REPRODUCE])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("runs/kill-and-resume"))
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    Run.quick = given.quick
    if given.quick:
        REPRODUCE["reproduce"].remove("ablations")
        PLANS["exploration"] = ["gym:MiniGrid-Empty-5x5-v0", "--horizon", "6", *PLANS["exploration"][5:]]
        PLANS.update({case: smaller(words) for case, words in PLANS.items()})
    each = -(-given.kills // len(given.cases))
    print("| case | undisturbed, s | kills | failing writes | finished | the same | left over | orphans |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |", flush=True)
    failed = False
    for case in given.cases:
        tally = study(case, each, given.out, given.seed)
        print(
            f"| {case} | {tally.seconds:.0f} | {tally.kills} | {tally.faults} | {tally.finished} "
            f"| {tally.same} | {len(tally.leftovers)} | {tally.orphans} |",
            flush=True,
        )
        for line in [*tally.wrong, *tally.leftovers]:
            print(f"  {case}: {line}", file=sys.stderr, flush=True)
        failed |= bool(tally.wrong or tally.leftovers or tally.orphans or tally.same < tally.finished)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
