"""The report as one HTML page that needs nothing beside it."""

from __future__ import annotations

from pathlib import Path

from polinfer.core.files import write_atomically
from polinfer.plots.html import figure, header, page, table, text
from polinfer.reproduce.claims import Verdict
from polinfer.reproduce.findings import APART_HEAD, TIME_HEAD, Findings, Section, apart_rows, time_rows
from polinfer.reproduce.markdown import LEGEND
from polinfer.reproduce.readings import NEARER_HEAD
from polinfer.reproduce.tables import group_lines

_CLAIM_HEAD = ("claim", "absorbing states", "verdict", "evidence", "place")
_LOOK = {
    Verdict.HOLDS: "holds",
    Verdict.IN_KIND: "kind",
    Verdict.NOT_HERE: "not",
    Verdict.UNTESTED: "un",
}


def write_page(findings: Findings, path: Path, command: str) -> None:
    """Write the page."""
    content = as_page(findings, command).encode()
    write_atomically(path, lambda file: file.write(content))


def as_page(findings: Findings, command: str) -> str:
    """Return the page."""
    budget, assumptions = findings.budget, findings.assumptions
    links = " ".join(
        f'<a href="#{section.experiment.name}">{text(section.experiment.title)}</a>'
        for section in findings.sections
    )
    parts = [
        "<h1>MDP Planning as Policy Inference, rerun</h1>",
        f'<p class="about">Budget <b>{budget.name}</b>: {budget.seeds} seeds, {budget.sweeps:,} sweeps, '
        f"{budget.steps:,} steps of SAC, {budget.episodes:,} episodes a run. Made by "
        f"<code>{text(command)}</code>.</p>",
        f'<nav><a href="#claims">Claims</a> {links} <a href="#settings">Settings</a> '
        '<a href="#time">Time</a></nav>',
        f'<h2 id="claims">Claims</h2><p>{text(" ".join(findings.count_lines()))}</p>',
        _claims(findings),
        _apart(findings),
        f'<p class="legend">{text(LEGEND).replace("`", "")}</p>',
        *(_section(section) for section in findings.sections),
        '<h2 id="settings">Settings that the paper leaves open</h2>',
        table(("setting", "ours", "reason"), ((one.name, str(one.value), one.reason) for one in assumptions)),
        '<h2 id="time">Time</h2>',
        table(TIME_HEAD, time_rows(findings)),
        '<p class="about">'
        + text(", ".join(f"{name} {number}" for name, number in findings.versions.items()))
        + "</p>",
    ]
    return page("polinfer: the paper, rerun", parts)


def _claims(findings: Findings) -> str:
    rows = "".join(
        f"<tr><td>{text(claim.statement)}</td><td>{text(claim.reading or 'either')}</td>"
        f'<td><span class="verdict {_LOOK[claim.verdict]}">{claim.verdict.value}</span></td>'
        f'<td>{text(claim.evidence)}</td><td class="place">{text(claim.place)}</td></tr>'
        for claim in findings.claims
    )
    return f'<div class="scroll"><table>{header(_CLAIM_HEAD)}{rows}</table></div>'


def _apart(findings: Findings) -> str:
    told = "<p>The largest disagreement with the paper in the first column of each table:</p>"
    told += table(APART_HEAD, apart_rows(findings))
    if not findings.nearer:
        return told
    about = (
        "<p>Rows of SAC under both readings of absorbing states, and the one that the paper is nearer to:</p>"
    )
    return told + about + table(NEARER_HEAD, [one.cells() for one in findings.nearer])


def _section(section: Section) -> str:
    experiment = section.experiment
    parts = [
        f'<h2 id="{experiment.name}">{text(experiment.title)}</h2>',
        f'<p class="about">{text(experiment.about)} ({text(experiment.place)}.)</p>',
    ]
    if section.missing:
        parts.append(f"<p>{text(section.missing)}</p>")
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
            cells = "".join(f'<td class="number">{text(cell)}</td>' for cell in line.cells)
            rows.append(
                f'<tr class="{look}"><td>{text(group) if number == 0 else ""}</td>'
                f'<td class="name">{text(line.policy)}</td><td>{line.source}</td>{cells}</tr>'
            )
    head = header(("", "policy", "source"), section.table.head)
    parts.append(f'<div class="scroll"><table>{head}{"".join(rows)}</table></div>')
    parts += [figure(drawn, _caption(name)) for name, drawn in section.figures.items()]
    return "".join(parts)


def _caption(name: str) -> str:
    return name.removesuffix(".png").replace("-ours", ", ours beside the paper")
