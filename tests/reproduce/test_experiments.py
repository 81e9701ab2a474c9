"""The experiments: complete, consistent, and judged by their numbers."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polinfer.problems.registry import make
from polinfer.reproduce.budgets import BUDGETS, Budget
from polinfer.reproduce.claims import Verdict, clearly_above
from polinfer.reproduce.experiment import Column, Experiment, Found, Printed, Row
from polinfer.reproduce.experiments import EXPERIMENTS
from polinfer.reproduce.findings import gather
from polinfer.reproduce.page import as_page
from polinfer.reproduce.problems import table_for
from polinfer.reproduce.store import Outcome, Store, Times
from polinfer.reproduce.tables import disagreements, make_table

PAPER = BUDGETS["paper"]
EACH = pytest.mark.parametrize("experiment", EXPERIMENTS.values(), ids=list(EXPERIMENTS))


def test_the_paper_budget_is_the_papers() -> None:
    assert (PAPER.seeds, PAPER.sweeps, PAPER.steps, PAPER.episodes) == (25, 50_000, 1_000_000, 10_000)


@EACH
def test_rows_are_consistent(experiment: Experiment) -> None:
    keys = [row.key for row in experiment.rows]
    assert len(set(keys)) == len(keys)
    fields = {column.field for column in experiment.columns}
    for row in experiment.rows:
        assert not row.aim or row.aim in keys
        assert set(row.printed) <= fields
        assert not (row.extra and row.printed)


@EACH
def test_training_is_the_papers(experiment: Experiment) -> None:
    for row in experiment.rows:
        units = row.units(PAPER)
        if row.method in ("vsmc", "wake") and not row.growing:
            settings = units[0].describe()["settings"]
            assert settings["particles"] == 10
            assert settings["worlds"] == 1
            assert 1e-5 <= settings["learning_rate"] <= 3e-4
            assert settings["final_rate_share"] == 0.1
            assert (settings["width"], settings["depth"]) == (64, 2)
        if row.method in ("vsmc", "wake", "sac"):
            assert sum(unit.seeds for unit in units) == 25


@EACH
def test_every_unit_is_one_that_its_method_takes(experiment: Experiment) -> None:
    for budget in BUDGETS.values():
        assert all(unit.key for unit in experiment.units(budget))


def test_rows_that_take_long_at_any_budget_are_not_in_the_smallest(tmp_path: Path) -> None:
    advising = EXPERIMENTS["advising"]
    lengthy = {row.key for row in advising.rows if row.lengthy}
    assert lengthy == {"1 soft", "1 soft continue", "2 soft", "2 soft continue", "2 optimal"}
    units = {name: {unit.key for unit in advising.units(BUDGETS[name])} for name in ("smoke", "paper")}
    for row in advising.rows:
        if row.lengthy:
            (unit,) = row.units(PAPER)
            assert unit.key in units["paper"] - units["smoke"]
    # Nothing to run is not the same as finished.
    assert not lengthy & set(advising.results(Store(tmp_path), BUDGETS["smoke"]))


def test_the_papers_tables_are_all_there() -> None:
    rows = {
        name: sum(bool(row.printed) and row.reading != "continue" for row in e.rows)
        for name, e in EXPERIMENTS.items()
    }
    assert (rows["blackjack"], rows["tireworld"], rows["advising"]) == (7, 16, 6)


def test_seeds_are_split_into_units_and_put_together_again(tmp_path: Path) -> None:
    row = Row("a", "A", "bandit", "vsmc", {"reward_scale": 0.5}, settings={"sweeps": 5})
    budget = Budget("odd", seeds=5, sweeps=5, steps=5, episodes=4, seed_batch=2)
    units = row.units(budget)
    assert [(unit.first_seed, unit.seeds) for unit in units] == [(0, 2), (2, 2), (4, 1)]
    store = Store(tmp_path)
    for number, unit in enumerate(units):
        arrays = {
            "mean": np.arange(unit.first_seed, unit.first_seed + unit.seeds, dtype=np.float64),
            "exact.mean": np.full(unit.seeds, number, np.float64),
            "values": np.array([0.0, number + 1.0], np.float32),
            "shares": np.array([0.5, 0.5], np.float32),
            "trace.ess": np.full((3, unit.seeds), number, np.float32),
        }
        store.write(unit, Outcome(arrays), Times(1.0, 0.5))
    experiment = Experiment("x", "X", "", "", (row,), (Column("return", "mean"),), (), {})
    found = experiment.results(store, budget)["a"]
    assert found["mean"].tolist() == [0, 1, 2, 3, 4]
    assert found["base_mean"].tolist() == [0, 2, 4, 6, 8]  # in the problem's own rewards
    assert found["base_exact"].tolist() == [0, 0, 2, 2, 4]
    assert found["trace.ess"].shape == (3, 5)
    assert found["values"].tolist() == [0, 1, 2, 3]
    np.testing.assert_allclose(found["shares"], [0.5, 0.2, 0.2, 0.1])
    assert found.times == Times(3.0, 1.5)


def results_for(experiment: Experiment, number: Callable[[Row, str], float]) -> dict[str, Found]:
    """Make up outcomes of three seeds: `number` for each row and field, and a little spread."""
    made = {}
    fields = [
        *(column.field for column in experiment.columns),
        *("mean", "std", "cvar05", "cvar95", "success", "base_mean", "base_exact", "entropy", "log_evidence"),
    ]
    for row in experiment.rows:
        around = np.array([-0.001, 0.0, 0.001])
        arrays: dict[str, Any] = {field: number(row, field) + around for field in fields}
        made[row.key] = Found(row, Outcome(arrays), None)
    return made


def as_printed(row: Row, field: str) -> float:
    return row.printed[field].mean if field in row.printed else 0.0


def verdicts(name: str, number: Callable[[Row, str], float]) -> dict[str, Verdict]:
    """Return the verdicts of an experiment on made-up numbers, by the names of the claims' functions."""
    made = results_for(EXPERIMENTS[name], number)
    return {claim.__name__: claim(made).verdict for claim in EXPERIMENTS[name].claims}


