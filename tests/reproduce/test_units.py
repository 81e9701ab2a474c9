"""Units: known by everything that decides their outcome, and kept whole or not at all."""

from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pytest

from polinfer.core.errors import PolinferError
from polinfer.core.files import plain
from polinfer.methods import METHODS
from polinfer.reproduce.budgets import Budget
from polinfer.reproduce.experiment import Row
from polinfer.reproduce.store import Outcome, Store, Times
from polinfer.reproduce.unit import Unit
from polinfer.reproduce.worker import Done, do_unit

UNIT = Unit("bandit", "vsmc", {"horizon": 1}, {"sweeps": 20}, first_seed=3, seeds=2, episodes=10)
OUTCOME = Outcome({"mean": np.array([0.25, 0.75]), "values": np.array([0.0, 1.0], np.float32)})
TIMES = Times(1.5, 1.25)


@pytest.mark.parametrize(
    "change",
    [
        {"domain": "continuation"},
        {"method": "svi"},
        {"options": {"horizon": 2}},
        {"settings": {"sweeps": 21}},
        {"first_seed": 4},
        {"seeds": 3},
        {"episodes": 11},
        {"optimised": False},
    ],
)
def test_everything_that_decides_the_outcome_is_in_the_key(change: dict[str, object]) -> None:
    assert replace(UNIT, **change).key != UNIT.key  # type: ignore[arg-type]


def test_defaults_and_the_version_are_in_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    assert replace(UNIT, settings={"sweeps": 20, "particles": 10}).key == UNIT.key
    before = UNIT.key
    monkeypatch.setattr("polinfer.reproduce.unit.version", lambda _: "99.0")
    assert UNIT.key != before


@pytest.mark.parametrize("method", ["iwae", "exact"])
def test_any_method_can_be_a_row(method: str, tmp_path: Path) -> None:
    """What `infer` takes, a unit runs: there is no second list of methods."""
    settings = {"sweeps": 4, "particles": 3, "width": 3, "depth": 1} if method == "iwae" else {}
    row = Row("one", method, "continuation", method, {"horizon": 3}, settings)
    budget = Budget("tiny", seeds=2, sweeps=4, steps=10, episodes=20, seed_batch=2, optimised=False)
    (unit,) = row.units(budget)
    done = do_unit(unit, tmp_path / "scratch", None)
    assert isinstance(done, Done), done
    assert done.outcome["mean"].shape == (2,)
    assert done.outcome["policy"].shape == (2, 2, 2)
    assert ("trace.log_evidence" in done.outcome) == (method == "iwae")


@pytest.mark.parametrize("before", [True, False])
def test_a_unit_leaves_the_way_to_compile_as_it_was(before: bool, tmp_path: Path) -> None:
    """Whoever asks for units goes on in the same process, where one job runs."""
    asked: bool = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", before)
    try:
        for unit in (Unit("continuation", "optimal"), Unit("continuation", "optimal", optimised=False)):
            assert isinstance(do_unit(unit, tmp_path, None), Done)
            assert jax.config.read("jax_disable_most_optimizations") == before
    finally:
        jax.config.update("jax_disable_most_optimizations", asked)


def test_an_outcome_is_read_as_it_was_written(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.scratch(UNIT).mkdir(parents=True)
    store.write(UNIT, OUTCOME, TIMES)
    found = store.read(UNIT)
    assert found is not None
    assert {name: found[name].tolist() for name in found.arrays} == {
        "mean": [0.25, 0.75],
        "values": [0.0, 1.0],
    }
    assert store.read_times(UNIT) == TIMES
    assert not store.scratch(UNIT).exists()
    assert store.read(replace(UNIT, seeds=3)) is None


def test_a_damaged_outcome_is_not_read(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.write(UNIT, OUTCOME, TIMES)
    (path,) = (tmp_path / "units").iterdir()
    whole = path.read_bytes()
    # Any byte of the numbers, of what they belong to, and a missing end.
    for place in (len(whole) - 1, len(whole) - 9, whole.index(b"bandit")):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert store.read(UNIT) is None
    for part in (b"", whole[:7], whole[:-1]):
        path.write_bytes(part)
        assert store.read(UNIT) is None
    path.write_bytes(whole)
    assert store.read(UNIT) is not None


def test_an_outcome_of_another_unit_is_not_taken(tmp_path: Path) -> None:
    store, other = Store(tmp_path), replace(UNIT, seeds=1)
    store.write(UNIT, OUTCOME, TIMES)
    (path,) = (tmp_path / "units").iterdir()
    path.rename(path.with_name(f"{other.key}.safetensors"))
    assert store.read(other) is None


def test_settings_of_every_method_are_its_configuration() -> None:
    for name, method in METHODS.items():
        unit = Unit("continuation", name)
        assert unit.describe()["settings"] == plain(method.Config().to_key())
    sac = Unit("continuation", "sac", settings={"alpha": 0.3})
    # Results that are older than this setting stay what they are.
    assert "absorbing" not in sac.describe()["settings"]
    assert replace(sac, settings={"alpha": 0.3, "absorbing": "end"}).key == sac.key
    going_on = replace(sac, settings={"alpha": 0.3, "absorbing": "continue"})
    assert going_on.describe()["settings"]["absorbing"] == "continue"
    assert going_on.key != sac.key
    wake = Unit("continuation", "wake", settings={"worlds": 1})
    assert replace(wake, settings={"worlds": 1, "surrogate_share": 0.0}).key == wake.key
    assert replace(wake, settings={"worlds": 1, "surrogate_share": 0.8}).key != wake.key
    with pytest.raises(PolinferError, match="method 'wake' has no setting 'islands'"):
        replace(wake, settings={"islands": 3}).describe()
