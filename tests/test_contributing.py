"""CONTRIBUTING.md is run as it is written: a domain, a method and an experiment are added and used."""

import importlib.util
import json
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from polinfer.cli import main
from polinfer.methods import METHODS
from polinfer.problems import registry
from polinfer.reproduce import EXPERIMENTS

TEXT = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
METHOD = "uniform-importance"


@pytest.fixture
def own_registries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A temporary working folder, and registries that forget what the page adds."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(registry, "_DOMAINS", dict(registry._DOMAINS))
    monkeypatch.setattr(METHODS, "_known", dict(METHODS._known))
    before = dict(EXPERIMENTS)
    yield tmp_path
    EXPERIMENTS.clear()
    EXPERIMENTS.update(before)
    for name in [name for name in sys.modules if name.startswith("contributed_")]:
        del sys.modules[name]


def run_block(number: int, source: str, names: dict[str, object]) -> None:
    """Run a block as a module in a file, so that its docstrings can be read as those of any module."""
    path = Path(f"contributed_{number}.py")
    path.write_text(source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path.absolute())
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    vars(module).update(names)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    names |= {name: value for name, value in vars(module).items() if not name.startswith("__")}


def run_commands(text: str) -> None:
    """Run the commands of a console block that are ours; those of make are for the reader."""
    for command in re.findall(r"^\$ polinfer (.+)$", text, re.MULTILINE):
        words, _, comment = command.partition("  # exit code ")
        assert main(shlex.split(words)) == int(comment or 0), command


def test_the_worked_examples_run_as_written(own_registries: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, object] = {}
    ran = {"python": 0, "console": 0}
    for number, (language, text) in enumerate(BLOCK.findall(TEXT)):
        if language == "output":
            assert capsys.readouterr().out == text
            continue
        capsys.readouterr()
        ran[language] += 1
        if language == "python":
            run_block(number, text, names)
        else:
            run_commands(text)
            said = capsys.readouterr().err
            for line in re.findall(r"^polinfer: (.+?)(?: \.\.\.)?$", text, re.MULTILINE):
                assert line in said
    assert ran == {"python": 5, "console": 3}
    assert json.loads(Path("runs/ferry/summary.json").read_text())["method"] == METHOD
    assert Path("runs/reproduce/report.html").exists()
    with pytest.raises(SystemExit):
        main(["plan", "--method", METHOD, "--help"])
    assert "Policies to draw from the uniform measure." in " ".join(capsys.readouterr().out.split())
