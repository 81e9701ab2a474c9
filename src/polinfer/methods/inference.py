"""`infer`, the front door: from a problem to a posterior over its policies."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from typing import Any, NamedTuple

from polinfer.core.errors import PolinferError
from polinfer.core.progress import Progress, watching
from polinfer.core.progress_bar import progress_bar
from polinfer.core.stopping import stopping
from polinfer.methods.base import Method
from polinfer.methods.registry import make_config, method_named
from polinfer.posterior.checkpoint import Checkpoint
from polinfer.posterior.config import MethodConfig
from polinfer.posterior.posterior import Posterior
from polinfer.problems.registry import Problem
from polinfer.problems.tabular.exploration.given import as_problem

DEFAULT_METHOD = "auto"


def infer(
    problem: Problem,
    method: str | MethodConfig = DEFAULT_METHOD,
    *,
    seed: int = 0,
    seeds: int = 1,
    progress: Progress | bool | None = None,
    checkpoint: Checkpoint | None = None,
    time_limit: float | None = None,
    **fields: Any,
) -> Posterior:
    """Infer the posterior over deterministic policies of `problem`.

    Parameters
    ----------
    problem
        A JAX MDP, a table, a simulator in plain Python, or a Gymnasium environment; `polinfer list` says what
        each method needs.
    method
        A name from `polinfer list`, or a method's configuration, such as ``WakeConfig(sweeps=500)``.
    seed
        The first seed.
    seeds
        How many seeds to run at once, where the method can; they are one posterior with a seed axis.
    progress
        Called with a `polinfer.Report` now and then; True shows a bar, in a terminal or in a notebook.
    checkpoint
        Where snapshots are kept, so that a run can be stopped and resumed; `polinfer.runs` has one for
        folders.
    time_limit
        Seconds after which the method ends with the best answer that it has; `Posterior.reason` says so.  It
        looks at the clock between two steps, so it takes a little longer.
    **fields
        Fields of the method's configuration, where `method` is a name: ``particles=10``, ...

    Examples
    --------
    >>> import polinfer
    >>> posterior = polinfer.infer(polinfer.make("continuation", rho=0.5), method="exact")
    >>> [f"{p:.3f}" for p in posterior.action_probs(0)]
    ['0.269', '0.731']
    """
    problem = as_problem(problem)
    with stopping(time_limit), ExitStack() as stack:
        if isinstance(progress, bool):
            progress = stack.enter_context(progress_bar(seeds)) if progress else None
        with watching(progress):
            request = resolve(problem, method, **fields)
            request.method.check(problem, request.config, seed=seed, seeds=seeds)
        return run(problem, request, seed=seed, seeds=seeds, progress=progress, checkpoint=checkpoint)


class Request(NamedTuple):
    """A method and its configuration for a problem, every default filled in."""

    method: Method[Any]
    config: MethodConfig
    reason: str = ""  # why the method was chosen, where the user named none


def resolve(problem: Problem, method: str | MethodConfig, **fields: Any) -> Request:
    """Return what to run: the method that is named, or the one that it hands the problem on to."""
    if isinstance(method, MethodConfig):
        if fields:
            raise PolinferError(
                f"{type(method).__name__} is a whole configuration; set {next(iter(fields))!r} in it"
            )
        chosen, config = method_named(method.method), method
    else:
        chosen = method_named(method)
        config = make_config(chosen, fields)
    handed_on = chosen.delegate(problem, config)
    if handed_on is not None:
        return resolve(problem, handed_on.config)._replace(reason=handed_on.reason)
    return Request(chosen, chosen.complete(problem, config))


def run(
    problem: Problem,
    request: Request,
    *,
    seed: int,
    seeds: int,
    progress: Progress | None = None,
    checkpoint: Checkpoint | None = None,
) -> Posterior:
    """Run a request that was checked."""
    with stopping() as stopper:
        found = request.method.run(
            problem, request.config, seed=seed, seeds=seeds, progress=progress, checkpoint=checkpoint
        )
    reasons = [request.reason, found.reason]
    if stopper.answered:
        reasons.append(f"stopped early by {stopper.answered}, after {stopper.elapsed:.0f} s")
    return replace(found, reason="; ".join(filter(None, reasons)))