def test_the_papers_own_numbers_satisfy_the_papers_claims() -> None:
    # What the paper does not print is zero, so that claims on our own rows say nothing here.
    blackjack = verdicts("blackjack", as_printed)
    assert set(blackjack.values()) == {Verdict.HOLDS}
    tireworld = verdicts("tireworld", as_printed)
    assert all(
        tireworld[name] is Verdict.HOLDS for name in ("_low_claim", "_gain_claim", "_comparable_claim")
    )
    assert tireworld["_struggle_claim"] is Verdict.IN_KIND  # made up without its variance
    advising = verdicts("advising", as_printed)
    assert (advising["_means_claim"], advising["_tails_claim"]) == (Verdict.HOLDS, Verdict.HOLDS)
    assert advising["_harder_claim"] is Verdict.HOLDS  # what has no number is completed by no run


def test_numbers_without_the_effect_fail_the_claims() -> None:
    def flat(row: Row, field: str) -> float:
        return 0.05

    assert set(verdicts("blackjack", flat).values()) == {Verdict.NOT_HERE}
    tireworld = verdicts("tireworld", flat)
    held = {"_peaked_claim", "_comparable_claim", "_rate_claim"}  # all is the same
    assert {tireworld.pop(name) for name in held} == {Verdict.HOLDS}
    assert set(tireworld.values()) == {Verdict.NOT_HERE}

    def reversed_tails(row: Row, field: str) -> float:
        sign = {"cvar05": -1.0, "cvar95": 1.0}.get(field, 0.0)
        return sign * (20.0 if row.method == "sac" else 10.0)

    assert verdicts("advising", reversed_tails)["_tails_claim"] is Verdict.NOT_HERE


@pytest.mark.parametrize(
    ("wide", "verdict"),
    [
        (("1 vsmc 1", "4 vsmc 1", "7 vsmc 1", "10 vsmc 1"), Verdict.HOLDS),
        (("1 vsmc 1", "4 vsmc 1", "7 vsmc 1"), Verdict.IN_KIND),
        (("1 vsmc 1", "4 vsmc 1"), Verdict.NOT_HERE),
        (("1 vsmc 1", "1 sac 1", "4 vsmc 1", "4 vsmc 0.2", "7 vsmc 1", "10 vsmc 1"), Verdict.NOT_HERE),
    ],
)
def test_a_high_variance_is_that_of_the_policies_over_runs(wide: tuple[str, ...], verdict: Verdict) -> None:
    experiment = EXPERIMENTS["tireworld"]
    made = results_for(experiment, as_printed)
    for key, found in made.items():
        spread = np.array([-1.0, 0.0, 1.0]) * (0.5 if key in wide else 0.1)
        # Episodes add a spread of their own, which is not what is judged.
        noise = np.array([-1.0, 0.0, 1.0]) * (0.1 if key in wide else 2.0)
        arrays = {**found.outcome.arrays, "base_exact": spread, "base_mean": noise}
        made[key] = Found(found.row, Outcome(arrays), None)
    (claim,) = [one for one in experiment.claims if one.__name__ == "_variance_claim"]
    assert claim(made).verdict is verdict


