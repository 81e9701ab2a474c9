"""Ten thousand malformed inputs: each ends in an answer or in one clear sentence with exit code 2.

A failing case prints its kind and seed and is kept in ``kept``, where it is run for ever after.
"""

from __future__ import annotations

import json
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import polinfer.cli.compare
import polinfer.cli.explore
import polinfer.cli.path
import polinfer.cli.plan
import polinfer.cli.reproduce
from odd_text import odd_text
from polinfer.core.errors import PolinferError

from .cheaply import make_cheap
from .harness import PLACE, Case, keep, kept_cases, try_case
from .kinds import KINDS as FIRST
from .kinds import base_files
from .mutate import dump, places
from .strange import STRANGE

KINDS = FIRST | STRANGE
FAST, SLOW = 300, 10_000
# Cases that pass every check are computed: with new shapes that means compiling, a second each.
FAST_OF = {"policy": 60, "table": 60, "map": 30, "gym": 60, "resume": 30}
FAST_OF |= {"glyph": 12, "sheet": 30, "archive": 30, "place": 40, "option": 20, "combination": 15, "unit": 30}
FAST_OF |= {"name": 12}
SLOW_OF = {"resume": 500}
MEMORY = 8 << 30


@pytest.fixture(autouse=True)
def little_memory() -> Iterator[None]:
    """Let an absurd allocation fail, not the machine."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


def _refuse(*_: Any, **__: Any) -> None:
    raise PolinferError("all checks are passed")


@pytest.fixture
def nothing_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse, in place of computing, whatever has passed all checks."""
    nothing_to_compute(monkeypatch)


def nothing_to_compute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(polinfer.cli.plan, "infer_in_folder", _refuse)
    monkeypatch.setattr(polinfer.cli.compare, "compare", _refuse)
    monkeypatch.setattr(polinfer.cli.compare, "infer", _refuse)
    monkeypatch.setattr(polinfer.cli.path, "scale_path", _refuse)
    monkeypatch.setattr(polinfer.cli.reproduce, "run_units", _refuse)
    monkeypatch.setattr(polinfer.cli.explore, "serve", _refuse)


def run_kind(kind: str, count: int, folder: Path) -> None:
    wrong = {}
    with pytest.MonkeyPatch.context() as patch:
        turn = make_cheap(patch)
        for seed in range(count):
            case = KINDS[kind](seed)
            turn.take(kind, seed)
            problem = try_case(case, folder / "case")
            if problem is not None:
                keep(case)
                wrong[seed] = problem
    told = "\n".join(f"{kind} {seed}: {problem}" for seed, problem in list(wrong.items())[:5])
    assert not wrong, f"{len(wrong)} of {count} cases\n{told}"


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "flag"])
def test_malformed_files(kind: str, tmp_path: Path) -> None:
    run_kind(kind, FAST_OF.get(kind, FAST), tmp_path)


@pytest.mark.usefixtures("nothing_computed")
def test_malformed_flags(tmp_path: Path) -> None:
    run_kind("flag", FAST, tmp_path)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | odd_text(5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(odd_text(5), inner, max_size=3),
    max_leaves=6,
)


@settings(
    derandomize=True,
    deadline=None,
    max_examples=50,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(chance=st.randoms(use_true_random=False), value=ANYTHING, name=st.sampled_from(["config", "summary"]))
def test_anything_in_place_of_a_value(
    chance: Any, value: Any, name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    files: dict[str, bytes | str] = {f"run/{file}": data for file, data in base_files("exact").items()}
    tree = json.loads(base_files("exact")[f"{name}.json"])
    *above, last = chance.choice(places(tree)[1:])
    parent = tree
    for key in above:
        parent = parent[key]
    parent[last] = value
    files[f"run/{name}.json"] = dump(tree)
    words = ["explain" if name == "config" else "report", f"{PLACE}/run", "--json"]
    case = Case("value", 0, words, files)
    assert try_case(case, tmp_path_factory.getbasetemp() / "case") is None


@pytest.mark.slow
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "flag"])
def test_ten_thousand_malformed_files(kind: str, tmp_path: Path) -> None:
    run_kind(kind, SLOW_OF.get(kind, SLOW), tmp_path)


@pytest.mark.slow
@pytest.mark.usefixtures("nothing_computed")
def test_ten_thousand_malformed_flags(tmp_path: Path) -> None:
    run_kind("flag", SLOW, tmp_path)


@pytest.mark.parametrize("case", kept_cases(), ids=lambda case: f"{case.kind}-{case.seed}")
def test_a_case_that_once_failed(case: Case, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if case.kind == "flag":
        request.getfixturevalue("nothing_computed")
    assert try_case(case, tmp_path / "case") is None
