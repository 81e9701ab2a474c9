"""`polinfer report`: what a rerun of the paper found, as one page."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro
from rich import box
from rich.table import Table

from polinfer.cli.output import OutputFlags, print_json, remarks, tables
from polinfer.core.errors import PolinferError
from polinfer.core.files import write_json
from polinfer.reproduce.budgets import BUDGETS, Budget, budget_named
from polinfer.reproduce.experiments import EXPERIMENTS
from polinfer.reproduce.findings import Account, as_json, gather
from polinfer.reproduce.markdown import write_markdown
from polinfer.reproduce.page import write_page
from polinfer.reproduce.store import Store


@dataclass(frozen=True)
class Report(OutputFlags):
    """Write what 'polinfer reproduce' found as one self-contained HTML page, or as Markdown.

    Examples: 'polinfer report runs/reproduce', 'polinfer report runs/reproduce --markdown docs/reproduction'.
    """

    results: tyro.conf.Positional[Path]
    """The folder that 'polinfer reproduce' filled."""
    budget: Literal["smoke", "quick", "paper"] | None = None
    """Which budget's results; by default the largest that is there."""
    out: Path | None = None
    """The page; report.html in the folder by default."""
    markdown: Path | None = None
    """Write index.md, its figures and numbers.json into this folder, too."""

    def run(self) -> None:
        """Gather and write."""
        if not self.results.is_dir():
            raise PolinferError(f"{self.results}: no such folder; polinfer reproduce makes one")
        store = Store(self.results)
        account = _gather(store, self.budget)
        command = f"polinfer reproduce all --budget {account.budget.name}"
        page = self.out or self.results / "report.html"
        write_page(account, page, command)
        if self.markdown is not None:
            write_markdown(account, self.markdown, command)
            write_json(self.markdown / "numbers.json", as_json(account))
        if self.json:
            print_json(as_json(account) | {"report": str(page)})
            return
        tables().print(claims_table(account))
        remarks().print(f"report: {page}", markup=False, soft_wrap=True)


def _gather(store: Store, name: str | None) -> Account:
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


def claims_table(account: Account) -> Table:
    """Return the ledger as people read it in a terminal."""
    table = Table(
        title=f"{len(account.claims)} claims, budget {account.budget.name}",
        title_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    table.add_column("verdict", no_wrap=True)
    table.add_column("claim")
    for claim in account.claims:
        table.add_row(claim.verdict.value, claim.statement)
    waiting = sum(section.waiting for section in account.sections)
    if waiting:
        table.caption = f"{waiting} units are not finished; claims that need them are not judged yet"
    return table
