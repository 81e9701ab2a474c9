"""The report as one HTML page that needs nothing beside it."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Iterable
from pathlib import Path

from matplotlib.figure import Figure

from polinfer.core.files import write_atomically
from polinfer.reproduce.claims import Verdict
from polinfer.reproduce.findings import APART_HEAD, TIME_HEAD, Account, Section, apart_rows, time_rows
from polinfer.reproduce.markdown import LEGEND
from polinfer.reproduce.tables import group_lines

_STYLE = """
:root { --ink: #222; --soft: #666; --rule: #ddd; --shade: #f6f7f9; }
* { box-sizing: border-box; }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); max-width: 1400px; margin: 2rem auto 4rem;
  padding: 0 1.2rem; }
h1 { font-size: 1.7rem; margin-bottom: .2rem; } h2 { font-size: 1.25rem; margin-top: 2.6rem;
  border-bottom: 1px solid var(--rule); padding-bottom: .2rem; }
nav a { margin-right: 1rem; } a { color: #0072b2; text-decoration: none; }
a:hover { text-decoration: underline; }
p.about, p.legend, td.place, figcaption { color: var(--soft); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .8rem; margin: .8rem 0; }
th, td { padding: .2rem .35rem; text-align: left; vertical-align: top; border-bottom: 1px solid var(--rule); }
th { font-weight: 600; white-space: nowrap; }
td.name { white-space: nowrap; }
th.number, td.number { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
tr.paper td { background: var(--shade); } tr.ours td { color: #345; font-style: italic; }
tr.first td { border-top: 2px solid #bbb; }
.verdict { display: inline-block; padding: 0 .5em; border-radius: 1em; white-space: nowrap;
  font-size: .8rem; }
.holds { background: #d7efe3; } .kind { background: #fdf0c8; }
.not { background: #f9d9d2; } .un { background: #e8e8e8; }
p, li { max-width: 90ch; }
figure { margin: 1.2rem 0; } figure img { max-width: 100%; height: auto; }
"""
_LOOK = {
    Verdict.HOLDS: "holds",
    Verdict.IN_KIND: "kind",
    Verdict.NOT_HERE: "not",
    Verdict.UNTESTED: "un",
}


def write_page(account: Account, path: Path, command: str) -> None:
    """Write the page."""
    text = as_page(account, command)
    write_atomically(path, lambda file: file.write(text.encode()))


def as_page(account: Account, command: str) -> str:
    """Return the page."""
    budget = account.budget
    links = " ".join(
        f'<a href="#{section.experiment.name}">{_text(section.experiment.title)}</a>'
        for section in account.sections
    )
    counts = ", ".join(f"{count} {verdict.value}" for verdict, count in account.counts().items() if count)
    parts = [
        "<h1>MDP Planning as Policy Inference, rerun</h1>",
        f'<p class="about">Budget <b>{budget.name}</b>: {budget.seeds} seeds, {budget.sweeps:,} sweeps, '
        f"{budget.steps:,} steps of SAC, {budget.episodes:,} episodes a run. Made by "
        f"<code>{_text(command)}</code>.</p>",
        f'<nav><a href="#claims">Claims</a> {links} <a href="#settings">Settings</a> '
        '<a href="#time">Time</a></nav>',
        f'<h2 id="claims">Claims</h2><p>{len(account.claims)} statements: {counts}.</p>',
        _claims(account),
        _apart(account),
        f'<p class="legend">{_text(LEGEND).replace("`", "")}</p>',
        *(_section(section) for section in account.sections),
        '<h2 id="settings">Settings that the paper leaves open</h2>',
        _table(("setting", "ours", "reason"), ((c.name, str(c.value), c.reason) for c in account.choices)),
        '<h2 id="time">Time</h2>',
        _table(TIME_HEAD, time_rows(account)),
        '<p class="about">'
        + _text(", ".join(f"{name} {number}" for name, number in account.versions.items()))
        + "</p>",
    ]
    head = f'<meta charset="utf-8"><title>polinfer: the paper, rerun</title><style>{_STYLE}</style>'
    return f'<!doctype html><html lang="en"><head>{head}</head><body>{"".join(parts)}</body></html>\n'


def _claims(account: Account) -> str:
    rows = "".join(
        f"<tr><td>{_text(claim.statement)}</td>"
        f'<td><span class="verdict {_LOOK[claim.verdict]}">{claim.verdict.value}</span></td>'
        f'<td>{_text(claim.evidence)}</td><td class="place">{_text(claim.place)}</td></tr>'
        for claim in account.claims
    )
    return (
        f'<div class="scroll"><table>{_head(("claim", "verdict", "evidence", "place"))}{rows}</table></div>'
    )


def _apart(account: Account) -> str:
    told = "<p>The largest disagreement with the paper in the first column of each table:</p>"
    return told + _table(APART_HEAD, apart_rows(account))


def _section(section: Section) -> str:
    experiment = section.experiment
    parts = [
        f'<h2 id="{experiment.name}">{_text(experiment.title)}</h2>',
        f'<p class="about">{_text(experiment.about)} ({_text(experiment.place)}.)</p>',
    ]
    if section.missing:
        parts.append(f"<p>{_text(section.missing)}</p>")
    rows = []
    for group, lines in group_lines(section.table.lines).items():
        for number, line in enumerate(lines):
            look = " ".join(
                name
                for name, on in (
                    ("first", number == 0),
                    ("paper", line.source == "paper"),
                    ("ours", line.ours),
                )
                if on
            )
            cells = "".join(f'<td class="number">{_text(cell)}</td>' for cell in line.cells)
            rows.append(
                f'<tr class="{look}"><td>{_text(group) if number == 0 else ""}</td>'
                f'<td class="name">{_text(line.policy)}</td><td>{line.source}</td>{cells}</tr>'
            )
    head = _head(("", "policy", "source"), section.table.head)
    parts.append(f'<div class="scroll"><table>{head}{"".join(rows)}</table></div>')
    parts += [_figure(figure, name) for name, figure in section.figures.items()]
    return "".join(parts)


def _figure(figure: Figure, name: str) -> str:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=130, metadata={"Software": None})
    data = base64.b64encode(buffer.getvalue()).decode()
    caption = name.removesuffix(".png").replace("-ours", ", ours beside the paper")
    image = f'<img alt="{_text(caption)}" src="data:image/png;base64,{data}">'
    return f"<figure>{image}<figcaption>{_text(caption)}</figcaption></figure>"


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    body = "".join("<tr>" + "".join(f"<td>{_text(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="scroll"><table>{_head(head)}{body}</table></div>'


def _head(names: tuple[str, ...], numbers: tuple[str, ...] = ()) -> str:
    words = "".join(f"<th>{_text(name)}</th>" for name in names)
    return f"<tr>{words}" + "".join(f'<th class="number">{_text(name)}</th>' for name in numbers) + "</tr>"


def _text(text: str) -> str:
    return html.escape(text)
