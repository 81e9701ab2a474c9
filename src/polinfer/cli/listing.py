"""`polinfer list`: what there is."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

from rich.markup import escape
from rich.table import Table

from polinfer.cli.output import OutputFlags, print_json, tables
from polinfer.methods import METHODS
from polinfer.registry import Domain, list_domains, list_schemes
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
                    "methods": [{"name": name, "summary": text} for name, text in METHODS.items()],
                    "experiments": [
                        {"name": e.name, "summary": e.about, "place": e.place} for e in EXPERIMENTS.values()
                    ],
                }
            )
            return
        found = Table("domain", "what it is", "options", title="problems", title_justify="left")
        for domain in list_domains().values():
            found.add_row(domain.name, escape(domain.summary.replace("`", "")), ", ".join(_options(domain)))
        elsewhere = Table("address", "what it is", title="problems from elsewhere", title_justify="left")
        for scheme in list_schemes().values():
            elsewhere.add_row(escape(scheme.example), escape(scheme.summary.replace("`", "")))
        methods = Table("method", "what it does", title="methods", title_justify="left")
        for name, text in METHODS.items():
            methods.add_row(name, text)
        experiments = Table(
            "experiment", "what it is", "in the paper", title="experiments", title_justify="left"
        )
        for experiment in EXPERIMENTS.values():
            experiments.add_row(experiment.name, experiment.about, experiment.place)
        tables().print(found, elsewhere, methods, experiments)


def _options(domain: Domain) -> dict[str, Any]:
    return {
        name: "required" if value is inspect.Parameter.empty else value
        for name, value in domain.options.items()
    }
