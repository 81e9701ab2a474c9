"""The pictures of a run, drawn from its results."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from polinfer.analysis.evaluation import Evaluation, merge_returns
from polinfer.exact import ReturnDistribution, return_distribution
from polinfer.exact.solution import Floats
from polinfer.plots import (
    PolicyPanel,
    advising_figure,
    by_cell,
    hit_margin,
    policy_map_figure,
    policy_table_figure,
    return_figure,
    save_figure,
    strategy_chart_figure,
    tireworld_figure,
    training_figure,
)
from polinfer.plots.certificate import evidence_figure
from polinfer.plots.graph import graph_figure, graph_of
from polinfer.plots.lattice import lattice_figure, lattice_of
from polinfer.posterior.posterior import Posterior
from polinfer.posterior.trace import Trace
from polinfer.problems.domains import Advising, Blackjack, GridWorld, Tireworld
from polinfer.problems.registry import Problem
from polinfer.problems.tabular.table import TabularMDP
from polinfer.problems.timed import Layers, layers_of

_ERRORS = 2.0  # standard errors that a beam on a map fades over
_STEPS = 12  # small multiples of a policy that looks at the step


def policy_figure(
    mdp: Problem, table: TabularMDP, panels: list[PolicyPanel], optimal: Collection[str] = ()
) -> Figure:
    """Draw policies given in table order: by the figure of their domain, or else as graphs or heat maps.

    A Blackjack chart shows the margins of the panels whose titles are `optimal`.  Policies that look at the
    step are drawn as small multiples: the first panel's, at some of the steps.
    """
    layers = layers_of(table)
    if layers is not None and panels:
        base = getattr(mdp, "base", None)
        by_step = step_panels(layers, panels[0])
        if isinstance(base, GridWorld):
            return policy_figure(base, layers.table, by_step)
        return policy_table_figure(layers.table, by_step)
    if isinstance(mdp, GridWorld):
        mapped = [
            PolicyPanel(p.title, by_cell(table, mdp, p.policy), by_cell(table, mdp, p.occupancy))
            for p in panels
        ]
        return policy_map_figure(mdp, mapped)
    if isinstance(mdp, Blackjack):
        margin = hit_margin(table)
        return strategy_chart_figure(
            mdp, table, panels, [margin if panel.title in optimal else None for panel in panels]
        )
    if isinstance(mdp, Tireworld):
        return tireworld_figure(mdp, table, panels)
    if isinstance(mdp, Advising):
        return advising_figure(mdp, table, panels)
    lattice = lattice_of(table)
    if lattice is not None:
        return lattice_figure(table, lattice, panels)
    graph = graph_of(table, panels)
    if graph is not None:
        return graph_figure(table, graph, panels)
    return policy_table_figure(table, panels)


def step_panels(layers: Layers, panel: PolicyPanel, most: int = _STEPS) -> list[PolicyPanel]:
    """Return one panel for each step, at most so many of them, evenly spaced; NaN where nobody can be."""
    policy = np.asarray(panel.policy, np.float64)
    policy = policy.reshape(-1, *policy.shape[-2:]).mean(axis=0)
    occupancy = np.asarray(panel.occupancy, np.float64)
    last = int(layers.step[~layers.table.absorbing[layers.state]].max(initial=0))
    last = min(last, layers.table.horizon - 1)
    panels = []
    for step in np.unique(np.linspace(0, last, min(most, last + 1)).round().astype(int)):
        own = layers.step == step
        rows = np.full((layers.table.num_states, policy.shape[1]), np.nan)
        visits = np.zeros(layers.table.num_states)
        rows[layers.state[own]], visits[layers.state[own]] = policy[own], occupancy[own]
        panels.append(PolicyPanel(f"step {step}", rows, visits))
    return panels


def with_errors(policy: Floats, stderr: Floats | None) -> Floats:
    """Return a policy ``[S, A]`` at some distances of up to two standard errors, ``[n, S, A]``, for a map.

    A map draws them over one another, so that a beam fades out from where it is certain to end to where it
    may end.
    """
    if stderr is None:
        return policy
    steps = np.linspace(-_ERRORS, _ERRORS, 9)[:, None, None]
    return np.asarray(np.clip(policy + steps * stderr, 0.0, 1.0))


def draw_run(
    posterior: Posterior, evaluation: Evaluation, record: dict[str, Any], folder: Path
) -> list[Path]:
    """Write the figures of a run into `folder`; return their paths.

    `record` is what `polinfer.analysis.summary.summarise` made of it.
    """
    figures: dict[str, Figure] = {}
    table, probs = posterior.view, posterior.table_probs()
    if isinstance(table, TabularMDP) and probs is not None and evaluation.occupancy is not None:
        occupancy = evaluation.occupancy.mean(axis=0)
        seeds = f", {posterior.seeds} seeds" if posterior.seeds > 1 else ""
        on_grid = isinstance(posterior.mdp, GridWorld)
        policy = (probs if on_grid else probs.mean(axis=0)).astype(np.float64)
        panels = [PolicyPanel(f"{posterior.method}{seeds}", policy, occupancy)]
        if posterior.policies is not None and posterior.policies.reach_policy is not None:
            marginal = probs.mean(axis=0).astype(np.float64)
            if on_grid:
                marginal = with_errors(marginal, posterior.policies.policy_stderr)
            panels = [
                PolicyPanel("marginal policy", marginal, occupancy),
                PolicyPanel("reach policy", posterior.policies.reach_policy, occupancy),
            ]
        figures["policy.png"] = policy_figure(posterior.mdp, table, panels)
    distribution = _returns_of(posterior, evaluation)
    if distribution is not None:
        figures["returns.png"] = return_figure({posterior.method: distribution})
    trace = posterior.trace
    if len(trace) > 1:
        figures["training.png"] = training_figure(_curves(trace), trace.done, trace.unit)
    evidence = evidence_figure(record)
    if evidence is not None:
        figures["certificate.png"] = evidence
    for name, figure in figures.items():
        save_figure(figure, folder / name)
    return [folder / name for name in figures]


_CURVES = {
    "episode_return": "return of an episode",
    "entropy": "entropy of the policy",
    "critic_loss": "loss of the critics",
    "alpha": "alpha",
    "log_evidence": "log Z-hat",
    "ess": "ESS / particles",
    "unique_ancestors": "unique ancestors / particles",
    "gradient_snr": "gradient signal / noise",
}
"""The columns of a trace that are drawn, with their titles."""


def _curves(trace: Trace) -> dict[str, NDArray[np.float32]]:
    return {title: trace[name].T for name, title in _CURVES.items() if name in trace}


def _returns_of(posterior: Posterior, evaluation: Evaluation) -> ReturnDistribution | None:
    if evaluation.returns is not None:
        values, counts = np.unique(merge_returns(evaluation.returns), return_counts=True)
        return ReturnDistribution(values.astype(np.float64), counts / counts.sum())
    probs = posterior.table_probs()
    if not isinstance(posterior.view, TabularMDP) or probs is None:
        return None
    policy = probs.mean(axis=0).astype(np.float64)
    return return_distribution(posterior.view, policy / policy.sum(axis=-1, keepdims=True))
