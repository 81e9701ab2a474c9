"""Training on simulators in plain Python: learning as compiled, on records of the reference engine."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import polinfer
from polinfer.core.errors import PolinferError
from polinfer.core.protocol import Ending
from polinfer.learning import host
from polinfer.learning.host import make_host_trainer, numpy_log_policy
from polinfer.learning.train import empty_sums, make_learning, metrics_of
from polinfer.problems.encoded import EncodedView
from polinfer.runs.folder import infer_in_folder
from polinfer.smc import as_simulator, run_reference_sweep
from polinfer.smc.proposal import NetworkProposal, log_policy

RHO, HORIZON = 0.5, 4


class Loop:
    """The paper's continuation example: stay, which ends half the time, or leave, which pays 1 and ends."""

    num_actions = 2
    horizon = HORIZON
    endings = (Ending("left", True), Ending("stranded", False))

    def init(self, seed: int) -> str:
        return "play"

    def step(self, seed: int, state: str, action: int) -> tuple[str, float, bool]:
        if action == 1:
            return "left", 1.0, True
        stays = seed / 2**64 < RHO
        return ("play", 0.0, False) if stays else ("stranded", 0.0, True)

    def legal(self, state: str) -> list[bool]:
        return [True, True]

    def encode(self, state: str) -> list[float]:
        return [float(state == name) for name in ("play", "left", "stranded")]

    def ending(self, state: str) -> int:
        return ["left", "stranded"].index(state) if state != "play" else -1


LOOP = Loop()
LEAVE = math.e / (1 + math.e)


class Masked(Loop):
    """Three actions, of which the first is illegal on odd rungs; features that are not one-hot."""

    num_actions = 3
    horizon = 5

    def init(self, seed: int) -> Any:
        return seed % 2

    def step(self, seed: int, state: Any, action: int) -> tuple[Any, float, bool]:
        after = state + [3, 1, 2][action] * (seed % 3 > 0)
        return after, [0.7, -0.3, 0.2][action], after >= 5

    def legal(self, state: Any) -> list[bool]:
        return [state % 2 == 0, True, state < 4]

    def encode(self, state: Any) -> list[float]:
        return [0.3 * state - 1, 1.0 / (1 + state), -0.2 * state**2]


def random_network(seed: int, features: int, actions: int, depth: int) -> NetworkProposal:
    network = NetworkProposal.initial(seed, features, actions, width=5, depth=depth, zero_last=False)
    return jax.tree.map(lambda leaf: 2 * np.asarray(leaf), network)


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_the_network_says_the_same_in_numpy_and_in_jax(depth: int) -> None:
    masked = Masked()
    network = random_network(depth, 3, 3, depth)
    ask = numpy_log_policy(EncodedView(masked), network, {})
    for state in range(6):
        legal, features = jnp.asarray(masked.legal(state)), jnp.asarray(masked.encode(state), jnp.float32)
        expected = np.asarray(log_policy(network.logits(features), legal))
        found = ask(state)
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-6)
        assert (found == -np.inf).tolist() == [not flag for flag in masked.legal(state)]
        assert abs(np.exp(found).sum() - 1) < 1e-6
        # And by hand, in double precision.
        signal = np.asarray(masked.encode(state))
        for i, layer in enumerate(network.layers):
            signal = np.asarray(layer.weight, np.float64) @ signal + layer.bias
            signal = np.maximum(signal, 0) if i < depth else signal
        weight = np.exp(signal) * masked.legal(state)
        np.testing.assert_allclose(np.exp(found), weight / weight.sum(), atol=1e-5)
    assert ask(2) is ask(2)  # remembered


def test_a_simulator_that_uses_jax_is_trained_on() -> None:
    plain = as_simulator(polinfer.make("probe/fork"))
    posterior = polinfer.infer(plain, "vsmc", sweeps=2, particles=2, width=2, depth=1)
    assert posterior.action_probs(plain.init(0)).shape == (2,)


class Begun:
    """A simulator of JAX states whose first state, the only one, was drawn before."""

    def __init__(self, mdp: Any) -> None:
        plain = as_simulator(mdp)
        self.num_actions, self.horizon = plain.num_actions, plain.horizon
        self.step, self.legal, self.encode = plain.step, plain.legal, plain.encode
        self.start = plain.init(0)

    def init(self, seed: int) -> Any:
        return self.start


