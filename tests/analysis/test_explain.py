"""Which choices are clear: losses against brute force, verdicts by hand, and the command."""

import importlib
import json
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import polinfer
from polinfer import exact
from polinfer import explain as explain_function
from polinfer.analysis.explanation import judge
from polinfer.cli import main
from polinfer.core.errors import PolinferError
from polinfer.exact import stochastic_returns
from polinfer.posterior.posterior import Posterior
from polinfer.smc.proposal import TableProposal

pytestmark = pytest.mark.usefixtures("compile_quickly")
evaluating = importlib.import_module("polinfer.exact.evaluation")
DOCS = Path(__file__).parents[2] / "docs" / "command-line.md"


def posterior_of(domain: str, probs: Any) -> Posterior:
    """A posterior with the given policies ``[seeds, S, A]``."""
    table = polinfer.tabulate(polinfer.make(domain))
    logits = jnp.log(jnp.maximum(jnp.asarray(probs, jnp.float32), 1e-30))
    return Posterior(table, table, polinfer.VsmcConfig(), TableProposal(logits), len(logits))


def random_policies(domain: str, count: int) -> Any:
    table = polinfer.tabulate(polinfer.make(domain))
    weight = np.random.default_rng(5).exponential(size=(count, table.num_states, table.num_actions))
    weight = np.where(table.legal_actions, weight, 0.0)
    return table, weight / weight.sum(axis=-1, keepdims=True)


