"""Every code block in README.md and docs/ is executed by the tests, so none goes stale.

The language of a fence says what happens to it; a fence without one, or with another one, fails.

``python``
    Runs.  The blocks of one page share a namespace and a temporary working folder, and run in order.  A block
    that starts with ``>>>`` is checked as a doctest.
``output``
    Is what the ``python`` block before it printed, all of it.
``console``
    A line that starts with ``$`` is a command, and what follows it, if anything, is what it prints: on
    standard output, or on standard error where it fails.  ``polinfer`` runs in this process and must return
    0, or the code in a trailing ``# exit code 2``.  The commands in `NOT_RUN` are for the reader.  Any other
    command fails.
``json``, ``text``
    Is only shown.  With ``<!-- file: NAME -->`` on the line before, the block is first written to that file.

Outputs are compared as doctest does with ELLIPSIS and NORMALIZE_WHITESPACE: ``...`` stands for anything, and
any white space is as good as any other.
"""

from __future__ import annotations

import contextlib
import doctest
import inspect
import io
import json
import re
import shlex
import textwrap
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import polinfer
from polinfer import exact, plots
from polinfer.cli import main
from polinfer.core.errors import TableError
from polinfer.methods.registry import METHODS
from polinfer.problems import registry
from polinfer.problems.tabular.files import table_from_mapping

ROOT = Path(__file__).parents[1]
PAGES = [
    ROOT / "README.md",
    *sorted(page for page in (ROOT / "docs").rglob("*.md") if "_build" not in page.parts),
]
# Tutorials are notebooks, which the build of the documentation runs.
RUN_PAGES = [page for page in PAGES if page.parent.name != "tutorials"]
NOT_RUN = ("make", "pip", "cd", "git")
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
# Directives that would show code which nothing here executes.
CODE_DIRECTIVES = ("code", "code-block", "code-cell", "sourcecode", "doctest", "literalinclude")

FENCE = re.compile(r"^( *)(`{3,}|~{3,}) *(\S*)")
FILE = re.compile(r"^ *<!-- file: (\S+) -->$")
EXIT_CODE = re.compile(r"\s+# exit code (\d+)$")
LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")


class DocumentationError(AssertionError):
    """A page that says something that is not so."""


class Block(NamedTuple):
    language: str
    text: str
    line: int  # of the first line inside the fence, counted from 1
    file: str | None  # the file that the block is the content of


def blocks_of(text: str) -> list[Block]:
    """Return the fenced blocks of a page."""
    lines = text.splitlines()
    blocks: list[Block] = []
    number = 0
    while number < len(lines):
        fence = FENCE.match(lines[number])
        number += 1
        if fence is None:
            continue
        first = number
        while number < len(lines) and not _closes(lines[number], fence[2]):
            number += 1
        if number == len(lines):
            raise DocumentationError(f"line {first}: the fence is never closed")
        name = FILE.match(lines[first - 2]) if first > 1 else None
        inside = textwrap.dedent("\n".join(lines[first:number])) + "\n"
        blocks.append(Block(fence[3], inside, first + 1, name[1] if name else None))
        number += 1
    return blocks


def _closes(line: str, fence: str) -> bool:
    stripped = line.strip()
    return len(stripped) >= len(fence) and set(stripped) == {fence[0]}