def test_the_same_records_make_the_same_updates_as_compiled(
    monkeypatch: pytest.MonkeyPatch, compile_quickly: None
) -> None:
    table = polinfer.tabulate(polinfer.make("gridworld/ablation", horizon=4))
    plain = Begun(table)
    config = polinfer.VsmcConfig(
        sweeps=6, sweeps_per_update=2, particles=3, learning_rate=0.03, baseline="running", width=8
    ).training()
    records: list[Any] = []

    def sweep(*arguments: Any) -> Any:
        records.append(run_reference_sweep(*arguments))
        return records[-1]

    monkeypatch.setattr(host, "run_reference_sweep", sweep)
    trainer = make_host_trainer(plain, config)
    start = trainer.init([3, 4])
    ended, metrics = trainer.run(start, 0, 3)
    assert len(records) == 3 * 2 * 2

    learning = make_learning(table, config, by_table=True)
    update = jax.jit(learning.update)
    for member in range(2):
        state = jax.tree.map(lambda leaf, i=member: leaf[i], learning.init([3, 4]))
        sums = empty_sums(state.proposal)
        for number in range(3):
            own = records[4 * number + 2 * member :][:2]
            stacked = [
                np.stack([np.asarray(field) for field in fields])
                if name != "state"
                else np.array(
                    [[[int(s.state) for s in row] for row in record] for record in fields], np.int32
                )
                for name, fields in zip(records[0]._fields, zip(*own, strict=True), strict=True)
            ]
            single = [x.astype(np.float32) if x.dtype == np.float64 else x for x in stacked]
            state, sums = update(state, sums, type(records[0])(*map(jnp.asarray, single)))
        expected = metrics_of(sums, jnp.asarray(3.0), 3)
        for one, other in zip(
            jax.tree.leaves((ended.proposal, ended.baseline)),
            jax.tree.leaves((state.proposal, state.baseline)),
            strict=True,
        ):
            np.testing.assert_allclose(one[member], other, atol=2e-5)
        for name in expected._fields:
            np.testing.assert_allclose(
                np.asarray(getattr(metrics, name))[member], getattr(expected, name), rtol=2e-3, err_msg=name
            )
    # Sweeps are not repeated: not over updates, not over sweeps of an update, not over seeds.
    assert len({record.log_weight.tobytes() + record.action.tobytes() for record in records}) > 8
    moved = [np.abs(a[0] - b[0]).max() for a, b in zip(*map(jax.tree.leaves, (ended, start)), strict=True)]
    assert max(moved[:6]) > 0.01


@pytest.fixture(scope="module")
def trained() -> polinfer.Posterior:
    return polinfer.infer(
        LOOP, "svi", sweeps=3_000, sweeps_per_update=15, learning_rate=1e-2, seeds=2, width=8, depth=1
    )


def test_one_particle_finds_the_posterior_of_the_continuation_example(trained: polinfer.Posterior) -> None:
    leave = trained.action_probs_by_seed("play")[:, 1]
    assert np.abs(leave - LEAVE).max() < 0.03
    # With one particle E[log Z-hat] is the evidence lower bound, tight where q is the posterior.
    last = trained.trace["log_evidence"][-40:]
    assert abs(last.mean() - np.log((1 + np.e) / 2)) < 5 * last.std() / np.sqrt(last.size) + 0.003
    assert (trained.trace.unit, trained.trace.done[-1]) == ("sweeps", 3_000)
    assert "no-table" in [found.code for found in polinfer.diagnose(trained)]


def in_closed_form(leave: np.ndarray, mode: str) -> tuple[np.ndarray, np.ndarray]:
    """Mean return and length, ``[seeds]``."""
    steps = np.arange(HORIZON)[:, None]
    if mode == "stepwise":
        lives = ((1 - leave) * RHO) ** steps  # the chance of playing step t
        return (leave * lives).sum(axis=0), lives.sum(axis=0)
    return leave, leave + (1 - leave) * (RHO**steps).sum(axis=0)


@pytest.mark.parametrize("mode", ["stepwise", "thompson"])
def test_episodes_earn_what_is_expected(trained: polinfer.Posterior, mode: Any) -> None:
    result = polinfer.evaluate(LOOP, trained, episodes=4_000, mode=mode)
    mean, length = in_closed_form(trained.action_probs_by_seed("play")[:, 1].astype(np.float64), mode)
    bounds = 5 * np.sqrt(mean * (1 - mean) / 4_000)  # returns are 0 or 1
    assert (np.abs(result.mean - mean) < bounds).all()
    assert (np.abs(result.length - length) < 5 * HORIZON / 2 / np.sqrt(4_000)).all()
    np.testing.assert_allclose(result.stderr, np.sqrt(result.mean * (1 - result.mean) / 4_000))
    assert result.success is not None
    np.testing.assert_allclose(result.success, result.mean)
    np.testing.assert_allclose(result.endings["left"], result.mean)
    assert result.endings["stranded"].sum() > 0
    assert ((result.endings["left"] + result.endings["stranded"]) < 1).all()  # some were cut off
    assert result.returns is not None
    assert result.returns.shape == (2, 4_000)
    assert result.occupancy is None
    again = polinfer.evaluate(LOOP, trained, episodes=4_000, mode=mode)
    np.testing.assert_array_equal(result.returns, again.returns)
    other = polinfer.evaluate(LOOP, trained, episodes=4_000, mode=mode, seed=1)
    assert (other.returns != result.returns).any()
    assert (result.returns[0] != result.returns[1]).any()


