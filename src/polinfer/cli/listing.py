"""`polinfer list`: what there is."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.markup import escape
from rich.table import Table

from polinfer.cli.output import OutputFlags, print_json, tables
from polinfer.methods import METHODS
from polinfer.problems.registry import Domain, list_domains, list_schemes
from polinfer.reproduce.experiments import EXPERIMENTS


@dataclass(frozen=True)
class List(OutputFlags):
    """Show the built-in problems with their options, the methods, and the experiments."""

    def run(self) -> None:
        """Print the tables."""
        if self.json:
            print_json(
                {
                    "domains": [
                        {"name": d.name, "summary": d.summary, "options": _options(d)}
                        for d in list_domains().values()
                    ],
                    "elsewhere": [
                        {"name": s.name, "summary": s.summary, "example": s.example}
                        for s in list_schemes().values()
                    ],
                    "methods": [
                        {"name": name, "summary": method.summary, "needs": str(method.needs)}
                        for name, method in METHODS.items()
                    ],
                    "experiments": [
                        {"name": e.name, "summary": e.about, "place": e.place} for e in EXPERIMENTS.values()
                    ],
                }
            )
            return
        for table in (_problems(), _problem_options(), _elsewhere(), _methods(), _experiments()):
            tables().print(table)


def _problems() -> Table:
    table = _table("problems", "domain", "what it is")
    for family in _families().values():
        for domain in family:
            table.add_row(domain.name, escape(domain.summary.replace("`", "")))
    return table


def _problem_options() -> Table:
    """Return all options of each family once: those that come along differ only in defaults."""
    table = _table("their options: --set NAME=VALUE", "family", "options")
    for name, family in _families().items():
        table.add_row(
            name, ", ".join(dict.fromkeys(option for domain in family for option in domain.options))
        )
    return table


def _elsewhere() -> Table:
    table = _table("problems from elsewhere", "address", "what it is")
    for scheme in list_schemes().values():
        table.add_row(escape(scheme.example), escape(scheme.summary.replace("`", "")))
    return table


def _methods() -> Table:
    table = _table("methods", "method", "what it does", "needs")
    for name, method in METHODS.items():
        table.add_row(name, method.summary, str(method.needs))
    return table


def _experiments() -> Table:
    table = _table("experiments of 'polinfer reproduce'", "experiment", "what it is", "in the paper")
    for experiment in EXPERIMENTS.values():
        table.add_row(experiment.name, experiment.title, experiment.place)
    return table


def _table(title: str, *columns: str) -> Table:
    return Table(*columns, title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)


def _families() -> dict[str, list[Domain]]:
    """Return the problems by what stands before the slash of their names."""
    families: dict[str, list[Domain]] = {}
    for domain in list_domains().values():
        families.setdefault(domain.name.split("/")[0], []).append(domain)
    return families


def _options(domain: Domain) -> dict[str, Any]:
    return {
        name: "required" if value is inspect.Parameter.empty else value
        for name, value in domain.options.items()
    }
