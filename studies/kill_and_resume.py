"""Kill a rerun of the paper again and again, and compare its files with those of an undisturbed one.

    python studies/kill_and_resume.py [--kills 20] [--experiments worked ablations] [--budget quick]

Every kill is SIGKILL to all processes of the run at a random moment.  Exits with 1 if a file differs.
"""

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path


def start(folder: Path, given: argparse.Namespace) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "polinfer", "reproduce", *given.experiments, "--budget", given.budget]
    return subprocess.Popen(
        [*command, "--out", str(folder), "--jobs", str(given.jobs)],
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((folder / "units").iterdir())}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--experiments", nargs="+", default=["worked", "ablations"])
    parser.add_argument("--budget", default="quick")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("runs/kill-and-resume"))
    given = parser.parse_args()
    shutil.rmtree(given.out, ignore_errors=True)
    whole, killed = given.out / "undisturbed", given.out / "killed"

    began = time.monotonic()
    assert start(whole, given).wait() == 0
    seconds = time.monotonic() - began
    print(f"undisturbed: {len(contents(whole))} units in {seconds:.0f} s", flush=True)

    chance, kills = random.Random(given.seed), 0
    while kills < given.kills:
        process = start(killed, given)
        try:
            # Long enough to get somewhere, short enough to be killed that often before the end.
            process.wait(timeout=chance.uniform(5.0, 5.0 + 2 * seconds / given.kills))
            break
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            kills += 1
            print(f"kill {kills}: {len(list(killed.glob('units/*')))} units", flush=True)
    assert start(killed, given).wait() == 0
    same = contents(whole) == contents(killed)
    print(f"{kills} kills; the files are {'the same, byte for byte' if same else 'DIFFERENT'}")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
