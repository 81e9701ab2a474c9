"""Snapshots in a run folder: written whole or not at all, and read back by name."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np

from polinfer.core.errors import PolinferError
from polinfer.core.files import Arrays, check_array, plain, read_arrays, write_arrays, write_atomically
from polinfer.posterior.checkpoint import Snapshot
from polinfer.posterior.saving import read_trace, trace_arrays
from polinfer.posterior.trace import Trace

CHECKPOINT, METRICS, BLOCKS = "checkpoint.safetensors", "metrics.jsonl", "blocks"
_SUFFIX = ".safetensors"
_RUN = "run:"  # begins the names of what the run carries


class FolderCheckpoint:
    """The snapshots of one run, in its folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read(self) -> Snapshot | None:
        """Return the last snapshot, None where there is none."""
        path = self.folder / CHECKPOINT
        if not path.exists():
            return None
        arrays = read_arrays(path)
        if "done" not in arrays:
            raise PolinferError(f"{path}: 'done' is missing; remove the file to start again")
        check_array(arrays["done"], "done", (), "iu", path)
        trace = read_trace(arrays, path) if "trace:done" in arrays else None
        found = {name[len(_RUN) :]: rows for name, rows in arrays.items() if name.startswith(_RUN)}
        return Snapshot(int(arrays["done"]), found, trace, self._blocks())

    def write(self, snapshot: Snapshot) -> None:
        """Keep a snapshot in place of the last one."""
        if snapshot.trace is not None:
            self._write_metrics(snapshot.trace)
        # The blocks before the checkpoint that counts on them: killed in between, they are written again.
        for name, arrays in snapshot.blocks.items():
            write_arrays(self.folder / BLOCKS / (name + _SUFFIX), arrays)
        trace = {} if snapshot.trace is None else trace_arrays(snapshot.trace)
        own = {_RUN + name: rows for name, rows in snapshot.arrays.items()}
        write_arrays(self.folder / CHECKPOINT, {**own, **trace, "done": np.asarray(snapshot.done)})
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

    def _blocks(self) -> dict[str, Arrays]:
        folder = self.folder / BLOCKS
        if not folder.is_dir():
            return {}
        return {
            path.name.removesuffix(_SUFFIX): read_arrays(path)
            for path in sorted(folder.iterdir())
            if path.name.endswith(_SUFFIX)
        }
