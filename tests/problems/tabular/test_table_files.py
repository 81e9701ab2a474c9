"""Table files: what is written is read back, whatever is no table is refused, nothing is ever executed."""

import io
import json
import os
import pickle
import stat
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import polinfer
from odd_text import LETTERS
from polinfer import TabularMDP, load_table, save_table
from polinfer.core.errors import PolinferError, TableError

from .table_cases import ARRAYS, assert_equal_tables, assert_valid, random_table

DENSE = {
    "transitions": [[[0.9, 0.1], [1.0, 0.0]], [[0.0, 0.0], [0.0, 0.0]]],
    "rewards": [[1.0, 0.5], [0.0, 0.0]],
    "initial": "running",
    "absorbing": ["broken"],
    "horizon": 10,
    "state_names": ["running", "broken"],
    "action_names": ["fast", "slow"],
}
SPARSE = {
    "outcomes": [
        ["running", "fast", "running", 0.5, 2.0],
        ["running", "fast", "running", 0.25, -1.0],
        ["running", "fast", "broken", 0.25, 0],
        ["running", "slow", 0, 1, 0.5],
    ],
    **{k: v for k, v in DENSE.items() if k not in ("transitions", "rewards")},
}
ENDED = {**SPARSE, "ending_names": ["worn", "burnt"], "ending_success": [True, False], "ending_of": [-1, 1]}


def write(path: Path, contents) -> Path:
    if path.suffix == ".npz":
        np.savez(path, **{name: np.asarray(value) for name, value in contents.items()})
    else:
        path.write_text(contents if isinstance(contents, str) else json.dumps(contents))
    return path


def refuse(path, sentence):
    """Assert that the file is refused in one line that names it, and return the line."""
    with pytest.raises(TableError, match=sentence) as caught:
        load_table(path)
    line = str(caught.value)
    assert len(line.splitlines()) == 1
    assert str(path) in line
    return line


def without(mapping, *names):
    return {name: value for name, value in mapping.items() if name not in names}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("tables")


# -- round trips -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".npz", ".json"])
@settings(derandomize=True, deadline=None, max_examples=50)
@given(seed=st.integers(0, 2**32 - 1))
def test_random_tables_come_back_to_the_last_bit(folder, suffix, seed):
    table = random_table(seed)
    path = folder / f"random{suffix}"
    save_table(table, path)
    back = load_table(path)
    assert_equal_tables(table, back)
    assert_valid(back)


@pytest.mark.parametrize("suffix", [".npz", ".json"])
def test_a_table_in_which_nothing_happens_comes_back(folder, suffix):
    table = TabularMDP(np.zeros((2, 1, 2)), np.zeros((2, 1)), 1, [True, True], 3, success=[1])
    save_table(table, folder / f"still{suffix}")
    assert_equal_tables(table, load_table(folder / f"still{suffix}"))


@pytest.mark.parametrize("suffix", [".npz", ".json"])
@settings(derandomize=True, deadline=None, max_examples=25)
@given(
    names=st.lists(
        st.text(LETTERS, max_size=5),
        min_size=2,
        max_size=4,
        unique=True,
    )
)
@example(["", " "])
@example(["é\n", "\u2028"])
@example(["1", "0"])
def test_any_names_come_back(folder, suffix, names):
    count = len(names)
    try:
        table = TabularMDP(
            np.eye(count)[:, None] * np.ones((1, count, 1)),
            np.arange(count**2).reshape(count, count),
            names[1],
            None,
            3,
            state_names=names,
            action_names=names,
        )
    except TableError:
        # NumPy's strings lose NULs at their end: to refuse such names is as good as to keep them.
        assert any("\0" in name for name in names)
        return
    path = folder / f"names{suffix}"
    save_table(table, path)
    assert_equal_tables(table, load_table(path))


@pytest.mark.parametrize("suffix", [".npz", ".json"])
@pytest.mark.parametrize("reward", [1e99, -5e-324, 1 / 3, 123456789.123456789])
def test_numbers_keep_every_digit(folder, suffix, reward):
    table = TabularMDP([[[1.0]]], [[reward]], 0, None, 3)
    save_table(table, folder / f"digits{suffix}")
    assert load_table(folder / f"digits{suffix}").reward.tolist() == [[[reward]]]


