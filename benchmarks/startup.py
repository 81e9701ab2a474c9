"""Time of `polinfer plan gridworld/ablation` from the shell, cold and warm, beside `import jax`.

Cold means an empty folder of compiled programs, warm the second run with it.  Run it on an idle machine:

    python benchmarks/startup.py
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

REPEATED = 3


def seconds(command: list[str], environment: dict[str, str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, env=environment, check=True, capture_output=True)
    return time.perf_counter() - began


def main() -> None:
    plain = {name: value for name, value in os.environ.items() if name != "JAX_COMPILATION_CACHE_DIR"}
    python = sys.executable
    rows: dict[str, list[float]] = {}
    for number in range(REPEATED):
        with tempfile.TemporaryDirectory() as folder:
            environment = {**plain, "POLINFER_CACHE": str(Path(folder) / "programs")}
            plan = [python, "-m", "polinfer", "plan", "gridworld/ablation", "--overwrite"]
            plan += ["--out", str(Path(folder) / "run")]
            for name, command in (
                ('python -c "import jax"', [python, "-c", "import jax"]),
                ('python -c "import polinfer"', [python, "-c", "import polinfer"]),
                ("polinfer plan, cold", plan),
                ("polinfer plan, warm", plan),
            ):
                rows.setdefault(name, []).append(seconds(command, environment))
        print(f"round {number + 1} of {REPEATED}", file=sys.stderr)
    for name, times in rows.items():
        print(f"{name:28s} {min(times):5.2f} s at best, {sorted(times)[len(times) // 2]:5.2f} s median")


if __name__ == "__main__":
    main()
