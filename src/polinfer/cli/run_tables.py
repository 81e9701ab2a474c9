"""The tables of a run in the terminal."""

from __future__ import annotations

from typing import Any

from rich.markup import escape
from rich.table import Table

from polinfer.analysis.account import account
from polinfer.analysis.facts import facts_of, policy_rows


def account_table(record: dict[str, Any]) -> Table:
    """Return the account that a plan ends with: a few sentences, each after what it is about."""
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True, style="bold")
    table.add_column()
    for about, sentence in account(record):
        table.add_row(escape(about), escape(sentence))
    return table


def run_tables(record: dict[str, Any]) -> list[Table]:
    """Return the facts of a run and, where its states are few, its policy."""
    facts = facts_of(record)
    table = Table(title=escape(facts.title), title_justify="left", show_header=False)
    table.add_column()
    table.add_column(justify="right")
    for section in facts.sections:
        for label, value in section:
            table.add_row(escape(label), escape(value))
        table.add_section()
    policy = policy_rows(record)
    if policy is None:
        return [table]
    more = f"; {policy.left_out} more in summary.json" if policy.left_out else ""
    shown = Table(
        title="policy, most visited states first", title_justify="left", caption=f"visits per episode{more}"
    )
    for index, name in enumerate(policy.head):
        shown.add_column(escape(name), justify="right" if index else "left")
    for row in policy.rows:
        shown.add_row(*map(escape, row))
    return [table, shown]
