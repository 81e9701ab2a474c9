"""Posteriors on disk: ``config.json`` and ``policy.safetensors``, readable without running code from them."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from polinfer.core.errors import PolinferError, shorten
from polinfer.core.files import (
    MOST_ARRAYS,
    Arrays,
    as_record,
    check_array,
    flatten_arrays,
    plain,
    read_json,
    read_regular,
    write_arrays,
    write_json,
)
from polinfer.core.protocol import EnumerableMDP
from polinfer.posterior.config import MethodConfig
from polinfer.posterior.trace import Trace
from polinfer.problems.domains import GridWorld
from polinfer.problems.registry import Problem, list_schemes, make, spec_of
from polinfer.problems.tabular import TabularMDP, load_table, save_table
from polinfer.problems.terms import with_terms
from polinfer.problems.timed import TimedMDP

if TYPE_CHECKING:
    from polinfer.posterior.posterior import Posterior

FORMAT = "polinfer posterior"
VERSION = 2
CONFIG, POLICY, TABLE = "config.json", "policy.safetensors", "problem.npz"
EXPLORED = "table.npz"  # what an estimated answer is on: another exploration would be another table


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
    made_by: dict[str, str] = msgspec.field(default_factory=dict)


def made_by() -> dict[str, str]:
    """Return what the last digits of an answer may depend on."""
    return {"jax": version("jax"), "machine": f"{platform.system()} {platform.machine()}"}


class DescribedProblem(msgspec.Struct):
    """The field ``problem`` of ``config.json``: a name with options, or a table in the same folder."""

    domain: str = ""
    options: dict[str, Any] = msgspec.field(default_factory=dict)
    table: str = ""
    digest: str = ""
    policies: str = ""


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


def remake_problem(
    described: dict[str, Any], folder: Path, mdp: Problem | None, code: Sequence[str] = ()
) -> Problem:
    """Make the problem that `describe_problem` wrote down; `mdp` wins where it is given.

    What the description names as code is run only where `code` names it, too.
    """
    source = folder / CONFIG
    if mdp is not None:
        known = describe_problem(mdp)
        if described and known and known != described:
            raise PolinferError(
                f"{folder}: this posterior was inferred for another problem than the one given"
            )
        return mdp
    wanted = as_record(described, DescribedProblem, f"{source}: problem")
    if wanted.domain:
        for name in named_code(wanted.domain, wanted.options):
            if name not in code:
                raise PolinferError(
                    f"{source}: the problem is code ({shorten(name)}), which a file cannot start; if you "
                    f"trust it, name it: --code {shorten(name)}, or polinfer.load(folder, mdp=...)"
                )
        try:
            made: Problem = make(wanted.domain, **wanted.options)
        except PolinferError as error:
            raise PolinferError(f"{source}: problem: {error}") from None
        except (TypeError, ValueError, OverflowError) as error:
            raise PolinferError(
                f"{source}: problem: an option has the wrong kind of value ({shorten(str(error))})"
            ) from None
        return made
    if wanted.table:
        if wanted.table != TABLE:
            raise PolinferError(
                f"{source}: problem: a table is kept in {TABLE}, not in {shorten(wanted.table)}"
            )
        path = folder / TABLE
        read_regular(path, inside=True, most=MOST_ARRAYS)
        table = load_table(path)
        if wanted.digest and table.digest != wanted.digest:
            raise PolinferError(f"{path}: not the table that this posterior was inferred for")
        if wanted.policies == "time-dependent":
            timed: Problem = with_terms(table, policies="time-dependent")
            return timed
        return table
    raise PolinferError(
        f"{folder}: the problem has no name to make it by; pass it: polinfer.load(folder, mdp=...)"
    )


def named_code(domain: str, options: Any) -> Iterator[str]:
    """Yield what names code to import: ``file.py:Class``, ``module:thing`` behind a scheme or in options."""
    scheme, colon, address = domain.partition(":")
    if colon and (scheme not in list_schemes() or ":" in address or ".py" in address):
        yield domain

    def inside(value: Any) -> Iterator[str]:
        if isinstance(value, str):
            if ":" in value:
                yield value
        elif isinstance(value, dict):
            for name, one in value.items():
                yield from inside(name)
                yield from inside(one)
        elif isinstance(value, list | tuple):
            for one in value:
                yield from inside(one)

    yield from inside(options)


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
        made_by=made_by(),
    )


def fingerprint(run: RunConfig, *, settings: bool) -> str:
    """Return what tells a run from others: its problem, method, seeds and, if wanted, its settings."""
    asked = [run.problem, run.method, run.seed, run.seeds, *([run.config] if settings else [])]
    return hashlib.blake2b(json.dumps(plain(asked), sort_keys=True).encode(), digest_size=16).hexdigest()


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
    if not path.exists() and not path.is_symlink():
        raise PolinferError(f"{folder} holds no run ({CONFIG}: no such file); 'polinfer plan' makes one")
    found = read_json(path)
    if found.get("format") != FORMAT:
        raise PolinferError(f"{path}: not the configuration of a polinfer run")
    if found.get("version") != VERSION:
        raise PolinferError(
            f"{path}: format version {shorten(repr(found.get('version')))}, and this polinfer reads version "
            f"{VERSION}; plan again, or read it with the polinfer that wrote it"
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
    run = describe_run(posterior.mdp, posterior.config, posterior.seed, posterior.seeds, posterior.reason)
    write_arrays(folder / POLICY, arrays, fingerprint(run, settings=False))
    view = posterior.view
    if (
        isinstance(view, TabularMDP)
        and view is not posterior.mdp
        and not isinstance(posterior.mdp, EnumerableMDP)
    ):
        save_table(view, folder / EXPLORED)
    write_config(folder, posterior.mdp, run)


def trace_arrays(trace: Trace) -> Arrays:
    """Return a trace as named arrays."""
    unit = np.frombuffer(trace.unit.encode(), np.uint8)
    columns = {f"trace.{name}": np.asarray(rows) for name, rows in trace.columns.items()}
    return {"trace:unit": unit, "trace:done": trace.done, **columns}


def read_trace(arrays: Arrays, source: Path, seeds: int | None = None) -> Trace:
    """Return the trace that `trace_arrays` wrote; its columns must have a row for each piece of the run."""
    missing = [name for name in ("trace:unit", "trace:done") if name not in arrays]
    if missing:
        raise PolinferError(f"{source}: {missing[0]!r} is missing; the file is damaged")
    unit, done = arrays["trace:unit"], arrays["trace:done"]
    check_array(unit, "trace:unit", (None,), "u", source)
    check_array(done, "trace:done", (None,), "i", source)
    columns = {name[6:]: rows for name, rows in arrays.items() if name.startswith("trace.")}
    for name, rows in columns.items():
        # NaN is a measurement that was not taken.
        check_array(rows, f"trace.{name}", (len(done), seeds), "f", source, finite=False)
    return Trace(unit.tobytes().decode(errors="replace"), done, columns)
