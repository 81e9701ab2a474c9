"""What the first command of a session loads: heavy packages that it does not need cost a second or two."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import polinfer
import polinfer_command

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


LOADING = """
import time
print('loading', flush=True)
try:
    time.sleep(60)
except BaseException:
    pass
"""


# A shell may have started the tests with Ctrl-C ignored, and a child inherits that.
COMMAND = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
import polinfer_command
polinfer_command.main()
"""


def test_ctrl_c_while_packages_are_loaded_is_no_traceback(tmp_path):
    (tmp_path / "polinfer").mkdir()
    (tmp_path / "polinfer" / "__init__.py").write_text(LOADING)
    source = os.path.dirname(polinfer_command.__file__)
    started = subprocess.Popen(
        [sys.executable, "-c", COMMAND],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), source])},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert started.stdout is not None
    assert started.stdout.readline() == "loading\n"
    started.send_signal(signal.SIGINT)
    assert started.communicate()[1] == "polinfer: stopped\n"
    assert started.returncode == 130
