"""What the first command of a session loads: heavy packages that it does not need cost a second or two."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import polinfer

# About 0.7 s for scipy.stats, 0.3 s for matplotlib, 0.1 s for the others, on an idle machine.
SLOW = ("scipy.stats", "optax", "equinox", "pandas", "arviz", "distributed", "minigrid", "IPython", "torch")
PROGRAM = """
import json, sys
import polinfer
imported = set(sys.modules)
from polinfer.cli import main
code = main(["plan", "gridworld/ablation", "--json", "--out", sys.argv[1]])
print(json.dumps({"code": code, "imported": sorted(imported), "planned": sorted(sys.modules)}))
"""


def test_a_first_plan_loads_no_package_that_it_does_not_need(tmp_path):
    source = os.path.dirname(os.path.dirname(polinfer.__file__))
    told = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "run")],
        env={**os.environ, "PYTHONPATH": source},
        check=True,
        capture_output=True,
        text=True,
    )
    found = json.loads(told.stdout.splitlines()[-1])
    assert found["code"] == 0
    assert not set(found["planned"]) & set(SLOW)
    assert "matplotlib" in found["planned"]
    assert not {"matplotlib", "tyro"} & set(found["imported"])