def test_modes_differ_where_a_state_comes_again(trained: polinfer.Posterior) -> None:
    leave = trained.action_probs_by_seed("play")[:, 1].astype(np.float64)
    gap = in_closed_form(leave, "stepwise")[0] - in_closed_form(leave, "thompson")[0]
    assert (gap > 5 * 2 * 0.5 / np.sqrt(4_000)).all()  # so the test above tells them apart


def test_exact_evaluation_needs_a_table(trained: polinfer.Posterior) -> None:
    with pytest.raises(PolinferError, match="needs a problem that fits a table"):
        polinfer.evaluate(LOOP, trained, exactly=True)
    assert trained.table_probs() is None


def test_sampled_policies_keep_to_their_choice_and_follow_the_posterior(trained: polinfer.Posterior) -> None:
    probs = trained.action_probs_by_seed("play")
    for member in range(2):
        choices = np.array([trained.sample_policy(seed, member)("play") for seed in range(600)])
        share = probs[member, 1]
        assert abs(choices.mean() - share) < 5 * np.sqrt(share * (1 - share) / 600)
        policy = trained.sample_policy(17, member)
        assert len({policy("play") for _ in range(5)} | {trained.sample_policy(17, member)("play")}) == 1
    with pytest.raises(PolinferError, match=r"member must lie in 0\.\.1"):
        trained.sample_policy(0, 2)


class Bare:
    """A state that is compared by its place and says nothing of itself."""

    def __init__(self, place: str, snapshot: int) -> None:
        self.place, self.snapshot = place, snapshot

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Bare) and self.place == other.place

    def __hash__(self) -> int:
        return hash(self.place)


class BareLoop(Loop):
    def init(self, seed: int) -> Any:
        return Bare("play", seed)

    def step(self, seed: int, state: Any, action: int) -> tuple[Any, float, bool]:
        after, reward, over = super().step(seed, state.place, action)
        return Bare(after, seed), reward, over

    def encode(self, state: Any) -> list[float]:
        return super().encode(state.place)


def test_sampled_policies_go_by_equality_of_states() -> None:
    posterior = polinfer.infer(BareLoop(), "svi", sweeps=2, width=2, depth=0)
    states = [Bare("play", i) for i in range(20)]
    for seed in range(5):
        policy = posterior.sample_policy(seed)
        assert len({policy(state) for state in states}) == 1


def test_predict_draws_or_takes_the_best(trained: polinfer.Posterior) -> None:
    assert trained.predict("play", deterministic=True) == (1, None)
    drawn = [trained.predict("play", seed=i)[0] for i in range(400)]
    share = trained.action_probs("play")[1]
    assert abs(np.mean(drawn) - share) < 5 * np.sqrt(share * (1 - share) / 400)
    assert trained.predict("play", seed=3) == trained.predict("play", seed=3)


def test_a_posterior_is_saved_and_loaded_with_its_simulator(
    trained: polinfer.Posterior, tmp_path: Path
) -> None:
    trained.save(tmp_path)
    with pytest.raises(PolinferError, match=r"pass it: polinfer\.load\(folder, mdp=\.\.\.\)"):
        polinfer.load(tmp_path)
    found = polinfer.load(tmp_path, mdp=LOOP)
    np.testing.assert_array_equal(found.action_probs_by_seed("play"), trained.action_probs_by_seed("play"))
    np.testing.assert_array_equal(found.trace.done, trained.trace.done)
    for name, column in trained.trace.columns.items():
        np.testing.assert_array_equal(found.trace[name], column)
    assert found.sample_policy(5, 1)("play") == trained.sample_policy(5, 1)("play")


SMALL = polinfer.VsmcConfig(sweeps=81, sweeps_per_update=2, particles=3, learning_rate=1e-2, width=4, depth=1)


