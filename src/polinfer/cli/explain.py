"""`polinfer explain`: which choices of a run are clear, and which are toss-ups."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro
from rich import box
from rich.markup import escape
from rich.table import Table

from polinfer.analysis.explanation import Explanation, StateChoice, as_json, explain
from polinfer.cli.output import OutputFlags, print_json, remarks, tables
from polinfer.core.errors import PolinferError, check_at_least
from polinfer.core.formatting import number
from polinfer.posterior.conditioning import Condition
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
    given: Annotated[tuple[str, ...], tyro.conf.arg(metavar="STATE=ACTION ...")] = field(default=())
    """Only of the policies that make these choices, by name, for example: --given '(1,2)=left'."""
    code: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME ...")] = ()
    """Code that the run's problem may import, as its config.json names it; a folder alone never runs any."""

    def run(self) -> None:
        """Read, compute, print."""
        check_at_least("top", self.top, 1)
        posterior = load(self.folder, code=self.code)
        if self.given:
            posterior = posterior.given(_choices(self.given))
        found = explain(posterior, self.top)
        if self.json:
            held = None if posterior.condition is None else posterior.condition._asdict()
            head = {"run": str(self.folder), "method": posterior.method, "given": held}
            print_json({**head, **as_json(found)})
            return
        if posterior.condition is not None:
            remarks().print(_about_condition(posterior.condition), markup=False)
        tables().print(explain_table(f"{self.folder.name}, {posterior.method}", found))
        for line in _remarks(found):
            remarks().print(line, markup=False)


def explain_table(title: str, explanation: Explanation) -> Table:
    """Return the table that people read; it fits into 80 columns."""
    several = explanation.seeds > 1
    more = f" {explanation.left_out} more states are visited (--top)." if explanation.left_out else ""
    reference, leaving = "uniform", ""
    if explanation.table.has_prior:
        reference = "prior"
        leaving = " evidence: for leaving the prior, log(posterior / prior) in nats."
    table = Table(
        title=f"{escape(title)}: J {explanation.expected_return:.3f} "
        f"({reference} {explanation.uniform_return:.3f}, optimum {explanation.optimal_return:.3f})",
        title_justify="left",
        caption="visits: per episode. loss: what J falls short of the best action's if the action is taken "
        f"whenever the state is visited, and the policy is as it is elsewhere.{leaving}{more}",
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
    if explanation.table.has_prior:
        table.add_column("evidence", justify="right", no_wrap=True)
    for choice in explanation.choices:
        for row in _rows(choice, several):
            table.add_row(*row)
    return table


def _choices(words: tuple[str, ...]) -> dict[str, str]:
    """Read choices; the last equals sign parts state and action."""
    choices: dict[str, str] = {}
    for word in words:
        state, equals, action = word.rpartition("=")
        if not equals or not state or not action:
            raise PolinferError(f"--given takes STATE=ACTION, got {word!r}")
        if state in choices:
            raise PolinferError(f"--given names the state {state!r} twice")
        choices[state] = action
    return choices


def _about_condition(condition: Condition) -> str:
    made = ", ".join(f"{action} in {state}" for state, action in condition.choices.items())
    return (
        f"given {made}: their probability is {number(math.exp(condition.log_probability))} "
        f"(log {condition.log_probability:.3f} +- {condition.stderr:.3f}, by {condition.source})"
    )


def _rows(choice: StateChoice, several: bool) -> list[list[str]]:
    heads = [[escape(choice.name), number(choice.occupancy), choice.verdict]]
    if choice.disagrees:
        heads.append(["", "", "disagrees"])
    rows = []
    for i in range(min(len(choice.actions), _SHOWN_ACTIONS)):
        spread = [number(choice.probs_std[i])] if several else []
        rows.append(
            [
                escape(choice.action_names[i]),
                number(choice.probs[i]),
                *spread,
                number(choice.losses[i]),
                *([f"{choice.evidence[i]:+.2f}"] if choice.evidence else []),
            ]
        )
    hidden = len(choice.actions) - len(rows)
    if hidden:
        rows.append(
            [
                f"{hidden} more",
                number(sum(choice.probs[-hidden:])),
                *[""] * several,
                "",
                *[""] * bool(choice.evidence),
            ]
        )
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
