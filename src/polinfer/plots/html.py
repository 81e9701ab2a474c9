"""Pieces of self-contained HTML pages: style, tables and pictures, all text escaped."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Iterable, Sequence

from matplotlib.figure import Figure

STYLE = """
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


def page(title: str, parts: Iterable[str]) -> str:
    """Return a whole page."""
    head = f'<meta charset="utf-8"><title>{text(title)}</title><style>{STYLE}</style>'
    return f'<!doctype html><html lang="en"><head>{head}</head><body>{"".join(parts)}</body></html>\n'


def text(words: str) -> str:
    """Return words that the browser shows as they are."""
    return html.escape(words)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of plain cells; without a head where it is empty."""
    body = "".join("<tr>" + "".join(f"<td>{text(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="scroll"><table>{header(head) if head else ""}{body}</table></div>'


def header(names: Sequence[str], numbers: Sequence[str] = ()) -> str:
    """Return the head of a table; names of columns of numbers stand to the right."""
    words = "".join(f"<th>{text(name)}</th>" for name in names)
    return f"<tr>{words}" + "".join(f'<th class="number">{text(name)}</th>' for name in numbers) + "</tr>"


def figure(drawn: Figure, caption: str) -> str:
    """Return a figure with the picture inside the page."""
    buffer = io.BytesIO()
    drawn.savefig(buffer, format="png", dpi=130, metadata={"Software": None})
    return picture(buffer.getvalue(), caption)


def picture(png: bytes, caption: str) -> str:
    """Return a PNG file with its caption."""
    data = base64.b64encode(png).decode()
    image = f'<img alt="{text(caption)}" src="data:image/png;base64,{data}">'
    return f"<figure>{image}<figcaption>{text(caption)}</figcaption></figure>"