def test_policies_on_grids_are_judged_cell_by_cell() -> None:
    names = {claim.__name__: claim for claim in EXPERIMENTS["grids"].claims}
    made = {}
    for row in EXPERIMENTS["grids"].rows:
        table = table_for(make(row.domain))
        policy = np.full((2, table.num_states, 4), 0.25)
        visits = np.tile(np.where(table.absorbing, 0.0, 1.0), (2, 1))
        made[row.key] = Found(
            row, Outcome({"mean": np.zeros(2), "policy": policy, "occupancy": visits}), None
        )
    assert names["_cover_claim"](made).verdict is Verdict.HOLDS
    assert names["_several_claim"](made).verdict is Verdict.HOLDS
    assert names["_edge_claim"](made).verdict is Verdict.NOT_HERE
    assert "all cells alike 0.714" in names["_edge_claim"](made).evidence
    made["multimodal vsmc"]["policy"][:, 5] = np.eye(4)[0]
    assert names["_several_claim"](made).verdict is Verdict.NOT_HERE
    made["flat vsmc"]["occupancy"][:, :8] = 0.0
    assert names["_cover_claim"](made).verdict is Verdict.NOT_HERE


@pytest.mark.parametrize(
    ("shared", "independent", "down", "right"),
    [
        ((0.7, 0.2), (0.4, 0.5), Verdict.HOLDS, Verdict.HOLDS),
        ((0.45, 0.3), (0.35, 0.2), Verdict.IN_KIND, Verdict.NOT_HERE),  # down more often, but not mostly
        ((0.35, 0.2), (0.45, 0.3), Verdict.NOT_HERE, Verdict.HOLDS),
    ],
)
def test_shared_dynamics_are_judged_by_the_first_step(
    shared: tuple[float, float], independent: tuple[float, float], down: Verdict, right: Verdict
) -> None:
    table = table_for(make("gridworld/ablation"))
    start = int(table.initial.argmax())
    moves = [table.action_names.index(name) for name in ("down", "right")]
    made = {}
    for row in EXPERIMENTS["ablations"].rows:
        policy = np.full((3, table.num_states, 4), 0.25)
        odds = {"shared": shared, "independent": independent}.get(row.key, (0.25, 0.25))
        policy[:, start, moves] = np.array(odds) + np.array([[-0.01], [0.0], [0.01]])
        arrays = {"mean": np.zeros(3), "policy": policy, "ending.swamp": np.full(3, 0.1)}
        made[row.key] = Found(row, Outcome(arrays), None)
    claims = {claim.__name__: claim for claim in EXPERIMENTS["ablations"].claims}
    assert claims["_down_claim"](made).verdict is down
    assert claims["_right_claim"](made).verdict is right


def test_the_proposal_is_judged_beside_the_uniform_policy() -> None:
    experiment = EXPERIMENTS["accuracy"]
    made = {}
    for row in experiment.rows:
        table = table_for(make(row.domain, **row.options))
        near = {"posterior": 0.0, "vsmc": 0.04, "uniform": 0.4}.get(row.method, 0.0)
        policy = np.zeros((2, table.num_states, table.num_actions))
        policy[..., 0], policy[..., 1] = 1.0 - near, near
        visits = np.tile(np.where(table.absorbing, 0.0, 1.0), (2, 1))
        arrays = {"mean": np.zeros(2), "policy": policy, "occupancy": visits}
        made[row.key] = Found(row, Outcome(arrays), None)
    claim = experiment.claims[0]
    assert claim(made).verdict is Verdict.HOLDS
    assert "tireworld/1 0.040 / 0.400" in claim(made).evidence
    for share, verdict in ((0.1, Verdict.IN_KIND), (0.3, Verdict.NOT_HERE)):
        made["tireworld/4 vsmc"]["policy"][..., :2] = 1.0 - share, share
        assert claim(made).verdict is verdict


def test_completion_is_that_of_the_worst_run() -> None:
    made = results_for(EXPERIMENTS["advising"], lambda row, field: 0.9)
    (claim,) = [one for one in EXPERIMENTS["advising"].claims if one.__name__ == "_complete_claim"]
    assert claim(made).verdict is Verdict.HOLDS
    made["2 sac"]["success"][1] = 0.02
    assert claim(made).verdict is Verdict.NOT_HERE