def run_page(name: str, text: str) -> None:
    """Run the blocks of a page in the current folder."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    printed: str | None = None
    for block in blocks_of(text):
        where = f"{name}, line {block.line}"
        before, printed = printed, None
        if block.file is not None:
            Path(block.file).write_text(block.text, encoding="utf-8")
        if block.language == "python" and block.text.startswith(">>>"):
            _run_doctest(block, namespace, where)
        elif block.language == "python":
            printed = _run_python(block, namespace, name)
        elif block.language == "console":
            _run_console(block, where)
        elif block.language == "output":
            if before is None:
                raise DocumentationError(f"{where}: output must follow a python block")
            _compare(block.text, before, where)
        elif block.language.startswith("{"):
            if block.language.strip("{}") in CODE_DIRECTIVES:
                raise DocumentationError(f"{where}: write code in a plain fence, so that it is run")
        elif block.language not in ("json", "text"):
            raise DocumentationError(f"{where}: {block.language!r} is none of the languages that are checked")


def _run_python(block: Block, namespace: dict[str, Any], name: str) -> str:
    # Blank lines in front make a traceback point to the line of the page.
    source = "\n" * (block.line - 1) + block.text
    with contextlib.redirect_stdout(io.StringIO()) as written:
        exec(compile(source, name, "exec"), namespace)
    return written.getvalue()


def _run_doctest(block: Block, namespace: dict[str, Any], where: str) -> None:
    parsed = doctest.DocTestParser().get_doctest(block.text, namespace, where, where, block.line - 1)
    said: list[str] = []
    result = doctest.DocTestRunner(verbose=False, optionflags=FLAGS).run(
        parsed, out=said.append, clear_globs=False
    )
    if result.failed:
        raise DocumentationError("".join(said))
    namespace.update(parsed.globs)  # The parser works on a copy.


def _run_console(block: Block, where: str) -> None:
    commands: list[tuple[str, list[str]]] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            commands.append((line[2:], []))
        elif commands:
            commands[-1][1].append(line)
        else:
            raise DocumentationError(f"{where}: a console block starts with a command, '$ polinfer ...'")
    for command, shown in commands:
        _run_command(command, "\n".join(shown).strip("\n"), where)


def _run_command(command: str, shown: str, where: str) -> None:
    code = EXIT_CODE.search(command)
    program, *arguments = shlex.split(EXIT_CODE.sub("", command))
    if program in NOT_RUN:
        if shown:
            raise DocumentationError(f"{where}: {program} is not run, so what it prints cannot be checked")
        return
    if program != "polinfer":
        raise DocumentationError(f"{where}: {program} is not a command that is run here")
    expected = int(code[1]) if code else 0
    out, error = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
        try:
            returned: Any = main(arguments)
        except SystemExit as stop:  # How the parser of arguments ends.
            returned = stop.code or 0
    if returned != expected:
        raise DocumentationError(
            f"{where}: '{command}' returned {returned}, not {expected}\n{error.getvalue()}"
        )
    if shown:
        _compare(shown, (error if expected else out).getvalue(), where)


def _compare(wanted: str, got: str, where: str) -> None:
    if not doctest.OutputChecker().check_output(wanted.rstrip() + "\n", got.rstrip() + "\n", FLAGS):
        raise DocumentationError(f"{where}: the page shows\n{wanted}\nbut this was printed\n{got}")


@pytest.fixture
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temporary working folder, a registry of one's own, and output of a known width."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(registry, "_DOMAINS", dict(registry._DOMAINS))
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    return tmp_path


@pytest.mark.parametrize("page", RUN_PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_code_block_of_the_page_runs(page: Path, own_folder: Path) -> None:
    run_page(str(page.relative_to(ROOT)), page.read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_relative_links_of_the_page_lead_to_files(page: Path) -> None:
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}, which does not exist"


DIRECTIVE = re.compile(r"^\.\. auto(\w+):: (\S+)\n((?:   +\S.*\n)*)", re.MULTILINE)
MEMBERS = re.compile(r":members: *(\S.*)")


def _read_reference() -> str:
    return (ROOT / "docs" / "api.md").read_text(encoding="utf-8")


def _resolves(kind: str, name: str, options: str) -> bool:
    try:
        found = attrgetter(name.removeprefix("polinfer."))(polinfer)
    except AttributeError:
        return False
    if inspect.isclass(found) != (kind in ("class", "exception")):
        return False
    members = [member.strip() for line in MEMBERS.findall(options) for member in line.split(",")]
    return all(hasattr(found, member) or member in found.__annotations__ for member in members)


def test_every_name_of_the_reference_resolves() -> None:
    """By attributes alone, as a reader of the page types it: no function hides a module."""
    directives = DIRECTIVE.findall(_read_reference())
    assert len(directives) > 100
    assert [found[1] for found in directives if not _resolves(*found)] == []


def test_the_reference_holds_every_public_name() -> None:
    reference = _read_reference()
    for module in (polinfer, exact, plots):
        for name in set(module.__all__) - {"__version__", "exact"}:
            assert re.search(rf"auto\w+:: {module.__name__}\.{name}\n", reference), f"{name} is missing"


def _names_of_a_table_file() -> list[str]:
    with pytest.raises(TableError) as caught:
        table_from_mapping({"nonsense": 0})
    return str(caught.value).split("known are ")[1].split(", ")


@pytest.mark.parametrize(
    ("page", "names"),
    [
        ("methods.md", list(METHODS)),
        *(("methods.md", list(method.Config.field_names())) for method in METHODS.values()),
        ("problems.md", list(polinfer.list_domains())),
        ("problems.md", _names_of_a_table_file()),
    ],
    ids=["methods", *(f"settings of {name}" for name in METHODS), "domains", "table files"],
)
def test_the_page_names_everything(page: str, names: list[str]) -> None:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    assert [name for name in names if f"`{name}`" not in text] == []


@pytest.mark.parametrize(
    "command", ["plan bandit --method exact --out run", "compare bandit --no-learned", "list"]
)
def test_every_key_of_the_json_is_explained(
    command: str, own_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    explained = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8").split("## For programs")[1]
    assert main([*command.split(), "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    nested = [record.get(name, {}) for name in ("return", "posterior")] + record.get("answers", [])[:1]
    for key in {key for part in (record, *nested) for key in part}:
        assert f"`{key}`" in explained, f"{key} is missing"


PYTHON, CONSOLE, OUTPUT = "```python\n{}\n```\n", "```console\n{}\n```\n", "```output\n{}\n```\n"


@pytest.mark.parametrize(
    "text",
    [
        PYTHON.format("x = 1 +"),
        PYTHON.format("print(6 * 7)") + OUTPUT.format("41"),
        PYTHON.format("print(6 * 7, end='')") + OUTPUT.format("4"),
        PYTHON.format(">>> 6 * 7\n41"),
        OUTPUT.format("42"),
        CONSOLE.format("42"),
        CONSOLE.format("$ polinfer nonsense"),
        CONSOLE.format("$ polinfer list  # exit code 2"),
        CONSOLE.format("$ polinfer list --json\n{}"),
        CONSOLE.format("$ polinfer make nonsense  # exit code 2\nAll is well."),
        CONSOLE.format("$ rm -r nothing"),
        CONSOLE.format("$ make demo\nDone."),
        "```\nprint(42)\n```\n",
        "```bash\npolinfer list\n```\n",
        "```{code-block} python\nprint(42)\n```\n",
        "```python\nprint(42)\n",
    ],
)
def test_a_page_that_is_wrong_fails(text: str, own_folder: Path) -> None:
    with pytest.raises((DocumentationError, SyntaxError)):
        run_page("page.md", text)


def test_a_page_that_is_right_passes(own_folder: Path) -> None:
    text = (
        "<!-- file: answer.json -->\n```json\n[42]\n```\n"
        + PYTHON.format(
            "from pathlib import Path\nanswer = Path('answer.json').read_text()\nprint(answer, 'more')"
        )
        + OUTPUT.format("[42] ...")
        + PYTHON.format(">>> answer.strip()\n'[42]'\n>>> other = 1")
        + PYTHON.format("assert other == 1")
        + "1. In a list, with a longer fence:\n\n    ````text\n    ```\n    ````\n"
        + CONSOLE.format("$ cd elsewhere\n$ polinfer list --json\n{...}\n$ polinfer nonsense  # exit code 2")
    )
    run_page("page.md", text)


def test_a_traceback_points_to_the_line_of_the_page(own_folder: Path) -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        run_page("page.md", "Words.\n\n" + PYTHON.format("x = 1\nx / 0"))
    assert (str(caught.traceback[-1].path).endswith("page.md"), caught.traceback[-1].lineno) == (True, 4)
