"""Sharing the cores between processes."""

from __future__ import annotations

import os

import joblib  # type: ignore[import-untyped]
import pytest

from polinfer.core.threads import cores_shared_by, thread_limit


@pytest.fixture(autouse=True)
def seven_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NPROC", raising=False)
    monkeypatch.delenv("PJRT_NPROC", raising=False)
    monkeypatch.setattr(joblib, "cpu_count", lambda: 7)


def test_processes_share_the_cores() -> None:
    assert thread_limit() == 7
    for processes, share in ((2, 3), (7, 1), (30, 1)):
        with cores_shared_by(processes):
            assert os.environ["NPROC"] == str(share)
            assert thread_limit() == share
        assert "NPROC" not in os.environ
    with cores_shared_by(1):
        assert "NPROC" not in os.environ


@pytest.mark.parametrize(
    ("name", "told", "limit"), [("NPROC", "5", 5), ("PJRT_NPROC", "2", 2), ("NPROC", "0", 1)]
)
def test_a_limit_that_the_user_set_stands(
    monkeypatch: pytest.MonkeyPatch, name: str, told: str, limit: int
) -> None:
    monkeypatch.setenv(name, told)
    with cores_shared_by(2):
        assert thread_limit() == limit
    assert os.environ[name] == told


@pytest.mark.parametrize("told", ["", "none"])
def test_what_is_no_number_is_no_limit(monkeypatch: pytest.MonkeyPatch, told: str) -> None:
    monkeypatch.setenv("NPROC", told)
    assert thread_limit() == 7
    with cores_shared_by(2):
        assert thread_limit() == 3
    assert os.environ["NPROC"] == told


def test_workers_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with cores_shared_by(3):
        [told] = joblib.Parallel(n_jobs=2)([joblib.delayed(os.getenv)("NPROC")])
    assert told == "2"
