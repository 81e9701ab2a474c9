"""The path over reward scales: against enumeration of the scaled problem, and as its users see it."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

import polinfer
from polinfer import exact
from polinfer.analysis.reward_path import DEFAULT_SCALES, ScalePath, _anchored, _Posterior, scale_path
from polinfer.annealing import TemperedConfig
from polinfer.cli import main
from polinfer.core.errors import PolinferError
from polinfer.plots.path import path_figure

pytestmark = pytest.mark.usefixtures("compile_module_fully")
SCALES = (0.3, 1.0, 4.0)
DOCS = Path(__file__).parents[2] / "docs" / "command-line.md"


@pytest.fixture(scope="module")
def sampled() -> ScalePath:
    """A path of the ablation grid for which policies are sampled, though it has only 256."""
    config = TemperedConfig(policies=64, enumerate_up_to=0, tolerance=0.01)
    return scale_path(polinfer.make("gridworld/ablation"), SCALES, config, seed=3, limit=0)


@pytest.fixture(scope="module")
def enumerated() -> ScalePath:
    return scale_path(polinfer.make("gridworld/ablation"), SCALES)


@pytest.mark.parametrize("domain", ["gridworld/ablation", "tireworld/1"])
def test_enumerated_answers_are_those_of_the_scaled_problem(domain: str) -> None:
    table = polinfer.tabulate(polinfer.make(domain))
    path = scale_path(table, SCALES)
    assert path.enumerated
    for point, scale in zip(path.points, SCALES, strict=True):
        scaled = table.with_problem(reward_scale=scale)
        solution = exact.policy_posterior(scaled, reach=False)
        assert solution.posterior is not None
        np.testing.assert_allclose(point.policy, solution.policy, atol=1e-12)
        assert point.log_evidence == pytest.approx(solution.posterior.log_evidence, abs=1e-11)
        assert scale * point.expected_return == pytest.approx(solution.posterior.expected_return, abs=1e-11)
        assert point.effective_policies == pytest.approx(solution.posterior.effective_policies, rel=1e-10)
        # Executed on the problem's own rewards, whatever the scale.
        own = exact.evaluate_policy(table, solution.policy)
        assert point.value.expected_return == pytest.approx(own.expected_return, abs=1e-11)
        assert point.value.success == own.success or point.value.success == pytest.approx(own.success)
        assert point.value.entropy == pytest.approx(own.entropy, abs=1e-11)
        assert (point.return_stderr, point.log_evidence_stderr, point.expected_return_stderr) == (0, 0, 0)
        soft = exact.soft_value_iteration(scaled, alpha=1.0)
        np.testing.assert_allclose(point.soft_policy, soft.policy, atol=1e-10)
        in_own = exact.evaluate_policy(table, soft.executable)
        assert point.soft_value.expected_return == pytest.approx(in_own.expected_return, abs=1e-10)


@pytest.mark.slow
def test_sampled_answers_agree_with_enumeration(sampled: ScalePath, enumerated: ScalePath) -> None:
    assert not sampled.enumerated
    assert sampled.num_policies == enumerated.num_policies == 256
    for point, truth in zip(sampled.points, enumerated.points, strict=True):
        for name in ("log_evidence", "expected_return", "posterior_entropy"):
            stderr = getattr(point, f"{name}_stderr")
            assert 0 < stderr < 0.5
            assert abs(getattr(point, name) - getattr(truth, name)) < 5 * stderr
        for name, stderr in (
            ("expected_return", point.return_stderr),
            ("success", point.success_stderr),
            ("entropy", point.entropy_stderr),
        ):
            assert 0 < stderr < 0.3
            assert abs(getattr(point.value, name) - getattr(truth.value, name)) < 5 * stderr
        assert point.soft_value.expected_return == truth.soft_value.expected_return


def test_evidence_that_jensen_refutes_at_the_least_scale_is_shifted_everywhere() -> None:
    def point(scale: float, log_evidence: float) -> _Posterior:
        policy = np.full((1, 2), 0.5)
        return _Posterior(scale, policy, None, -4.0, 0.0, log_evidence, 0.1, log_evidence + 9, 0.2)

    prior_returns = np.array([-6.0, -5.0, -4.0, -5.0])
    # Of log Z(0.01), all that is possible is about -0.05 to -0.04.
    found = _anchored([point(0.01, -3.0), point(1.0, -7.0)], prior_returns)
    assert found[0].log_evidence == pytest.approx(-0.05, abs=0.01)
    assert found[1].log_evidence - found[0].log_evidence == pytest.approx(-4.0)
    assert found[1].entropy - found[0].entropy == pytest.approx(-4.0)
    assert found[0].log_evidence_stderr == 0.1
    assert found[1].log_evidence_stderr > 2.9
    kept = [point(0.01, -0.2), point(1.0, -7.0)]
    assert _anchored(kept, prior_returns) == kept


def test_the_path_leads_from_the_uniform_policy_to_the_optimum() -> None:
    path = scale_path(polinfer.make("gridworld/ablation"), [1e-7, 1e5])
    first, last = path.points
    np.testing.assert_allclose(first.policy, exact.uniform_policy(path.table), atol=1e-6)
    assert first.value.expected_return == pytest.approx(path.uniform.expected_return, abs=1e-5)
    assert first.effective_policies == pytest.approx(256, abs=1e-3)
    assert last.value.expected_return == pytest.approx(path.stationary.expected_return, abs=1e-9)
    assert last.soft_value.expected_return == pytest.approx(path.optimum.expected_return, abs=1e-3)
    assert path.stationary.expected_return <= path.optimum.expected_return


def test_scales_are_multiples_of_the_rewards_that_the_problem_has() -> None:
    plain = scale_path(polinfer.make("probe/fork"), [2.0]).points[0]
    doubled = scale_path(polinfer.make("probe/fork", reward_scale=2), [1.0]).points[0]
    np.testing.assert_allclose(plain.policy, doubled.policy, atol=1e-12)
    assert 2 * plain.value.expected_return == pytest.approx(doubled.value.expected_return)


def test_scales_are_sorted_and_progress_reaches_the_end() -> None:
    reports: list[polinfer.Report] = []
    path = scale_path(polinfer.make("bandit"), [2, 1, 2], progress=reports.append)
    assert [point.scale for point in path.points] == [1.0, 2.0]
    assert [now.done / now.total for now in reports] == pytest.approx([0.5, 1.0])
    assert math.isclose(DEFAULT_SCALES[0], 0.01)
    assert math.isclose(DEFAULT_SCALES[-1], 100)


def test_a_problem_without_a_choice_has_a_path() -> None:
    table = polinfer.TabularMDP([[[0, 1]], [[0, 0]]], [[3.0], [0]], 0, [False, True], 2)
    (point,) = scale_path(table, [1.0]).points
    assert (point.value.expected_return, point.log_evidence, point.effective_policies) == (3.0, 3.0, 1.0)


@pytest.mark.parametrize("scales", [[], [0.0], [1.0, -2.0], [math.inf], [math.nan], [True], ["one"]])
def test_bad_scales_are_refused(scales: list[float]) -> None:
    with pytest.raises(PolinferError, match="scale"):
        scale_path(polinfer.make("bandit"), scales)


def test_the_figure_shows_the_numbers(sampled: ScalePath, enumerated: ScalePath) -> None:
    figure = path_figure(sampled)
    assert [ax.get_title() for ax in figure.axes][:2] == ["return", "success"]
    lines = {str(line.get_label()): line for line in figure.axes[0].get_lines()}
    drawn = lines["policy posterior, an action per step"].get_ydata()
    np.testing.assert_allclose(np.asarray(drawn), [p.value.expected_return for p in sampled.points])
    levels = [np.asarray(lines[name].get_ydata())[0] for name in ("optimum", "uniform policy")]
    assert levels == [sampled.optimum.expected_return, sampled.uniform.expected_return]
    assert all(ax.collections for ax in figure.axes)  # the bands
    assert not any(ax.collections for ax in path_figure(enumerated).axes)


def test_the_figure_has_no_panel_for_what_is_not_known_and_fits_very_many_policies() -> None:
    bandit = scale_path(polinfer.make("bandit"), [0.1, 10])
    unknown = bandit.uniform.__class__(**(vars(bandit.uniform) | {"success": None}))
    figure = path_figure(bandit._replace(uniform=unknown, num_policies=10**400))
    assert [ax.get_title() for ax in figure.axes] == [
        "return",
        "entropy per step, nats",
        "effective policies",
    ]
    assert figure.axes[-1].get_ylabel() == "power of ten"


def test_the_command_prints_draws_and_keeps_numbers(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["path", "gridworld/ablation", "--from", "0.1", "--to", "10", "--points", "3"]
    assert main([*words, "--out", str(tmp_path / "out"), "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert [point["scale"] for point in record["points"]] == pytest.approx([0.1, 1, 10])
    assert record["points"][1]["log_evidence"] == pytest.approx(-0.0053, abs=1e-4)
    assert record["settings"] is None
    assert json.loads((tmp_path / "out" / "path.json").read_text()) == record
    assert (tmp_path / "out" / "path.png").stat().st_size > 5_000
    explained = DOCS.read_text(encoding="utf-8").split("## For programs")[1]
    keys = {*record, *record["uniform"], *record["points"][0], *record["points"][0]["soft"]}
    assert [key for key in sorted(keys) if f"`{key}`" not in explained] == []

    monkeypatch.setenv("COLUMNS", "80")
    assert main(words) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    assert "…" not in out
    assert "1.280" in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--scales", "0", "1"], "scales must be numbers above zero"),
        (["--from", "-1"], "scales must be numbers above zero"),
        (["--from", "10", "--to", "1"], "--from must be below --to"),
        (["--points", "1"], "points must be at least 2"),
        (["--scales", "1", "--to", "5"], "--to makes a grid of scales"),
        (["--islands", "1"], "islands must be at least 2"),
        (["--limit", "-1"], "limit must be at least 0"),
    ],
)
def test_the_command_refuses(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["path", "bandit", *words]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert said in captured.err


def test_the_command_does_not_overwrite(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("keep")
    words = ["path", "bandit", "--scales", "1", "--out", str(tmp_path)]
    assert main(words) == 2
    assert "holds files already" in capsys.readouterr().err
    assert main([*words, "--overwrite"]) == 0
    assert {p.name for p in tmp_path.iterdir()} == {"mine.txt", "path.png", "path.json"}