def test_harder_instances_fail_where_one_run_does_or_runs_differ_widely() -> None:
    made = results_for(EXPERIMENTS["advising"], lambda row, field: 0.9)
    (claim,) = [one for one in EXPERIMENTS["advising"].claims if one.__name__ == "_harder_claim"]
    found = [claim(made).verdict]
    made["5 vsmc"]["success"][2] = 0.02
    found.append(claim(made).verdict)
    made["5 sac"]["mean"][:] = (-109.0, -100.0, -91.0)  # a deviation of 9
    found.append(claim(made).verdict)
    made["5 sac"]["mean"][:] = (-111.0, -100.0, -89.0)
    found.append(claim(made).verdict)
    made["4 vsmc"]["success"][0] = 0.02
    found.append(claim(made).verdict)
    assert found == [Verdict.NOT_HERE] * 3 + [Verdict.IN_KIND, Verdict.HOLDS]
    assert "5 sac 0.90 to 0.90, -100.0 ± 11.0" in claim(made).evidence


def test_rates_are_stable_only_where_runs_do_not_tell_them_apart() -> None:
    made = results_for(EXPERIMENTS["tireworld"], as_printed)
    (claim,) = [one for one in EXPERIMENTS["tireworld"].claims if one.__name__ == "_rate_claim"]
    for slow, fast, verdict in (
        ((-4.1, -3.9, -4.0), (-4.0, -3.8, -3.9), Verdict.HOLDS),
        ((-4.1, -3.9, -4.0), (-3.6, -3.4, -3.5), Verdict.NOT_HERE),
        ((-4.1, -3.9, -4.0), (-4.6, -4.4, -4.5), Verdict.NOT_HERE),
    ):
        for scale in ("1", "0.2"):
            for kind, runs in (("vsmc", slow), ("fast", fast)):
                made[f"4 {kind} {scale}"]["base_exact"][:] = runs
        assert claim(made).verdict is verdict


def test_means_are_clearly_above_by_two_standard_errors_of_both() -> None:
    runs = np.array([0.0, 2.0])  # the standard error of the mean is 1
    assert not clearly_above(runs + 2.8, runs)
    assert clearly_above(runs + 2.9, runs)  # 2 sqrt(2)
    assert clearly_above(np.array([1.1]), np.array([1.0]))  # one run has no spread


def test_a_table_shows_the_papers_number_ours_and_the_aim() -> None:
    rows = (
        Row("a", "VSMC", "bandit", "vsmc", group="g", printed={"mean": Printed(-0.19, 0.04)}, aim="b"),
        Row("b", "posterior", "bandit", "posterior", group="g", extra=True),
    )
    experiment = Experiment("x", "X", "", "", rows, (Column("return", "mean", 3),), (), {})
    found = {
        "a": Found(rows[0], Outcome({"mean": np.array([-0.3, -0.4])}), None),
        "b": Found(rows[1], Outcome({"mean": np.array([-0.25])}), None),
    }
    lines = make_table(experiment, found).lines
    assert [(line.source, line.cells[0]) for line in lines] == [
        ("paper", "−0.19 ± 0.04"),
        ("measured", "−0.350 ± 0.071 (0.050)"),
        ("exact", "−0.250"),
    ]
    (apart,) = disagreements(experiment, found, experiment.columns)
    assert not disagreements(experiment, found, [Column("success", "success")])
    assert apart.exact == -0.25
    assert apart.size == pytest.approx(0.16 / np.hypot(0.04, 0.1 / np.sqrt(2)), rel=1e-6)


def test_nothing_on_the_page_comes_from_elsewhere_and_all_is_escaped(tmp_path: Path) -> None:
    row = Row("a", "<b>odd</b> & so on", "bandit", "posterior", printed={"mean": Printed(0.5)})
    experiment = Experiment("x", "X", "", "", (row,), (Column("return", "mean"),), (), {})
    store = Store(tmp_path)
    store.write(row.units(PAPER)[0], Outcome({"mean": np.array([0.25])}), Times(60.0, 30.0))
    EXPERIMENTS["x"] = experiment
    try:
        page = as_page(gather(store, PAPER, ["x"]), "polinfer <all>")
    finally:
        del EXPERIMENTS["x"]
    assert "&lt;b&gt;odd&lt;/b&gt; &amp; so on" in page
    assert "polinfer &lt;all&gt;" in page
    assert "http" not in page
