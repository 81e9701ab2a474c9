"""What every method must keep to, as checks that take the method and settings that make it quick.

`test_conformance.py` runs them on all registered methods, `test_toy_method.py` on one that is added.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import polinfer
from polinfer.core.files import plain
from polinfer.methods import METHODS, Method, read_config, resolve
from polinfer.posterior.saving import CONFIG, POLICY
from polinfer.runs.checkpoint import CHECKPOINT
from polinfer.runs.folder import infer_in_folder

AnyMethod = Method[Any]
Fields = Mapping[str, Any]
Check = Callable[[AnyMethod, Fields, Path], None]

LEGAL = np.array([[1, 1, 1], [1, 0, 1], [0, 1, 1], [1, 1, 1]], bool)
# Slippery, with illegal actions, a state to come back to, and a random start.
PROBLEM = polinfer.TabularMDP(
    np.array(
        [
            [[0.3, 0.7, 0, 0], [0, 0, 0, 1], [0, 0.4, 0, 0.6]],
            [[0, 0, 0.8, 0.2], [0, 0, 0, 1], [0, 0, 0, 1]],
            [[0, 0, 1, 0], [0.5, 0, 0.5, 0], [0, 0, 0, 1]],
            [[0, 0, 0, 1], [0, 0, 0, 1], [0, 0, 0, 1]],
        ]
    ),
    np.array([[0.6, 0.4, 1.3], [0.2, 0.0, 0.9], [0.0, 0.7, -0.3], [0.0, 0.0, 0.0]]),
    initial=np.array([0.8, 0.2, 0.0, 0.0]),
    absorbing=np.array([False, False, False, True]),
    horizon=3,
    legal=LEGAL,
)


def seeds_of(method: AnyMethod, fields: Fields) -> int:
    """Return how many seeds the checks run: two where the method can."""
    return 2 if acting_for(method, fields).many_seeds else 1


def acting_for(method: AnyMethod, fields: Fields) -> AnyMethod:
    """Return the method that infers: the same, or the one that it hands the problem on to."""
    return resolve(PROBLEM, method.name, **fields).method


def infer(method: AnyMethod, fields: Fields, *, seed: int = 3, **options: Any) -> polinfer.Posterior:
    options = {"seeds": seeds_of(method, fields), **options}
    return polinfer.infer(PROBLEM, method.name, seed=seed, **options, **fields)


def answer(method: AnyMethod, fields: Fields, seed: int = 3) -> polinfer.Posterior:
    """Infer once, for all checks that only look."""
    return _answer(method, tuple(sorted(fields.items())), seed)


@cache
def _answer(method: AnyMethod, fields: tuple[tuple[str, Any], ...], seed: int) -> polinfer.Posterior:
    return infer(method, dict(fields), seed=seed)


def parts_of(posterior: polinfer.Posterior) -> dict[str, np.ndarray]:
    """Return everything that a posterior holds, as named arrays."""
    leaves = jax.tree.leaves(posterior.proposal)
    parts = {f"proposal {i}": np.asarray(leaf) for i, leaf in enumerate(leaves)}
    if posterior.policies is not None:
        parts |= {
            f"policies {k}": np.asarray(v, float)
            for k, v in vars(posterior.policies).items()
            if v is not None
        }
    trace = {"done": posterior.trace.done, **posterior.trace.columns}
    return parts | {f"trace {name}": np.asarray(rows) for name, rows in trace.items()}


def assert_same(one: polinfer.Posterior, other: polinfer.Posterior) -> None:
    first, second = parts_of(one), parts_of(other)
    assert first.keys() == second.keys()
    for name, array in first.items():
        np.testing.assert_array_equal(array, second[name], err_msg=name)
    assert one.trace.unit == other.trace.unit


def check_declaration(method: AnyMethod, fields: Fields, folder: Path) -> None:
    """Its name, what it says of itself, and a configuration that is frozen, complete and documented."""
    assert METHODS[method.name] is method
    assert re.fullmatch(r"[a-z][a-z0-9-]*", method.name)
    assert method.summary.endswith(".")
    assert "\n" not in method.summary
    config = method.Config(**fields)
    assert config.method == method.name
    assert method.Config() == method.Config()
    for name in method.Config.field_names():
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(config, name, getattr(config, name))
    assert isinstance(method.estimand(config), polinfer.Estimand)


def check_config_round_trip(method: AnyMethod, fields: Fields, folder: Path) -> None:
    """A configuration survives JSON, and one that is damaged is refused by its field."""
    for config in (method.Config(), method.Config(**fields), answer(method, fields).config):
        written = json.loads(json.dumps(plain(config.to_dict())))
        assert read_config(config.method, written) == config
        for name in written:
            with pytest.raises(polinfer.PolinferError, match=f"{config.method}.*{name}"):
                read_config(config.method, {**written, name: {"not": "a value"}})


def check_foreign_fields(method: AnyMethod, fields: Fields, folder: Path) -> None:
    """A setting of another method is refused by name, with those that have it; an unknown one, too."""
    # What `infer` takes itself belongs to every method.
    own = {*method.Config.field_names(), *inspect.signature(polinfer.infer).parameters}
    for other in METHODS.values():
        for name in set(other.Config.field_names()) - own:
            with pytest.raises(polinfer.PolinferError) as caught:
                polinfer.infer(PROBLEM, method.name, **{name: 1})
            assert f"method {method.name!r} has no setting {name!r}; it belongs to " in str(caught.value)
            assert other.name in str(caught.value).split("belongs to")[1]
    with pytest.raises(polinfer.PolinferError, match=f"{method.name!r} has no setting 'nonsense'"):
        polinfer.infer(PROBLEM, method.name, nonsense=1)


def check_answer(method: AnyMethod, fields: Fields, folder: Path) -> None:
    """Probabilities of every state, over legal actions, the same whichever way they are asked for."""
    posterior, seeds = answer(method, fields), seeds_of(method, fields)
    assert posterior.method == acting_for(method, fields).name
    assert (posterior.seed, posterior.seeds) == (3, seeds)
    assert posterior.mdp is PROBLEM
    probs = posterior.table_probs()
    assert probs is not None
    assert probs.shape == (seeds, *LEGAL.shape)
    np.testing.assert_allclose(probs.sum(axis=-1), 1.0, atol=1e-5)
    assert (probs[:, ~LEGAL] == 0).all()
    assert posterior.states == (0, 1, 2, 3)
    for state in posterior.states:
        np.testing.assert_allclose(posterior.action_probs_by_seed(state), probs[:, state], atol=1e-6)
        np.testing.assert_allclose(posterior.action_probs(state), probs[:, state].mean(axis=0), atol=1e-6)
        best, hidden = posterior.predict(state, deterministic=True)
        assert (best, hidden) == (int(probs[:, state].mean(axis=0).argmax()), None)
        assert all(LEGAL[state, posterior.predict(state, seed=seed)[0]] for seed in range(5))
        for seed in range(5):
            policy = posterior.sample_policy(seed, member=seeds - 1)
            assert LEGAL[state, policy(state)]
            assert policy(state) == policy(state)
    assert (posterior.policies is not None) == acting_for(method, fields).whole_policies


def check_seeds(method: AnyMethod, fields: Fields, folder: Path) -> None:
    """Several seeds at once, each one its own, or a refusal; seeds that are none are refused."""
    if acting_for(method, fields).many_seeds:
        posterior = answer(method, fields)
        last = posterior[1]
        assert (last.seed, last.seeds) == (4, 1)
        probs = posterior.table_probs()
        assert probs is not None
        np.testing.assert_array_equal(last.table_probs()[0], probs[1])
        assert abs(probs[0] - probs[1]).max() > 0
    else:
        with pytest.raises(polinfer.PolinferError, match="seeds"):
            infer(method, fields, seeds=2)
    for options in ({"seeds": 0}, {"seed": -1}):
        with pytest.raises(polinfer.PolinferError, match=r"seeds? must"):
            infer(method, fields, **options)


def check_repeatable(method: AnyMethod, fields: Fields, folder: Path) -> None:
    """The same seed gives the same bits, also from a whole configuration."""
    config = method.Config(**fields)
    again = polinfer.infer(PROBLEM, config, seed=3, seeds=seeds_of(method, fields))
    assert_same(again, answer(method, fields))


def check_seed_matters(method: AnyMethod, fields: Fields, folder: Path) -> None:
    """Another seed gives another answer; not for a method that draws nothing."""
    first, second = parts_of(answer(method, fields)), parts_of(answer(method, fields, 17))
    assert any(not np.array_equal(array, second[name]) for name, array in first.items())


def check_saving(method: AnyMethod, fields: Fields, folder: Path) -> None:
    """What is loaded is what was saved."""
    posterior = answer(method, fields)
    posterior.save(folder)
    found = polinfer.load(folder)
    assert found.config == posterior.config
    assert type(found.config) is type(posterior.config)
    assert (found.method, found.seed, found.seeds) == (posterior.method, posterior.seed, posterior.seeds)
    assert found.mdp == PROBLEM
    assert_same(found, posterior)
    np.testing.assert_array_equal(found.table_probs(), posterior.table_probs())
    assert polinfer.diagnose(found) == polinfer.diagnose(posterior)


class StoppedError(Exception):
    """As a kill, between two pieces of a run."""


def check_resume(method: AnyMethod, fields: Fields, folder: Path) -> None:
    """A run that is stopped goes on to the same bytes; where it cannot, a finished one is read."""
    options = {"seed": 3, "seeds": seeds_of(method, fields), **fields}
    whole, stopped = folder / "whole", folder / "stopped"
    reports: list[polinfer.Report] = []
    posterior = infer_in_folder(PROBLEM, method.name, whole, progress=reports.append, **options)
    assert_same(posterior, answer(method, fields))
    assert not (whole / CHECKPOINT).exists()
    finished = infer_in_folder(PROBLEM, method.name, whole, resume=True, progress=fail, **options)
    assert_same(finished, posterior)
    if not acting_for(method, fields).resumable:
        return
    assert len(reports) > 1
    middle = reports[(len(reports) - 1) // 2].done

    before: list[polinfer.Report] = []

    def stop(now: polinfer.Report) -> None:
        before.append(now)
        if now.done >= middle:
            raise StoppedError

    with pytest.raises(StoppedError):
        infer_in_folder(PROBLEM, method.name, stopped, progress=stop, **options)
    assert not (stopped / POLICY).exists()
    rest: list[polinfer.Report] = []
    infer_in_folder(PROBLEM, method.name, stopped, resume=True, progress=rest.append, **options)
    assert len(before) + len(rest) == len(reports), "it went on, it did not start again"
    for name in (POLICY, CONFIG):
        assert (stopped / name).read_bytes() == (whole / name).read_bytes()
    assert {path.name for path in stopped.iterdir()} == {path.name for path in whole.iterdir()}


def fail(now: polinfer.Report) -> None:
    raise AssertionError("a finished run is not run again")


def check_progress(method: AnyMethod, fields: Fields, folder: Path) -> None:
    """Reports count up to the total, in one unit."""
    reports: list[polinfer.Report] = []
    infer(method, fields, progress=reports.append)
    assert reports
    assert all(isinstance(report, polinfer.Report) for report in reports)
    done = [report.done for report in reports]
    assert done == sorted(done)
    assert done[-1] == reports[-1].total
    assert len({report.total for report in reports}) == len({report.unit for report in reports}) == 1
    assert reports[0].unit


def check_analysis(method: AnyMethod, fields: Fields, folder: Path) -> None:
    """Certificate, findings, evaluation and comparison take its answer."""
    posterior = answer(method, fields)
    certificate = polinfer.certify(posterior, sweeps=2)
    assert isinstance(certificate.estimand, polinfer.Estimand)
    assert isinstance(certificate.estimand.target, polinfer.Target)
    assert isinstance(certificate.verdict, polinfer.Verdict)
    assert (certificate.distance is not None) == acting_for(method, fields).is_posterior
    findings = polinfer.diagnose(posterior)
    assert len({found.code for found in findings}) == len(findings)
    for found in findings:
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", found.code)
        assert isinstance(found.severity, polinfer.Severity)
        assert found.sentence.endswith(".")
    exactly = polinfer.evaluate(PROBLEM, posterior, exactly=True)
    for mode in ("stepwise", "thompson"):
        played = polinfer.evaluate(PROBLEM, posterior, mode=mode, episodes=400)
        assert played.mean.shape == (posterior.seeds,)
        if mode == "stepwise":
            assert (abs(played.mean - exactly.mean) < 5 * played.stderr + 1e-6).all()
    compared = polinfer.compare(PROBLEM, learned={"this one": posterior})
    (row,) = [found for found in compared.answers if found.name == "this one"]
    assert row.seeds == posterior.seeds
    assert row.value.expected_return == pytest.approx(float(exactly.mean.mean()), abs=1e-5)


DETERMINISTIC: dict[str, Check] = {
    check.__name__.removeprefix("check_"): check
    for check in (
        check_declaration,
        check_config_round_trip,
        check_foreign_fields,
        check_answer,
        check_seeds,
        check_repeatable,
        check_saving,
        check_resume,
        check_progress,
        check_analysis,
    )
}
"""The checks of a method that draws nothing."""

CHECKS: dict[str, Check] = {**DETERMINISTIC, "seed_matters": check_seed_matters}
"""The checks of any other."""