@pytest.mark.parametrize("suffix", [".npz", ".json"])
@pytest.mark.parametrize("name", ["gridworld/ablation", "probe/fork", "bandit"])
def test_a_problem_keeps_its_dynamics_names_and_endings(folder, suffix, name):
    table = polinfer.tabulate(polinfer.make(name))
    save_table(table, folder / f"problem{suffix}")
    back = load_table(folder / f"problem{suffix}")
    for field in set(ARRAYS) - {"identities"}:
        np.testing.assert_array_equal(getattr(table, field), getattr(back, field), err_msg=field)
    for field in ("state_names", "action_names", "horizon", "endings"):
        assert getattr(table, field) == getattr(back, field)


@pytest.mark.parametrize("suffix", [".npz", ".json"])
def test_a_file_may_hold_dense_arrays(folder, suffix):
    table = load_table(write(folder / f"dense{suffix}", DENSE))
    assert_equal_tables(table, TabularMDP(**DENSE))


def test_a_json_file_may_hold_outcomes_by_name_or_by_index(folder):
    table = load_table(write(folder / "outcomes.json", SPARSE))
    assert table.probability[0].tolist() == [[0.5, 0.25, 0.25], [1.0, 0.0, 0.0]]
    assert table.reward[0].tolist() == [[2.0, -1.0, 0.0], [0.5, 0.0, 0.0]]
    assert table.successor[0, 0].tolist() == [0, 0, 1]
    assert table.absorbing.tolist() == [False, True]


def test_a_json_file_may_name_its_endings(folder):
    table = load_table(write(folder / "ended.json", ENDED))
    assert [(e.name, e.success) for e in table.endings] == [("worn", True), ("burnt", False)]
    assert table.ending_of.tolist() == [-1, 1]


def test_the_numbers_of_states_and_actions_may_be_left_to_the_rows(folder):
    rows = [[0, 1, 2, 1.0, 3.0], [0, 0, 0, 1.0, 0.0]]
    contents = {"outcomes": rows, "initial": 0, "horizon": 4, "absorbing": [1, 2]}
    for path in (folder / "counts.json", folder / "counts.npz"):
        table = load_table(write(path, contents))
        assert (table.num_states, table.num_actions) == (3, 2)
    more = {**contents, "num_states": 5, "num_actions": 2, "absorbing": [1, 2, 3, 4]}
    assert load_table(write(folder / "counts.json", more)).num_states == 5


def test_everything_optional_may_be_left_out_of_an_npz_file(folder):
    path = folder / "bare.npz"
    np.savez(
        path,
        transitions=np.ones((1, 1, 1)),
        rewards=np.zeros((1, 1)),
        initial=np.array(0),
        horizon=np.array(3),
    )
    assert load_table(path).state_names == ("0",)


# -- writing ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".npz", ".json"])
def test_saving_leaves_one_file_and_replaces_what_was_there(tmp_path, suffix):
    path = tmp_path / "new" / f"table{suffix}"
    for seed in (1, 2):
        save_table(random_table(seed), path)
        assert [p.name for p in path.parent.iterdir()] == [path.name]
        assert_equal_tables(load_table(path), random_table(seed))
    path.write_bytes(b"something else")
    save_table(random_table(3), str(path))
    assert_equal_tables(load_table(str(path)), random_table(3))