@pytest.mark.slow
def test_a_seed_alone_is_the_same_as_in_a_batch() -> None:
    trainer = make_host_trainer(LOOP, SMALL.training())
    together, metrics = trainer.run(trainer.init([5, 6]), 0, 20)
    alone, own = trainer.run(trainer.init([6]), 0, 20)
    for one, other in zip(jax.tree.leaves(together), jax.tree.leaves(alone), strict=True):
        np.testing.assert_allclose(one[1], other[0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(metrics.log_evidence[1], own.log_evidence[0], rtol=1e-5)
    assert metrics.log_evidence[0] != metrics.log_evidence[1]
    # Training in two parts is training in one.
    half, _ = trainer.run(trainer.init([6]), 0, 9)
    rest, _ = trainer.run(half, 9, 20)
    for one, other in zip(jax.tree.leaves(rest), jax.tree.leaves(alone), strict=True):
        np.testing.assert_array_equal(one, other)


class StoppedError(Exception):
    pass


def test_a_stopped_run_resumes_bit_for_bit(tmp_path: Path) -> None:
    run = partial(infer_in_folder, LOOP, SMALL, seed=5, seeds=2)

    def stop_at(sweeps: int, now: polinfer.Report) -> None:
        if now.done >= sweeps:
            raise StoppedError

    for sweeps in (2, 24, 50):
        with pytest.raises(StoppedError):
            run(tmp_path / "stopped", resume=sweeps > 2, progress=partial(stop_at, sweeps))
    went_on: list[float] = []
    run(tmp_path / "stopped", resume=True, progress=lambda now: went_on.append(now.done))
    assert went_on[0] == 52
    run(tmp_path / "whole")
    for name in ("config.json", "metrics.jsonl", "policy.safetensors"):
        assert (tmp_path / "stopped" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


class Strict(Loop):
    """Holds polinfer to its promise: after an episode has ended, nothing is asked about it."""

    def legal(self, state: str) -> list[bool]:
        assert state == "play", "legal was asked after the end"
        return [True, True]

    def encode(self, state: str) -> list[float]:
        assert state == "play", "encode was asked after the end"
        return [1.0]


def test_nothing_is_asked_after_the_end() -> None:
    polinfer.infer(Strict(), "svi", sweeps=4, width=2, depth=1)


class Finished(Loop):
    """At the end nothing is legal, as in most games."""

    def legal(self, state: str) -> list[bool]:
        return [state == "play"] * 2


def test_a_simulator_with_nothing_legal_at_the_end_is_trained_on() -> None:
    posterior = polinfer.infer(Finished(), "svi", sweeps=40, sweeps_per_update=20, width=4, depth=1)
    assert np.isfinite(posterior.action_probs("play")).all()


def onward(self: Any, seed: int, state: str, action: int) -> tuple[str, float, bool]:
    return "more", 0.0, False


def broken(**methods: Any) -> Any:
    return type("Broken", (Loop,), methods)()


@pytest.mark.parametrize(
    ("methods", "words"),
    [
        (
            {"encode": lambda self, state: [[1.0, 2.0]]},
            r"Broken\.encode must give a flat list of finite numbers",
        ),
        ({"encode": lambda self, state: [np.nan]}, "encode must give 1 finite numbers in every state"),
        ({"encode": None}, "Broken is neither a polinfer.MDP nor a simulator: it has no method 'encode'"),
        ({"step": None}, "it has no method 'step'"),
        ({"legal": lambda self, state: [True]}, "legal must give 2 flags"),
        ({"horizon": 0}, "horizon must be at least 1"),
        ({"num_actions": 0}, "num_actions must be at least 1"),
        ({"step": lambda self, seed, state, action: (state, math.nan, False)}, "must be a finite number"),
        (
            {"step": lambda self, seed, state, action: state},
            r"step must return \(state, reward, terminated\)",
        ),
        ({"init": lambda self, seed: ["play"]}, "cannot be hashed"),
        # Only in a state further on:
        (
            {"step": onward, "encode": lambda self, state: [1.0] * (1 + (state != "play"))},
            "encode must give 1 finite numbers in every state",
        ),
        (
            {"step": onward, "encode": lambda self, state: [1.0 if state == "play" else np.nan]},
            "in state 'more' it gives",
        ),
    ],
)
def test_what_is_wrong_with_a_simulator_is_named(methods: dict[str, Any], words: str) -> None:
    with pytest.raises(PolinferError, match=words):
        polinfer.infer(broken(**methods), "vsmc", sweeps=10, particles=2, width=2, depth=1)


def test_a_missing_number_of_actions_is_named() -> None:
    class Empty:
        init = step = legal = encode = lambda self, *_: None

    with pytest.raises(PolinferError, match="num_actions"):
        polinfer.infer(Empty(), "vsmc", sweeps=10)


def test_a_table_proposal_and_other_objects_are_refused() -> None:
    with pytest.raises(PolinferError, match="needs a problem that fits a table"):
        polinfer.infer(LOOP, "wake", proposal="table", sweeps=10)
    with pytest.raises(PolinferError, match="int is neither"):
        polinfer.infer(7, "wake", sweeps=10)  # type: ignore[arg-type]