@pytest.mark.parametrize("domain", ["gridworld/ablation", "tireworld/1"])
def test_many_stochastic_policies_are_evaluated_as_one_by_one(
    domain: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, policies = random_policies(domain, 7)
    alone = [exact.evaluate_policy(table, policy).expected_return for policy in policies]
    np.testing.assert_allclose(stochastic_returns(table, policies), alone, atol=1e-12)
    # In chunks of three: the last is not full.
    monkeypatch.setattr(evaluating, "_BYTES", 3 * 8 * table.probability.size)
    np.testing.assert_allclose(stochastic_returns(table, policies), alone, atol=1e-12)
    assert stochastic_returns(table, policies[:0]).shape == (0,)
    with pytest.raises(PolinferError, match=r"\[n, S, A\]"):
        stochastic_returns(table, policies[0])


@pytest.mark.parametrize("chunk", [None, 3])
@pytest.mark.parametrize("domain", ["gridworld/ablation", "tireworld/1"])
def test_losses_are_those_of_the_changed_policy(
    domain: str, chunk: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, policies = random_policies(domain, 1)
    if chunk is not None:
        monkeypatch.setattr(evaluating, "_BYTES", chunk * 8 * table.probability.size)
    found = explain_function(posterior_of(domain, policies))
    policy = policies[0]
    value = exact.evaluate_policy(table, policy)
    assert found.expected_return == pytest.approx(value.expected_return, abs=1e-5)
    assert found.uniform_return < found.optimal_return
    visits = [choice.occupancy for choice in found.choices]
    assert visits == sorted(visits, reverse=True)
    deciding = (value.occupancy > 0) & ~table.absorbing & (table.legal_actions.sum(axis=1) > 1)
    assert sorted(choice.state for choice in found.choices) == np.flatnonzero(deciding).tolist()
    for choice in found.choices:
        s = choice.state
        np.testing.assert_allclose(choice.probs, policy[s, list(choice.actions)], atol=1e-6)
        assert list(choice.probs) == sorted(choice.probs, reverse=True)
        assert sorted(choice.actions) == np.flatnonzero(table.legal_actions[s]).tolist()
        worth = []
        for action in choice.actions:
            changed = policy.copy()
            changed[s] = np.eye(table.num_actions)[action]
            worth.append(exact.evaluate_policy(table, changed).expected_return)
        np.testing.assert_allclose(choice.returns, worth, atol=1e-5)
        np.testing.assert_allclose(choice.losses, max(worth) - np.array(worth), atol=1e-5)
        assert choice.best == table.action_names[choice.actions[int(np.argmax(worth))]]


@pytest.mark.parametrize(
    ("probs", "losses", "verdict", "disagrees"),
    [
        ([0.9, 0.1], [0.0, 3.0], "clear", False),
        ([0.95, 0.05], [0.0, 0.0], "clear", False),
        ([0.95, 0.05], [3.0, 0.0], "clear", True),  # sure, and wrong
        ([0.89, 0.11], [0.0, 3.0], "leaning", False),
        ([0.89, 0.11], [0.0, 0.05], "toss-up", False),  # half a per cent of the range
        ([0.6, 0.4], [0.0, 0.2], "leaning", False),
        ([0.54, 0.46], [0.0, 3.0], "toss-up", False),  # nearly even
        ([0.6, 0.4], [3.0, 0.0], "leaning", True),
        ([0.6, 0.3, 0.1], [0.0, 4.0, 0.05], "toss-up", False),  # the rival need not be the more probable
        ([0.4, 0.35, 0.25], [0.0, 4.0, 4.0], "toss-up", False),
        ([0.6, 0.4], [1e-7, 0.0], "toss-up", False),  # a tie is no disagreement
    ],
)
def test_verdicts(probs: list[float], losses: list[float], verdict: str, disagrees: bool) -> None:
    assert judge(np.array(probs), np.array(losses), 10.0) == (verdict, disagrees)


def test_where_nothing_is_at_stake_everything_is_a_toss_up() -> None:
    assert judge(np.array([0.7, 0.3]), np.zeros(2), 0.0) == ("toss-up", False)


def test_seeds_are_averaged_and_their_spread_is_shown() -> None:
    table = polinfer.tabulate(polinfer.make("probe/fork"))
    policies = np.repeat(exact.uniform_policy(table)[None], 2, axis=0)
    policies[0, 0], policies[1, 0] = [0.9, 0.1], [0.5, 0.5]
    found = explain_function(posterior_of("probe/fork", policies), top=1)
    (choice,) = found.choices
    assert found.seeds == 2
    assert found.left_out > 0
    assert choice.probs == pytest.approx((0.7, 0.3), abs=1e-6)
    assert choice.probs_std == pytest.approx((0.08**0.5,) * 2, abs=1e-6)  # 0.2 either side, n - 1
    single = explain_function(posterior_of("probe/fork", policies[:1]), top=1)
    assert single.choices[0].probs_std == (0.0, 0.0)


def test_what_is_not_on_a_table_is_refused() -> None:
    mdp = polinfer.make("gridworld/ablation")
    posterior = Posterior(mdp, mdp, polinfer.VsmcConfig(), TableProposal(jnp.zeros((1, 6, 4))), 1)
    with pytest.raises(PolinferError, match="only a posterior on a table can be explained"):
        explain_function(posterior)
    with pytest.raises(PolinferError, match="top must be at least 1"):
        explain_function(posterior_of("bandit", exact.uniform_policy(polinfer.make("bandit"))[None]), top=0)


def test_the_command_prints_a_table_and_json(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    polinfer.infer(polinfer.make("gridworld/ablation"), method="exact").save(run)
    assert main(["explain", str(run), "--top", "3", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert [choice["state"] for choice in record["choices"]] == ["(1,2)", "(1,1)", "(2,2)"]
    assert (record["left_out"], record["seeds"], record["method"]) == (1, 1, "exact")
    first = record["choices"][0]
    assert first["actions"][0]["action"] == first["best"] == "down"
    assert first["actions"][0]["loss"] == 0
    explained = DOCS.read_text(encoding="utf-8").split("## For programs")[1]
    keys = {*record, *record["thresholds"], *first, *first["actions"][0]}
    assert [key for key in sorted(keys) if f"`{key}`" not in explained] == []

    monkeypatch.setenv("COLUMNS", "80")
    assert main(["explain", str(run)]) == 0
    captured = capsys.readouterr()
    assert max(map(len, captured.out.splitlines())) <= 80
    assert "leaning" in captured.out
    assert "0 clear, 2 leaning, 2 toss-up." in captured.err


def test_the_command_flags_a_policy_that_chooses_badly(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    table = polinfer.tabulate(polinfer.make("bandit", means=[0.1, 0.9, 0.2, 0.3, 0.4, 0.5]))
    probs = np.repeat([[0.7, 0.1, 0.05, 0.05, 0.05, 0.05]], table.num_states, axis=0)[None]
    logits = jnp.log(jnp.asarray(probs, jnp.float32))
    found = explain_function(Posterior(table, table, polinfer.VsmcConfig(), TableProposal(logits), 1))
    assert found.choices[0].disagrees
    from polinfer.cli.explain import _remarks, explain_table
    from polinfer.cli.output import tables

    tables().print(explain_table("bad", found))
    out = capsys.readouterr().out
    assert "disagrees" in out
    assert "1 more" in out  # the sixth action
    assert "1 disagree" in _remarks(found)[1]


def test_the_command_refuses(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["explain", str(tmp_path / "nowhere")]) == 2
    assert "no such folder" in capsys.readouterr().err
    assert main(["explain", str(tmp_path)]) == 2  # holds no run
    assert "no such file" in capsys.readouterr().err
    assert main(["explain", str(tmp_path), "--top", "0"]) == 2
    assert "top must be at least 1" in capsys.readouterr().err
