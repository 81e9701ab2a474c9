"""Run folders: a run that is killed at any moment loses at most its last chunk.

``config.json`` (what was asked), ``metrics.jsonl`` (how training goes), ``checkpoint.safetensors`` (where to
go on; gone when the run is finished), ``policy.safetensors`` (the answer), ``summary.json`` and figures.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from polinfer.errors import PolinferError
from polinfer.infer import Progress, initial_state, train
from polinfer.learning.train import TrainConfig, TrainState
from polinfer.mdp import MDP
from polinfer.posterior import Posterior, Trace
from polinfer.saving import CONFIG, POLICY, TABLE, describe_problem, load, read_config, save, write_config
from polinfer.storage import (
    flatten_arrays,
    plain,
    read_arrays,
    unflatten_arrays,
    write_arrays,
    write_atomically,
)

CHECKPOINT, METRICS, SUMMARY = "checkpoint.safetensors", "metrics.jsonl", "summary.json"
FIGURES = ("policy.png", "returns.png", "training.png")
RUN_FILES = (CHECKPOINT, POLICY, METRICS, SUMMARY, *FIGURES, TABLE, CONFIG)


def choose_folder(wanted: Path | None, stem: str, overwrite: bool) -> Path:
    """Return the folder for a new run: `wanted`, or a numbered one under ``runs/``."""
    if wanted is None:
        names = (Path("runs") / (stem if n == 1 else f"{stem}-{n}") for n in range(1, 1_000_000))
        return next(path for path in names if not path.exists())
    check_free(wanted, overwrite)
    # Only what a run writes is removed: the folder may hold other things of the user's.
    for name in RUN_FILES:
        (wanted / name).unlink(missing_ok=True)
    return wanted


def check_free(folder: Path, overwrite: bool) -> None:
    """Refuse a folder that is a file, or that holds files unless `overwrite` is given."""
    if folder.exists() and not folder.is_dir():
        raise PolinferError(f"--out {folder} is a file; name a folder")
    if folder.is_dir() and any(folder.iterdir()) and not overwrite:
        raise PolinferError(f"--out {folder} holds files already; name another folder or add --overwrite")


def train_in_folder(
    mdp: MDP,
    method: str,
    config: TrainConfig,
    folder: Path,
    *,
    seed: int,
    seeds: int,
    resume: bool = False,
    progress: Progress | None = None,
) -> Posterior:
    """Train with checkpoints in `folder`; with `resume`, go on from the last one, bit for bit."""
    settings = {"train": asdict(config), "seed": seed}
    start = None
    if resume:
        asked = {"method": method, "seeds": seeds, "settings": settings, "problem": describe_problem(mdp)}
        _check_same(read_config(folder), asked, folder)
        if (folder / POLICY).exists():
            return load(folder, mdp)
        if (folder / CHECKPOINT).exists():
            start = _read_checkpoint(folder / CHECKPOINT, initial_state(mdp, config, seed, seeds))
    else:
        write_config(folder, mdp, method, seeds, settings)
    posterior = train(
        mdp,
        method,
        config,
        seed=seed,
        seeds=seeds,
        progress=progress,
        checkpoint=_checkpointer(folder),
        resume=start,
    )
    save(posterior, folder)
    (folder / CHECKPOINT).unlink(missing_ok=True)
    return posterior


def _checkpointer(folder: Path) -> Callable[[int, TrainState, Trace], None]:
    def write(done: int, state: TrainState, trace: Trace) -> None:
        rows = [
            json.dumps(plain({name: getattr(trace, name)[i] for name in Trace._fields}))
            for i in range(len(trace.sweeps))
        ]
        write_atomically(folder / METRICS, lambda file: file.write(("\n".join(rows) + "\n").encode()))
        arrays = flatten_arrays(state, "state") | flatten_arrays(trace._asdict(), "trace")
        write_arrays(folder / CHECKPOINT, arrays | {"done": np.asarray(done)})

    return write


def _read_checkpoint(path: Path, template: TrainState) -> tuple[int, TrainState, Trace]:
    arrays = read_arrays(path)
    state = unflatten_arrays(template, arrays, "state", path)
    try:
        trace = Trace(*(arrays[f"trace['{name}']"] for name in Trace._fields))
        return int(arrays["done"]), state, trace
    except KeyError as error:
        raise PolinferError(f"{path}: {error} is missing; remove the file to start again") from None


def _check_same(found: dict[str, Any], wanted: dict[str, Any], folder: Path) -> None:
    """Refuse to go on with other settings than the run was started with, naming the first that differs."""

    def compare(old: Any, new: Any, name: str) -> None:
        if isinstance(old, dict) and isinstance(new, dict):
            for key in old.keys() | new.keys():
                compare(old.get(key), new.get(key), key)
        elif old != new:
            raise PolinferError(
                f"{folder} was started with {name} {old!r}, not {new!r}; resume with the same settings"
            )

    compare({key: found.get(key) for key in wanted}, plain(wanted), "")
