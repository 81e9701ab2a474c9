"""States that are equal by an abstraction: memos and noise are shared, snapshots are not."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from polinfer.smc import SweepConfig, SweepRandomness, run_reference_sweep
from polinfer.smc.record import Sweep

from .engines import PlainTable, atlas, proposal_rows


class Seen:
    """A place, behind which lies a hidden count that comparison does not see."""

    def __init__(self, place: int, hidden: int) -> None:
        self.place, self.hidden = place, hidden

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Seen) and self.place == other.place

    def __hash__(self) -> int:
        return hash(self.place)

    def __repr__(self) -> str:
        return f"Seen({self.place})"


class Hidden:
    """Two rooms, in turn.  What is earned, and hidden next, goes by seed, action and what is hidden."""

    num_actions = 2
    horizon = 6

    def __init__(self) -> None:
        self.steps: list[tuple[int, Any, int]] = []

    def init(self, seed: int) -> Seen:
        return Seen(0, 0)

    def step(self, seed: int, state: Seen, action: int) -> tuple[Seen, float, bool]:
        self.steps.append((seed, state, action))
        hidden = state.hidden * 3 + action + 1 + seed % 2
        return Seen(1 - state.place, hidden), 0.1 * hidden - 0.3 * action, False

    def legal(self, state: Seen) -> list[bool]:
        return [True, True]

    def encode(self, state: Seen) -> list[float]:
        return [float(state.place)]


class Counted(SweepRandomness):
    """Writes down what was asked."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.asked: dict[tuple[Any, int, int], int] = {}
        self.times: Counter[tuple[int, int, int]] = Counter()

    def query(self, s: Any, a: int, k: int) -> int:
        self.times[s.place, a, k] += 1
        self.asked[s.place, a, k] = super().query(s, a, k)
        return self.asked[s.place, a, k]


def even(state: Any) -> np.ndarray:
    return np.log([0.5, 0.5])


def sweep(config: SweepConfig, seed: int = 0) -> tuple[Sweep, Hidden, Counted]:
    simulator, randomness = Hidden(), Counted(seed)
    return run_reference_sweep(simulator, even, config, randomness), simulator, randomness


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("resample_below", [0.0, 1.0])
def test_noise_goes_by_the_abstraction_and_moves_by_the_snapshot(seed: int, resample_below: float) -> None:
    config = SweepConfig(particles=5, resample_below=resample_below)
    record, _, randomness = sweep(config, seed)
    assert set(randomness.times.values()) == {1}  # the noise of a query is asked for once
    # Replay every lineage by hand: own hidden counts, shared noise, one action per place.
    different = set()
    for last in range(5):
        line, i = [], last
        for t in reversed(range(6)):
            i = i if t == 5 else int(record.ancestor[t, i])
            line.append((t, i))
        hidden, memo, visits = 0, {}, Counter()
        for t, i in reversed(line):
            state, action = record.state[t, i], int(record.action[t, i])
            assert (state.place, state.hidden) == (t % 2, hidden)
            assert record.drawn[t, i] == (state.place not in memo)
            assert memo.setdefault(state.place, action) == action
            visits[state.place, action] += 1
            noise = randomness.asked[state.place, action, visits[state.place, action]]
            different.add((state.place, action, visits[state.place, action], hidden))
            hidden = hidden * 3 + action + 1 + noise % 2
            assert record.reward[t, i] == pytest.approx(0.1 * hidden - 0.3 * action)
    # The case is there: one query that was answered from two snapshots.
    if seed == 0 and resample_below == 0:
        assert max(Counter(key[:3] for key in different).values()) > 1


def test_equal_states_are_one_memo() -> None:
    record, _, _ = sweep(SweepConfig(particles=8, resample_below=0.0))
    assert record.drawn.sum(axis=0).tolist() == [2] * 8  # two places, six visits
    states = {id(s): s for s in record.state.flat}.values()
    assert len({s.hidden for s in states if s.place == 1}) > 1


def test_the_memo_of_answers_is_used_where_the_state_is_the_same_object() -> None:
    """All particles start in one object: of each action in it the simulator is asked once."""
    _, simulator, _ = sweep(SweepConfig(particles=8, resample_below=0.0))
    first = [
        (seed, action) for seed, state, action in simulator.steps if state.place == 0 and state.hidden == 0
    ]
    assert sorted(action for _, action in first) == [0, 1]


def test_uncoupled_particles_share_no_noise() -> None:
    _, simulator, randomness = sweep(SweepConfig(particles=4, coupled=False))
    assert not randomness.asked
    seeds = [seed for seed, _, _ in simulator.steps]
    assert len(set(seeds)) == len(seeds) == 24


class Fresh(PlainTable):
    """A table whose states are new objects at every step, and equal only where the rows are."""

    def init(self, seed: int) -> Any:
        return Exact(super().init(seed))

    def step(self, seed: int, state: Any, action: int) -> Any:
        after, reward, over = super().step(seed, int(state), action)
        return Exact(after), reward, over


class Exact(int):
    """A row number that is its own object."""


@pytest.mark.parametrize("coupled", [True, False])
@pytest.mark.parametrize("refresh", [0.0, 0.3])
def test_exact_states_give_the_same_record_whichever_objects_they_are(coupled: bool, refresh: float) -> None:
    problem = atlas()
    log_q = proposal_rows(problem)
    config = SweepConfig(particles=6, coupled=coupled, memo_refresh=refresh, resample_below=0.7)
    for seed in range(6):
        same, fresh = (
            run_reference_sweep(simulator, lambda s: log_q[int(s)], config, SweepRandomness(seed))
            for simulator in (PlainTable(problem), Fresh(problem))
        )
        for name in same._fields:
            one, other = getattr(same, name), getattr(fresh, name)
            assert one.tolist() == other.tolist(), name
