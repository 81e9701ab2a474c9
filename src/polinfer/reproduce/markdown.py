"""The report as Markdown, for the docs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from polinfer.core.files import write_atomically
from polinfer.plots.save import save_figure
from polinfer.reproduce.findings import APART_HEAD, TIME_HEAD, Findings, Section, apart_rows, time_rows
from polinfer.reproduce.readings import NEARER_HEAD
from polinfer.reproduce.tables import Line, group_lines

LEGEND = (
    "`paper` is what the paper prints, with its ±, which it does not explain; `measured` is ours, mean ± "
    "deviation over runs, with the standard error of the mean in brackets; `exact` is computed; "
    "`reference` is a long tempered run, kept in the package. Lines marked with * are ours, beside what "
    "the paper shows. The return of a posterior is that of executing its marginal policy, which draws "
    "anew at every step. log Z-hat of sweeps with one world is not an estimate of the posterior's log Z. "
    "The distance is the total variation to the line that a method estimates (the posterior for VSMC and "
    "wake, given the hand in Blackjack; the exact soft policy for SAC, both with the discount below), "
    "weighted by where that one goes. Rows that are 'continuing' are trained on episodes that stay in "
    "absorbing states until the horizon; a claim about SAC is judged twice, under one reading for all of "
    "its rows. A claim 'holds in kind' where the direction is as the paper says and the size is not, or "
    "where it is so on most instances and not on all; the thresholds are ours, and stand in the code of "
    "each claim."
)


def write_markdown(findings: Findings, folder: Path, command: str) -> Path:
    """Write ``index.md`` and the figures into `folder`."""
    for section in findings.sections:
        for name, figure in section.figures.items():
            save_figure(figure, folder / figure_name(section, name))
    path = folder / "index.md"
    text = as_markdown(findings, command)
    write_atomically(path, lambda file: file.write(text.encode()))
    return path


def figure_name(section: Section, name: str) -> str:
    """Return the file name of a figure."""
    return f"{section.experiment.name}-{name}"


def as_markdown(findings: Findings, command: str) -> str:
    """Return the whole report but for its figures."""
    budget, assumptions = findings.budget, findings.assumptions
    parts = [
        "# The paper, rerun",
        f"Budget `{budget.name}`: {budget.seeds} seeds, {budget.sweeps:,} sweeps, {budget.steps:,} steps of "
        f"SAC, {budget.episodes:,} episodes a run. Made by `{command}`.",
        LEGEND,
        "## Claims",
        _claims(findings),
        _apart(findings),
        _nearer(findings),
        *(_section(section) for section in findings.sections),
        "## Settings that the paper leaves open",
        _grid(("setting", "ours", "reason"), [(one.name, f"{one.value}", one.reason) for one in assumptions]),
        "## Time",
        _times(findings),
        "Versions: " + ", ".join(f"{name} {number}" for name, number in findings.versions.items()) + ".",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _claims(findings: Findings) -> str:
    told = "\n".join(f"- {line}" for line in findings.count_lines())
    return f"{told}\n\n" + _grid(
        ("claim", "absorbing states", "verdict", "evidence", "place"),
        [
            (c.statement, c.reading or "either", f"**{c.verdict.value}**", c.evidence, c.place)
            for c in findings.claims
        ],
    )


def _nearer(findings: Findings) -> str:
    if not findings.nearer:
        return ""
    told = (
        "Rows of SAC under both readings of absorbing states, `end` and `continue` : ours, how "
        "far from the paper in deviations over runs of both together, and the reading that is nearer "
        "(level: by less than half a deviation).\n\n"
    )
    return told + _grid(NEARER_HEAD, [one.cells() for one in findings.nearer])


def _apart(findings: Findings) -> str:
    if not findings.disagreements:
        return ""
    told = "The largest disagreement with the paper in the first column of each table:\n\n"
    return told + _grid(APART_HEAD, apart_rows(findings))


def _section(section: Section) -> str:
    experiment = section.experiment
    parts = [f"## {experiment.title}", f"{experiment.about} ({experiment.place}.)"]
    if section.missing:
        parts.append(section.missing)
    head = ("", "policy", "source", *section.table.head)
    parts.append(_grid(head, _rows(section)))
    parts += [
        f"![{experiment.title}, {name.removesuffix('.png')}]({figure_name(section, name)})"
        for name in section.figures
    ]
    return "\n\n".join(parts)


def _rows(section: Section) -> list[tuple[str, ...]]:
    rows = []
    for group, lines in group_lines(section.table.lines).items():
        for number, line in enumerate(lines):
            rows.append((group if number == 0 else "", _label(line), line.source, *line.cells))
    return rows


def _label(line: Line) -> str:
    return line.policy + (" *" if line.ours else "")


def _times(findings: Findings) -> str:
    note = "Units that two experiments share are counted in both; units that ran side by side are added up."
    return _grid(TIME_HEAD, time_rows(findings)) + "\n\n" + note


def _grid(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join(lines)
