"""`infer`: from a problem to a posterior over its policies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import Any

import jax.numpy as jnp
import numpy as np

from polinfer import exact
from polinfer.actor_critic.config import sac_config
from polinfer.annealing import TemperedConfig, rollout_posterior, temper
from polinfer.core.errors import PolinferError, suggest
from polinfer.core.protocol import MDP
from polinfer.exact.joint import describe_sample
from polinfer.learning.config import TrainConfig
from polinfer.learning.fit import Config, Progress, train
from polinfer.methods.registry import METHODS
from polinfer.posterior.posterior import Posterior
from polinfer.posterior.trace import empty_trace
from polinfer.problems.registry import Problem
from polinfer.problems.tables import shared_table, table_of
from polinfer.smc.config import SweepConfig
from polinfer.smc.particles import ParticleConfig, particle_posterior
from polinfer.smc.proposal import TableProposal


def infer(
    mdp: Problem,
    method: str = "wake",
    *,
    seed: int = 0,
    seeds: int = 1,
    progress: Progress | None = None,
    **settings: Any,
) -> Posterior:
    """Infer the posterior over deterministic policies of `mdp`.

    Parameters
    ----------
    mdp
        The problem: a JAX MDP, or a simulator in plain Python (for the methods that sweep).
    method
        ``wake`` (fit to the weighted policies of sweeps), ``vsmc`` (the paper's), ``svi`` (the same with one
        particle), ``iwae`` (without resampling), ``tempered`` and ``particles`` (samples of whole
        policies), or ``exact``; or the baseline ``sac``, discrete soft actor-critic.
    seed
        The first seed.
    seeds
        How many seeds to run at once; they are one posterior with a seed axis.
    progress
        Called after each chunk of sweeps, or segment of steps.
    **settings
        Fields of `polinfer.TrainConfig` and `polinfer.SweepConfig`: ``particles=10``, ``sweeps=50_000``,
        ``learning_rate=3e-4``, ...; for ``exact``: ``limit``, ``top`` and ``samples``; for ``tempered``:
        ``policies``, ``islands``, ``rollouts``, ...; for ``particles``: ``sweeps`` and the fields of
        `SweepConfig`; for ``sac``: ``preset`` and the fields of `polinfer.SacConfig`: ``alpha=1.0``,
        ``gamma=0.99``, ...

    Examples
    --------
    >>> import polinfer
    >>> posterior = polinfer.infer(polinfer.make("continuation", rho=0.5), method="exact")
    >>> [f"{p:.3f}" for p in posterior.action_probs(0)]
    ['0.269', '0.731']
    """
    if method not in METHODS:
        raise PolinferError(
            f"unknown method {method!r}{suggest(method, METHODS)}; there are {', '.join(METHODS)}"
        )
    if method in ("exact", "tempered", "particles") and seeds != 1:
        raise PolinferError(f"method {method!r} has one answer; leave out seeds={seeds}")
    if method == "exact":
        return infer_exact(mdp, **_only(settings, ("limit", "top", "samples")))
    if method in ("tempered", "particles"):
        return infer_sampled(mdp, method, sampling_config(method, **settings), seed=seed)
    config = config_for(method, method == "wake" and has_table(mdp), **settings)
    return train(mdp, method, config, seed=seed, seeds=seeds, progress=progress)


def config_for(method: str, on_table: bool = False, /, **settings: Any) -> Config:
    """Return the checked configuration of a method that trains, with some fields set by name."""
    return sac_config(**settings) if method == "sac" else train_config(method, on_table, **settings)


def has_table(mdp: Problem) -> bool:
    """Return whether `mdp` is small enough for a table."""
    return isinstance(mdp, MDP) and table_of(mdp) is not None


def infer_exact(
    mdp: Problem, progress: Callable[[int, int], None] | None = None, **options: Any
) -> Posterior:
    """Enumerate the posterior; see `polinfer.exact.policy_posterior`."""
    table = shared_table(mdp)
    solution = exact.policy_posterior(table, progress=progress, **options)
    rows = np.log(np.maximum(solution.policy, np.finfo(np.float64).tiny))
    proposal = TableProposal(jnp.asarray(rows[None], jnp.float32))
    return Posterior(mdp, table, "exact", proposal, 1, {"exact": options}, empty_trace(1), solution.posterior)


_MEANS: dict[str, dict[str, Any]] = {
    "svi": {"particles": 1},
    "iwae": {"resample_below": 0.0},
    "wake": {"objective": "wake"},
}
_EXACT: dict[str, Any] = {"weights": "exact", "particles": 200, "worlds": 1, "resample_below": 0.0}
"""Of wake on tables.  Worlds would only guide the resampling, which loses policies that are paid late."""
_DEFAULTS: dict[str, dict[str, Any]] = {
    "wake": {
        "particles": 100,
        "worlds": 50,
        "sweeps": 1_000,
        "learning_rate": 5e-3,
        "final_rate_share": 0.02,
    },
}


SamplingConfig = TemperedConfig | ParticleConfig


def sampling_config(method: str, **settings: Any) -> SamplingConfig:
    """Return the checked settings of a method that samples whole policies."""
    if method == "tempered":
        known = [name for name in TemperedConfig.__dataclass_fields__ if name != "scales"]
        return TemperedConfig(**_only(settings, known, method))
    sweep = list(SweepConfig.__dataclass_fields__)
    _only(settings, [*sweep, "sweeps", "weights"], method)
    default = ParticleConfig()
    # Who speaks of worlds wants to be judged by them.
    if settings.get("weights", "worlds" if "worlds" in settings else "exact") == "worlds":
        default = ParticleConfig(SweepConfig(particles=500, worlds=200), weights="worlds")
    chosen = replace(default.sweep, **{k: v for k, v in settings.items() if k in sweep})
    return replace(default, sweep=chosen, **{k: v for k, v in settings.items() if k not in sweep})


def infer_sampled(
    mdp: Problem,
    method: str,
    config: SamplingConfig,
    *,
    seed: int = 0,
    progress: Callable[[float, float], None] | None = None,
) -> Posterior:
    """Sample whole policies; see `polinfer.annealing` and `polinfer.smc.particles`."""
    rollouts = isinstance(config, TemperedConfig) and config.rollouts is not None
    try:
        table = shared_table(mdp)
    except PolinferError as error:
        if not rollouts:
            raise
        raise PolinferError(
            f"{error}; without a table, polinfer.annealing.pseudo_marginal gives marginals of visited states"
        ) from None
    if isinstance(config, TemperedConfig) and config.rollouts is not None:
        policy, whole = rollout_posterior(table, config, seed=seed, progress=progress)
    elif isinstance(config, TemperedConfig):
        point = temper(table, config, seed=seed, progress=progress).points[-1]
        policy = point.policy
        whole = describe_sample(
            table,
            point.sample,
            point.sample_returns,
            log_evidence=point.log_evidence,
            log_evidence_stderr=point.log_evidence_stderr,
            expected_return=point.expected_return,
            expected_return_stderr=point.expected_return_stderr,
            policy_stderr=point.policy_stderr,
            reach_policy=point.reach_policy,
            seed=seed,
        )
    else:
        policy, whole, _ = particle_posterior(table, config, seed=seed, progress=progress)
    rows = np.log(np.maximum(policy, np.finfo(np.float64).tiny))
    proposal = TableProposal(jnp.asarray(rows[None], jnp.float32))
    settings = {method: asdict(config), "seed": seed}
    return Posterior(mdp, table, method, proposal, 1, settings, empty_trace(1), whole)


def train_config(method: str, on_table: bool = False, /, **settings: Any) -> TrainConfig:
    """Return the configuration that `method` stands for, with some fields set by name.

    On a table, ``wake`` weighs policies exactly unless the settings speak of weights or worlds, or of a mix
    with the surrogate, which is judged by worlds.
    """
    sweep_fields = SweepConfig.__dataclass_fields__
    train_fields = {k: v for k, v in TrainConfig.__dataclass_fields__.items() if k != "sweep"}
    for name in settings:
        if name not in sweep_fields and name not in train_fields:
            known = [*sweep_fields, *train_fields]
            raise PolinferError(
                f"unknown setting {name!r}{suggest(name, known)}; there are {', '.join(known)}"
            )
    forced = _MEANS.get(method, {})
    for name, value in forced.items():
        if settings.get(name, value) != value:
            raise PolinferError(f"method {method!r} means {name}={value}; leave {name} out or use vsmc")
    by_worlds = {"weights", "worlds"} & settings.keys() or settings.get("surrogate_share")
    exactly = _EXACT if on_table and method == "wake" and not by_worlds else {}
    given = {**_DEFAULTS.get(method, {}), **exactly, **settings, **forced}
    sweep = SweepConfig(**{k: v for k, v in given.items() if k in sweep_fields})
    return TrainConfig(sweep=sweep, **{k: v for k, v in given.items() if k in train_fields})


def _only(settings: dict[str, Any], known: Sequence[str], method: str = "exact") -> dict[str, Any]:
    for name in settings:
        if name not in known:
            raise PolinferError(
                f"method {method!r} has no setting {name!r}{suggest(name, known)}; it has {', '.join(known)}"
            )
    return settings
