"""The schema of ``summary.json``: what pages and tables of a run count on, checked where it is read.

A field that is not here is kept as it is.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from polinfer.core.errors import PolinferError
from polinfer.core.files import as_record, read_json

Number = float | None  # null where it is not finite


class _Returns(msgspec.Struct):
    mean: float
    std: Number
    q05: Number
    q95: Number
    cvar05: Number
    cvar95: Number


class _Estimand(msgspec.Struct):
    target: str
    in_the_limit: bool
    sentence: str


class _TableError(msgspec.Struct):
    draws: int
    return_stderr: float
    log_evidence_stderr: float
    distance: float


class _Certificate(msgspec.Struct):
    estimand: _Estimand
    verdict: str
    reason: str
    remedy: str
    proven_lower: Number
    proven_upper: Number
    log_evidence_lower: Number
    log_evidence_upper: Number
    log_evidence_stderr: Number
    log_evidence_upper_stderr: Number
    ess: Number
    pareto_k: Number
    known_from: str | None
    distance: Number
    table_error: _TableError | None = None


class _Top(msgspec.Struct, kw_only=True):
    gain: Number = msgspec.field(name="return")


class _Posterior(msgspec.Struct):
    policies: Number
    log_evidence_stderr: Number
    expected_return: Number
    expected_return_stderr: Number
    effective_policies: Number
    top: list[_Top] = msgspec.field(default_factory=list)


class _Oracle(msgspec.Struct, kw_only=True):
    name: str
    distance: Number
    gain: Number = msgspec.field(name="return")


class _State(msgspec.Struct):
    state: str
    probs: list[float]
    occupancy: float


class _Finding(msgspec.Struct):
    sentence: str


class Summary(msgspec.Struct, kw_only=True):
    """The fields of ``summary.json`` that are read."""

    domain: str
    method: str
    options: dict[str, Any]
    config: dict[str, Any]
    seed: int
    seeds: int
    seconds: Number
    returns: _Returns = msgspec.field(name="return")
    return_std_over_seeds: Number
    mode: str
    episodes: int
    success: Number
    endings: dict[str, float]
    log_evidence: Number
    certificate: _Certificate
    diagnostics: list[_Finding]
    posterior: _Posterior | None = None
    oracle: _Oracle | None = None
    actions: list[str] = msgspec.field(default_factory=list)
    policy: list[_State] | None = None


def read_summary(path: Path) -> dict[str, Any]:
    """Read ``summary.json``, every field that is used checked; a wrong one is named."""
    record = read_json(path)
    checked = as_record(record, Summary, path)
    if checked.posterior is not None and not checked.posterior.top:
        raise PolinferError(f"{path}: 'posterior.top' is empty; the file is damaged")
    for row in checked.policy or ():
        if len(row.probs) != len(checked.actions):
            raise PolinferError(
                f"{path}: 'policy' has {len(row.probs)} probabilities for the actions of a state"
            )
    return record
