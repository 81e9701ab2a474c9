"""`polinfer path`: the answer as a function of the reward scale."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path as FilePath
from typing import Annotated

import numpy as np
import tyro
from rich import box
from rich.markup import escape
from rich.table import Table

from polinfer.analysis.enumerated import ENUMERATED
from polinfer.analysis.reward_path import (
    DEFAULT_SCALES,
    PATH_CONFIG,
    ScalePath,
    as_json,
    scale_path,
)
from polinfer.analysis.reward_scale import SHARE
from polinfer.annealing.config import check_scales
from polinfer.cli.output import OutputFlags, print_json, progress_bar, remarks, tables
from polinfer.cli.problem_flags import ProblemFlags
from polinfer.core.errors import PolinferError, check_at_least
from polinfer.core.files import write_json
from polinfer.core.formatting import number
from polinfer.plots.path import path_figure
from polinfer.plots.save import save_figure
from polinfer.runs.folder import check_free


@dataclass(frozen=True)
class Path(OutputFlags):
    """Show how the induced policy moves from uniform to optimal as the reward scale grows.

    Beside it, the path of soft value iteration over alpha = 1 / scale.  Scales are multiples of the problem's
    own rewards.

    Examples: 'polinfer path gridworld/ablation', 'polinfer path blackjack --from 0.1 --to 1000 --points 9',
    'polinfer path tireworld/4 --scales 0.1 1 10 --out runs/path'.
    """

    problem: tyro.conf.OmitArgPrefixes[ProblemFlags]
    scales: tuple[float, ...] = ()
    """The reward scales, one by one; without them, a grid of equal ratios."""
    first: Annotated[float | None, tyro.conf.arg(name="from")] = None
    """The first scale of the grid; 0.01 by default."""
    last: Annotated[float | None, tyro.conf.arg(name="to")] = None
    """The last scale of the grid; 100 by default."""
    points: int | None = None
    """How many scales the grid has; 17 by default."""
    policies: int = PATH_CONFIG.policies
    """Policies per island, where they are sampled."""
    islands: int = PATH_CONFIG.islands
    """Independent populations, where policies are sampled; standard errors are taken over them."""
    tolerance: float = PATH_CONFIG.tolerance
    """Expected distance of each marginal policy from its limit, where policies are sampled."""
    limit: int = ENUMERATED
    """The largest number of policies to enumerate; with more, they are sampled."""
    seed: int = 0
    """Of the sampling."""
    out: FilePath | None = None
    """Folder for the figure and the numbers; without it nothing is written."""
    overwrite: bool = False
    """Allow --out to be a folder that holds files."""

    def run(self) -> None:
        """Compute, print, draw."""
        started = time.perf_counter()
        scales = self._scales()
        config = replace(PATH_CONFIG, policies=self.policies, islands=self.islands, tolerance=self.tolerance)
        check_at_least("limit", self.limit, 0)
        mdp = self.problem.make()
        folder = self.out
        if folder is not None:
            check_free(folder, self.overwrite)
        with progress_bar() as progress:
            path = scale_path(mdp, scales, config, seed=self.seed, limit=self.limit, progress=progress)
        record = {
            "domain": self.problem.domain,
            "options": self.problem.options,
            "states": path.table.num_states,
            "horizon": path.table.horizon,
            "seconds": time.perf_counter() - started,
            "seed": self.seed,
            "settings": None if path.enumerated else config.to_dict(),
            **as_json(path),
        }
        if folder is not None:
            save_figure(path_figure(path), folder / "path.png")
            write_json(folder / "path.json", record)
        if self.json:
            print_json(record)
            return
        tables().print(path_table(self.problem.domain, path))
        remarks().print(_suggestion(path), markup=False)
        if folder is not None:
            remarks().print(f"figure: {folder / 'path.png'}   numbers: {folder / 'path.json'}", markup=False)

    def _scales(self) -> tuple[float, ...]:
        grid = {"--from": self.first, "--to": self.last, "--points": self.points}
        given = [name for name, value in grid.items() if value is not None]
        if self.scales:
            if given:
                raise PolinferError(f"{given[0]} makes a grid of scales; leave it out beside --scales")
            return check_scales(self.scales)
        first = DEFAULT_SCALES[0] if self.first is None else self.first
        last = DEFAULT_SCALES[-1] if self.last is None else self.last
        points = len(DEFAULT_SCALES) if self.points is None else self.points
        check_scales((first, last))
        check_at_least("points", points, 2)
        if not first < last:
            raise PolinferError(f"--from must be below --to, got {first:g} and {last:g}")
        return check_scales(float(scale) for scale in np.geomspace(first, last, points))


def path_table(domain: str, path: ScalePath) -> Table:
    """Return the table that people read; it fits into 80 columns."""
    with_success = path.uniform.success is not None
    table = Table(
        title=f"{escape(domain)}: {path.table.num_states} states, horizon {path.table.horizon}, "
        f"{_policies(float(path.num_policies) if path.num_policies < 1e300 else np.inf)} policies",
        title_justify="left",
        caption=_caption(path),
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        padding=0,
    )
    shown = ["return", *(["success"] if with_success else []), "entropy"]
    names = ["scale", *shown, "E[J]", "log Z", "policies", *(f"soft\n{name}" for name in shown)]
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)

    def numbers(value: object) -> list[str]:
        return [_short(getattr(value, field)) for field in fields]

    fields = ["expected_return", *(["success"] if with_success else []), "entropy"]
    dashes = ["–"] * 3
    first = "prior" if path.table.has_prior else "uniform"
    table.add_row(first, *numbers(path.uniform), *dashes, *numbers(path.uniform), style="dim")
    for point in path.points:
        # The problem's own rewards stand out.
        table.add_row(
            f"{point.scale:.3g}" if point.scale != 1 else "own: 1",
            *numbers(point.value),
            _short(point.expected_return),
            _short(point.log_evidence),
            _policies(point.effective_policies),
            *numbers(point.soft_value),
            style="bold" if point.scale == 1 else "",
        )
    table.add_row("optimum", *numbers(path.stationary), *dashes, *numbers(path.optimum), style="dim")
    return table


def _suggestion(path: ScalePath) -> str:
    scale = path.scale_at(SHARE)
    if scale is None:
        return f"No scale between these brings the policy to {SHARE:.0%} of the way from uniform to optimum."
    return (
        f"The policy is {SHARE:.0%} of the way from uniform to optimum at a scale of about {scale:.2g}: "
        f"--reward-scale {scale:.2g}."
    )


def _short(value: float | None) -> str:
    """Write a number with three digits after the point, or with fewer where it is large."""
    size = 0.0 if value is None else abs(value)
    return f"{value:.4g}" if size >= 1e4 else number(value, 3 if size < 10 else 2 if size < 100 else 1)


def _policies(count: float) -> str:
    """Write a number of policies in at most eight letters."""
    if not np.isfinite(count):
        return "> 1e300"
    if count < 1000:
        return f"{count:.1f}" if count != int(count) else f"{count:.0f}"
    return f"{count:,.0f}" if count < 1e6 else f"{count:.1e}"


def _caption(path: ScalePath) -> str:
    words = (
        "return, success, entropy: of executing the marginal policy, an action drawn at every step; entropy "
        "in nats per step. E[J]: return with one policy drawn per episode. policies: effectively distinct "
        "ones. "
        "soft: soft value iteration with alpha = 1 / scale. optimum: stationary, and with the clock for soft."
    )
    if path.enumerated:
        return words + " All policies were enumerated."
    largest = [
        max(getattr(point, name) for point in path.points)
        for name in ("return_stderr", "expected_return_stderr", "log_evidence_stderr")
    ]
    return words + " Standard errors: return {:.2g}, E[J] {:.2g}, log Z {:.2g} at most.".format(*largest)
