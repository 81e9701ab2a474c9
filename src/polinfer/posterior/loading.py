"""Reading posteriors back from disk; `polinfer.load` is the front of this."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax.numpy as jnp

from polinfer.core.errors import PolinferError
from polinfer.core.files import MOST_ARRAYS, Arrays, read_arrays, read_regular, unflatten_arrays
from polinfer.core.protocol import MDP
from polinfer.posterior.config import MethodConfig
from polinfer.posterior.intact import check_proposal, check_seeds, read_policies
from polinfer.posterior.posterior import Posterior
from polinfer.posterior.saving import (
    CONFIG,
    EXPLORED,
    POLICY,
    fingerprint,
    read_config,
    read_trace,
    remake_problem,
)
from polinfer.problems.encoded import EncodedView
from polinfer.problems.registry import Problem
from polinfer.problems.tables import shared_table, table_of
from polinfer.problems.tabular import load_table
from polinfer.problems.tabular.exploration.host import with_known_states
from polinfer.smc.proposal import Layer, NetworkProposal, Proposal, ShiftedProposal, TableProposal

ConfigOf = Callable[[str, dict[str, Any]], MethodConfig]
"""From a method's name and its fields as they were written to its configuration."""


def read_posterior(
    folder: Path, config_of: ConfigOf, mdp: Problem | None = None, code: Sequence[str] = ()
) -> Posterior:
    """Read a posterior that `save` wrote; `config_of` knows the methods.

    Everything is checked against the problem and the configuration: what is returned can be computed with.
    """
    if not folder.is_dir():
        raise PolinferError(f"{folder}: {'a file, not a folder' if folder.exists() else 'no such folder'}")
    run = read_config(folder)
    source = folder / POLICY
    if not source.exists() and not source.is_symlink():
        raise PolinferError(
            f"{folder}: no answer yet ({POLICY}: no such file); 'polinfer plan --resume' goes on"
        )
    try:
        config = config_of(run.method, run.config)
    except PolinferError as error:
        raise PolinferError(f"{folder / CONFIG}: {error}") from None
    check_seeds(run.seed, run.seeds, folder / CONFIG)
    problem = remake_problem(run.problem, folder, mdp, code)
    arrays = read_arrays(source, fingerprint(run, settings=False))
    template = _proposal_template(arrays, source)
    view = _view_of(problem, template, folder / EXPLORED)
    check_proposal(template, view, run.seeds, source)
    proposal = unflatten_arrays(template, arrays, "proposal", source)
    trace = read_trace(arrays, source, run.seeds)
    known = None
    if any(name.startswith("policies.") for name in arrays):
        known = read_policies(arrays, view, source)
    return Posterior(problem, view, config, proposal, run.seeds, run.seed, trace, known, run.reason)


def _view_of(problem: Problem, proposal: Proposal, kept: Path) -> MDP:
    """Return the form of a problem that its policy was found on: a table that was explored is `kept`."""
    if isinstance(proposal, TableProposal | ShiftedProposal):
        if not kept.exists() and not kept.is_symlink():
            return shared_table(problem)
        read_regular(kept, inside=True, most=MOST_ARRAYS)  # refuses a link out of the folder
        return with_known_states(problem, load_table(kept))
    if not isinstance(problem, MDP):
        return EncodedView(problem)
    return table_of(problem) or problem


def _proposal_template(arrays: Arrays, source: Path) -> Proposal:
    """Return an empty proposal of the kind and sizes that the arrays have."""
    if "proposal.rows" in arrays:
        return TableProposal(jnp.asarray(arrays["proposal.rows"]))
    if "proposal.shift" in arrays:
        shift = jnp.asarray(arrays["proposal.shift"])
        return ShiftedProposal(_network_template(arrays, "proposal.network", source), shift)
    return _network_template(arrays, "proposal", source)


def _network_template(arrays: Arrays, prefix: str, source: Path) -> NetworkProposal:
    layer = re.compile(rf"{re.escape(prefix)}\.layers\[(\d+)\]\.weight")
    numbers = sorted(int(found[1]) for found in map(layer.fullmatch, arrays) if found)
    if not numbers or numbers != list(range(len(numbers))):
        raise PolinferError(f"{source}: the policy is missing; the file is damaged")
    layers = []
    for number in numbers:
        weight = arrays[f"{prefix}.layers[{number}].weight"]
        bias = arrays.get(f"{prefix}.layers[{number}].bias")
        if bias is None or weight.ndim != 3 or bias.shape != weight.shape[:2]:
            raise PolinferError(f"{source}: layer {number} of the policy is damaged")
        layers.append(Layer(jnp.asarray(weight), jnp.asarray(bias)))
    return NetworkProposal(tuple(layers))
