"""Run folders: a run that is killed at any moment loses at most its last piece.

``config.json`` (what was asked), ``metrics.jsonl`` (how the run goes), ``checkpoint.safetensors`` and the
folder ``blocks`` (from where it resumes; gone when the run is finished), ``policy.safetensors`` (the answer),
``summary.json`` and figures.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from polinfer.core.errors import PolinferError
from polinfer.core.files import plain
from polinfer.core.progress import Progress
from polinfer.core.stopping import stopping
from polinfer.methods.base import Method
from polinfer.methods.inference import resolve, run
from polinfer.methods.registry import read_config as method_config
from polinfer.posterior.config import MethodConfig
from polinfer.posterior.loading import read_posterior
from polinfer.posterior.posterior import Posterior
from polinfer.posterior.saving import (
    CONFIG,
    EXPLORED,
    POLICY,
    TABLE,
    RunConfig,
    describe_run,
    made_by,
    read_config,
    write_config,
)
from polinfer.problems.registry import Problem
from polinfer.problems.terms import register_folder_reader
from polinfer.runs.checkpoint import BLOCKS, CHECKPOINT, METRICS, FolderCheckpoint
from polinfer.runs.lock import hold

SUMMARY = "summary.json"
FIGURES = ("policy.png", "returns.png", "training.png", "certificate.png")
RUN_FILES = (CHECKPOINT, POLICY, METRICS, SUMMARY, *FIGURES, TABLE, EXPLORED, CONFIG)


def load(folder: str | Path, mdp: Problem | None = None, *, code: Sequence[str] = ()) -> Posterior:
    """Read a posterior that `Posterior.save` or a run of ``polinfer plan`` wrote.

    Parameters
    ----------
    folder
        The folder.
    mdp
        The problem, needed only where it was made neither by `polinfer.make` nor from a table.
    code
        Names of code that the run's problem may import, such as ``gym:my_module:MyEnv-v0``.  A folder alone
        never makes anything run.
    """
    return read_posterior(Path(folder), method_config, mdp, code)


register_folder_reader(load)


def choose_folder(wanted: Path | None, stem: str, overwrite: bool) -> Path:
    """Return the folder for a new run: `wanted`, or a numbered one under ``runs/``."""
    if wanted is None:
        names = (Path("runs") / (stem if n == 1 else f"{stem}-{n}") for n in range(1, 1_000_000))
        return next(path for path in names if not path.exists())
    check_free(wanted, overwrite)
    hold(wanted, BLOCKS)
    # Only what a run writes is removed: the folder may hold other things of the user's.
    for name in RUN_FILES:
        (wanted / name).unlink(missing_ok=True)
    shutil.rmtree(wanted / BLOCKS, ignore_errors=True)
    return wanted


def check_free(folder: Path, overwrite: bool) -> None:
    """Refuse a folder that is a file, or that holds files unless `overwrite` is given."""
    if folder.exists() and not folder.is_dir():
        raise PolinferError(f"--out {folder} is a file; name a folder")
    if folder.is_dir() and any(folder.iterdir()) and not overwrite:
        raise PolinferError(f"--out {folder} holds files already; name another folder or add --overwrite")


def infer_in_folder(
    mdp: Problem,
    method: str | MethodConfig,
    folder: Path,
    *,
    seed: int = 0,
    seeds: int = 1,
    resume: bool = False,
    progress: Progress | None = None,
    **fields: Any,
) -> Posterior:
    """Infer with checkpoints in `folder`; with `resume`, go on from the last one, bit for bit."""
    request = resolve(mdp, method, **fields)
    chosen, config = request.method, request.config
    chosen.check(mdp, config, seed=seed, seeds=seeds)
    asked = describe_run(mdp, config, seed, seeds, request.reason)
    started = read_config(folder) if resume else asked
    if resume:
        _check_same(started, asked, chosen, folder)
    hold(folder, BLOCKS)
    if resume:
        # A run that was asked to stop has an answer and a checkpoint.
        if (folder / POLICY).exists() and not (folder / CHECKPOINT).exists():
            return load(folder, mdp)
    elif chosen.resumable:
        write_config(folder, mdp, asked)
    checkpoint = FolderCheckpoint(folder, started) if chosen.resumable else None
    with stopping() as stopper:
        posterior = run(mdp, request, seed=seed, seeds=seeds, progress=progress, checkpoint=checkpoint)
    hold(folder, BLOCKS)  # it may have been removed, and made anew for another run
    posterior.save(folder)
    if checkpoint is not None and not stopper.answered:
        checkpoint.remove()
    return posterior


def other_circumstances(folder: Path) -> str | None:
    """Say where a run was started on another machine or with other versions: its bits may then differ."""
    found, now = read_config(folder).made_by, made_by()
    changed = [
        f"{name} {found[name]}, now {now[name]}" for name in now if found.get(name, now[name]) != now[name]
    ]
    if not changed:
        return None
    return (
        f"the run was started with {'; '.join(changed)}: its last digits may differ from an undisturbed run's"
    )


def _check_same(found: RunConfig, asked: RunConfig, method: Method[Any], folder: Path) -> None:
    """Refuse to go on with other settings than the run was started with, naming the first that differs."""
    if found.method == method.name:
        # A field that the version which started the run did not have yet had its default.
        complete = method_config(found.method, found.config)
        found = msgspec.structs.replace(found, config=plain(complete.to_dict()))

    def compare(old: Any, new: Any, name: str) -> None:
        if isinstance(old, dict) and isinstance(new, dict):
            for key in old.keys() | new.keys():
                compare(old.get(key), new.get(key), key)
        elif old != new:
            raise PolinferError(
                f"{folder} was started with {name} {old!r}, not {new!r}; resume with the same settings"
            )

    for name in ("method", "config", "seed", "seeds", "problem"):
        compare(getattr(found, name), plain(getattr(asked, name)), name)
