"""Independent replicas of annealing: pooled the same, wherever they ran."""

from pathlib import Path

import numpy as np
import pytest

import polinfer
from polinfer import TemperedConfig
from polinfer.core.workers import workers
from polinfer.runs.folder import infer_in_folder

CONFIG = TemperedConfig(policies=8, islands=2, rounds=1, replicas=3, enumerate_up_to=0)


def answer(mdp: object) -> np.ndarray:
    probs = polinfer.infer(mdp, CONFIG, seed=4).table_probs()  # type: ignore[arg-type]
    assert probs is not None
    return probs


def test_replicas_are_independent_and_pooled() -> None:
    mdp = polinfer.make("gridworld/ablation")
    pooled = polinfer.infer(mdp, CONFIG, seed=4)
    alone = polinfer.infer(mdp, TemperedConfig(policies=8, islands=2, rounds=1, enumerate_up_to=0), seed=4)
    exact = polinfer.infer(mdp, "exact")
    assert pooled.policies is not None
    assert alone.policies is not None
    assert exact.policies is not None
    assert pooled.policies.log_evidence != alone.policies.log_evidence
    off = abs(pooled.policies.log_evidence - exact.policies.log_evidence)
    assert off < 5 * pooled.policies.log_evidence_stderr
    assert pooled.policies.sampled_policies is not None


def test_a_stopped_run_keeps_the_replicas_that_were_finished(tmp_path: Path) -> None:
    mdp = polinfer.make("gridworld/ablation")

    class StoppedError(Exception):
        pass

    def stop(now: polinfer.Report) -> None:
        if now.done == 2:
            raise StoppedError

    with pytest.raises(StoppedError):
        infer_in_folder(mdp, CONFIG, tmp_path, seed=4, progress=stop)
    done: list[float] = []
    found = infer_in_folder(
        mdp, CONFIG, tmp_path, seed=4, resume=True, progress=lambda now: done.append(now.done)
    )
    assert done == [3]
    np.testing.assert_array_equal(found.table_probs(), answer(mdp))


@pytest.mark.slow
def test_workers_give_the_same_bits() -> None:
    mdp = polinfer.make("gridworld/ablation")
    here = answer(mdp)
    with workers(2):
        np.testing.assert_array_equal(answer(mdp), here)
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster,
        workers(cluster=cluster.scheduler_address),
    ):
        np.testing.assert_array_equal(answer(mdp), here)