@pytest.mark.parametrize("suffix", [".npz", ".json"])
def test_a_write_that_fails_leaves_the_old_file_and_no_other(tmp_path, monkeypatch, suffix):
    path = tmp_path / f"table{suffix}"
    save_table(random_table(1), path)
    before = path.read_bytes()

    def fail(file):
        file.write(b"half of ")
        raise OSError("disk full")

    monkeypatch.setattr(np, "savez_compressed", lambda file, **contents: fail(file))
    monkeypatch.setattr(os, "fsync", lambda handle: fail(io.BytesIO()))
    with pytest.raises(OSError, match="disk full"):
        save_table(random_table(2), path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("suffix", [".npz", ".json"])
def test_who_reads_while_a_table_is_saved_reads_the_old_one_whole(tmp_path, suffix):
    path = tmp_path / f"table{suffix}"
    save_table(random_table(1), path)
    before = path.read_bytes()
    with path.open("rb") as reader:
        start = reader.read(10)
        save_table(random_table(2), path)
        assert start + reader.read() == before
    assert path.read_bytes() != before


def test_a_saved_file_is_as_readable_as_any_other(tmp_path):
    (tmp_path / "plain").write_text("")
    save_table(random_table(1), tmp_path / "table.npz")
    modes = {stat.S_IMODE(p.stat().st_mode) for p in tmp_path.iterdir()}
    assert len(modes) == 1


def test_the_place_to_save_to_must_make_sense(tmp_path):
    with pytest.raises(TableError, match=r"ends in \.npz or \.json, not in '\.csv'"):
        save_table(random_table(1), tmp_path / "table.csv")
    assert list(tmp_path.iterdir()) == []


def test_a_json_file_is_plain_json(folder):
    save_table(random_table(5), folder / "plain.json")
    contents = json.loads((folder / "plain.json").read_text())
    assert set(contents) >= {"outcomes", "initial", "horizon", "absorbing", "legal"}


# -- names -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".npz", ".json"])
@pytest.mark.parametrize(
    ("contents", "sentence"),
    [
        ({**DENSE, "horzion": 3}, r"unknown name 'horzion' \(did you mean 'horizon'\?\)"),
        ({**DENSE, "reward": 3}, r"unknown name 'reward' \(did you mean 'rewards'\?\)"),
        ({**DENSE, "gamma": 0.9}, "unknown name 'gamma'; known are transitions, rewards"),
        (without(DENSE, "initial"), "'initial' is missing"),
        (without(DENSE, "horizon"), "'horizon' is missing"),
        (without(DENSE, "rewards"), "'rewards' is missing"),
        (without(DENSE, "transitions"), "'transitions' is missing"),
        ({**DENSE, "initial": "runing"}, r"'runing' \(did you mean 'running'\?\)"),
        ({**DENSE, "absorbing": ["borken"]}, r"'borken' \(did you mean 'broken'\?\)"),
        (
            {**DENSE, "rewards": [[1.0, float("nan")], [0, 0]]},
            "state 'running', action 'slow': reward is nan",
        ),
        ({**DENSE, "horizon": 0}, "horizon must be at least 1, got 0"),
        ({**DENSE, "horizon": 2.5}, "horizon must be a whole number, got 2.5"),
        ({**DENSE, "horizon": float("inf")}, "horizon must be a whole number, got inf"),
        ({**DENSE, "horizon": float("nan")}, "horizon must be a whole number, got nan"),
        ({**DENSE, "horizon": [3]}, "horizon must be one whole number"),
        ({**DENSE, "horizon": "3"}, "horizon must be"),
        ({**DENSE, "horizon": True}, "horizon must be"),
        ({**DENSE, "initial": float("inf")}, "initial must be an index or a name, got inf"),
        ({**DENSE, "state_names": "ab"}, "state_names must be a list of names"),
        ({**DENSE, "state_names": [["a"], ["b"]]}, "state_names must be a list of names"),
    ],
)
def test_bad_contents_are_refused_by_name(folder, suffix, contents, sentence):
    refuse(write(folder / f"bad{suffix}", contents), sentence)


def bad_row(number, column, value):
    rows = [list(row) for row in SPARSE["outcomes"]]
    rows[number][column] = value
    return {**SPARSE, "outcomes": rows}


@pytest.mark.parametrize(
    ("contents", "sentence"),
    [
        ({**SPARSE, **DENSE}, "either 'outcomes' or 'transitions' with 'rewards', not both"),
        (
            bad_row(2, 0, "runing"),
            r"row 2 of outcomes: unknown state name 'runing' \(did you mean 'running'\?\)",
        ),
        (bad_row(2, 1, "fats"), r"row 2 of outcomes: unknown action name 'fats' \(did you mean 'fast'\?\)"),
        (
            bad_row(2, 2, "brokn"),
            r"row 2 of outcomes: unknown state name 'brokn' \(did you mean 'broken'\?\)",
        ),
        (bad_row(1, 0, 2), r"row 1 of outcomes: state 2 is outside 0\.\.1"),
        (bad_row(1, 1, -1), r"row 1 of outcomes: action -1 is outside 0\.\.1"),
        (bad_row(1, 2, 0.5), "row 1 of outcomes: state must be an index or a name, got 0.5"),
        (bad_row(1, 2, float("nan")), "row 1 of outcomes: state must be an index or a name, got nan"),
        (bad_row(1, 2, float("inf")), "row 1 of outcomes: state must be an index or a name, got inf"),
        (bad_row(1, 2, 10**400), "row 1 of outcomes"),
        (bad_row(1, 0, None), "row 1 of outcomes: state must be an index or a name, got None"),
        (bad_row(3, 3, "1"), "row 3 of outcomes: '1' is not a number"),
        (bad_row(3, 3, True), "row 3 of outcomes: True is not a number"),
        (bad_row(3, 4, None), "row 3 of outcomes: None is not a number"),
        (bad_row(3, 4, 10**400), "row 3 of outcomes|state 'running', action 'slow'"),
        (bad_row(3, 3, 10**400), "row 3 of outcomes|state 'running', action 'slow'"),
        (bad_row(3, 3, 0.75), "state 'running', action 'slow': probabilities sum to 0.75"),
        (bad_row(3, 4, float("nan")), "state 'running', action 'slow': reward is nan"),
        ({**SPARSE, "outcomes": []}, "outcomes|sum to 0"),
        ({**SPARSE, "outcomes": [[0, 0, 0, 1.0]]}, "outcomes must be rows of five"),
        ({**SPARSE, "outcomes": {"running": 1}}, "outcomes must be rows of five"),
        ({**SPARSE, "outcomes": None}, "outcomes must be rows of five"),
        ({**SPARSE, "num_states": 0}, "num_states must be one whole number of at least 1"),
        ({**SPARSE, "num_states": 2.5}, "num_states must be one whole number"),
        ({**SPARSE, "num_states": "2"}, "num_states must be one whole number"),
        ({**SPARSE, "num_states": None}, "num_states must be one whole number"),
        ({**SPARSE, "num_actions": {}}, "num_actions must be one whole number"),
        ({**SPARSE, "num_actions": float("inf")}, "num_actions must be one whole number"),
        ({**SPARSE, "num_actions": float("nan")}, "num_actions must be one whole number"),
        ({**SPARSE, "num_states": 3}, "state_names must hold 3 names, got 2"),
        ({**SPARSE, "state_names": [["a"], ["b", "c"]]}, "state_names must be a list of names"),
        ({**SPARSE, "legal": [[True], [True, True]]}, "legal must be true/false of shape"),
        ({**SPARSE, "absorbing": [[1], [0, 1]]}, "absorbing must be a list"),
        ({**SPARSE, "initial": [[1], [0, 1]]}, "initial must be a rectangular array"),
        (without(ENDED, "ending_of"), "ending_names and ending_success and ending_of must be given together"),
        (without(ENDED, "ending_names"), "must be given together"),
        ({**ENDED, "ending_of": 1}, "must be given together, each as a list"),
        ({**ENDED, "ending_of": [[0], [0, 1]]}, "each as a list"),
        ({**ENDED, "ending_of": [-1, 2]}, "ending_of must hold -1 or an index of the 2 ending_names"),
        ({**ENDED, "ending_of": [-1, 0.5]}, "ending_of must hold -1 or an index"),
        ({**ENDED, "ending_of": [-1, 10**30]}, "ending_of must hold -1 or an index"),
        ({**ENDED, "ending_of": [-1, 0, 1]}, "ending_of"),
        ({**ENDED, "ending_of": [0, 1]}, "ending_of.*'running'|'running'.*end"),
        ({**ENDED, "ending_success": [0, 1]}, "ending_success must hold true or false"),
        ({**ENDED, "ending_success": [True]}, "ending_success must hold true or false for each"),
        ({**ENDED, "ending_names": []}, "ending"),
        ({**ENDED, "success": ["broken"]}, "success.*ending|ending.*success"),
        ({**DENSE, "ending_names": ["a"]}, "ending_names go with 'outcomes'"),
        (
            {**without(SPARSE, "state_names"), "outcomes": [[0, 0, 0, 1, 0]], "num_states": 100_000_000},
            "num_states is 100,000,000, but outcomes and absorbing name at most",
        ),
        (
            {**without(SPARSE, "action_names"), "outcomes": [[0, 0, 0, 1, 0]], "num_actions": 100_000_000},
            "num_actions is 100,000,000, but outcomes name at most 1",
        ),
        ({**SPARSE, "state_names": ["running", None]}, "state_names must be a list of names"),
        ({**SPARSE, "features": [[1e300], [0.0]]}, "features must be finite numbers"),
        ({**SPARSE, "identities": [[2**31], [0]]}, "identities must be finite numbers"),
    ],
)
def test_bad_json_contents_are_refused_by_name(folder, contents, sentence):
    refuse(write(folder / "bad.json", contents), sentence)


@pytest.mark.parametrize("name", ["num_states", "num_actions"])
def test_counts_beyond_all_memory_are_refused(folder, name):
    contents = {**without(SPARSE, "state_names", "action_names"), "initial": 0, "absorbing": [1]}
    contents["outcomes"] = [[0, 0, 1, 1.0, 2.0]]
    with at_most_one_more_gigabyte():
        refuse(write(folder / "huge.json", {**contents, name: 10**12}), name)


@pytest.mark.parametrize("index", [10**12, 2**63, 10**400], ids=["10**12", "2**63", "10**400"])
@pytest.mark.parametrize("column", [0, 1, 2])
def test_indices_beyond_all_memory_are_refused(folder, column, index):
    row = [0, 0, 1, 1.0, 2.0]
    row[column] = index
    contents = {"outcomes": [row], "initial": 0, "horizon": 3, "absorbing": [1]}
    with at_most_one_more_gigabyte():
        refuse(write(folder / "huge.json", contents), "outcomes|num_states|num_actions")


class at_most_one_more_gigabyte:  # noqa: N801 (reads as a sentence)
    """Let an allocation fail instead of the machine."""

    def __enter__(self):
        import resource

        self.before = resource.getrlimit(resource.RLIMIT_AS)
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + 2**30, self.before[1]))

    def __exit__(self, *problem):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, self.before)


