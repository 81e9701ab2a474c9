"""The lower bounds of dependencies are those that were tested."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_every_lower_bound_is_tested_exactly() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = dict(re.match(r"([\w-]+)>=([\d.]+)", line).groups() for line in project["dependencies"])
    lines = (ROOT / "constraints" / "lowest.txt").read_text().splitlines()
    tested = dict(line.split("==") for line in lines if line and not line.startswith("#"))

    def numbers(version: str) -> list[int]:
        return [int(part) for part in (version + ".0.0").split(".")[:3]]

    assert {name: numbers(least) for name, least in declared.items()} == {
        name: numbers(exactly) for name, exactly in tested.items()
    }
