"""Sharing the cores between processes."""

from __future__ import annotations

import os

import pytest

from polinfer.threads import cores_shared_by, thread_limit


def test_processes_share_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NPROC", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 7)
    assert thread_limit() == 7
    for processes, share in ((2, 3), (7, 1), (30, 1)):
        with cores_shared_by(processes):
            assert os.environ["NPROC"] == str(share)
            assert thread_limit() == share
        assert "NPROC" not in os.environ
    with cores_shared_by(1):
        assert "NPROC" not in os.environ


def test_a_limit_that_the_user_set_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPROC", "5")
    with cores_shared_by(2):
        assert thread_limit() == 5
    assert os.environ["NPROC"] == "5"


@pytest.mark.parametrize("told", ["", "none", "0", "-2"])
def test_a_limit_that_is_none_is_not_one(monkeypatch: pytest.MonkeyPatch, told: str) -> None:
    monkeypatch.setenv("NPROC", told)
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    assert thread_limit() == 3
