"""The registry: names, options and files become problems, and near misses get a suggestion."""

import re

import numpy as np
import pytest

import polinfer
from polinfer import TabularMDP, save_table
from polinfer.core.errors import DomainError, PolinferError, TableError
from polinfer.problems import registry
from polinfer.problems.domains import GridWorld

BUILT_IN = {
    "gridworld",
    "gridworld/flat",
    "gridworld/unimodal",
    "gridworld/multimodal",
    "gridworld/ablation",
    "bandit",
    "continuation",
    "probe/three-targets",
    "probe/fork",
    "probe/slippery-loop",
}


def lever(*, strength: float = 1.0, horizon: int = 1, reward_scale: float = 1.0) -> TabularMDP:
    """Pull a lever.

    This line is not the summary.
    """
    return TabularMDP([[[1.0]]], [[strength]], 0, None, horizon).with_problem(reward_scale=reward_scale)


def refuse(sentence, name, error=DomainError, **options):
    with pytest.raises(error, match=re.escape(sentence)) as caught:
        polinfer.make(name, **options)
    assert len(str(caught.value).splitlines()) == 1


@pytest.fixture(autouse=True)
def _own_registry(monkeypatch):
    """Let each test register what it likes."""
    monkeypatch.setattr(registry, "_DOMAINS", dict(registry._DOMAINS))


# -- make ------------------------------------------------------------------------------------------------


def test_the_built_in_domains_are_registered_with_a_summary():
    assert set(polinfer.list_domains()) >= BUILT_IN
    for name, domain in polinfer.list_domains().items():
        assert domain.name == name
        assert domain.summary
        assert "\n" not in domain.summary
        assert {"horizon", "reward_scale"} <= set(domain.options)


def test_make_passes_options_on():
    mdp = polinfer.make("gridworld/multimodal", reward_scale=0.25, horizon=30, success_prob=0.5)
    assert isinstance(mdp, GridWorld)
    assert (mdp.reward_scale, mdp.horizon, mdp.success_prob) == (0.25, 30, 0.5)
    assert polinfer.make("gridworld/ablation").success_prob == 0.5
    assert polinfer.make("gridworld/ablation", success_prob=0.75).success_prob == 0.75
    assert polinfer.make("gridworld/ablation", map="SG").rows == ("SG",)


def test_options_show_the_defaults_in_force():
    options = polinfer.list_domains()["gridworld/ablation"].options
    assert options["success_prob"] == 0.5
    assert options["horizon"] == 10
    assert options["reward_scale"] == 1.0
    assert options["map"] == "WG\nS.\n.."
    assert polinfer.list_domains()["continuation"].options == {"rho": 0.5, "horizon": 20, "reward_scale": 1.0}


def test_each_make_is_a_fresh_problem():
    assert polinfer.make("bandit") is not polinfer.make("bandit")


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        (
            "gridworld/multmodal",
            "unknown domain 'gridworld/multmodal' (did you mean 'gridworld/multimodal'?)",
        ),
        ("bandid", "unknown domain 'bandid' (did you mean 'bandit'?)"),
        ("probe/frok", "(did you mean 'probe/fork'?)"),
        ("zzz", "unknown domain 'zzz'; 'polinfer list' shows all"),
        ("", "unknown domain ''"),
        ("Bandit.csv", "a table file ends in .npz or .json"),
    ],
)
def test_an_unknown_name_is_refused_with_a_suggestion(name, sentence):
    refuse(sentence, name)


@pytest.mark.parametrize(
    ("option", "sentence"),
    [
        ("horzion", "gridworld/flat has no option 'horzion' (did you mean 'horizon'?); it has"),
        ("rewardscale", "has no option 'rewardscale' (did you mean 'reward_scale'?)"),
        ("gamma", "gridworld/flat has no option 'gamma'"),
    ],
)
def test_an_unknown_option_is_refused_with_a_suggestion(option, sentence):
    refuse(sentence, "gridworld/flat", **{option: 1})
    for name in ("map", "success_prob", "horizon", "reward_scale", "goal_reward"):
        with pytest.raises(DomainError, match=f"it has .*{name}"):
            polinfer.make("gridworld/flat", **{option: 1})


