"""`polinfer compare`: the policy posterior beside its neighbours on one problem."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import tyro
from matplotlib.figure import Figure
from rich import box
from rich.markup import escape
from rich.table import Table

from polinfer.analysis.comparison import Comparison, as_json, check_risk, compare
from polinfer.analysis.reward_scale import scale_record
from polinfer.cli.output import OutputFlags, print_json, progress_bar, remarks, tables
from polinfer.cli.problem_flags import ProblemFlags
from polinfer.core.absorbing import Absorbing
from polinfer.core.files import write_json
from polinfer.core.formatting import number
from polinfer.core.progress import Report
from polinfer.exact.enumeration import DEFAULT_LIMIT
from polinfer.methods import MethodConfig, SacConfig, VsmcConfig, WakeConfig, infer
from polinfer.plots import PolicyPanel, save_figure
from polinfer.plots.run import policy_figure
from polinfer.posterior.posterior import Posterior
from polinfer.problems.registry import Problem
from polinfer.problems.tables import TABLE_LIMIT, shared_table
from polinfer.runs.folder import check_free


@dataclass(frozen=True)
class Compare(OutputFlags):
    """Solve one problem by every exact method, with wake, VSMC and SAC beside; print a table and draw maps.

    The exact methods take seconds; the three others are trained, by default for a moderate budget.  All
    policies are evaluated exactly.

    Example: polinfer compare gridworld/ablation --out runs/ablation
    """

    problem: tyro.conf.OmitArgPrefixes[ProblemFlags]
    alpha: float = 1.0
    """Entropy weight of the soft (entropy-regularised) policy and of soft actor-critic."""
    absorbing: Absorbing = "end"
    """Whether both end in absorbing states, or continue there until the horizon, which pays entropy."""
    risk: float = 1.0
    """Entropic risk parameter of the risk-seeking policy; the risk-averse one gets the negative."""
    limit: int = DEFAULT_LIMIT
    """The largest number of policies to enumerate for the posterior."""
    learned: bool = True
    """Train wake, as `polinfer plan` has it, VSMC and soft actor-critic, too."""
    sweeps: int = 20_000
    """Sweeps of VSMC, per seed."""
    steps: int = 50_000
    """Steps of soft actor-critic, per seed."""
    gamma: float = SacConfig.gamma
    """Soft actor-critic's own discount, times the problem's."""
    seeds: int = 3
    """Independent runs of each that is trained, averaged."""
    seed: int = 0
    """The first seed."""
    out: Path | None = None
    """Folder for the figure and the numbers; without it nothing is written."""
    overwrite: bool = False
    """Allow --out to be a folder that holds files."""

    def run(self) -> None:
        """Solve, print, draw."""
        started = time.perf_counter()
        folder = self.out
        if folder is not None:
            check_free(folder, self.overwrite)
        # Refused before anything is trained.
        check_risk(self.risk)
        with progress_bar() as progress:
            problem, chosen = self.problem.settle(progress)
        mdp = problem.make()
        states = shared_table(mdp).num_states
        if self.learned and states > TABLE_LIMIT:
            remarks().print(f"note: wake, VSMC and SAC left out: {states:,} states are over {TABLE_LIMIT:,}")
        learned = self._train(mdp) if self.learned and states <= TABLE_LIMIT else {}
        with progress_bar() as progress:
            result = compare(
                mdp,
                learned=learned,
                alpha=self.alpha,
                absorbing=self.absorbing,
                risk=self.risk,
                limit=self.limit,
                progress=lambda done, total: progress(Report(done, total, "policies")),
            )
        record = {
            "domain": problem.domain,
            "options": problem.options,
            "reward_scale": None if chosen is None else scale_record(chosen),
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
        if chosen is not None:
            remarks().print(f"reward scale {chosen.scale:g}: {chosen.share:.0%} of the way", markup=False)
        for note in result.notes:
            remarks().print(f"note: {note}", markup=False)
        if folder is not None:
            remarks().print(
                f"figure: {folder / 'policies.png'}   numbers: {folder / 'comparison.json'}", markup=False
            )

    def _train(self, mdp: Problem) -> dict[str, Posterior]:
        sac = SacConfig(alpha=self.alpha, gamma=self.gamma, steps=self.steps, absorbing=self.absorbing)
        reading = "" if self.absorbing == "end" else ", absorbing=continue"
        configs: dict[str, MethodConfig] = {
            "wake": WakeConfig(),
            "VSMC": VsmcConfig(sweeps=self.sweeps),
            f"SAC (alpha={self.alpha:g}, gamma={self.gamma:g}{reading})": sac,
        }
        found = {}
        for name, config in configs.items():
            with progress_bar(self.seeds) as progress:
                found[name] = infer(mdp, config, seed=self.seed, seeds=self.seeds, progress=progress)
        return found


def comparison_table(domain: str, result: Comparison) -> Table:
    """Return the table that people read."""
    table = Table(
        title=f"{escape(domain)}: {result.table.num_states} states, horizon {result.table.horizon}",
        title_justify="left",
        caption="entropy: of the choices, nats per step; distance: total variation to the posterior-induced "
        "policy, weighted by the occupancy of both",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        padding=0,
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
        if answer.seeds > 1:
            table.add_row(f"  ± over {answer.seeds} seeds", number(answer.spread), *(["–"] * 6), style="dim")
        posterior = answer.solution.posterior
        if posterior is not None:
            table.add_row(
                "  one policy per episode", number(posterior.expected_return), *(["–"] * 6), style="dim"
            )
    return table


def comparison_figure(mdp: Problem, result: Comparison) -> Figure:
    """Draw all policies side by side."""
    shown = [answer for answer in result.answers if answer.name != "uniform"]
    return policy_figure(
        mdp,
        result.table,
        [PolicyPanel(answer.name, answer.solution.policy, answer.value.occupancy) for answer in shown],
        optimal=("stationary optimum", "finite-horizon optimum"),
    )
