"""`polinfer reproduce` and `polinfer report` on an experiment of two rows."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from polinfer.cli import main
from polinfer.cli.reproduce import _compile_quickly
from polinfer.reproduce.claims import Claim, judge
from polinfer.reproduce.experiment import Column, Experiment, Printed, Results, Row, vsmc
from polinfer.reproduce.experiments import EXPERIMENTS
from polinfer.reproduce.figures import return_distributions


def near(results: Results) -> Claim:
    gap = abs(results["vsmc"].mean("second") - results["posterior"].mean("second"))
    return judge("Training comes near.", "nowhere", f"{gap:.3f} apart", holds=gap < 0.3)


def needs_more(results: Results) -> Claim:
    return judge("Never judged.", "nowhere", str(results["sac"]), holds=True)


def returns(results: Results) -> Figure:
    return return_distributions({"VSMC": results["vsmc"]})


TINY = Experiment(
    name="tiny",
    title="Tiny",
    place="nowhere",
    about="Two rows.",
    rows=(
        vsmc("vsmc", "VSMC", "bandit", 3e-4, printed={"second": Printed(0.6, 0.1)}, aim="posterior"),
        Row("posterior", "posterior", "bandit", "posterior", extra=True),
    ),
    columns=(Column("second", "second", 3), Column("return", "mean", 3)),
    claims=(near, needs_more),
    figures={"returns.png": returns},
)


@pytest.fixture(autouse=True)
def with_tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(EXPERIMENTS, "tiny", TINY)


def test_it_runs_resumes_and_reports(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder = tmp_path / "results"
    words = ["reproduce", "tiny", "--budget", "smoke", "--jobs", "1", "--out", str(folder)]
    assert main([*words, "--json", "--dry-run"]) == 0
    expected = json.loads(capsys.readouterr().out)
    assert (expected["missing"], expected["measured"]) == (2, 0)
    assert 0 < expected["seconds"] <= expected["worker_seconds"]
    assert not folder.exists()
    assert main([*words, "--json"]) == 0
    first = json.loads(capsys.readouterr().out)
    assert [claim["statement"] for claim in first["claims"]] == ["Training comes near."]
    assert first["claims"][0]["verdict"] == "holds"
    tiny = first["experiments"]["tiny"]
    assert (tiny["units"], tiny["waiting"], tiny["undecided"]) == (2, 0, 1)
    assert [line["source"] for line in tiny["lines"]] == ["paper", "measured", "exact"]
    softmax = np.exp([0.2, 0.7]) / np.exp([0.2, 0.7]).sum()
    assert tiny["lines"][2]["cells"][0] == f"{softmax[1]:.3f}"

    files = {path: path.stat().st_mtime_ns for path in folder.glob("units/*")}
    assert main(words) == 0
    captured = capsys.readouterr()
    assert "all 2 units are finished already" in captured.err
    assert main([*words, "--dry-run"]) == 0
    assert "judged by 2 finished units" in capsys.readouterr().err
    assert "Training comes near." in captured.out
    assert {path: path.stat().st_mtime_ns for path in folder.glob("units/*")} == files

    told = tmp_path / "told"
    assert main(["report", str(folder), "--markdown", str(told), "--out", str(tmp_path / "page.html")]) == 0
    assert (told / "tiny-returns.png").exists()
    assert "| **holds** |" in (told / "index.md").read_text(encoding="utf-8")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "data:image/png;base64," in page
    assert json.loads((told / "numbers.json").read_text())["experiments"]["tiny"]["units"] == 2


def test_flags_for_compiling_quickly_are_given_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Given twice they would be other flags, with other programs on disk."""
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_use_fusion_emitters=false --xla_hlo_profile=false")
    for _ in range(2):
        _compile_quickly()
        assert os.environ["XLA_FLAGS"].split() == [
            "--xla_cpu_use_fusion_emitters=false",
            "--xla_hlo_profile=false",
            "--xla_cpu_parallel_codegen_split_count=1",
        ]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["reproduce"], "name an experiment or all"),
        (["reproduce", "blackjac"], "did you mean 'blackjack'"),
        (["reproduce", "tiny", "--methods", "sacc"], "no unit has the method 'sacc'"),
        (["reproduce", "tiny", "--jobs", "0"], "jobs must be at least 1"),
        (["report", "nowhere"], "no such folder"),
        (["report", "."], "holds no results"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_sentence(
    words: list[str],
    sentence: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    assert sentence in capsys.readouterr().err
