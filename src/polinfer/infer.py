"""`infer`: from a problem to a posterior over its policies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from polinfer import exact
from polinfer.errors import PolinferError, check_at_least, suggest
from polinfer.learning.proposal import TableProposal
from polinfer.learning.train import ChunkMetrics, TrainConfig, TrainState, make_trainer
from polinfer.learning.view import choose_view
from polinfer.mdp import MDP
from polinfer.methods import METHODS
from polinfer.posterior import Posterior, Trace, empty_trace
from polinfer.sweep.config import SweepConfig
from polinfer.tabular import tabulate
from polinfer.testing import check_shapes

CHUNKS = 100
"""A run reports, and can be resumed, this many times."""

Progress = Callable[[int, Trace], None]
"""Called with the number of sweeps done and the trace so far."""
Checkpoint = Callable[[int, TrainState, Trace], None]
"""Called with the number of updates done, the state to go on from and the trace so far."""


def infer(
    mdp: MDP,
    method: str = "vsmc",
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
        The problem.
    method
        ``vsmc`` (the paper's), ``svi`` (the same with one particle), ``iwae`` (without resampling) or
        ``exact``.
    seed
        The first seed.
    seeds
        How many seeds to run at once; they are one posterior with a seed axis.
    progress
        Called after each chunk of sweeps.
    **settings
        Fields of `polinfer.TrainConfig` and `polinfer.SweepConfig`: ``particles=10``, ``sweeps=50_000``,
        ``learning_rate=3e-4``, ...; for ``exact``: ``limit``, ``top`` and ``samples``.

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
    if method == "exact":
        if seeds != 1:
            raise PolinferError(f"method 'exact' has one answer; leave out seeds={seeds}")
        return infer_exact(mdp, **_only(settings, ("limit", "top", "samples")))
    config = train_config(method, **settings)
    return train(mdp, method, config, seed=seed, seeds=seeds, progress=progress)


def infer_exact(mdp: MDP, progress: Callable[[int, int], None] | None = None, **options: Any) -> Posterior:
    """Enumerate the posterior; see `polinfer.exact.policy_posterior`."""
    table = tabulate(mdp)
    solution = exact.policy_posterior(table, progress=progress, **options)
    rows = np.log(np.maximum(solution.policy, np.finfo(np.float64).tiny))
    proposal = TableProposal(jnp.asarray(rows[None], jnp.float32))
    return Posterior(mdp, table, "exact", proposal, 1, {"exact": options}, empty_trace(1), solution.posterior)


def train_config(method: str, **settings: Any) -> TrainConfig:
    """Return the configuration that `method` stands for, with some fields set by name."""
    sweep_fields = SweepConfig.__dataclass_fields__
    train_fields = {k: v for k, v in TrainConfig.__dataclass_fields__.items() if k != "sweep"}
    for name in settings:
        if name not in sweep_fields and name not in train_fields:
            known = [*sweep_fields, *train_fields]
            raise PolinferError(
                f"unknown setting {name!r}{suggest(name, known)}; there are {', '.join(known)}"
            )
    means: dict[str, dict[str, Any]] = {"svi": {"particles": 1}, "iwae": {"resample_below": 0.0}}
    forced = means.get(method, {})
    for name, value in forced.items():
        if settings.get(name, value) != value:
            raise PolinferError(f"method {method!r} means {name}={value}; leave {name} out or use vsmc")
    given = {**settings, **forced}
    sweep = SweepConfig(**{k: v for k, v in given.items() if k in sweep_fields})
    return TrainConfig(sweep=sweep, **{k: v for k, v in given.items() if k in train_fields})


def train(
    mdp: MDP,
    method: str,
    config: TrainConfig,
    *,
    seed: int = 0,
    seeds: int = 1,
    progress: Progress | None = None,
    checkpoint: Checkpoint | None = None,
    resume: tuple[int, TrainState, Trace] | None = None,
) -> Posterior:
    """Fit a proposal for each seed, in chunks; a run that is resumed ends as if it had not stopped."""
    check_request(mdp, seed, seeds)
    # Single precision, even in a program that has switched JAX to double.
    with jax.enable_x64(False):
        view = choose_view(mdp, config)
        trainer = make_trainer(view.mdp, config, view.by_table)
        done, state, trace = resume or (0, initial_state(mdp, config, seed, seeds), empty_trace(seeds))
        size = max(1, config.updates // CHUNKS)
        while done < config.updates:
            upto = min(done + size, config.updates)
            state, metrics = trainer.run(state, jnp.asarray(done, jnp.int32), jnp.asarray(upto, jnp.int32))
            done = upto
            _check_finite(metrics, seed)
            trace = _extend(trace, done * config.sweeps_per_update, metrics)
            if checkpoint is not None:
                checkpoint(done, state, trace)
            if progress is not None:
                progress(done * config.sweeps_per_update, trace)
        settings = {"train": asdict(config), "seed": seed}
        return Posterior(mdp, view.mdp, method, state.proposal, seeds, settings, trace)


def check_request(mdp: MDP, seed: int, seeds: int) -> None:
    """Refuse seeds and problems that training cannot start with."""
    check_at_least("seeds", seeds, 1)
    check_at_least("seed", seed, 0)
    if seed + seeds > 2**32:
        raise PolinferError(f"seeds must lie below 2**32, got {seed} and {seeds} of them")
    check_shapes(mdp)


def initial_state(mdp: MDP, config: TrainConfig, seed: int, seeds: int) -> TrainState:
    """Return the state that training starts from; seed i of a batch is the same as seed i alone."""
    view = choose_view(mdp, config)
    trainer = make_trainer(view.mdp, config, view.by_table)
    return trainer.init(range(seed, seed + seeds))


def _check_finite(metrics: ChunkMetrics, seed: int) -> None:
    bad = ~np.asarray(metrics.finite)
    if bad.any():
        raise PolinferError(
            f"seed {seed + int(np.argmax(bad))}: a reward or weight is not a finite number; "
            "check the simulator's rewards (polinfer.testing.check_mdp) and the reward scale"
        )


def _extend(trace: Trace, sweeps: int, metrics: ChunkMetrics) -> Trace:
    values = [np.asarray(getattr(metrics, name))[None] for name in Trace._fields[1:]]
    columns = [np.concatenate([old, new]) for old, new in zip(trace[1:], values, strict=True)]
    return Trace(np.append(trace.sweeps, sweeps), *columns)


def _only(settings: dict[str, Any], known: tuple[str, ...]) -> dict[str, Any]:
    for name in settings:
        if name not in known:
            raise PolinferError(
                f"method 'exact' has no setting {name!r}{suggest(name, known)}; it has {', '.join(known)}"
            )
    return settings
