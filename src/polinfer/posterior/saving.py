"""Posteriors on disk: ``config.json`` and ``policy.safetensors``, readable without running code from them."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from polinfer.core.errors import PolinferError
from polinfer.core.files import (
    Arrays,
    as_record,
    flatten_arrays,
    plain,
    read_json,
    write_arrays,
    write_json,
)
from polinfer.posterior.config import MethodConfig
from polinfer.posterior.trace import Trace
from polinfer.problems.domains import GridWorld
from polinfer.problems.registry import Problem, make, spec_of
from polinfer.problems.tabular import TabularMDP, load_table, save_table
from polinfer.problems.terms import with_terms
from polinfer.problems.timed import TimedMDP

if TYPE_CHECKING:
    from polinfer.posterior.posterior import Posterior

FORMAT = "polinfer posterior"
VERSION = 2
CONFIG, POLICY, TABLE = "config.json", "policy.safetensors", "problem.npz"


class RunConfig(msgspec.Struct, forbid_unknown_fields=True):
    """The content of ``config.json``: what was asked."""

    format: str
    version: int
    polinfer: str
    method: str
    config: dict[str, Any]
    seed: int
    seeds: int
    problem: dict[str, Any]
    reason: str = ""


def describe_problem(mdp: Problem) -> dict[str, Any]:
    """Say how to make `mdp` again: by its name and options, or from a table that is saved beside."""
    spec = spec_of(mdp)
    if spec is not None and not any(callable(value) for value in spec.options.values()):
        options = dict(spec.options)
        if isinstance(mdp, GridWorld) and "map" in options:
            # The map itself: the file may be elsewhere, or another, when this is read.
            options["map"] = "\n".join(mdp.rows)
        return {"domain": spec.name, "options": plain(options)}
    if isinstance(mdp, TabularMDP):
        return {"table": TABLE, "digest": mdp.digest}
    if isinstance(mdp, TimedMDP) and isinstance(mdp.base, TabularMDP):
        return {"table": TABLE, "digest": mdp.base.digest, "policies": "time-dependent"}
    return {}


def remake_problem(described: dict[str, Any], folder: Path, mdp: Problem | None) -> Problem:
    """Make the problem that `describe_problem` wrote down; `mdp` wins where it is given."""
    if mdp is not None:
        known = describe_problem(mdp)
        if described and known and known != described:
            raise PolinferError(
                f"{folder}: this posterior was inferred for another problem than the one given"
            )
        return mdp
    if "domain" in described:
        made: Problem = make(described["domain"], **described["options"])
        return made
    if "table" in described:
        table: Problem = with_terms(
            load_table(folder / described["table"]), policies=described.get("policies", "stationary")
        )
        return table
    raise PolinferError(
        f"{folder}: the problem has no name to make it by; pass it: polinfer.load(folder, mdp=...)"
    )


def describe_run(mdp: Problem, config: MethodConfig, seed: int, seeds: int, reason: str = "") -> RunConfig:
    """Return what ``config.json`` says of a run."""
    return RunConfig(
        format=FORMAT,
        version=VERSION,
        polinfer=version("polinfer"),
        method=config.method,
        config=plain(config.to_dict()),
        seed=seed,
        seeds=seeds,
        problem=describe_problem(mdp),
        reason=reason,
    )


def write_config(folder: Path, mdp: Problem, run: RunConfig) -> None:
    """Write ``config.json``, and the table where the problem is one without a name."""
    if "table" in run.problem:
        table = mdp.base if isinstance(mdp, TimedMDP) else mdp
        assert isinstance(table, TabularMDP)
        save_table(table, folder / TABLE)
    write_json(folder / CONFIG, msgspec.to_builtins(run))


def read_config(folder: Path) -> RunConfig:
    """Read ``config.json`` and check that it is ours, and of a version that we read."""
    path = folder / CONFIG
    if not path.exists():
        raise PolinferError(f"{folder} holds no run ({CONFIG}: no such file); 'polinfer plan' makes one")
    found = read_json(path)
    if found.get("format") != FORMAT:
        raise PolinferError(f"{path}: not the configuration of a polinfer run")
    if found.get("version") != VERSION:
        raise PolinferError(
            f"{path}: format version {found.get('version')!r}, and this polinfer reads version {VERSION}; "
            "plan again, or read it with the polinfer that wrote it"
        )
    return as_record(found, RunConfig, path)


def save(posterior: Posterior, folder: str | Path) -> None:
    """Write `posterior` into `folder`; `polinfer.load` reads it back."""
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise PolinferError(f"{folder} is a file; name a folder")
    folder.mkdir(parents=True, exist_ok=True)
    arrays = flatten_arrays(posterior.proposal, "proposal") | trace_arrays(posterior.trace)
    if posterior.policies is not None:
        arrays |= {
            f"policies.{name}": np.asarray(value)
            for name, value in vars(posterior.policies).items()
            if value is not None
        }
    write_arrays(folder / POLICY, arrays)
    run = describe_run(posterior.mdp, posterior.config, posterior.seed, posterior.seeds, posterior.reason)
    write_config(folder, posterior.mdp, run)


def trace_arrays(trace: Trace) -> Arrays:
    """Return a trace as named arrays."""
    unit = np.frombuffer(trace.unit.encode(), np.uint8)
    columns = {f"trace.{name}": np.asarray(rows) for name, rows in trace.columns.items()}
    return {"trace:unit": unit, "trace:done": trace.done, **columns}


def read_trace(arrays: Arrays, source: Path) -> Trace:
    """Return the trace that `trace_arrays` wrote."""
    missing = [name for name in ("trace:unit", "trace:done") if name not in arrays]
    if missing:
        raise PolinferError(f"{source}: {missing[0]!r} is missing; the file is damaged")
    columns = {name[6:]: rows for name, rows in arrays.items() if name.startswith("trace.")}
    return Trace(arrays["trace:unit"].tobytes().decode(errors="replace"), arrays["trace:done"], columns)
