"""What commands print: people read standard error and tables, programs read JSON on standard output."""

from __future__ import annotations

import codecs
import contextlib
import errno
import io
import json
import os
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TextIO, cast

from rich.console import Console
from rich.segment import Segment

from polinfer.core.files import plain
from polinfer.core.progress import Progress as ReportProgress
from polinfer.core.progress_bar import progress_bar as bar_on


@dataclass(frozen=True, kw_only=True)
class OutputFlags:
    """The flags that every command has."""

    json: bool = False
    """Print one JSON object on standard output, and nothing else."""
    debug: bool = False
    """Show the traceback of an error."""
    force: bool = False
    """Compute even what was estimated to take very long or very much memory."""


_NARROWEST = 10
_PLAIN = {"±": "+-", "–": "-", "—": "-", "…": "...", "≤": "<=", "≥": ">=", "×": "x", "→": "->", "━": "="}


def _as_ascii(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    return _PLAIN.get(error.object[error.start], "?"), error.start + 1


codecs.register_error("polinfer.plain", _as_ascii)


def print_anywhere() -> None:
    """Let standard output and error take any letter, written plainly where they have no such letter."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by whoever started this
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115
    out = sys.stdout
    own = out is sys.__stdout__  # not what a test or a notebook has put in its place
    if own and isinstance(out, io.TextIOWrapper) and isinstance(out.buffer, io.RawIOBase):
        # Python -u: what a disk has no room for would be lost without an error.
        whole = io.BufferedWriter(out.buffer)
        sys.stdout = io.TextIOWrapper(whole, out.encoding, out.errors, line_buffering=True)
    # A letter that the font of pictures lacks is a box there, and what cannot be kept is compiled again: the
    # warnings would quote lines of source, one after another.
    for unimportant in ("Glyph .* missing from", "Error (reading|writing) persistent compilation cache"):
        warnings.filterwarnings("ignore", unimportant, UserWarning)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            any_letter = (stream.encoding or "").lower().startswith("utf")
            # The name of a file may hold what is no letter.
            if stream.errors == "strict" or not any_letter:
                stream.reconfigure(errors="polinfer.plain")


def tables() -> Console:
    """Where tables go: standard output."""
    return _console(sys.stdout)


def remarks() -> Console:
    """Where progress and remarks go: standard error, so that standard output stays clean."""
    return _console(sys.stderr)


def drop_output(stream: IO[str]) -> None:
    """Send what is still to be written nowhere, where the reader has left."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


_CODE = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")  # all but the end of a line


class _Console(Console):
    """Goes on when its reader leaves (``polinfer plan ... | head -1``); rich would end the process."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        drop_output(self.file)

    def render(self, *asked: Any, **more: Any) -> Iterator[Segment]:
        """Render without the codes by which names in a file would rule the terminal."""
        for segment in super().render(*asked, **more):
            yield segment if segment.control else segment._replace(text=_CODE.sub("?", segment.text))


class _Terminal:
    """A stream to what may be a terminal: that it is closed is to be the same as a reader that leaves.

    Asking does not help: a terminal that is closed says that it is none.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> None:
        with _closed_as_broken():
            self._stream.write(text)

    def flush(self) -> None:
        with _closed_as_broken():
            self._stream.flush()


@contextmanager
def _closed_as_broken() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        raise BrokenPipeError(*error.args) from error


def _console(stream: TextIO) -> Console:
    stream = cast(TextIO, _Terminal(stream))
    console = _Console(file=stream, highlight=False)
    # COLUMNS=0, or a terminal that does not know: rich would print nothing at all.
    return console if console.width >= _NARROWEST else _Console(file=stream, highlight=False, width=80)


def print_json(value: Any) -> None:
    """Print one JSON object on standard output; NaN has no place in JSON and becomes null."""
    sys.stdout.write(json.dumps(plain(value), allow_nan=False) + "\n")


@contextmanager
def progress_bar(seeds: int = 1) -> Iterator[ReportProgress]:
    """Show progress on standard error."""
    with bar_on(seeds, remarks()) as report:
        yield report
