"""The command line as its users see it: tables, JSON, files, and one sentence for every mistake."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polinfer
from polinfer.analysis import verdict
from polinfer.analysis.account import how_sure, standing_sentence
from polinfer.cli import main
from polinfer.cli.plan import Plan
from polinfer.methods.registry import METHODS


def run_json(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert main([*words, "--json"]) == 0
    out = capsys.readouterr().out
    assert out.count("\n") == 1  # nothing else on standard output
    record = json.loads(out)
    assert isinstance(record, dict)
    return record


def test_list_shows_every_domain_and_method(capsys: pytest.CaptureFixture[str]) -> None:
    record = run_json(capsys, "list")
    assert {d["name"] for d in record["domains"]} >= {"gridworld/multimodal", "bandit"}
    assert [m["name"] for m in record["methods"]] == list(METHODS)
    assert main(["list"]) == 0
    shown = capsys.readouterr().out
    assert len(shown.splitlines()) < 30
    assert all(name in shown for name in METHODS)
    assert main(["list", "exact"]) == 0
    assert "samples" in capsys.readouterr().out
    assert main(["list", "gridwrld"]) == 2
    assert "did you mean 'gridworld'" in capsys.readouterr().err
    assert main(["list", "all"]) == 0
    shown = capsys.readouterr().out
    assert "gridworld/multimodal" in shown
    assert shown.count("goal_with_flat") == 1  # options of a family stand once


def test_plan_exact_prints_what_the_contract_says(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    record = run_json(capsys, "plan", "gridworld/ablation", "--method", "exact", "--out", str(tmp_path))
    assert record["domain"] == "gridworld/ablation"
    assert record["method"] == "exact"
    assert record["seeds"] == 1
    assert set(record["return"]) == {"mean", "std", "q05", "q95", "cvar05", "cvar95"}
    table = polinfer.tabulate(polinfer.make("gridworld/ablation"))
    exact = polinfer.exact.policy_posterior(table)
    assert exact.posterior is not None
    assert record["log_evidence"] == pytest.approx(exact.posterior.log_evidence, abs=1e-12)
    value = polinfer.exact.evaluate_policy(table, exact.policy)
    assert record["return"]["mean"] == pytest.approx(value.expected_return, abs=1e-5)
    assert record["success"] == pytest.approx(value.success, abs=1e-5)
    for name, policy in (("policy", exact.policy), ("reach_policy", exact.posterior.reach_policy)):
        rows = {row["state"]: row for row in record[name]}
        assert set(rows) == {"(1,1)", "(1,2)", "(2,1)", "(2,2)"}
        for state, row in rows.items():
            assert set(row) == {"state", "probs", "occupancy"}
            np.testing.assert_allclose(row["probs"], policy[table.state_names.index(state)], atol=1e-6)
    assert {p.name for p in tmp_path.iterdir()} == {
        "config.json",
        "policy.safetensors",
        "summary.json",
        "certificate.png",
        "policy.png",
        "returns.png",
    }


# Trains in a blink; what two tests run, so that it is compiled once.
TRAINING = ["plan", "continuation", "--horizon", "4", "--seeds", "2", "--method", "wake"]
TRAINING += ["--sweeps", "20", "--particles", "20", "--episodes", "100"]


def test_plan_trains_and_leaves_a_run_folder(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    record = run_json(capsys, *TRAINING, "--out", str(tmp_path / "run"))
    assert record["seeds"] == 2
    assert record["method"] == "wake"
    assert record["config"]["weights"] == "exact"
    assert json.loads((tmp_path / "run" / "summary.json").read_text()) == record
    assert {p.name for p in (tmp_path / "run").iterdir()} == {
        "config.json",
        "metrics.jsonl",
        "policy.safetensors",
        "summary.json",
        "certificate.png",
        "policy.png",
        "returns.png",
        "training.png",
    }
    assert polinfer.load(tmp_path / "run").seeds == 2
    assert main([*TRAINING, "--out", str(tmp_path / "run")]) == 2
    assert "holds files already" in capsys.readouterr().err


@pytest.mark.slow
def test_methods_set_what_they_stand_for(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    words = ["plan", "continuation", "--horizon", "4", "--sweeps", "50", "--episodes", "10"]
    svi = run_json(capsys, *words, "--method", "svi", "--out", str(tmp_path / "svi"))
    assert "particles" not in svi["config"]
    assert svi["certificate"]["ess"] == 1
    iwae = run_json(capsys, *words, "--method", "iwae", "--out", str(tmp_path / "iwae"))
    assert "resample_below" not in iwae["config"]
    assert polinfer.load(tmp_path / "iwae").config == polinfer.IwaeConfig(sweeps=50)


def test_plan_takes_table_files_and_maps(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    table = polinfer.tabulate(polinfer.make("probe/fork"))
    for name in ("fork.npz", "fork.json"):
        polinfer.save_table(table, tmp_path / name)
        record = run_json(
            capsys, "plan", str(tmp_path / name), "--method", "exact", "--out", str(tmp_path / f"{name}-run")
        )
        assert record["log_evidence"] == pytest.approx(1.0804857371505)
    (tmp_path / "map.txt").write_text("S.G\n.W.\n")
    words = ["plan", "gridworld", "--map", str(tmp_path / "map.txt"), "--horizon", "5", "--method", "exact"]
    record = run_json(capsys, *words, "--out", str(tmp_path / "map-run"))
    assert record["horizon"] == 5
    assert polinfer.load(tmp_path / "map-run").policies is not None


def test_compare_prints_and_draws(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    record = run_json(capsys, "compare", "probe/three-targets", "--no-learned", "--out", str(tmp_path / "a"))
    names = [answer["name"] for answer in record["answers"]]
    assert names == [
        "policy posterior",
        "soft (alpha=1)",
        "control as inference",
        "risk seeking (1)",
        "risk averse (-1)",
        "stationary optimum",
        "finite-horizon optimum",
        "uniform",
    ]
    assert record["answers"][2]["distance_to_posterior"] == pytest.approx(0.4326, abs=1e-3)
    assert (tmp_path / "a" / "policies.png").stat().st_size > 5_000
    assert main(["compare", "gridworld/flat", "--limit", "1000", "--no-learned"]) == 0
    captured = capsys.readouterr()
    assert "soft (alpha=1)" in captured.out
    assert "1,073,741,824" in captured.err


@pytest.mark.slow
def test_compare_trains_and_shows_the_aim_of_sac(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--sweeps", "200", "--steps", "2000", "--seeds", "2", "--gamma", "0.9", "--alpha", "0.5"]
    record = run_json(capsys, "compare", "gridworld/ablation", *words)
    wake, vsmc, sac, aim = record["answers"][-4:]
    assert [wake["name"], vsmc["name"], sac["name"]] == ["wake", "VSMC", "SAC (alpha=0.5, gamma=0.9)"]
    assert wake["seeds"] == 2
    assert wake["distance_to_posterior"] < 0.02 < vsmc["distance_to_posterior"]
    assert aim["name"] == "soft, no horizon (alpha=0.5, gamma=0.9)"
    assert [vsmc["result"], sac["result"], aim["result"]] == ["learned", "learned", "converged"]
    assert [vsmc["seeds"], sac["seeds"], aim["seeds"]] == [2, 2, 1]
    assert sac["return"]["mean"] > -1.886  # the uniform policy's


@pytest.mark.slow
def test_plan_by_sac_reports_its_distance(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    words = ["--method", "sac", "--steps", "2000", "--seeds", "2", "--gamma", "0.9", "--alpha", "0.5"]
    record = run_json(capsys, "plan", "gridworld/ablation", *words, "--out", str(tmp_path / "run"))
    assert record["log_evidence"] is None
    assert record["oracle"]["alpha"] == 0.5
    assert record["oracle"]["result"] == "converged"
    assert 0 < record["oracle"]["distance"] < 0.5
    assert len(record["oracle"]["distances"]) == 2
    assert (tmp_path / "run" / "training.png").stat().st_size > 5_000


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["plan", "gridworld/multimdal"], "did you mean 'gridworld/multimodal'"),
        (["plan", "nowhere.npz"], "no such file"),
        (
            ["plan", "bandit", "--method", "vsmc", "--islands", "3"],
            "no setting --islands; it belongs to",
        ),
        (["plan", "gridworld", "--method", "exact"], "needs the option 'map'"),
        (["plan", "gridworld", "--map", "no-such-map.txt"], "neither a file nor a map"),
        (["plan", "continuation", "--set", "rho=2"], "rho must lie in 0..1"),
        (["plan", "continuation", "--set", "rho=fast"], "rho must lie in 0..1, below 1, got fast"),
        (["plan", "continuation", "--set", "rho"], "--set takes KEY=VALUE"),
        (["plan", "continuation", "--set", "roh=0.5"], "did you mean 'rho'"),
        (["plan", "continuation", "--set", "horizon=3", "--horizon", "4"], "given twice"),
        (["plan", "continuation", "--horizon", "0"], "horizon must be at least 1"),
        (["plan", "continuation", "--method", "wake", "--particles", "0"], "particles must be at least 1"),
        (["plan", "continuation", "--particles", "9"], "method 'auto' has no setting --particles"),
        (["plan", "gridworld/flat", "--method", "exact"], "1,073,741,824 deterministic policies"),
        (["plan", "continuation", "--resume"], "--resume needs --out"),
        (["compare", "bandit", "--alpha", "0"], "alpha must be above zero"),
        (["compare", "bandit", "--risk", "-1"], "risk must be above zero"),
        (["plan", "bandit", "--method", "sac", "--alpha", "0"], "alpha must be above zero, got 0"),
        (["plan", "bandit", "--method", "sac", "--sweeps", "9"], "'sac' has no setting --sweeps"),
        (["plan", "bandit", "--method", "sac", "--particles", "9"], "'sac' has no setting --particles"),
        (
            ["plan", "bandit", "--method", "wake", "--tau", "0.5"],
            "has no setting --tau; it belongs to sac",
        ),
        (["plan", "bandit", "--method", "exact", "--steps", "9"], "'exact' has no setting --steps"),
        (["plan", "bandit", "--method", "wake", "--seed", "4294967296"], "seeds must lie below 2**32"),
        (["plan", "continuation", "--episodes", "0"], "episodes must be at least 1"),
        (["plan", "bandit", "--method", "exact", "--seeds", "5"], "leave out --seeds"),
        (["plan", "bandit", "--method", "exact", "--out", "/dev/null/run"], "Not a directory"),
        (["plan", "continuation", "--reward-scale", "inf"], "reward_scale must be a finite number"),
    ],
)
def test_every_mistake_is_one_sentence(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    words: list[str],
    says: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("polinfer: ")
    assert captured.err.count("\n") == 1
    assert says in captured.err
    assert not list(tmp_path.iterdir())  # a run that is refused leaves nothing behind


def test_a_run_is_reported_as_a_page(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """And nobody is sent to rerun the paper into its folder."""
    folder = tmp_path / "run"
    record = run_json(capsys, "plan", "probe/fork", "--method", "exact", "--out", str(folder))
    told = run_json(capsys, "report", str(folder))
    assert told == record | {"report": str(folder / "report.html")}
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "probe/fork" in page
    assert 'import "page/report.js"' in page  # the views of explore
    assert main(["report", str(folder), "--no-interactive", "--out", str(tmp_path / "page.html")]) == 0
    assert "data:image/png;base64," in (tmp_path / "page.html").read_text(encoding="utf-8")
    captured = capsys.readouterr()
    assert "reproduce" not in captured.out + captured.err
    assert (tmp_path / "page.html").exists()


def test_a_bad_request_loses_nothing(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = ["--out", str(tmp_path / "run"), "--overwrite"]
    assert main(["plan", "bandit", "--method", "exact", *out]) == 0
    before = {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()}
    for words in (
        ["plan", "bandit", "--particles", "0"],
        ["plan", "bandit", "--seeds", "0"],
        ["plan", "gridworld/flat", "--method", "exact"],
        ["plan", "bandit", "--method", "exact", "--resume"],
    ):
        assert main([*words, *out]) == 2
    assert {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()} == before
    capsys.readouterr()


def test_names_may_look_like_markup(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    table = polinfer.TabularMDP(
        np.eye(2)[np.array([[1, 1], [1, 1]])],
        [[1.0, 2.0], [0.0, 0.0]],
        0,
        [1],
        2,
        state_names=["[left]", "[/x]"],
        action_names=["[bold]", "b"],
    )
    polinfer.save_table(table, tmp_path / "odd.npz")
    assert main(["plan", str(tmp_path / "odd.npz"), "--method", "exact", "--out", str(tmp_path / "a")]) == 0
    out = capsys.readouterr().out
    assert "[left]" in out
    assert "[bold]" in out


def test_a_deterministic_plan_has_no_entropy(capsys: pytest.CaptureFixture[str]) -> None:
    record = run_json(capsys, "compare", "gridworld/ablation", "--limit", "1", "--no-learned")
    entropy = {answer["name"]: answer["entropy"] for answer in record["answers"]}
    assert entropy["finite-horizon optimum"] == 0
    assert entropy["uniform"] == pytest.approx(np.log(4))
    assert 0 < entropy["soft (alpha=1)"] < np.log(4)


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"polinfer {polinfer.__version__}\n"


def test_numbers_are_whole_on_a_narrow_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "gridworld/ablation", "--no-learned"]) == 0
    assert "…" not in capsys.readouterr().out


def test_debug_shows_the_traceback() -> None:
    with pytest.raises(polinfer.PolinferError, match="did you mean"):
        main(["plan", "gridworld/multimdal", "--debug"])


def test_help_teaches(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["--help"], ["compare", "--help"], ["plan", "--help"]):
        with pytest.raises(SystemExit) as stop:
            main(words)
        assert stop.value.code == 0
    text = capsys.readouterr().out
    assert "gridworld/ablation --method vsmc --seeds 25" in " ".join(text.split())
    assert all(name in text for name in METHODS)
    assert "--learning-rate" not in text  # settings are shown with their method


@pytest.mark.parametrize("method", METHODS)
def test_the_help_of_a_method_shows_its_settings_and_no_others(
    method: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "110")
    with pytest.raises(SystemExit) as stop:
        main(["plan", "gridworld/ablation", "--method", method, "--help"])
    assert stop.value.code == 0
    shown = set(re.findall(r"^[│\s]*--(?:no-)?([a-z][a-z-]*)", capsys.readouterr().out, re.MULTILINE))
    every = {name.replace("_", "-") for other in METHODS.values() for name in other.Config.field_names()}
    own = {name.replace("_", "-") for name in METHODS[method].Config.field_names()}
    common = {"horizon", "seeds", "method", "time-limit"}
    assert shown & every - common == own - common


def test_a_scale_is_chosen_recorded_and_told(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    words = ["plan", "gridworld/ablation", "--reward-scale", "auto=0.5", "--out", str(tmp_path / "run")]
    record = run_json(capsys, *words)
    assert record["options"]["reward_scale"] == record["reward_scale"]["scale"]
    assert record["reward_scale"]["scale"] == pytest.approx(0.64, abs=0.01)
    assert record["standing"]["share"] == pytest.approx(0.5, abs=0.01)
    assert record["reward_scale"]["wanted"] == 0.5
    assert main([*words, "--overwrite"]) == 0
    told = capsys.readouterr().out
    assert "0.64 was chosen" in told
    assert "50% of the way." in told
    for bad, complaint in (("auto=2", "share must lie between 0 and 1"), ("auto=x", "takes a share")):
        assert main(["plan", "bandit", "--reward-scale", bad]) == 2
        assert complaint in capsys.readouterr().err
    assert main(["path", "bandit", "--reward-scale", "auto"]) == 2
    assert "is for plan and compare" in capsys.readouterr().err


@pytest.mark.usefixtures("compile_fully")
def test_a_time_limit_covers_the_certificate(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As if the method had ended just before the limit.
    monkeypatch.setattr(Plan, "_left", lambda plan, started, share=1.0: None if share < 1 else 1e-6)
    # And as if the grid were too large for anything else to judge by than another run.
    for other in ("_known_exactly", "_by_proof"):
        monkeypatch.setattr(verdict, other, lambda *_: None)
    words = ["plan", "gridworld/ablation", "--method", "tempered", "--enumerate-up-to", "0"]
    words += ["--policies", "32", "--tolerance", "0.02"]
    record = run_json(capsys, *words, "--time-limit", "20", "--out", str(tmp_path / "run"))
    assert record["stopped"] is None
    assert record["check_stopped"] == "the time limit of 20 s"
    assert "The check was cut short by the time limit of 20 s." in how_sure(record)
    assert record["certificate"]["verdict"] != "trust"


def test_the_way_begins_at_the_prior_where_one_is_given() -> None:
    record = {"standing": {"uniform": -1.0, "optimum": 3.0, "share": 0.5}, "return": {"mean": 1.0}}
    assert standing_sentence(record) == "return 1.000 (uniform -1.000, optimum 3.000): 50% of the way."
    record["terms"] = {"prior": "given"}
    assert standing_sentence(record) == "return 1.000 (prior -1.000, optimum 3.000): 50% of the way."


def test_a_run_ended_by_its_time_limit_has_an_answer_and_can_go_on(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    short, whole = str(tmp_path / "short"), str(tmp_path / "whole")
    record = run_json(capsys, *TRAINING, "--time-limit", "0.001", "--out", short)
    assert record["stopped"] == "the time limit of 0.001 s"
    assert "stopped-early" in [finding["code"] for finding in record["diagnostics"]]
    assert "stopped early by the time limit" in record["reason"]
    resumed = run_json(capsys, *TRAINING, "--out", short, "--resume")
    straight = run_json(capsys, *TRAINING, "--out", whole)
    assert resumed["stopped"] is None
    assert resumed["policy"] == straight["policy"]
    assert main(["plan", "bandit", "--time-limit", "0"]) == 2
    assert "time_limit must be above zero seconds" in capsys.readouterr().err
