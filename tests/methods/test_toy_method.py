"""A method from outside the package: registered, it works wherever the package's own do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
import pytest

import polinfer
from methods.conformance import DETERMINISTIC
from polinfer import Estimand, MethodConfig, Posterior, Report, Target, exact
from polinfer.cli import main
from polinfer.core.errors import PolinferError
from polinfer.methods import METHODS, Method, Needs
from polinfer.methods.base import need_table
from polinfer.posterior.diagnostics import Diagnostic, fact
from polinfer.smc.proposal import TableProposal

pytestmark = pytest.mark.usefixtures("compile_quickly")


@dataclass(frozen=True, kw_only=True)
class ToyConfig(MethodConfig):
    """How much entropy is worth."""

    method: ClassVar[str] = "toy"
    warmth: float = 1.0
    """The weight of the policy's entropy."""

    def __post_init__(self) -> None:
        if not self.warmth > 0:
            raise PolinferError(f"warmth must be above zero, got {self.warmth}")


class Toy(Method[ToyConfig]):
    """Soft value iteration, as if it were an estimate of the posterior."""

    name = "toy"
    summary = "Soft value iteration in the place of inference, for the tests."
    needs = Needs.TABLE
    Config = ToyConfig

    def run(
        self, problem: Any, config: ToyConfig, *, seed: int = 0, progress: Any = None, **_: Any
    ) -> Posterior:
        """Solve."""
        table = need_table(problem)
        policy = exact.soft_value_iteration(table, config.warmth).policy
        if progress is not None:
            progress(Report(1, 1, "solutions"))
        rows = jnp.log(jnp.maximum(jnp.asarray(policy, jnp.float32), 1e-30))
        return Posterior(problem, table, config, TableProposal(rows[None]), seed=seed)

    def estimand(self, config: ToyConfig) -> Estimand:
        """Return what it is not."""
        return Estimand(Target.RETURN_PLUS_ENTROPY, f"entropy counts {config.warmth:g}")

    def diagnose(self, posterior: Posterior) -> list[Diagnostic]:
        """Return the one thing that is known."""
        return [fact("toy", "This is a toy.")]


@pytest.fixture(autouse=True)
def toy() -> Iterator[Method[Any]]:
    polinfer.register_method(Toy)
    yield METHODS["toy"]
    METHODS._known.pop("toy")


@pytest.mark.parametrize("check", DETERMINISTIC)
def test_it_keeps_to(toy: Method[Any], check: str, tmp_path: Path) -> None:
    DETERMINISTIC[check](toy, {"warmth": 0.5}, tmp_path)


def test_the_command_line_has_its_flags_and_load_its_answer(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = ["plan", "gridworld/ablation", "--method", "toy", "--warmth", "0.25", "--episodes", "50"]
    assert main([*words, "--out", str(tmp_path / "run"), "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert (record["method"], record["config"]) == ("toy", {"warmth": 0.25})
    assert record["log_evidence"] is None
    assert record["diagnostics"] == [{"code": "toy", "severity": "fact", "sentence": "This is a toy."}]
    assert record["certificate"]["estimand"]["target"] == "return_plus_entropy"
    found = polinfer.load(tmp_path / "run")
    assert found.config == ToyConfig(warmth=0.25)
    solved = exact.soft_value_iteration(polinfer.tabulate(polinfer.make("gridworld/ablation")), 0.25)
    np.testing.assert_allclose(found.table_probs()[0], solved.policy, atol=1e-5)

    with pytest.raises(SystemExit):
        main(["plan", "gridworld/ablation", "--method", "toy", "--help"])
    assert "The weight of the policy's entropy." in capsys.readouterr().out
    assert main(["list"]) == 0
    assert "toy" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--method", "toy", "--warmth", "0"], "warmth must be above zero"),
        (["--method", "toy", "--sweeps", "9"], "method 'toy' has no setting --sweeps; it belongs to vsmc"),
        (["--method", "vsmc", "--warmth", "1"], "method 'vsmc' has no setting --warmth; it belongs to toy"),
        (["--method", "toy", "--seeds", "2"], "leave out --seeds"),
        (["--method", "toyy"], "did you mean 'toy'"),
    ],
)
def test_the_command_line_refuses_as_for_any_method(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["plan", "gridworld/ablation", *words, "--out", str(tmp_path / "run")]) == 2
    assert says in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_it_stands_in_a_comparison() -> None:
    mdp = polinfer.make("probe/fork")
    mine = polinfer.infer(mdp, "toy")
    result = polinfer.compare(mdp, learned={"mine": mine})
    row = [answer.name for answer in result.answers].index("mine")
    soft = [answer.name for answer in result.answers].index("soft (alpha=1)")
    assert result.distances[row, soft] == pytest.approx(0, abs=1e-6)
    assert str(result.answers[row].solution.result) == "learned"