# -- files that are no tables ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "not a readable .json file"),
        ("{", "not a readable .json file"),
        ('{"horizon": 3,}', "not a readable .json file"),
        ("[1, 2]", "the top level must be an object"),
        ("3", "the top level must be an object"),
        ("null", "the top level must be an object"),
        ("[" * 100_000, "not a readable .json file"),
        ("name: yaml", "not a readable .json file"),
        ('{"horizon": ' + "9" * 5000 + "}", "not a readable .json file"),
        ("\ufeff{}", "not a readable .json file"),
        ("{}", "'initial' is missing"),
    ],
)
def test_text_that_is_no_table_is_refused(folder, text, sentence):
    path = folder / "text.json"
    path.write_text(text, encoding="utf-8")
    refuse(path, sentence)


def test_bytes_that_are_no_text_are_refused(folder):
    (folder / "bytes.json").write_bytes(b'{"horizon": "\xff\xfe"}')
    refuse(folder / "bytes.json", "not a readable .json file")


@pytest.mark.parametrize("contents", [b"", b"garbage", b"PK\x03\x04", b"\x93NUMPY\x01\x00", b"\x80\x04N."])
def test_bytes_that_are_no_archive_are_refused(folder, contents):
    (folder / "bytes.npz").write_bytes(contents)
    refuse(folder / "bytes.npz", "not a readable .npz file")


