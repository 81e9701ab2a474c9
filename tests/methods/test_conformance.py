"""Every registered method keeps to what the rest of the package counts on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import polinfer
from methods.conformance import CHECKS
from polinfer.methods import tempered

pytestmark = pytest.mark.usefixtures("compile_quickly")

FITTED = {"sweeps": 5, "particles": 3, "learning_rate": 0.05, "width": 3, "depth": 1}
TINY: dict[str, dict[str, Any]] = {
    "tempered": {"policies": 6, "islands": 2, "enumerate_up_to": 0, "rounds": 2, "tolerance": 1.0},
    "rollouts": {"policies": 6, "islands": 2, "rollouts": 3},
    "particles": {"particles": 10, "sweeps": 4},
    "vsmc": FITTED,
    "svi": FITTED,
    "iwae": FITTED,
    "wake": FITTED,
    "sac": {"steps": 40, "learning_starts": 10, "batch": 8, "buffer": 25, "width": 3, "depth": 1},
}
"""Settings that make a method quick; one that is not named here runs with its defaults."""


# `iwae` is `vsmc` that never resamples, `svi` has one particle: what has to be trained for them is slow.
SPECIAL = ("svi", "iwae")
UNTRAINED = ("declaration", "foreign_fields")


@pytest.mark.parametrize(
    ("method", "check"),
    [
        pytest.param(method, check, marks=[pytest.mark.slow] * (method in SPECIAL and check not in UNTRAINED))
        for method in polinfer.METHODS
        for check in CHECKS
    ],
)
def test_it_keeps_to(method: str, check: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempered, "_BETWEEN", -1.0)  # A snapshot at every step, not one in seconds.
    known = polinfer.METHODS[method].Config.field_names()
    fields = {name: value for name, value in TINY.get(method, {}).items() if name in known}
    CHECKS[check](polinfer.METHODS[method], fields, tmp_path)
