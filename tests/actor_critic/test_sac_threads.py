"""Many seeds are trained in two threads: each is the same run as in a small batch."""

from pathlib import Path

import numpy as np
import pytest

import polinfer
from polinfer.actor_critic.fit import _groups
from polinfer.runs.folder import infer_in_folder

SETTINGS = {"steps": 120, "learning_starts": 20, "batch": 8, "width": 4, "depth": 1, "buffer": 70}


@pytest.mark.slow
def test_a_seed_is_the_same_in_a_batch_of_five() -> None:
    table = polinfer.make("continuation")
    five = polinfer.infer(table, "sac", seeds=5, **SETTINGS)
    last = polinfer.infer(table, "sac", seed=3, seeds=2, **SETTINGS)
    assert five.seeds == 5
    np.testing.assert_allclose(five.table_probs()[3:], last.table_probs(), atol=1e-5)
    np.testing.assert_allclose(five.trace["entropy"][:, 3:], last.trace["entropy"], atol=1e-4)


@pytest.fixture(autouse=True)
def two_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPROC", "2")


class Stop(Exception):  # noqa: N818 - as StopIteration
    """As a kill."""


@pytest.mark.slow
def test_five_seeds_go_on_where_they_were_stopped(tmp_path: Path) -> None:
    table, config = polinfer.make("continuation"), polinfer.SacConfig(**SETTINGS)
    whole = infer_in_folder(table, config, tmp_path / "whole", seed=0, seeds=5)

    def stop(now: polinfer.Report) -> None:
        if now.done >= 90:
            raise Stop

    with pytest.raises(Stop):
        infer_in_folder(table, config, tmp_path / "half", seed=0, seeds=5, progress=stop)
    again = infer_in_folder(table, config, tmp_path / "half", seed=0, seeds=5, resume=True)
    np.testing.assert_array_equal(again.table_probs(), whole.table_probs())


@pytest.mark.parametrize(
    ("seeds", "sizes"), [(1, [1]), (3, [3]), (5, [3, 2]), (16, [8, 8]), (25, [7, 6, 6, 6])]
)
def test_groups_are_even_in_number_and_hold_every_seed_once(seeds: int, sizes: list[int]) -> None:
    groups = _groups(seeds)
    assert [len(range(seeds)[own]) for own in groups] == sizes
    assert [seed for own in groups for seed in range(seeds)[own]] == list(range(seeds))
