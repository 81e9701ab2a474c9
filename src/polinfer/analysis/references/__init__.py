"""Reference posteriors of the paper's table-sized problems, from long tempered runs.

The files in ``data`` were made by ``python -m polinfer.analysis.references`` and hold, for each reward scale,
the marginal policy with standard errors, the reach policy, ``log Z`` and ``E[J]``.
"""

from __future__ import annotations

import json
from functools import lru_cache
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np
import safetensors.numpy

from polinfer.exact.solution import Floats
from polinfer.problems.registry import Problem, spec_of

INDEX = "index.json"


class Reference(NamedTuple):
    """The posterior of one problem at one reward scale."""

    domain: str
    scale: float
    log_evidence: float
    log_evidence_stderr: float
    expected_return: float  # in the rewards of this scale
    expected_return_stderr: float
    entropy: float
    policy: Floats  # [S, A]
    policy_stderr: Floats  # [S, A]
    reach_policy: Floats  # [S, A]


def reference_for(mdp: Problem) -> Reference | None:
    """Return the reference posterior of a problem that `make` made; None where there is none.

    Examples
    --------
    >>> import polinfer
    >>> found = reference_for(polinfer.make("gridworld/multimodal"))
    >>> found.policy.shape, found.policy_stderr.max() < 0.01
    ((16, 4), np.True_)
    >>> reference_for(polinfer.make("gridworld/multimodal", horizon=7)) is None
    True
    """
    spec = spec_of(mdp)
    if spec is None:
        return None
    options = dict(spec.options)
    scale = float(options.pop("reward_scale", 1.0))
    for entry in _index():
        if entry["domain"] == spec.name and entry["options"] == options and scale in entry["scales"]:
            return _read(entry, entry["scales"].index(scale))
    return None


def list_references() -> list[dict[str, Any]]:
    """Return what there is: domain, options, scales, and the settings of the run behind it."""
    return [dict(entry) for entry in _index()]


@lru_cache(maxsize=1)
def _index() -> list[dict[str, Any]]:
    path = files("polinfer.analysis.references").joinpath("data", INDEX)
    if not path.is_file():
        return []
    found: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    return found


@lru_cache(maxsize=64)
def _arrays(name: str) -> dict[str, Any]:
    content = files("polinfer.analysis.references").joinpath("data", name).read_bytes()
    arrays: dict[str, Any] = safetensors.numpy.load(content)
    return arrays


def _read(entry: dict[str, Any], index: int) -> Reference:
    arrays = _arrays(entry["file"])
    values: dict[str, Any] = {"domain": entry["domain"], "scale": entry["scales"][index]}
    for name in (name for name in Reference._fields if name in arrays):
        value = arrays[name][index].astype(np.float64)
        values[name] = float(value) if value.ndim == 0 else value
    return Reference(**values)
