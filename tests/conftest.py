"""Shared set-up: compiled functions are kept between workers, subprocesses and runs of the tests."""

import os
from pathlib import Path

_CACHE = Path(__file__).parent.parent / ".pytest_cache" / "jax"
# Before JAX is imported, and inherited by the command lines that tests start.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(_CACHE))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.3")
