"""What a user can get wrong is refused where it enters, in one sentence that names it."""

from __future__ import annotations

import math
import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from polinfer.core.errors import PolinferError
from polinfer.core.noise import as_uniform
from polinfer.core.protocol import Transition
from polinfer.smc import SweepConfig, SweepRandomness, as_simulator, run_reference_sweep

from .engines import LADDER, Ladder


def assert_one_sentence(error: pytest.ExceptionInfo[PolinferError]) -> None:
    text = str(error.value)
    assert "\n" not in text
    assert not re.search(r"[.!] [A-Z]", text)
    assert not text.endswith(".")
    assert len(text) < 200


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"particles": 0}, "particles must be at least 1, got 0"),
        ({"particles": 2.5}, "particles must be a whole number, got 2.5"),
        ({"particles": True}, "particles must be a whole number, got True"),
        ({"resample_below": 1.5}, "resample_below must lie in 0..1, got 1.5"),
        ({"resample_below": math.nan}, "resample_below must lie in 0..1, got nan"),
        ({"memo_refresh": -0.1}, "memo_refresh must lie in 0..1, got -0.1"),
        (
            {"resampling": "residual"},
            "resampling must be systematic, stratified or multinomial, got 'residual'",
        ),
    ],
)
def test_settings_are_checked(options: dict[str, Any], message: str) -> None:
    with pytest.raises(PolinferError, match=f"^{re.escape(message)}$") as error:
        SweepConfig(**options)
    assert_one_sentence(error)


class Corridor:
    """Three cells; 0 waits, 1 walks on."""

    num_actions = 2
    horizon = 4

    def init(self, seed: int) -> Any:
        return "a"

    def step(self, seed: int, state: Any, action: int) -> Any:
        after = {"a": "b", "b": "c"}[state] if action == 1 else state
        return after, 0.3 * action - 0.1, after == "c"

    def legal(self, state: Any) -> Any:
        return [True, True]


def uniform(state: Any) -> Any:
    return [math.log(0.5)] * 2


def run(simulator: Any, log_proposal: Any = uniform) -> Any:
    return run_reference_sweep(simulator, log_proposal, SweepConfig(particles=3), SweepRandomness(1))


def changed(**methods: Any) -> Any:
    return type("Changed", (Corridor,), methods)()


def test_a_plain_python_simulator_runs() -> None:
    sweep = run(Corridor())
    assert sweep.state.shape == (4, 3)
    assert set(sweep.state.ravel()) == {"a", "b", "c"}
    assert np.isfinite(sweep.log_evidence)
    np.testing.assert_array_equal(sweep.active, sweep.state != "c")
    assert (sweep.reward[~sweep.active] == 0).all()
    assert not sweep.drawn[~sweep.active].any()
    again = run(Corridor())
    assert all(np.array_equal(one, other) for one, other in zip(sweep, again, strict=True))


def test_as_simulator_answers_as_the_mdp() -> None:
    simulator = as_simulator(LADDER)
    first = simulator.init(3)
    assert first == tuple(np.asarray(LADDER.identity(first.state)))
    assert simulator.legal(first) == np.asarray(LADDER.legal(first.state)).tolist()
    np.testing.assert_array_equal(simulator.encode(first), LADDER.encode(first.state))
    seed = (1 << 63) + 12345
    after, reward, terminated = simulator.step(seed, first, 1)
    again = simulator.step(seed, first, 1)
    assert (after, reward, terminated) == again
    assert hash(after) == hash(again[0])
    assert isinstance(reward, float)
    assert isinstance(terminated, bool)


class Echo(Ladder):
    """Pays what the two words of its key say."""

    def step(self, key: Any, state: Any, action: Any) -> Any:
        words = jax.random.key_data(key)
        return Transition(state, 2 * as_uniform(words) + as_uniform(words[::-1]), jnp.asarray(False))


def test_a_seed_is_the_64_bits_of_the_key() -> None:
    simulator = as_simulator(Echo())
    high, low = 0xC0000000, 0x40000000
    assert simulator.step(high << 32 | low, simulator.init(0), 0)[1] == 2 * 0.75 + 0.25


class Forgetful(Corridor):
    """Waiting is legal until it is done."""

    def __init__(self) -> None:
        self.waited = False

    def step(self, seed: int, state: Any, action: int) -> Any:
        self.waited |= action == 0
        return super().step(seed, state, action)

    def legal(self, state: Any) -> Any:
        return [not self.waited, True]


@pytest.mark.parametrize(
    ("simulator", "log_proposal", "message"),
    [
        (
            changed(step=lambda *_: ("b", math.nan, False)),
            uniform,
            "the reward of action . in state 'a' is nan",
        ),
        (
            changed(step=lambda *_: ("b", math.inf, False)),
            uniform,
            "the reward of action . in state 'a' is inf",
        ),
        (changed(step=lambda *_: ("b", None, False)), uniform, "the reward of action . in state 'a' is None"),
        (
            changed(step=lambda *_: ("b", 1.0)),
            uniform,
            r"step must return \(state, reward, terminated\), got",
        ),
        (changed(step=lambda *_: None), uniform, r"step must return \(state, reward, terminated\), got None"),
        (
            changed(step=lambda *_: ([1], 1.0, False)),
            uniform,
            r"state \[1\] cannot be hashed; return a tuple",
        ),
        (changed(init=lambda *_: {}), uniform, "state {} cannot be hashed; return a tuple"),
        (changed(legal=lambda *_: [True]), uniform, "legal must give 2 flags in state 'a', got 1"),
        (changed(legal=lambda *_: [False, False]), uniform, "action . is not legal in state 'a'"),
        (changed(horizon=0), uniform, "horizon must be at least 1, got 0"),
        (Forgetful(), lambda s: [0.0, -math.inf], "action 0 is not legal in state 'a'"),
        (
            Corridor(),
            lambda s: [0.0],
            r"log_proposal must give 2 numbers, one per action, .* got shape \[1\]",
        ),
        (Corridor(), lambda s: [0.0, 0.0], "log_proposal's probabilities sum to 2 in state 'a', not to one"),
        (Corridor(), lambda s: [math.nan, 0.0], "log_proposal's probabilities sum to nan in state 'a'"),
        (Corridor(), lambda s: [999.0, 999.0], "log_proposal's probabilities sum to inf in state 'a'"),
        (
            changed(legal=lambda *_: [False, True]),
            lambda s: [0.0, -math.inf],
            "action 0 is not legal in state",
        ),
    ],
)
def test_broken_contracts_are_named(simulator: Any, log_proposal: Any, message: str) -> None:
    with pytest.raises(PolinferError, match=f"^{message}") as error:
        run(simulator, log_proposal)
    assert_one_sentence(error)
