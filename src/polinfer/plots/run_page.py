"""One run as one self-contained HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from polinfer.analysis.facts import facts_of, policy_rows
from polinfer.core.files import read_regular, write_atomically
from polinfer.plots.html import page, picture, table, text
from polinfer.runs.folder import FIGURES

_CAPTIONS = {
    "policy.png": "The policy in each state, and how often each is visited.",
    "returns.png": "The distribution of an episode's return.",
    "training.png": "How training went.",
    "certificate.png": "What is proven of log Z, and what was estimated.",
}


def write_run_page(record: dict[str, Any], folder: Path, path: Path) -> None:
    """Write the page of the run in `folder`, whose ``summary.json`` holds `record`."""
    content = page(f"polinfer: {record['domain']}", _parts(record, folder)).encode()
    write_atomically(path, lambda file: file.write(content))


def _parts(record: dict[str, Any], folder: Path) -> list[str]:
    facts, policy = facts_of(record), policy_rows(record)
    config = {**record["options"], **record["config"], "seed": record["seed"], "seeds": record["seeds"]}
    parts = [f"<h1>{text(facts.title)}</h1>", f'<p class="about">{text(_verdict(record))}</p>']
    parts += [table((), section) for section in facts.sections]
    parts += [f"<p>{text(finding['sentence'])}</p>" for finding in record["diagnostics"]]
    for name in FIGURES:
        if (folder / name).is_file():
            parts.append(picture(read_regular(folder / name, inside=True), _CAPTIONS[name]))
    if policy is not None:
        more = f"; {policy.left_out} more are in summary.json" if policy.left_out else ""
        parts += [f"<h2>Policy</h2><p>The states visited most first{more}.</p>"]
        parts.append(table(policy.head, policy.rows))
    parts += ["<h2>Settings</h2>", table(("setting", "value"), [(k, str(v)) for k, v in config.items()])]
    return parts


def _verdict(record: dict[str, Any]) -> str:
    certificate = record["certificate"]
    return f"{certificate['verdict'].capitalize()}: {certificate['reason']}."
