"""Any terminal: each environment works, or ends in one sentence."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from rich.table import Table

import polinfer
from polinfer.cli import main
from polinfer.cli.output import _console, print_anywhere


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("environments") / "run"
    polinfer.infer(polinfer.make("gridworld/ablation", horizon=3), "exact").save(folder)
    return folder


def explain(
    run: Path, *, without: tuple[str, ...] = (), shell: str = "", **changed: str
) -> tuple[int, str, str]:
    words = f"'{sys.executable}' -m polinfer explain '{run}' {shell}"
    kept = {name: value for name, value in os.environ.items() if name not in without}
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", words], env={**kept, **changed}, capture_output=True, check=False
    )
    said = done.stderr.decode(errors="replace")
    assert "Traceback" not in said
    return done.returncode, done.stdout.decode(errors="replace"), said


C = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
WORKS: dict[str, dict[str, object]] = {
    "ascii": {"PYTHONIOENCODING": "ascii"},
    "no locale": C,
    "no columns": {"COLUMNS": "0", "TERM": "dumb", "without": ("HOME",)},
}


@pytest.mark.parametrize(
    "name", ["ascii", *(pytest.param(name, marks=pytest.mark.slow) for name in WORKS if name != "ascii")]
)
def test_it_prints_in_any_environment(name: str, run: Path) -> None:
    code, out, _ = explain(run, **WORKS[name])  # type: ignore[arg-type]
    assert code == 0
    assert "toss-up" in out


@pytest.mark.slow
@pytest.mark.parametrize(
    "changed",
    [
        {"COLUMNS": "1"},
        {"COLUMNS": "20"},
        {"COLUMNS": "many"},
        {"HOME": "/nonexistent"},
        {"PYTHONWARNINGS": "error"},
        {"PYTHONOPTIMIZE": "2"},
        {"JAX_ENABLE_X64": "1"},
        {"JAX_COMPILATION_CACHE_DIR": "/proc/none"},
        {"NO_COLOR": "1", "TERM": ""},
    ],
    ids=str,
)
def test_it_works_in_odd_environments(changed: dict[str, str], run: Path) -> None:
    assert explain(run, **changed)[0] == 0


def test_a_platform_that_is_not_there_is_one_sentence(run: Path) -> None:
    code, out, said = explain(run, JAX_PLATFORMS="cuda")
    assert (code, out) == (2, "")
    assert (
        said == "polinfer: JAX cannot use the platform 'cuda' here; unset JAX_PLATFORMS, or set it to cpu\n"
    )


def test_a_reader_that_leaves_does_not_end_the_run() -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    with open(theirs, "w", encoding="utf-8") as stream:
        console = _console(stream)
        console.print("one line")
        console.print("another", "x" * 100_000)
        stream.write("and what is not rich's")
        stream.flush()


def test_a_terminal_that_is_closed_does_not_end_the_run() -> None:
    ours, theirs = os.openpty()
    with open(theirs, "w", encoding="utf-8") as stream:
        os.close(ours)
        _console(stream).print("one line")
        stream.write("and what is not rich's")


@pytest.mark.parametrize(
    "told",
    [
        "Glyph 23478 (CJK) missing from font(s) DejaVu Sans.",
        "Error writing persistent compilation cache entry for 'jit__iterate': OSError",
    ],
)
def test_what_does_not_matter_quotes_no_source(told: str) -> None:
    print_anywhere()
    warnings.warn(told, UserWarning, stacklevel=1)  # an error in tests, where nothing ignores it


def test_names_in_a_file_do_not_rule_the_terminal() -> None:
    stream, cells = io.StringIO(), Table("state")
    cells.add_row("\x1b]0;a title\x07", style="red")
    cells.add_row("one\ntwo")
    console = _console(stream)
    console.print(cells, "\x9b31m")
    assert not set("\x1b\x07\x9b") & set(stream.getvalue())
    assert "?]0;a titl" in stream.getvalue()  # the last letter is cut: codes have no width


def test_the_name_of_a_file_need_not_be_text(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="strict")
    monkeypatch.setattr(sys, "stdout", stream)
    print_anywhere()
    _console(stream).print("run\udcfe")
    stream.flush()
    assert stream.buffer.getvalue() == b"run?\n"


def test_a_very_long_name_of_a_table_gives_a_folder_that_can_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    name = "é" * 120 + ".json"
    table = {"transitions": [[[1]]], "rewards": [[1]], "initial": [1], "horizon": 1}
    Path(name).write_text(json.dumps(table))
    assert main(["plan", name, "--method", "exact", "--json"]) == 0
    assert (tmp_path / json.loads(capsys.readouterr().out)["run"] / "summary.json").exists()


@pytest.mark.parametrize("asked", ["--version", "--help"])
def test_what_every_program_says_may_not_fit_either(
    asked: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with open("/dev/full", "w", encoding="utf-8") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert main([asked]) == 2
    assert capsys.readouterr().err.startswith("polinfer: No space left on device")


@pytest.mark.slow
def test_closed_and_full_outputs(run: Path) -> None:
    assert explain(run, shell=">&-")[0] == 0
    assert explain(run, shell="2>&-")[0] == 0
    code, out, said = explain(run, shell="| head -1")
    assert (code, len(out.splitlines())) == (0, 1)
    assert "Error" not in said
    code, _, said = explain(run, shell="> /dev/full")
    assert code == 2
    assert said.splitlines()[-1].startswith("polinfer: No space left on device; make room")
    assert explain(run.with_name("nothing"), shell="2> /dev/full")[0] == 2


@pytest.mark.parametrize(
    ("asked", "unbuffered"),
    [
        ("list --json", ""),
        pytest.param("list", "1", marks=pytest.mark.slow),
        pytest.param("list --json", "1", marks=pytest.mark.slow),
        pytest.param("list", "", marks=pytest.mark.slow),
    ],
)
def test_output_that_does_not_fit_is_said(asked: str, unbuffered: str, tmp_path: Path) -> None:
    words = f"ulimit -f 1; '{sys.executable}' -m polinfer {asked} > '{tmp_path}/listed'"
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    done = subprocess.run(["bash", "-c", words], env=environment, capture_output=True, check=False)
    assert done.returncode == 2
    assert done.stderr.decode().splitlines()[-1].startswith("polinfer: File too large; let files be larger")
