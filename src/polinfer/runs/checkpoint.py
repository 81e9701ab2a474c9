"""Snapshots in a run folder: written whole or not at all, and read back by name."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np

from polinfer.core.errors import PolinferError
from polinfer.core.files import Arrays, check_array, plain, read_arrays, write_arrays, write_atomically
from polinfer.posterior.checkpoint import Snapshot
from polinfer.posterior.saving import RunConfig, fingerprint, read_trace, trace_arrays
from polinfer.posterior.trace import Trace
from polinfer.runs.lock import hold

CHECKPOINT, METRICS, BLOCKS = "checkpoint.safetensors", "metrics.jsonl", "blocks"
_SUFFIX = ".safetensors"
_RUN = "run:"  # begins the names of what the run carries


class FolderCheckpoint:
    """The snapshots of one run, in its folder.

    Every file says which run it is of: what another run left, or damage, is noticed and not gone on from.
    """

    def __init__(self, folder: Path, run: RunConfig) -> None:
        self.folder = folder
        self.owner = fingerprint(run, settings=True)

    def read(self) -> Snapshot | None:
        """Return the last snapshot, None where there is none."""
        path = self.folder / CHECKPOINT
        if not path.exists():
            return None
        arrays = self._read(path)
        if "done" not in arrays:
            raise PolinferError(f"{path}: 'done' is missing; remove the file to start again")
        check_array(arrays["done"], "done", (), "iu", path)
        trace = read_trace(arrays, path) if "trace:done" in arrays else None
        found = {name[len(_RUN) :]: rows for name, rows in arrays.items() if name.startswith(_RUN)}
        return Snapshot(int(arrays["done"]), found, trace, self._blocks())

    def write(self, snapshot: Snapshot) -> None:
        """Keep a snapshot in place of the last one."""
        hold(self.folder, BLOCKS)
        if snapshot.trace is not None:
            self._write_metrics(snapshot.trace)
        # The blocks before the checkpoint that counts on them: killed in between, they are written again.
        for name, arrays in snapshot.blocks.items():
            write_arrays(self.folder / BLOCKS / (name + _SUFFIX), arrays, self.owner)
        trace = {} if snapshot.trace is None else trace_arrays(snapshot.trace)
        own = {_RUN + name: rows for name, rows in snapshot.arrays.items()}
        done = {"done": np.asarray(snapshot.done)}
        write_arrays(self.folder / CHECKPOINT, {**own, **trace, **done}, self.owner)
        if snapshot.kept is not None and (self.folder / BLOCKS).is_dir():
            for path in (self.folder / BLOCKS).iterdir():
                if path.name.removesuffix(_SUFFIX) not in snapshot.kept:
                    path.unlink()

    def remove(self) -> None:
        """Remove what a finished run needs no more."""
        (self.folder / CHECKPOINT).unlink(missing_ok=True)
        shutil.rmtree(self.folder / BLOCKS, ignore_errors=True)

    def _write_metrics(self, trace: Trace) -> None:
        rows = [
            json.dumps(
                plain({trace.unit: trace.done[i]} | {n: c[i] for n, c in sorted(trace.columns.items())})
            )
            for i in range(len(trace))
        ]
        text = "\n".join(rows) + "\n"
        write_atomically(self.folder / METRICS, lambda file: file.write(text.encode()))

    def _read(self, path: Path) -> Arrays:
        try:
            return read_arrays(path, self.owner, unowned=False)
        except PolinferError as error:
            raise PolinferError(f"{error}; start the run again (--overwrite)") from None

    def _blocks(self) -> dict[str, Arrays]:
        folder = self.folder / BLOCKS
        if not folder.is_dir():
            return {}
        return {
            path.name.removesuffix(_SUFFIX): self._read(path)
            for path in sorted(folder.iterdir())
            if path.name.endswith(_SUFFIX)
        }
