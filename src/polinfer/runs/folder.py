"""Run folders: a run that is killed at any moment loses at most its last chunk.

``config.json`` (what was asked), ``metrics.jsonl`` (how training goes), ``checkpoint.safetensors`` and the
folder ``replay`` (where to go on; gone when the run is finished), ``policy.safetensors`` (the answer),
``summary.json`` and figures.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from polinfer.actor_critic.fit import Block, kept_ends
from polinfer.actor_critic.config import SacConfig
from polinfer.core.errors import PolinferError
from polinfer.posterior.posterior import Posterior
from polinfer.problems.registry import Problem
from polinfer.posterior.saving import (
    CONFIG,
    POLICY,
    TABLE,
    config_of,
    describe_problem,
    load,
    read_config,
    read_trace,
    save,
    write_config,
)
from polinfer.core.files import (
    flatten_arrays,
    plain,
    read_arrays,
    unflatten_arrays,
    write_arrays,
    write_atomically,
)
from polinfer.learning.fit import Checkpoint, Config, Progress, Saved, initial_state, settings_of, train

CHECKPOINT, METRICS, SUMMARY = "checkpoint.safetensors", "metrics.jsonl", "summary.json"
REPLAY = "replay"
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
    _remove_replay(wanted)
    return wanted


def check_free(folder: Path, overwrite: bool) -> None:
    """Refuse a folder that is a file, or that holds files unless `overwrite` is given."""
    if folder.exists() and not folder.is_dir():
        raise PolinferError(f"--out {folder} is a file; name a folder")
    if folder.is_dir() and any(folder.iterdir()) and not overwrite:
        raise PolinferError(f"--out {folder} holds files already; name another folder or add --overwrite")


def train_in_folder(
    mdp: Problem,
    method: str,
    config: Config,
    folder: Path,
    *,
    seed: int,
    seeds: int,
    resume: bool = False,
    progress: Progress | None = None,
) -> Posterior:
    """Train with checkpoints in `folder`; with `resume`, go on from the last one, bit for bit."""
    settings = settings_of(config, seed)
    start = None
    if resume:
        asked = {"method": method, "seeds": seeds, "settings": settings, "problem": describe_problem(mdp)}
        _check_same(_with_defaults(read_config(folder), method, seed), asked, folder)
        if (folder / POLICY).exists():
            return load(folder, mdp)
        if (folder / CHECKPOINT).exists():
            start = _read_checkpoint(folder, method, config, initial_state(mdp, config, seed, seeds))
    else:
        write_config(folder, mdp, method, seeds, settings)
    posterior = train(
        mdp,
        method,
        config,
        seed=seed,
        seeds=seeds,
        progress=progress,
        checkpoint=_checkpointer(folder, config),
        resume=start,
    )
    save(posterior, folder)
    (folder / CHECKPOINT).unlink(missing_ok=True)
    _remove_replay(folder)
    return posterior


def _checkpointer(folder: Path, config: Config) -> Checkpoint:
    def write(saved: Saved) -> None:
        trace = saved.trace
        rows = [
            json.dumps(plain({name: getattr(trace, name)[i] for name in trace._fields}))
            for i in range(len(trace[0]))
        ]
        write_atomically(folder / METRICS, lambda file: file.write(("\n".join(rows) + "\n").encode()))
        # The blocks before the checkpoint that counts on them: killed in between, they are written again.
        for block in saved.blocks:
            (folder / REPLAY).mkdir(exist_ok=True)
            arrays = {"rows": block.rows, "position": np.asarray(block.position)}
            write_arrays(folder / REPLAY / _block_name(saved.done), arrays)
        arrays = flatten_arrays(saved.state, "state") | flatten_arrays(trace._asdict(), "trace")
        write_arrays(folder / CHECKPOINT, arrays | {"done": np.asarray(saved.done)})
        if isinstance(config, SacConfig):
            kept = {_block_name(end) for end in kept_ends(config, saved.done)}
            for path in (folder / REPLAY).iterdir():
                if path.name not in kept:
                    path.unlink()

    return write


def _read_checkpoint(folder: Path, method: str, config: Config, template: Any) -> Saved:
    path = folder / CHECKPOINT
    arrays = read_arrays(path)
    state = unflatten_arrays(template, arrays, "state", path)
    trace = read_trace(arrays, method, path)
    if "done" not in arrays:
        raise PolinferError(f"{path}: 'done' is missing; remove the file to start again")
    done = int(arrays["done"])
    blocks = _read_blocks(folder, config, done) if isinstance(config, SacConfig) else ()
    return Saved(done, state, trace, tuple(blocks))


def _read_blocks(folder: Path, config: SacConfig, done: int) -> Iterator[Block]:
    """Read what the replay store had gained after `done` steps, oldest first."""
    for end in kept_ends(config, done):
        arrays = read_arrays(folder / REPLAY / _block_name(end))
        if arrays.keys() != {"rows", "position"}:
            raise PolinferError(f"{folder / REPLAY / _block_name(end)}: not a block of a replay store")
        yield Block(int(arrays["position"]), arrays["rows"])


def _block_name(end: int) -> str:
    return f"{end:012d}.safetensors"


def _remove_replay(folder: Path) -> None:
    shutil.rmtree(folder / REPLAY, ignore_errors=True)


def _with_defaults(found: dict[str, Any], method: str, seed: int) -> dict[str, Any]:
    """Complete what an older version wrote by the settings that it did not have yet."""
    if found.get("method") != method:
        return found
    settings = found["settings"]
    complete = settings_of(config_of(settings, method), seed) | {"seed": settings.get("seed", seed)}
    return found | {"settings": plain(complete)}


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
