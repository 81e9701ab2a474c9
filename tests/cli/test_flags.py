"""The flags of `plan` are the fields of the method's configuration: what is typed is what runs."""

from __future__ import annotations

import dataclasses
from typing import Any, get_type_hints

import pytest

import polinfer
from polinfer import METHODS, MethodConfig
from polinfer.cli.flags import OF_EVERY_METHOD, config_of_flags, flag_of
from polinfer.cli.parser import parse
from polinfer.cli.path import Path
from polinfer.cli.plan import method_of, plan_command
from polinfer.core.errors import PolinferError


def parsed(method: str, *words: str) -> MethodConfig:
    """The configuration that ``polinfer plan gridworld/ablation`` runs with these words."""
    command = parse(plan_command(method), "polinfer plan", ["gridworld/ablation", *words], method=method)
    assert command.method == method
    return config_of_flags(METHODS[method], command.config)


def test_flags_that_equal_another_methods_defaults_are_not_dropped() -> None:
    found = parsed("wake", "--particles", "10", "--sweeps", "50000", "--learning-rate", "3e-4")
    assert found == polinfer.WakeConfig(particles=10, sweeps=50_000, learning_rate=3e-4)
    assert isinstance(found, polinfer.WakeConfig)
    trained = found.filled(on_table=True).training()
    assert (trained.sweep.particles, trained.sweeps, trained.learning_rate) == (10, 50_000, 3e-4)
    assert trained != polinfer.WakeConfig().filled(on_table=True).training()


@pytest.mark.parametrize("method", METHODS)
def test_what_is_typed_is_what_runs(method: str) -> None:
    """Every value that any method has as its default, typed with this one, is in its configuration."""
    plain = METHODS[method].Config()
    assert parsed(method) == plain
    typed: dict[int, dict[str, Any]] = {}  # together: reading words takes longer than all else
    for field in dataclasses.fields(plain):
        if isinstance(field.default, bool):
            typed.setdefault(0, {})[field.name] = not field.default
            continue
        values = defaults_of(field.name, get_type_hints(type(plain))[field.name])
        for number, value in enumerate(sorted(values, key=repr)):
            typed.setdefault(number, {})[field.name] = value
    for number, given in typed.items():
        config = parsed(method, *(word for name in given for word in words_of(name, given[name], number)))
        assert {name: getattr(config, name) for name in given} == given


def words_of(field: str, value: Any, number: int) -> list[str]:
    """An underscore, and a sign between the two, are as good."""
    if isinstance(value, bool):
        return [flag_of(field if value else f"no_{field}")]
    return [f"--{field}={value}"] if number % 2 else [flag_of(field), str(value)]


def defaults_of(field: str, kind: Any) -> set[Any]:
    """The defaults of all fields of that name and type."""
    kinds = [other.Config for other in METHODS.values() if get_type_hints(other.Config).get(field) == kind]
    return {value for value in (getattr(config(), field) for config in kinds) if value is not None}


@pytest.mark.parametrize("method", METHODS)
def test_a_flag_of_another_method_is_refused_with_the_one_that_has_it(method: str) -> None:
    own = {*METHODS[method].Config.field_names(), *OF_EVERY_METHOD}
    foreign = {name: other.name for other in METHODS.values() for name in other.Config.field_names()}
    for name, owner in foreign.items():
        if name in own:
            continue
        with pytest.raises(PolinferError) as caught:
            parsed(method, flag_of(name), "1")
        told, _, owners = str(caught.value).partition("; it belongs to ")
        assert told == f"method {method!r} has no setting {flag_of(name)}"
        assert owner in owners.split(", ")


@pytest.mark.parametrize(
    ("method", "words", "owner"),
    [
        ("vsmc", ["--islands", "3"], "tempered"),
        ("wake", ["--alpha", "0.5"], "sac"),
        ("wake", ["--autotune"], "sac"),
        ("wake", ["--no-autotune"], "sac"),
        ("wake", ["--gamma=0.9"], "sac"),
        ("wake", ["--learning_starts", "5"], "sac"),
        ("svi", ["--particles", "1"], "vsmc"),
    ],
)
def test_flags_that_passed_silently_are_refused(method: str, words: list[str], owner: str) -> None:
    with pytest.raises(PolinferError, match=f"method '{method}' has no setting --.*it belongs to .*{owner}"):
        parsed(method, *words)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--particles", "many"], "--particles takes a whole number, got 'many'"),
        (["--learning-rate=fast"], "--learning-rate takes a number, got 'fast'"),
        (["--sweeps", "1.5"], "--sweeps takes a whole number, got '1.5'"),
        (["--wrlds", "3"], "no flag --wrlds.*did you mean '--worlds'"),
        (["--resampling", "residual"], "--resampling takes one of .*, got 'residual'"),
        (["--sweeps"], "--sweeps needs a value behind it"),
        (["--sweeps", "1", "2"], "polinfer plan has no place for '2'"),
        (["--resume=yes"], "--resume takes no value, got 'yes'"),
        (["--no-resume"], "no flag --no-resume .did you mean '--resume'"),
        (["--table-cache"], "no flag --table-cache .did you mean '--no-table-cache'"),
        (["-x"], "no flag -x"),
    ],
)
def test_a_value_that_cannot_be_read_is_one_sentence(words: list[str], says: str) -> None:
    with pytest.raises(PolinferError, match=says) as caught:
        parsed("wake", *words)
    assert "\n" not in str(caught.value)


def test_a_switch_of_the_method_that_has_another_form_is_no_foreign_setting() -> None:
    with pytest.raises(PolinferError, match=r"no flag --no-autotune .did you mean '--autotune'"):
        parsed("sac", "--no-autotune")


def test_of_several_values_the_bad_one_is_named() -> None:
    with pytest.raises(PolinferError, match="--scales takes numbers, got 'x'"):
        parse(Path, "polinfer path", ["gridworld", "--scales", "1", "2", "x"])


def test_a_missing_problem_is_named_as_the_help_names_it() -> None:
    for words in ([], ["--horizon", "3"]):
        with pytest.raises(PolinferError, match="polinfer path needs DOMAIN"):
            parse(Path, "polinfer path", words)


def test_a_bad_value_is_named_by_the_configuration() -> None:
    with pytest.raises(PolinferError, match="particles must be at least 1, got 0"):
        parsed("wake", "--particles", "0")


@pytest.mark.parametrize(
    ("words", "method"),
    [
        ([], None),
        (["grid", "--method", "sac"], "sac"),
        (["grid", "--method=sac", "--steps", "9"], "sac"),
        (["--methods", "sac"], None),
    ],
)
def test_the_method_is_found_among_the_words(words: list[str], method: Any) -> None:
    assert method_of(words) == method