def test_a_missing_map_is_asked_for():
    refuse("gridworld needs the option 'map'", "gridworld")
    refuse("gridworld needs the option 'map'", "gridworld", horizon=3)
    assert polinfer.make("gridworld", map="SG").horizon == 10


def test_a_bad_value_is_refused_by_its_name():
    refuse("success_prob must lie in 0..1, got 2", "gridworld/flat", error=PolinferError, success_prob=2)
    refuse("horizon must be at least 1, got 0", "bandit", error=PolinferError, horizon=0)


@pytest.mark.parametrize("name", [None, 3, ["bandit"]])
def test_a_name_that_is_no_text_is_refused(name):
    with pytest.raises(DomainError, match="domain"):
        polinfer.make(name)


# -- register --------------------------------------------------------------------------------------------


def test_a_registered_factory_can_be_made():
    polinfer.register("lever", lever)
    polinfer.register("lever/strong", lever, "A stiff one.", strength=8.0)
    assert polinfer.make("lever").reward.tolist() == [[[1.0]]]
    assert polinfer.make("lever", strength=3.0, reward_scale=2.0).reward.tolist() == [[[6.0]]]
    assert polinfer.make("lever/strong").reward.tolist() == [[[8.0]]]
    assert polinfer.make("lever/strong", strength=5.0).reward.tolist() == [[[5.0]]]
    assert polinfer.list_domains()["lever"].summary == "Pull a lever."
    assert polinfer.list_domains()["lever/strong"].summary == "A stiff one."
    assert polinfer.list_domains()["lever/strong"].options == {
        "strength": 8.0,
        "horizon": 1,
        "reward_scale": 1.0,
    }
    refuse("unknown domain 'leverr' (did you mean 'lever'?)", "leverr")


def test_a_name_is_registered_once():
    polinfer.register("lever", lever)
    with pytest.raises(DomainError, match="the name 'lever' is taken"):
        polinfer.register("lever", lever)
    with pytest.raises(DomainError, match="the name 'bandit' is taken"):
        polinfer.register("bandit", lever)
    assert polinfer.make("bandit").num_actions == 2


def test_a_registered_name_wins_over_a_file_name():
    polinfer.register("lever.json", lever)
    assert polinfer.make("lever.json").num_states == 1


def test_domains_returns_a_copy():
    polinfer.list_domains().clear()
    assert set(polinfer.list_domains()) >= BUILT_IN


def test_a_class_can_be_registered():
    polinfer.register("grid", GridWorld, "From rows.", horizon=4)
    assert polinfer.make("grid", rows=("SG",)).horizon == 4
    refuse("grid needs the option 'rows'", "grid")


# -- files -----------------------------------------------------------------------------------------------


@pytest.fixture(params=[".npz", ".json"])
def path(request, tmp_path):
    table = TabularMDP([[[0.5, 0.5]], [[0.0, 0.0]]], [[3.0], [0.0]], 0, [1], 6)
    save_table(table, tmp_path / f"table{request.param}")
    return str(tmp_path / f"table{request.param}")


def test_a_table_file_is_a_problem(path):
    table = polinfer.make(path)
    assert (table.num_states, table.horizon) == (2, 6)
    np.testing.assert_array_equal(table.reward[0, 0], [3.0, 3.0])


def test_a_table_file_takes_horizon_and_scale(path):
    table = polinfer.make(path, horizon=9, reward_scale=-0.5)
    assert table.horizon == 9
    np.testing.assert_array_equal(table.reward[0, 0], [-1.5, -1.5])


def test_other_options_of_a_table_file_are_refused(path):
    refuse(
        "a table file has no option 'horzion' (did you mean 'horizon'?); it has horizon, reward_scale",
        path,
        horzion=3,
    )
    refuse("a table file has no option 'map'", path, map="SG")


def test_bad_values_for_a_table_file_are_refused(path):
    refuse("horizon must be at least 1, got 0", path, error=PolinferError, horizon=0)
    refuse(
        "reward_scale must be a finite number, got nan", path, error=PolinferError, reward_scale=float("nan")
    )


def test_a_missing_or_bad_table_file_is_refused_by_its_path(tmp_path):
    missing, bad = tmp_path / "missing.json", tmp_path / "bad.json"
    refuse(f"{missing}: no such file", str(missing), error=TableError)
    bad.write_text("{}")
    refuse(f"{bad}: 'initial' is missing", str(bad), error=TableError)
