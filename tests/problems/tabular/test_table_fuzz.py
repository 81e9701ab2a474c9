"""However a table is mangled, it is refused in one line or it is a valid MDP: nothing else ever comes out."""

import copy
import json
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odd_text import odd_text
from polinfer import TabularMDP, load_table
from polinfer.core.errors import PolinferError
from polinfer.problems.tabular.files import table_from_mapping

from .table_cases import assert_valid

DENSE = {
    "transitions": [
        [[0.5, 0.25, 0.25], [0.0, 1.0, 0.0]],
        [[0.0, 0.5, 0.5], [1, 0, 0]],
        [[0, 0, 0], [0, 0, 1]],
    ],
    "rewards": [[1.5, -2], [0.25, 3], [0, 0]],
    "initial": [0.75, 0.25, 0],
    "absorbing": [False, False, True],
    "horizon": 7,
    "legal": [[True, True], [True, False], [True, True]],
    "state_names": ["near", "far", "home"],
    "action_names": ["walk", "run"],
    "success": ["home"],
}
SPARSE = {
    "outcomes": [
        ["near", "walk", "far", 0.5, 1],
        ["near", 0, 2, 0.5, -3.5],
        [1, "run", "home", 1, 0],
        [0, 1, 0, 1, 2],
    ],
    "num_states": 3,
    "num_actions": 2,
    "initial": "near",
    "absorbing": [2],
    "horizon": 5,
    "legal": [[True, True], [False, True], [True, True]],
    "state_names": ["near", "far", "home"],
    "action_names": ["walk", "run"],
    "success": [False, False, True],
}
ENDED = {
    **{name: value for name, value in SPARSE.items() if name != "success"},
    "ending_names": ["found", "lost"],
    "ending_success": [True, False],
    "ending_of": [-1, -1, 1],
}
BARE = {"outcomes": [[0, 0, 1, 0.5, 1], [0, 0, 0, 0.5, 2]], "initial": 0, "absorbing": [1], "horizon": 3}

ODD_NUMBERS = st.one_of(
    st.integers(-3, 4),
    st.sampled_from([2**31, 2**63, -(2**63) - 1, 10**30, 10**400, -(10**400)]),
    st.sampled_from([float("nan"), float("inf"), -float("inf"), -0.0, 1e308, 5e-324, 1e-7, 0.5, 1.5]),
)
LEAVES = st.one_of(ODD_NUMBERS, st.none(), st.booleans(), odd_text(3), st.sampled_from(["near", "run", "1"]))
ODD_THINGS = st.one_of(
    LEAVES,
    st.sampled_from(
        [[], {}, [[]], [[], [1]], [None], {"near": {"walk": 1}}, [[[[[1]]]]], [{}], [True, 0], ["near", 0]]
    ),
    st.lists(LEAVES, max_size=4),
    st.lists(st.lists(LEAVES, max_size=3), max_size=3),
    st.dictionaries(odd_text(2), LEAVES, max_size=2),
)
KEYS = st.one_of(st.sampled_from(sorted({*DENSE, *ENDED})), odd_text(6))


def places(tree: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """List the paths to all that hangs in `tree`."""
    inside = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    return [path, *(place for key, branch in inside for place in places(branch, (*path, key)))]


@st.composite
def mangled(draw: Any) -> dict[str, Any]:
    """Draw a table with one to three changes somewhere in it."""
    tree = copy.deepcopy(draw(st.sampled_from([DENSE, SPARSE, ENDED, BARE])))

    def odd_thing() -> Any:
        # Copy: the next change may be made inside it.
        return copy.deepcopy(draw(ODD_THINGS))

    for _ in range(draw(st.integers(1, 3))):
        # The names first: a change deep in a list should not crowd out a change of the list.
        branch = draw(st.sampled_from([*tree, None]))
        if branch is None:
            tree[draw(KEYS)] = odd_thing()
            continue
        *above, last = draw(st.sampled_from(places(tree[branch], (branch,))))
        parent = tree
        for key in above:
            parent = parent[key]
        change = draw(st.sampled_from(["replace", "replace", "drop", "wrap", "double"]))
        if change == "drop":
            del parent[last]
        elif change == "wrap":
            parent[last] = [parent[last]]
        elif change == "double" and isinstance(parent, list):
            parent.insert(last, copy.deepcopy(parent[last]))
        else:
            parent[last] = odd_thing()
    return tree


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz") / "table.json"


@pytest.fixture
def little_memory():
    """Let an allocation of more than a gigabyte fail, not the machine."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 2**30, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


def assert_refused_or_valid(make: Callable[[], TabularMDP]) -> bool:
    """Return whether `make` gives a table; assert that it is valid, or that the refusal is one line."""
    try:
        table = make()
    except PolinferError as error:
        line = str(error)
    else:
        assert_valid(table)
        return True
    assert line
    assert len(line.splitlines()) == 1
    return False


@pytest.mark.parametrize("contents", [DENSE, SPARSE, ENDED, BARE])
def test_the_tables_are_valid_before_they_are_mangled(path, contents):
    path.write_text(json.dumps(contents))
    assert assert_refused_or_valid(lambda: load_table(path))
    assert assert_refused_or_valid(lambda: table_from_mapping(contents))


FUZZ = settings(derandomize=True, deadline=None, max_examples=300)


@pytest.mark.usefixtures("little_memory")
@FUZZ
@given(contents=mangled())
def test_a_mangled_file_is_refused_or_valid(path, contents):
    path.write_text(json.dumps(contents))
    assert_refused_or_valid(lambda: load_table(path))


@pytest.mark.usefixtures("little_memory")
@FUZZ
@given(contents=mangled())
def test_a_mangled_mapping_is_refused_or_valid(contents):
    assert_refused_or_valid(lambda: table_from_mapping(contents))


NAMED = (*(name for name in DENSE if name != "transitions"), "transitions")


@FUZZ
@given(name=st.sampled_from(NAMED), value=ODD_THINGS)
def test_a_strange_argument_is_refused_or_valid(name, value):
    assert_refused_or_valid(lambda: TabularMDP(**{**DENSE, name: value}))


@FUZZ
@given(
    value=st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3), max_leaves=12),
    name=st.sampled_from(NAMED),
)
def test_ragged_arguments_are_refused_or_valid(name, value):
    assert_refused_or_valid(lambda: TabularMDP(**{**DENSE, name: value}))


ANYTHING = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(odd_text(3), inner, max_size=3),
    max_leaves=10,
)


@settings(FUZZ, max_examples=150)
@given(value=ANYTHING, as_json=st.booleans())
def test_a_file_of_anything_is_refused(path, value, as_json):
    path.write_text(json.dumps(value) if as_json else str(value), encoding="utf-8")
    assert not assert_refused_or_valid(lambda: load_table(path))
