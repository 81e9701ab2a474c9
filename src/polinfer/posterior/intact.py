"""Whether the arrays of a saved answer fit its problem: shape, type, finite numbers, legality, sums."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np

from polinfer.core.errors import PolinferError
from polinfer.core.files import Arrays, check_array
from polinfer.core.protocol import MDP
from polinfer.exact.solution import PolicyPosterior
from polinfer.problems.encoded import EncodedView
from polinfer.problems.tabular.table import TabularMDP
from polinfer.smc.proposal import NetworkProposal, Proposal, ShiftedProposal, TableProposal

MOST_SEEDS = 1_000_000
_MOST_CHAINS = 1_000_000
_OPTIONAL = (
    "reach_policy",
    "sampled_policies",
    "policy_stderr",
    "chains",
    "reverse_log_evidence",
    "reverse_log_evidence_stderr",
)


def check_seeds(seed: int, seeds: int, source: Path) -> None:
    """Refuse seeds that no run can have had."""
    if not 0 <= seed < 2**63 or not 1 <= seeds <= MOST_SEEDS:
        raise PolinferError(f"{source}: seed {seed} and seeds {seeds} are not those of a run")


def check_proposal(proposal: Proposal, view: MDP, seeds: int, source: Path) -> None:
    """Refuse a proposal that does not fit the problem, by the name of its array."""
    actions = view.num_actions
    if isinstance(proposal, TableProposal | ShiftedProposal):
        name, rows = (
            ("rows", proposal.rows) if isinstance(proposal, TableProposal) else ("shift", proposal.shift)
        )
        if not isinstance(view, TabularMDP):
            raise PolinferError(f"{source}: the policy is a table, but the problem has none")
        logits = np.asarray(rows)
        check_array(logits, f"proposal.{name}", (seeds, view.num_states, actions), "f", source)
    if isinstance(proposal, ShiftedProposal):
        _check_network(proposal.network, "proposal.network", _features(view), actions, seeds, source)
    elif isinstance(proposal, NetworkProposal):
        _check_network(proposal, "proposal", _features(view), actions, seeds, source)


def _check_network(
    network: NetworkProposal, prefix: str, features: int, actions: int, seeds: int, source: Path
) -> None:
    inputs = features
    for number, layer in enumerate(network.layers):
        last = number + 1 == len(network.layers)
        outputs = actions if last else int(layer.weight.shape[1])
        name = f"{prefix}.layers[{number}]"
        check_array(np.asarray(layer.weight), f"{name}.weight", (seeds, outputs, inputs), "f", source)
        check_array(np.asarray(layer.bias), f"{name}.bias", (seeds, outputs), "f", source)
        inputs = outputs


def _features(view: MDP) -> int:
    """Return the length of a problem's encoding, without computing one."""
    if isinstance(view, EncodedView):
        return view.num_features
    state = jax.eval_shape(view.init, jax.random.key(0))
    return int(jax.eval_shape(view.encode, state).shape[0])


def read_policies(arrays: Arrays, view: MDP, source: Path) -> PolicyPosterior:
    """Return what a file tells of whole policies, checked against the table that they are policies of."""
    if not isinstance(view, TabularMDP):
        raise PolinferError(f"{source}: whole policies are known of tables only; the file is damaged")
    fields: dict[str, Any] = {}
    for name in PolicyPosterior.__dataclass_fields__:
        array = arrays.get(f"policies.{name}")
        if array is None and name not in _OPTIONAL:
            raise PolinferError(f"{source}: 'policies.{name}' is missing; the file is damaged")
        if array is not None:
            _check_field(array, name, view, source)
        fields[name] = array.item() if array is not None and array.ndim == 0 else array
    fields["chains"] = fields["chains"] or 1  # not written before 0.3
    if fields["sampled_policies"] is not None and len(fields["sampled_policies"]) % fields["chains"]:
        raise PolinferError(f"{source}: 'policies.chains' does not divide the policies drawn")
    for name in ("top_probabilities", "top_returns"):
        if len(fields[name]) != len(fields["top_policies"]):
            raise PolinferError(
                f"{source}: 'policies.{name}' has another length than 'policies.top_policies'"
            )
    if fields["num_policies"] < 1 or (fields["top_probabilities"] < 0).any():
        raise PolinferError(f"{source}: 'policies' holds a count or a probability below its least")
    return PolicyPosterior(**fields)


def _check_field(array: np.ndarray[Any, Any], name: str, table: TabularMDP, source: Path) -> None:
    states, actions = table.num_states, table.num_actions
    shown = f"policies.{name}"
    if name in ("top_policies", "sampled_policies"):
        check_array(array, shown, (None, states), "iu", source)
        if len(array) == 0:
            raise PolinferError(f"{source}: {shown!r} is empty; the file is damaged")
        outside = (array < 0) | (array >= actions)
        acting = ~table.absorbing
        legal = table.legal_actions[np.arange(states), np.where(outside, 0, array)]
        if outside.any() or not legal[:, acting].all():
            raise PolinferError(f"{source}: {shown!r} holds an action that is not legal in its state")
    elif name in ("reach_policy", "policy_stderr"):
        check_array(array, shown, (states, actions), "f", source)
        if (array < 0).any() or (name == "reach_policy" and not _sums_to_one(array[~table.absorbing])):
            raise PolinferError(f"{source}: {shown!r} holds no probabilities; the file is damaged")
    elif name in ("top_probabilities", "top_returns"):
        check_array(array, shown, (None,), "f", source)
    else:
        # The number of policies may be too large for a float, and an error unknown: infinity stands for both.
        if name == "chains":
            check_array(array, shown, (), "iu", source)
            if not 1 <= int(array) <= _MOST_CHAINS:
                raise PolinferError(f"{source}: {shown!r} is no number of populations")
            return
        unbounded = name == "num_policies" or name.endswith("stderr")
        check_array(array, shown, (), "fiu", source, finite=not unbounded)


def _sums_to_one(rows: np.ndarray[Any, Any]) -> bool:
    return bool(np.all(np.abs(rows.sum(axis=-1) - 1) < 1e-3))
