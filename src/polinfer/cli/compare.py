"""`polinfer compare`: the policy posterior beside its neighbours on one problem."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import tyro
from matplotlib.figure import Figure
from rich.markup import escape
from rich.table import Table

from polinfer.cli.figures import policy_figure
from polinfer.cli.output import (
    enumeration_progress,
    number,
    print_json,
    remarks,
    tables,
)
from polinfer.cli.problem import Problem
from polinfer.compare import Comparison, as_json, compare
from polinfer.exact.enumeration import DEFAULT_LIMIT
from polinfer.mdp import MDP
from polinfer.plots import PolicyPanel, save_figure
from polinfer.runs import check_free
from polinfer.storage import write_json


@dataclass(frozen=True)
class Compare:
    """Solve one problem by every exact method; print a table and draw the policies side by side.

    Example: polinfer compare gridworld/ablation --out runs/ablation
    """

    problem: tyro.conf.OmitArgPrefixes[Problem]
    alpha: float = 1.0
    """Entropy weight of the soft (entropy-regularised) policy."""
    risk: float = 1.0
    """Entropic risk parameter of the risk-seeking policy; the risk-averse one gets the negative."""
    limit: int = DEFAULT_LIMIT
    """The largest number of policies to enumerate for the posterior."""
    out: Path | None = None
    """Folder for the figure and the numbers; without it nothing is written."""
    overwrite: bool = False
    """Allow --out to be a folder that holds files."""
    json: bool = False
    """Print one JSON object on standard output, and nothing else."""
    debug: bool = False
    """Show the traceback of an error."""

    def run(self) -> None:
        """Solve, print, draw."""
        started = time.perf_counter()
        mdp = self.problem.make()
        folder = self.out
        if folder is not None:
            check_free(folder, self.overwrite)
        with enumeration_progress() as progress:
            result = compare(mdp, alpha=self.alpha, risk=self.risk, limit=self.limit, progress=progress)
        record = {
            "domain": self.problem.domain,
            "options": self.problem.options,
            "states": result.table.num_states,
            "horizon": result.table.horizon,
            "seconds": time.perf_counter() - started,
            **as_json(result),
        }
        if folder is not None:
            save_figure(comparison_figure(mdp, result), folder / "policies.png")
            write_json(folder / "comparison.json", record)
        if self.json:
            print_json(record)
            return
        tables().print(comparison_table(self.problem.domain, result))
        for note in result.notes:
            remarks().print(f"note: {note}", markup=False)
        if folder is not None:
            remarks().print(
                f"figure: {folder / 'policies.png'}   numbers: {folder / 'comparison.json'}", markup=False
            )


def comparison_table(domain: str, result: Comparison) -> Table:
    """Return the table that people read."""
    table = Table(
        title=f"{escape(domain)}: {result.table.num_states} states, horizon {result.table.horizon}",
        title_justify="left",
        caption="entropy: of the choices, nats per step; distance: total variation to the posterior-induced "
        "policy, weighted by occupancy",
        caption_justify="left",
    )
    table.add_column("method", min_width=10)
    for column in ("return", "std", "5%", "95%", "success", "entropy", "distance"):
        table.add_column(column, justify="right", no_wrap=True)
    for i, answer in enumerate(result.answers):
        table.add_row(
            answer.name,
            number(answer.returns.mean),
            number(answer.returns.std, 2),
            number(answer.returns.q05, 2),
            number(answer.returns.q95, 2),
            number(answer.value.success),
            number(answer.value.entropy),
            number(result.distance_to_posterior(i)),
        )
        posterior = answer.solution.posterior
        if posterior is not None:
            table.add_row(
                "  one policy per episode", number(posterior.expected_return), *(["–"] * 6), style="dim"
            )
    return table


def comparison_figure(mdp: MDP, result: Comparison) -> Figure:
    """Draw all policies: as maps on grids, as heat maps elsewhere."""
    shown = [answer for answer in result.answers if answer.name != "uniform"]
    return policy_figure(
        mdp,
        result.table,
        [PolicyPanel(answer.name, answer.solution.policy, answer.value.occupancy) for answer in shown],
    )
