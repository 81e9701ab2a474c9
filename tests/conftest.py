"""Shared set-up: compiled functions are kept between workers, subprocesses and runs of the tests."""

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

_HERE = Path(__file__).parent
_CACHE = _HERE.parent / ".pytest_cache" / "jax"
# Before JAX is imported, and inherited by the command lines that tests start.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(_CACHE))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")
# Compiling is most of what tests do, and takes two thirds of the time with XLA's older code generator, whose
# programs are about as fast, and less with no program cut into parts for threads.  Leaving out optimisations
# takes an eighth to a third off; `compile_fully` is for tests that run longer than they compile.
# XLA_FLAGS="" JAX_DISABLE_MOST_OPTIMIZATIONS=false tests the programs that users get.
os.environ.setdefault(
    "XLA_FLAGS", "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
)
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "true")
# Tests leave nothing in the user's cache folder, and read nothing from it.
os.environ.setdefault("POLINFER_CACHE", "off")
# Tests run in several processes; threads of one would wait for those of another.
os.environ.setdefault("NPROC", "1")

# Compiled programs and traces are millions of objects that stay: looking through them again and again for
# rubbish takes longer than some tests.
gc.set_threshold(200_000, 50, 100)


# The files that take longest.  Of those that share compiled programs only one is near the front: the others
# find its programs on disk.
_FIRST = (
    "test_documentation.py",
    "annealing/test_annealing.py",
    "explore/test_browser.py",
    "fuzz/test_fuzz.py",
    "frozen/test_frozen_answers.py",
    "cli/test_commands.py",
    "methods/test_conformance.py",
    "problems/adapters/test_gymnasium_exploration.py",
    "annealing/test_known.py",
    "annealing/test_branches.py",
    "problems/test_check_mdp.py",
    "explore/test_session.py",
    "learning/test_training.py",
    "problems/domains/test_blackjack.py",
    "smc/test_replay.py",
    "analysis/test_certificate.py",
    "annealing/test_way_back.py",
    "exact/test_bounds.py",
    "learning/test_wake.py",
    "smc/test_evidence.py",
    "actor_critic/test_replay_store.py",
    "exact/test_extreme_numbers.py",
    "actor_critic/test_sac_training.py",
    "learning/test_host_training.py",
    "annealing/test_strata.py",
    "annealing/test_remaining.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take longest, so that no worker ends alone with one of them."""
    place = {_HERE / name: number for number, name in enumerate(_FIRST)}
    items.sort(key=lambda item: place.get(item.path, len(place)))


def pytest_sessionfinish() -> None:
    """Leave everything where it is: all of it would be looked through for rubbish, several times."""
    gc.freeze()


def _optimise(wanted: bool) -> Iterator[None]:
    import jax

    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", not wanted)
    yield
    jax.config.update("jax_disable_most_optimizations", before)


@pytest.fixture
def compile_quickly() -> Iterator[None]:
    """Leave out XLA's optimisations even where the environment asks for them."""
    yield from _optimise(False)


@pytest.fixture
def compile_fully() -> Iterator[None]:
    """Compile with XLA's optimisations, where running is most of the time that a test takes."""
    yield from _optimise(True)


@pytest.fixture(scope="module")
def compile_module_fully() -> Iterator[None]:
    """Compile a whole file with optimisations, with what its own fixtures run."""
    yield from _optimise(True)