def test_a_single_array_is_refused(folder):
    with (folder / "single.npz").open("wb") as file:
        np.save(file, np.ones(3))
    refuse(folder / "single.npz", "a single array, not an archive")


def test_an_archive_of_other_things_is_refused(folder):
    path = folder / "foreign.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("word/document.xml", "<xml/>")
    refuse(path, "unknown name 'word/document.xml'")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("horizon", b"text")
        archive.writestr("initial", b"text")
        archive.writestr("outcomes", b"text")
    refuse(path, "horizon must be")


def test_an_array_that_claims_to_be_huge_is_refused(folder):
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }"
    with zipfile.ZipFile(folder / "huge.npz", "w") as archive:
        archive.writestr("horizon.npy", b"\x93NUMPY\x01\x00v\x00" + header.ljust(117) + b"\n")
    with at_most_one_more_gigabyte():
        refuse(folder / "huge.npz", "not a readable .npz file")


def test_an_encrypted_archive_is_refused(folder):
    save_table(random_table(1), folder / "locked.npz")
    contents = bytearray((folder / "locked.npz").read_bytes())
    at = contents.index(b"PK\x01\x02")
    contents[at + 8] |= 1  # the flag in the directory that says so
    (folder / "locked.npz").write_bytes(contents)
    refuse(folder / "locked.npz", "not a readable .npz file")


