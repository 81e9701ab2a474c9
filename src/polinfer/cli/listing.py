"""`polinfer list`: what there is."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import tyro
from rich import box
from rich.markup import escape
from rich.table import Table

from polinfer.cli.output import OutputFlags, print_json, tables
from polinfer.core.errors import PolinferError, suggest
from polinfer.methods import METHODS
from polinfer.problems.registry import Domain, list_domains, list_schemes
from polinfer.reproduce.experiments import EXPERIMENTS


@dataclass(frozen=True)
class List(OutputFlags):
    """Show the problems, the methods and the experiments, a line a family; with a word, more about that.

    Examples: 'polinfer list', 'polinfer list methods', 'polinfer list gridworld', 'polinfer list all'.
    """

    about: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="ABOUT")] = ""
    """What to tell more about: problems, methods, experiments, all, a family of problems or a method."""

    def run(self) -> None:
        """Print."""
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
        for table in self._tables():
            tables().print(table)

    def _tables(self) -> list[Table]:
        word, families = self.about.strip().rstrip("/"), _families()
        sections: dict[str, list[Callable[[], Table]]] = {
            "problems": [_problems, _problem_options, _elsewhere],
            "methods": [_methods],
            "experiments": [_experiments],
        }
        sections["all"] = [make for part in sections.values() for make in part]
        if not word:
            return [_overview()]
        if word in sections:
            return [make() for make in sections[word]]
        if word in families:
            return [_problems([word]), _problem_options([word])]
        if word in METHODS:
            return [_methods([word]), _settings(word)]
        known = [*sections, *families, *METHODS]
        raise PolinferError(
            f"nothing is known about {word!r}{suggest(word, known)}; ask about {', '.join(sections)}, a "
            "family of problems or a method"
        )


def _overview() -> Table:
    """Return everything at a glance."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, style="bold", min_width=9)
    table.add_column(no_wrap=True, min_width=12)
    table.add_column(no_wrap=True, overflow="ellipsis")
    for index, (name, family) in enumerate(_families().items()):
        members = [domain.name.partition("/")[2] for domain in family if "/" in domain.name]
        told = f"/ {_few(members)}" if members else family[0].summary.replace("`", "")
        table.add_row("" if index else "problems", name, escape(told))
    for scheme in list_schemes().values():
        table.add_row("", f"{scheme.name}:", escape(scheme.example))
    table.add_row("", "FILE", "a table in a .npz or .json file")
    for index, (name, method) in enumerate(METHODS.items()):
        table.add_row("" if index else "methods", name, escape(method.summary))
    names = ", ".join(EXPERIMENTS)
    table.add_row("reproduce", "all", escape(names))
    table.add_row("more", "", "polinfer list problems | methods | experiments | all | NAME")
    return table


def _few(names: list[str]) -> str:
    numbers = [name for name in names if name.isdecimal()]
    if len(numbers) == len(names) > 3:
        return f"{numbers[0]} ... {numbers[-1]}"
    return ", ".join(names)


def _settings(name: str) -> Table:
    table = _table(f"settings of {name}: --NAME VALUE", "setting", "default")
    for setting in dataclasses.fields(METHODS[name].Config):
        table.add_row(setting.name.replace("_", "-"), escape(str(setting.default)))
    return table


def _problems(only: Sequence[str] = ()) -> Table:
    table = _table("problems", "domain", "what it is")
    for name, family in _families().items():
        if only and name not in only:
            continue
        for domain in family:
            table.add_row(domain.name, escape(domain.summary.replace("`", "")))
    return table


def _problem_options(only: Sequence[str] = ()) -> Table:
    """Return all options of each family once: those that come along differ only in defaults."""
    table = _table("their options: --set NAME=VALUE", "family", "options")
    for name, family in _families().items():
        if only and name not in only:
            continue
        table.add_row(
            name, ", ".join(dict.fromkeys(option for domain in family for option in domain.options))
        )
    return table


def _elsewhere() -> Table:
    table = _table("problems from elsewhere", "address", "what it is")
    for scheme in list_schemes().values():
        table.add_row(escape(scheme.example), escape(scheme.summary.replace("`", "")))
    return table


def _methods(only: Sequence[str] = ()) -> Table:
    table = _table("methods", "method", "what it does", "needs")
    for name, method in METHODS.items():
        if not only or name in only:
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
