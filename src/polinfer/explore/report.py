"""A run as one HTML file with the page's own views: slid and clicked without a server, and mailed."""

from __future__ import annotations

import base64
import posixpath
import re
import time
from pathlib import Path
from typing import Any

import msgspec

from polinfer.core.errors import PolinferError
from polinfer.core.files import write_atomically
from polinfer.core.progress import Progress
from polinfer.explore.answers import (
    CertificateRecord,
    answer_record,
    explanation_record,
    follow_path,
    neighbour_records,
    problem_info,
)
from polinfer.explore.records import MAX_STATES, OpenedProblem
from polinfer.explore.server import PAGE, static_files
from polinfer.posterior.posterior import Posterior
from polinfer.problems.tabular import TabularMDP

_IMPORT = re.compile(r'(?<=from ")(\.{1,2}/[^"]+)(?=")')
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' data:; style-src 'unsafe-inline'; img-src data: blob:"
)


def can_show(posterior: Posterior) -> bool:
    """Whether a run fits the interactive page: a table of bounded size."""
    return isinstance(posterior.view, TabularMDP) and posterior.view.num_states <= MAX_STATES


def write_report(
    posterior: Posterior,
    record: dict[str, Any],
    folder: Path,
    path: Path,
    *,
    progress: Progress | None = None,
) -> None:
    """Write the page of the run in `folder`, whose ``summary.json`` holds `record`."""
    if not can_show(posterior):
        raise PolinferError(f"only a table of at most {MAX_STATES:,} states fits the interactive page")
    content = report_page(posterior, record, str(folder), progress=progress).encode()
    write_atomically(path, lambda file: file.write(content))


def report_page(
    posterior: Posterior, record: dict[str, Any], folder: str, *, progress: Progress | None = None
) -> str:
    """Return the page of the run in `folder`."""
    table, began = posterior.view, time.monotonic()
    assert isinstance(table, TabularMDP)
    title = str(record.get("domain", "a run"))
    start = {
        "problem": msgspec.to_builtins(OpenedProblem("report")),
        "title": title,
        "source": f"polinfer.load({folder!r})",
        "source_is_run": True,
        "presets": {},
        "names": [],
        "max_side": 30,
    }
    records: dict[str, Any] = {
        "problem": problem_info(posterior.mdp, title),
        "draft": answer_record(posterior, draft=False, began=began - float(record.get("seconds", 0.0))),
        "path": follow_path(table, seed=posterior.seed, progress=progress),
        "explain": explanation_record(posterior),
        "neighbours": neighbour_records(table),
    }
    if "certificate" in record:
        records["certificate"] = _certificate(record)
    return assemble(title, {"start": start, "records": records})


def assemble(title: str, content: dict[str, Any]) -> str:
    """Return a page with style, modules and data inside, which asks no network for anything."""
    modules = {
        name: (PAGE / name).read_text(encoding="utf-8") for name in static_files() if name.endswith(".js")
    }
    imports = {f"page/{name}": _data(_resolve(name, text)) for name, text in modules.items()}
    data = _inside_script(msgspec.json.encode(content).decode())
    mapped = _inside_script(msgspec.json.encode({"imports": imports}).decode())
    style = (PAGE / "style.css").read_text(encoding="utf-8")
    words = title.replace("&", "&amp;").replace("<", "&lt;")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>polinfer: {words}</title><style>{style}</style>"
        f'<script type="importmap">{mapped}</script>'
        f'</head><body><div id="app"></div><script type="application/json" id="content">{data}</script>'
        '<script type="module">import "page/report.js";</script></body></html>\n'
    )


def _resolve(name: str, text: str) -> str:
    """Return a module whose relative imports go through the page's import map."""

    def absolute(found: re.Match[str]) -> str:
        return "page/" + posixpath.normpath(posixpath.join(posixpath.dirname(name), found[1]))

    return _IMPORT.sub(absolute, text)


def _data(text: str) -> str:
    return "data:text/javascript;base64," + base64.b64encode(text.encode()).decode()


def _inside_script(json: str) -> str:
    """Return JSON that cannot end the element it stands in."""
    return json.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _certificate(record: dict[str, Any]) -> CertificateRecord:
    found = record["certificate"]
    whole = record.get("posterior") or {}
    return CertificateRecord(
        verdict=found["verdict"],
        reason=found["reason"],
        remedy=found["remedy"],
        estimand=found["estimand"]["sentence"],
        log_evidence=record.get("log_evidence"),
        log_evidence_stderr=whole.get("log_evidence_stderr"),
        proven_lower=found["proven_lower"],
        proven_upper=found["proven_upper"],
        proven_share=found["proven_share"],
        known_from=found["known_from"],
        distance=found["distance"],
        findings=[finding["sentence"] for finding in record["diagnostics"]],
    )