def test_paths_that_are_no_table_files_are_refused(folder):
    refuse(folder / "missing.npz", "no such file")
    (folder / "table.csv").write_text("1,2")
    refuse(folder / "table.csv", r"ends in \.npz or \.json, not in '\.csv'")
    (folder / "directory.json").mkdir()
    refuse(folder / "directory.json", "directory|not a readable")
    (folder / "directory.npz").mkdir()
    refuse(folder / "directory.npz", "directory|not a readable")


# -- damaged archives ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def archive(folder):
    save_table(random_table(4), folder / "whole.npz")
    return (folder / "whole.npz").read_bytes()


def assert_refused_or_valid(path):
    try:
        table = load_table(path)
    except PolinferError as error:
        assert len(str(error).splitlines()) == 1  # noqa: PT017 (either is right)
        return
    assert_valid(table)


@settings(derandomize=True, deadline=None, max_examples=50)
@given(data=st.data())
def test_a_truncated_archive_is_refused(folder, archive, data):
    path = folder / "cut.npz"
    path.write_bytes(archive[: data.draw(st.integers(0, len(archive) - 1))])
    refuse(path, "not a readable .npz file")


@settings(derandomize=True, deadline=None, max_examples=200)
@given(data=st.data())
def test_a_damaged_archive_is_refused_or_valid(folder, archive, data):
    damaged = bytearray(archive)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(archive) - 1))] = data.draw(st.integers(0, 255))
    path = folder / "damaged.npz"
    path.write_bytes(damaged)
    assert_refused_or_valid(path)


def test_a_truncated_json_file_is_refused(folder):
    save_table(random_table(4), folder / "whole.json")
    whole = (folder / "whole.json").read_bytes().rstrip()
    for length in range(0, len(whole), max(1, len(whole) // 40)):
        (folder / "cut.json").write_bytes(whole[:length])
        refuse(folder / "cut.json", "not a readable .json file")


# -- nothing in a file is executed -----------------------------------------------------------------------


class Trap:
    """Unpickling this makes a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


@pytest.mark.parametrize("name", ["transitions", "horizon", "state_names", "outcomes", "unknown"])
def test_a_pickled_array_is_refused_and_not_executed(tmp_path, name):
    sprung = tmp_path / "sprung"
    trap = np.empty((), object)
    trap[()] = Trap(sprung)
    path = tmp_path / "trap.npz"
    np.savez(path, **{**{k: np.asarray(v) for k, v in DENSE.items()}, name: trap})
    refuse(path, "not a readable .npz file")
    assert not sprung.exists()
    # The trap works: a reader that allows pickles springs it.
    with np.load(path, allow_pickle=True) as archive:
        archive[name]
    assert sprung.exists()


@pytest.mark.parametrize("suffix", [".npz", ".json"])
def test_a_bare_pickle_is_refused_and_not_executed(tmp_path, suffix):
    sprung = tmp_path / "sprung"
    path = tmp_path / f"trap{suffix}"
    path.write_bytes(pickle.dumps(Trap(sprung)))
    refuse(path, "not a readable")
    assert not sprung.exists()
    pickle.loads(path.read_bytes())
    assert sprung.exists()
