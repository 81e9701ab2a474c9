"""`polinfer explain`: which choices of a run are clear, and which are toss-ups."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich import box
from rich.markup import escape
from rich.table import Table

from polinfer.analysis.explanation import Explanation, StateChoice, as_json, explain
from polinfer.cli.output import OutputFlags, print_json, remarks, tables
from polinfer.core.errors import check_at_least
from polinfer.core.formatting import number
from polinfer.runs.folder import load

_SHOWN_ACTIONS = 5  # of a state, the most probable


@dataclass(frozen=True)
class Explain(OutputFlags):
    """Show for each state that matters the action probabilities, and what the alternatives would cost.

    Example: polinfer explain runs/ablation --top 10
    """

    folder: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """The run folder that 'polinfer plan' wrote."""
    top: int = 20
    """How many states, the most visited first."""
    code: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME ...")] = ()
    """Code that the run's problem may import, as its config.json names it; a folder alone never runs any."""

    def run(self) -> None:
        """Read, compute, print."""
        check_at_least("top", self.top, 1)
        posterior = load(self.folder, code=self.code)
        found = explain(posterior, self.top)
        if self.json:
            print_json({"run": str(self.folder), "method": posterior.method, **as_json(found)})
            return
        tables().print(explain_table(f"{self.folder.name}, {posterior.method}", found))
        for line in _remarks(found):
            remarks().print(line, markup=False)


def explain_table(title: str, explanation: Explanation) -> Table:
    """Return the table that people read; it fits into 80 columns."""
    several = explanation.seeds > 1
    more = f" {explanation.left_out} more states are visited (--top)." if explanation.left_out else ""
    table = Table(
        title=f"{escape(title)}: J {explanation.expected_return:.3f} "
        f"(uniform {explanation.uniform_return:.3f}, optimum {explanation.optimal_return:.3f})",
        title_justify="left",
        caption="visits: per episode. loss: what J falls short of the best action's if the action is taken "
        f"whenever the state is visited, and the policy is as it is elsewhere.{more}",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
    )
    table.add_column("state", max_width=24)
    table.add_column("visits", justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    table.add_column("action", max_width=18)
    table.add_column("prob", justify="right", no_wrap=True)
    if several:
        table.add_column("±", justify="right", no_wrap=True)
    table.add_column("loss", justify="right", no_wrap=True)
    for choice in explanation.choices:
        for row in _rows(choice, several):
            table.add_row(*row)
    return table


def _rows(choice: StateChoice, several: bool) -> list[list[str]]:
    heads = [[escape(choice.name), number(choice.occupancy), choice.verdict]]
    if choice.disagrees:
        heads.append(["", "", "disagrees"])
    rows = []
    for i in range(min(len(choice.actions), _SHOWN_ACTIONS)):
        spread = [number(choice.probs_std[i])] if several else []
        rows.append(
            [escape(choice.action_names[i]), number(choice.probs[i]), *spread, number(choice.losses[i])]
        )
    hidden = len(choice.actions) - len(rows)
    if hidden:
        rows.append([f"{hidden} more", number(sum(choice.probs[-hidden:])), *[""] * several, ""])
    blank = ["", "", ""]
    return [(heads[i] if i < len(heads) else blank) + row for i, row in enumerate(rows)]


def _remarks(explanation: Explanation) -> list[str]:
    if not explanation.choices:
        return ["No visited state has a choice."]
    counts = Counter(choice.verdict for choice in explanation.choices)
    lines = [", ".join(f"{counts[name]} {name}" for name in ("clear", "leaning", "toss-up")) + "."]
    odd = [choice for choice in explanation.choices if choice.disagrees]
    if odd:
        lines.append(
            f"{len(odd)} disagree: the most probable action is not the one that would earn most there, "
            f"as in {odd[0].name}, where {odd[0].best} would."
        )
    return lines
