"""Two processes side by side, as `polinfer reproduce --jobs 2` has them: one thread each against all cores.

    python benchmarks/threads.py

Prints the seconds that each pair takes, compilation aside, and what limiting XLA's threads brings.
"""

import os
import subprocess
import sys

PAIRS = 3
CASES = {
    "vsmc, advising/1": ("advising/1", "vsmc", {"particles": 10, "sweeps": 200}),
    "sac, tireworld/10": ("tireworld/10", "sac", {"preset": "a", "steps": 6_000, "learning_starts": 400}),
}
SCRIPT = """
import time, polinfer
mdp = polinfer.make({domain!r})
for _ in range(2):
    started = time.perf_counter()
    polinfer.infer(mdp, {method!r}, seeds=25, **{settings!r})
print(time.perf_counter() - started)
"""


def pair_seconds(case: str, limited: bool) -> float:
    """Return the mean of two processes' seconds."""
    domain, method, settings = CASES[case]
    script = SCRIPT.format(domain=domain, method=method, settings=settings)
    environment = {name: value for name, value in os.environ.items() if name != "NPROC"}
    if limited:
        environment["NPROC"] = "1"
    command = [sys.executable, "-c", script]
    both = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    return sum(float(one.communicate()[0]) for one in both) / 2


def main() -> None:
    """Alternate, so that a noisy machine is noisy to both; the best of each counts."""
    print(f"{os.cpu_count()} cores")
    for case in CASES:
        found = {limited: [] for limited in (False, True)}
        for _ in range(PAIRS):
            for limited, seconds in found.items():
                seconds.append(pair_seconds(case, limited))
        free, one = min(found[False]), min(found[True])
        print(f"{case:20} all cores {free:6.2f} s   one thread each {one:6.2f} s   ratio {free / one:.2f}")


if __name__ == "__main__":
    main()
