"""What particles remember and what they share: memos that are copied, worlds that are common."""

from __future__ import annotations

import itertools
from collections import defaultdict
from typing import Any

import jax
import numpy as np
import pytest

from polinfer.smc import SweepConfig
from polinfer.smc.record import Sweep

from .engines import (
    CHANCY,
    atlas,
    lineages,
    make_noise,
    pick,
    run_compiled,
    run_replayed,
    sweep_many,
    sweep_plainly,
    table,
)

# In A (0), action 0 pays 3 and action 1 costs 3; both lead to B (1), whose actions lead to C (2), and C to A.
ROUND_TRIP = table(
    [
        (0, 0, 1.0, 1, 3.0),
        (0, 1, 1.0, 1, -3.0),
        (1, 0, 1.0, 2, 0.1),
        (1, 1, 1.0, 2, 0.1),
        (2, 0, 1.0, 0, 0.0),
    ],
    num_states=3,
    num_actions=2,
    starts=[0],
    horizon=5,
)


@pytest.mark.parametrize("engine", ["compiled", "reference"])
def test_children_of_one_parent_diverge_at_states_not_yet_seen(engine: str) -> None:
    """Both particles of step 2 continue the lucky one of step 1, and then choose differently in B."""
    config, low, high = SweepConfig(particles=2, resample_below=1), 0.01, 0.99
    for parent in (0, 1):
        first = [low, high] if parent == 0 else [high, low]
        actions = [first, [low, high], [low, low], [high, high], [high, low]]
        noise = make_noise(0, 1, 5, 2)._replace(
            action=np.float32([actions]), resample=np.full((1, 5, 2), 0.5, np.float32)
        )
        if engine == "compiled":
            sweep = pick(run_compiled(ROUND_TRIP, config, noise), 0)
        else:
            sweep = run_replayed(ROUND_TRIP, config, jax.tree.map(lambda leaf: leaf[0], noise))
        assert sweep.ancestor.tolist() == [[parent, parent], *[[0, 1]] * 4]
        assert sweep.drawn.tolist() == [*[[True, True]] * 3, *[[False, False]] * 2]
        # In A both remember what their parent did, in B each what it did itself.
        assert sweep.action[:, 0].tolist() == [parent, 0, 0, 0, 0]
        assert sweep.action[:, 1].tolist() == [1 - parent, 1, 0, 0, 1]
        assert sweep.reward[3].tolist() == [3.0, 3.0]


def check_memo(sweep: Sweep) -> int:
    """Assert that every line of descent draws once per state and then repeats itself; count the repeats."""
    repeats = 0
    for history in lineages(sweep):
        memo: dict[Any, int] = {}
        for visit in history:
            assert visit.drawn == (visit.state not in memo)
            assert memo.setdefault(visit.state, visit.action) == visit.action
            repeats += not visit.drawn
    return repeats


def shared_answers(sweep: Sweep) -> dict[Any, set[Any]]:
    """What each query (s, a, k) was answered, over all lines of descent."""
    answers: dict[Any, set[Any]] = defaultdict(set)
    for history in lineages(sweep):
        count: dict[Any, int] = defaultdict(int)
        for visit, after in itertools.zip_longest(history, history[1:]):
            query = (visit.state, visit.action)
            count[query] += 1
            answers[(*query, count[query])].add((after.state if after else None, visit.reward))
    return answers


def sweeps_of(engine: str, config: SweepConfig) -> list[Sweep]:
    if engine == "reference":
        return list(sweep_plainly(atlas(CHANCY), config, 150))
    sweeps = sweep_many(atlas(), config, 300, seed=2)
    return [pick(sweeps, u) for u in range(300)]


@pytest.mark.parametrize("engine", ["compiled", "reference"])
def test_lines_of_descent_are_policies_in_one_world(engine: str) -> None:
    sweeps = sweeps_of(engine, SweepConfig(resample_below=0.7))
    assert sum(check_memo(sweep) for sweep in sweeps) > 1_000
    assert sum(len(set(sweep.ancestor[0].tolist())) < 10 for sweep in sweeps) > 20
    queries = 0
    for sweep in sweeps:
        for answers in shared_answers(sweep).values():
            # A last step has no successor on record: its reward must still be that of the others.
            assert len({reward for _, reward in answers}) == 1
            assert len({state for state, _ in answers if state is not None}) <= 1
            queries += 1
    assert queries > 1_000


@pytest.mark.parametrize("engine", ["compiled", "reference"])
def test_without_coupling_particles_live_in_different_worlds(engine: str) -> None:
    sweeps = sweeps_of(engine, SweepConfig(resample_below=0.7, coupled=False))
    assert sum(check_memo(sweep) for sweep in sweeps) > 1_000
    split = [len({r for _, r in answers}) > 1 for s in sweeps for answers in shared_answers(s).values()]
    assert sum(split) > 100


# One state, one action, for ever: the reward of step t is that of the t-th visit.
DICE = table([(0, 0, 0.3, 0, 1.0), (0, 0, 0.7, 0, -0.5)], num_states=1, num_actions=1, starts=[0], horizon=6)


@pytest.mark.parametrize("coupled", [True, False])
def test_visits_are_independent(coupled: bool) -> None:
    """Across sweeps, the outcomes of different visits (and of uncoupled particles) are uncorrelated."""
    count = 8_192
    config = SweepConfig(particles=4, resample_below=0, coupled=coupled)
    lucky = sweep_many(DICE, config, count).reward > 0  # [U, T, N]
    if coupled:
        assert (lucky == lucky[:, :, :1]).all()
        lucky = lucky[:, :, :1]
    columns = lucky.reshape(count, -1).astype(np.float64)
    assert (abs(columns.mean(axis=0) - 0.3) < 5 * np.sqrt(0.3 * 0.7 / count)).all()
    correlation = np.corrcoef(columns.T)[np.triu_indices(columns.shape[1], 1)]
    assert (abs(correlation) < 5 / np.sqrt(count)).all()
