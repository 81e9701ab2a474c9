"""The distributions: what they hold; the wheel works in an empty environment outside the checkout."""

import os
import re
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "polinfer"

pytestmark = pytest.mark.slow


def run(*command: str | Path, folder: Path) -> str:
    # Outside the checkout, and without what would put it on the path.
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL_ENV", "JAX_"))}
    done = subprocess.run(
        [str(word) for word in command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with a wheel and an sdist."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--outdir", folder, ROOT, folder=folder)
    return folder


@pytest.fixture(scope="module")
def installed(distributions: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The ``bin`` of an environment that holds the wheel and what it depends on, and nothing else."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=True)
    (wheel,) = distributions.glob("*.whl")
    run(folder / "bin" / "python", "-m", "pip", "install", "--quiet", wheel, folder=folder)
    return folder / "bin"


def files_of_the_package() -> set[str]:
    paths = (path for path in PACKAGE.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {str(path.relative_to(PACKAGE.parent)) for path in paths}


def test_the_wheel_holds_the_package_with_its_data(distributions: Path) -> None:
    (wheel,) = distributions.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    wanted = files_of_the_package()
    assert {"polinfer/py.typed", "polinfer/problems/domains/ippc2014.json"} <= wanted
    assert "polinfer/analysis/references/data/index.json" in wanted
    assert wanted - names == set()
    assert {name for name in names if ".dist-info/" not in name} - wanted == set()


def test_the_sdist_holds_what_the_tests_need(distributions: Path) -> None:
    (sdist,) = distributions.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    assert {f"src/{name}" for name in files_of_the_package()} - names == set()
    wanted = {"pyproject.toml", "Makefile", "README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff"}
    assert {*wanted, "CONTRIBUTING.md", "tests/conftest.py", "docs/index.md"} - names == set()


def test_the_wheel_runs_the_commands_of_the_readme(installed: Path, tmp_path: Path) -> None:
    section = (ROOT / "README.md").read_text(encoding="utf-8").split("## Command line\n")[1].split("\n## ")[0]
    commands = re.findall(r"^\$ polinfer (.+)$", section, re.MULTILINE)
    assert [command.split()[0] for command in commands] == ["list", "compare", "plan"]
    for command in commands:
        run(installed / "polinfer", *command.split(), folder=tmp_path)
    assert (tmp_path / "runs" / "plan" / "policy.png").exists()
    where = "import polinfer; print(polinfer.__file__, len(polinfer.METHODS))"
    assert str(installed.parent) in run(installed / "python", "-c", where, folder=tmp_path)
