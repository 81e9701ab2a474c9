"""The registry of methods: open to more, by a call or by an installed package; closed to mistakes."""

from __future__ import annotations

from typing import Any

import pytest

import polinfer
from methods.test_toy_method import Toy, ToyConfig
from polinfer.core.errors import PolinferError
from polinfer.methods import METHODS, registry


@pytest.fixture(autouse=True)
def own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers is forgotten."""
    monkeypatch.setattr(METHODS, "_known", dict(METHODS._known))
    monkeypatch.setattr(METHODS, "_searched", True)


class Found:
    """An entry point of an installed package."""

    def __init__(self, name: str, method: Any) -> None:
        self.name, self.method = name, method

    def load(self) -> Any:
        return self.method


@pytest.mark.parametrize("asked", ["by name", "by list"])
def test_installed_packages_add_methods(asked: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(METHODS, "_searched", False)
    groups: list[str] = []

    def entry_points(group: str) -> list[Found]:
        groups.append(group)
        return [Found("toy", Toy), Found("wake", None)]  # What is known already is not loaded.

    monkeypatch.setattr(registry, "entry_points", entry_points)
    if asked == "by name":
        assert isinstance(METHODS["toy"], Toy)
    else:
        assert list(METHODS)[-1] == "toy"
    posterior = polinfer.infer(polinfer.make("bandit"), "toy", warmth=2.0)
    assert posterior.config == ToyConfig(warmth=2.0)
    assert groups == ["polinfer.methods"]


def test_a_class_and_an_instance_are_registered_alike() -> None:
    polinfer.register_method(Toy())
    assert isinstance(METHODS["toy"], Toy)
    assert "toy" in METHODS
    assert len(METHODS) == len(list(METHODS))


class Nameless(Toy):
    name = "nameless"


class Unconfigured(Toy):
    Config = dict  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("method", "words"),
    [
        (7, "7 is not a polinfer.methods.Method"),
        (dict, "is not a polinfer.methods.Method"),
        (Nameless, "method 'nameless': its Config says method = 'toy'; write the same name"),
        (Unconfigured, "method 'toy': Config must derive from"),
        (type(METHODS["wake"]), "the name 'wake' is taken"),
    ],
)
def test_what_is_no_method_is_refused(method: Any, words: str) -> None:
    before = list(METHODS)
    with pytest.raises(PolinferError, match=words):
        polinfer.register_method(method)
    assert list(METHODS) == before


def test_an_unknown_name_is_refused_with_those_there_are() -> None:
    with pytest.raises(PolinferError, match=r"unknown method 'wakee'.*mean 'wake'.*there are .*exact"):
        polinfer.infer(polinfer.make("bandit"), "wakee")
    with pytest.raises(KeyError):
        METHODS["wakee"]


def test_a_configuration_is_whole() -> None:
    with pytest.raises(PolinferError, match="WakeConfig is a whole configuration; set 'sweeps' in it"):
        polinfer.infer(polinfer.make("bandit"), polinfer.WakeConfig(), sweeps=3)


def test_a_method_cannot_be_relabelled() -> None:
    """What decides the objective is the method, so an answer cannot be called by another's name."""
    for method, foreign in (
        ("vsmc", {"objective": "wake"}),
        ("svi", {"particles": 5}),
        ("iwae", {"resample_below": 0.5}),
    ):
        with pytest.raises(PolinferError, match=f"method '{method}' has no setting '{next(iter(foreign))}'"):
            polinfer.infer(polinfer.make("bandit"), method, **foreign)


def test_every_exported_configuration_is_one_that_infer_takes() -> None:
    configs = {name for name in polinfer.__all__ if name.endswith("Config")} - {"MethodConfig"}
    assert configs >= {"SacConfig", "VsmcConfig", "WakeConfig"}
    for name in configs:
        config = getattr(polinfer, name)
        assert METHODS[config.method].Config is config
