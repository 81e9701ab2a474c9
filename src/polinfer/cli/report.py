"""`polinfer report`: a run, or a rerun of the paper, as one page."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from rich import box
from rich.table import Table

from polinfer.analysis.record import read_summary
from polinfer.cli.output import OutputFlags, print_json, progress_bar, remarks, tables
from polinfer.cli.run_tables import run_tables
from polinfer.core.errors import PolinferError, shorten
from polinfer.core.files import write_json
from polinfer.explore.report import can_show, write_report
from polinfer.plots.run_page import write_run_page
from polinfer.posterior.saving import CONFIG
from polinfer.reproduce.budgets import BUDGETS, Budget, budget_named
from polinfer.reproduce.experiments import EXPERIMENTS
from polinfer.reproduce.findings import Findings, as_json, gather
from polinfer.reproduce.markdown import write_markdown
from polinfer.reproduce.page import write_page
from polinfer.reproduce.store import Store
from polinfer.runs.folder import SUMMARY, load


@dataclass(frozen=True)
class Report(OutputFlags):
    """Write a run, or what 'polinfer reproduce' found, as one self-contained HTML page, or as Markdown.

    Examples: 'polinfer report runs/demo', 'polinfer report runs/reproduce', 'polinfer report runs/reproduce
    --markdown docs/reproduction'.
    """

    results: tyro.conf.Positional[Path]
    """The folder of a run, or the one that 'polinfer reproduce' filled."""
    budget: Literal["smoke", "quick", "paper"] | None = None
    """Which budget's results; by default the largest that is there."""
    out: Path | None = None
    """The page; report.html in the folder by default."""
    interactive: bool = True
    """Of a run on a table: a page to slide and click, with the views of 'polinfer explore' and no server.
    The path over reward scales is computed for it; --no-interactive writes tables and pictures only."""
    markdown: Path | None = None
    """Write index.md, its figures and numbers.json into this folder, too."""
    code: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME ...")] = ()
    """Code that the run's problem may import, as its config.json names it; a folder alone never runs any."""

    def run(self) -> None:
        """Gather and write."""
        if not self.results.is_dir():
            raise PolinferError(
                f"{self.results}: no such folder; 'polinfer plan' and 'polinfer reproduce' make one"
            )
        page = self.out or self.results / "report.html"
        if (self.results / CONFIG).is_file():
            self._report_run(page)
        else:
            self._report_paper(page)
        remarks().print(f"report: {page}", markup=False, soft_wrap=True)

    def _report_run(self, page: Path) -> None:
        """Report one run of 'polinfer plan'."""
        if self.budget is not None or self.markdown is not None:
            raise PolinferError(f"{self.results} is one run; leave out --budget and --markdown")
        if not (self.results / SUMMARY).is_file():
            raise PolinferError(
                f"{self.results}: this run has not finished; 'polinfer plan ... --resume' goes on with it"
            )
        record = read_summary(self.results / SUMMARY)
        try:
            self._show_run(record, page)
        except PolinferError:
            raise
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            # A field that the schema does not name.
            raise PolinferError(f"{self.results / SUMMARY}: damaged ({shorten(repr(error))})") from error

    def _show_run(self, record: dict[str, Any], page: Path) -> None:
        posterior = load(self.results, code=self.code) if self.interactive else None
        if posterior is not None and can_show(posterior):
            with progress_bar() as progress:
                write_report(posterior, record, self.results, page, progress=progress)
        else:
            write_run_page(record, self.results, page)
        if self.json:
            print_json(record | {"report": str(page)})
            return
        tables().print(*run_tables(record))

    def _report_paper(self, page: Path) -> None:
        """Report a rerun of the paper."""
        findings = _gather(Store(self.results), self.budget)
        command = f"polinfer reproduce all --budget {findings.budget.name}"
        write_page(findings, page, command)
        if self.markdown is not None:
            write_markdown(findings, self.markdown, command)
            write_json(self.markdown / "numbers.json", as_json(findings))
        if self.json:
            print_json(as_json(findings) | {"report": str(page)})
            return
        tables().print(claims_table(findings))


def _gather(store: Store, name: str | None) -> Findings:
    if name is not None:
        return gather(store, budget_named(name))
    for budget in reversed(list(BUDGETS.values())):
        if has_results(store, budget):
            return gather(store, budget)
    raise PolinferError(f"{store.folder} holds no results; run polinfer reproduce all --out {store.folder}")


def has_results(store: Store, budget: Budget) -> bool:
    """Whether any trained unit of a budget is finished; exact answers belong to all budgets."""
    units = (unit for experiment in EXPERIMENTS.values() for unit in experiment.units(budget))
    return any(unit.is_trained and store.read(unit) is not None for unit in units)


def claims_table(findings: Findings) -> Table:
    """Return the ledger as people read it in a terminal."""
    table = Table(
        title=f"budget {findings.budget.name}. " + " ".join(findings.count_lines()),
        title_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    table.add_column("verdict", no_wrap=True)
    table.add_column("absorbing", no_wrap=True)
    table.add_column("claim")
    for claim in findings.claims:
        table.add_row(claim.verdict.value, claim.reading or "either", claim.statement)
    waiting = sum(section.waiting for section in findings.sections)
    if waiting:
        table.caption = f"{waiting} units are not finished; claims that need them are not judged yet"
    return table
