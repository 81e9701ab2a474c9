"""Progress with the time left."""

import io
from types import SimpleNamespace

import pytest
from rich.console import Console

import polinfer
from polinfer.core import progress_bar as module
from polinfer.core.progress import Report
from polinfer.core.progress_bar import Pace, progress_bar


def test_the_time_before_the_first_report_does_not_count_and_waiting_does():
    pace = Pace()
    pace.add(50.0, 0.1, 1.0)
    assert pace.left(60.0) is None
    pace.add(60.0, 0.3, 1.0)
    assert pace.left(60.0) == pytest.approx(35.0)  # 0.7 to go at 0.02 a second
    assert pace.left(70.0) == pytest.approx(70.0)
    assert pace.speed() == pytest.approx(0.02)


@pytest.mark.parametrize(("total", "announced"), [(100.0, True), (8.0, False)])
def test_only_what_takes_long_is_announced(monkeypatch, total, announced):
    now = [0.0]
    monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    told = io.StringIO()
    with progress_bar(console=Console(file=told, width=100)) as report:
        for done in range(1, 5):
            now[0] = float(done)
            report(Report(float(done), total, "sweeps"))
    assert ("sweeps: about" in told.getvalue()) == announced


def test_infer_shows_a_bar_where_asked(capsys):
    polinfer.infer(polinfer.make("gridworld/ablation"), "vsmc", sweeps=200, progress=True)
    assert "sweeps" in capsys.readouterr().out


def test_what_is_counted_next_is_calibrated_and_announced_for_itself(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    told = io.StringIO()
    with progress_bar(console=Console(file=told, width=100)) as report:
        for done in range(1, 5):
            now[0] += 1.0
            report(Report(100.0 * done, 500.0, "states"))
        for done in range(1, 5):
            now[0] += 1.0
            report(Report(float(done), 44.0, "sweeps"))
    assert "states: about" not in told.getvalue()
    assert "sweeps: about 42 s to go" in told.getvalue()
