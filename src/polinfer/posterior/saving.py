"""Posteriors on disk: ``config.json`` and ``policy.safetensors``, readable without running code from them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from polinfer.core.errors import PolinferError
from polinfer.core.files import (
    flatten_arrays,
    plain,
    read_arrays,
    read_json,
    unflatten_arrays,
    write_arrays,
    write_json,
)
from polinfer.core.protocol import MDP
from polinfer.exact.solution import PolicyPosterior
from polinfer.learning.fit import Config, initial_state, view_of
from polinfer.methods.inference import config_for
from polinfer.methods.registry import METHODS
from polinfer.posterior.posterior import Posterior
from polinfer.posterior.trace import AnyTrace, trace_type
from polinfer.problems.domains import GridWorld
from polinfer.problems.registry import Problem, make, spec_of
from polinfer.problems.tabular import TabularMDP, load_table, save_table, tabulate
from polinfer.smc.proposal import TableProposal

FORMAT = "polinfer posterior"
VERSION = 1
CONFIG, POLICY, TABLE = "config.json", "policy.safetensors", "problem.npz"


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
        return load_table(folder / described["table"])
    raise PolinferError(
        f"{folder}: the problem has no name to make it by; pass it: polinfer.load(folder, mdp=...)"
    )


def write_config(folder: Path, mdp: Problem, method: str, seeds: int, settings: dict[str, Any]) -> None:
    """Write ``config.json``, and the table where the problem is one without a name."""
    problem = describe_problem(mdp)
    if "table" in problem:
        assert isinstance(mdp, TabularMDP)
        save_table(mdp, folder / TABLE)
    write_json(
        folder / CONFIG,
        {
            "format": FORMAT,
            "version": VERSION,
            "method": method,
            "seeds": seeds,
            "problem": problem,
            "settings": settings,
        },
    )


def read_config(folder: Path) -> dict[str, Any]:
    """Read ``config.json`` and check that it is ours."""
    if not (folder / CONFIG).exists():
        raise PolinferError(f"{folder} holds no run ({CONFIG}: no such file); 'polinfer plan' makes one")
    config = read_json(folder / CONFIG)
    if config.get("format") != FORMAT:
        raise PolinferError(f"{folder / CONFIG}: not the configuration of a polinfer run")
    if config.get("version") != VERSION:
        raise PolinferError(
            f"{folder / CONFIG}: format version {config.get('version')!r}; "
            f"this polinfer reads version {VERSION}"
        )
    if config.get("method") not in METHODS or not isinstance(config.get("seeds"), int):
        raise PolinferError(f"{folder / CONFIG}: method or seeds are missing or unknown; the file is damaged")
    return config


def config_of(settings: dict[str, Any], method: str, source: Path | None = None) -> Config:
    """Return the training configuration in the settings of a run."""
    try:
        if method == "sac":
            return config_for(method, **settings["sac"])
        fields = dict(settings["train"])
        sweep = fields.pop("sweep")
        return config_for(method, **fields, **sweep)
    except (KeyError, TypeError) as error:
        where = "" if source is None else f"{source}: "
        raise PolinferError(f"{where}the training settings are incomplete ({error})") from None


def save(posterior: Posterior, folder: str | Path) -> None:
    """Write `posterior` into `folder`; `load` reads it back."""
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise PolinferError(f"{folder} is a file; name a folder")
    folder.mkdir(parents=True, exist_ok=True)
    arrays = flatten_arrays(posterior.proposal, "proposal") | flatten_arrays(
        posterior.trace._asdict(), "trace"
    )
    if posterior.policies is not None:
        arrays |= {
            f"policies.{name}": np.asarray(value)
            for name, value in vars(posterior.policies).items()
            if value is not None
        }
    write_arrays(folder / POLICY, arrays)
    write_config(folder, posterior.mdp, posterior.method, posterior.seeds, posterior.settings)


def load(folder: str | Path, mdp: Problem | None = None) -> Posterior:
    """Read a posterior that `save` (or a run of ``polinfer plan``) wrote.

    Parameters
    ----------
    folder
        The folder.
    mdp
        The problem, needed only where it was made neither by `polinfer.make` nor from a table.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise PolinferError(f"{folder}: no such folder")
    config = read_config(folder)
    arrays = read_arrays(folder / POLICY)
    method, seeds = config["method"], config["seeds"]
    problem = remake_problem(config["problem"], folder, mdp)
    source = folder / POLICY
    trace = read_trace(arrays, method, source)
    if method in ("exact", "tempered", "particles"):
        view: MDP = tabulate(problem)
        assert isinstance(view, TabularMDP)
        shape = (1, view.num_states, view.num_actions)
        template: Any = TableProposal(jnp.zeros(shape, jnp.float32))
        known = _policies_from(arrays, source)
    else:
        trained = config_of(config["settings"], method, folder / CONFIG)
        view = view_of(problem, trained).mdp
        start = initial_state(problem, trained, 0, seeds)
        template = start.learner.actor if method == "sac" else start.proposal
        known = None
    proposal = unflatten_arrays(template, arrays, "proposal", source)
    return Posterior(problem, view, method, proposal, seeds, config["settings"], trace, known)


def read_trace(arrays: dict[str, Any], method: str, source: Path) -> AnyTrace:
    """Return the trace that was saved with `flatten_arrays`."""
    kind = trace_type(method)
    missing = [f for f in kind._fields if f"trace['{f}']" not in arrays]
    if missing:
        raise PolinferError(f"{source}: trace {missing[0]!r} is missing; the file is damaged")
    return kind(*(arrays[f"trace['{f}']"] for f in kind._fields))


def _policies_from(arrays: dict[str, Any], source: Path) -> PolicyPosterior:
    fields: dict[str, Any] = {}
    for name in PolicyPosterior.__dataclass_fields__:
        array = arrays.get(f"policies.{name}")
        if array is None and name not in ("reach_policy", "sampled_policies", "policy_stderr"):
            raise PolinferError(f"{source}: {name!r} is missing; the file is damaged")
        fields[name] = array.item() if array is not None and array.ndim == 0 else array
    return PolicyPosterior(**fields)
