"""From words to a command; the parser's complaints become one sentence."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import os
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, get_type_hints

import tyro

from polinfer.cli.flags import flag_of
from polinfer.core.errors import PolinferError, shorten, suggest
from polinfer.methods.registry import owners

_STYLE = (tyro.conf.DisallowNone, tyro.conf.FlagCreatePairsOff)
_REPEATED = ("--wrapper",)
_VALUE = re.compile(r"Error parsing (?P<flag>\S+?):")


def parse(command: Any, prog: str, arguments: Sequence[str], method: str | None = None) -> Any:
    """Fill the dataclass `command` from words.

    Parameters
    ----------
    command
        The dataclass.
    prog
        What the user typed before the words.
    arguments
        The words.
    method
        The method whose flags the command has, for the sentence that refuses another's.
    """
    known = known_flags(command)
    for word in arguments:
        flag = word.partition("=")[0]
        # An underscore is as good as a dash, as the parser has it.
        if flag.startswith("--") and flag != "--" and flag.replace("_", "-") not in known:
            raise PolinferError(_unknown(flag, known, prog, method))
    _refuse_twice(arguments, known)
    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint), _wide_unless_help(arguments):
            return tyro.cli(command, prog=prog, args=list(arguments), config=_STYLE)
    except SystemExit as stop:
        if stop.code in (0, None):
            raise
        raise PolinferError(_sentence(complaint.getvalue(), arguments, prog)) from None


def _refuse_twice(arguments: Sequence[str], known: set[str]) -> None:
    """Refuse a flag that is given two values: the parser would keep the last and say nothing."""
    seen: set[str] = set()
    for word, after in pairwise([*arguments, "--"]):
        flag, equals, _ = word.partition("=")
        flag = flag.replace("_", "-")
        if flag not in known or not (equals or not after.startswith("--")):
            continue
        if flag in seen and flag not in _REPEATED:
            several = "; several values go behind one: --set a=1 b=2" if flag == "--set" else ""
            raise PolinferError(f"{flag} is given twice{several}")
        seen.add(flag)


@contextlib.contextmanager
def _wide_unless_help(arguments: Sequence[str]) -> Iterator[None]:
    """Let the parser complain in long lines, which are read here, whatever the width of the terminal."""
    before = os.environ.get("COLUMNS")
    if {"-h", "--help"} & set(arguments):
        yield
        return
    os.environ["COLUMNS"] = "2000"
    try:
        yield
    finally:
        if before is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = before


def known_flags(command: Any) -> set[str]:
    """Return all flags of a command, ``--help`` included."""
    found = {"--help"}
    for field in dataclasses.fields(command):
        kind = _plain_type(field.type, command, field.name)
        if dataclasses.is_dataclass(kind):
            found |= known_flags(kind)
            continue
        name = flag_of(_written_name(kind, field.name))
        found |= {name, "--no-" + name[2:]}
    return found


def _plain_type(kind: Any, command: Any, name: str) -> Any:
    """Return a field's type without the parser's marks, resolved where it was written as text."""
    if isinstance(kind, str):
        kind = get_type_hints(command, include_extras=True).get(name, kind)
    inner = getattr(kind, "__origin__", None)
    return inner if dataclasses.is_dataclass(inner) else kind


def _written_name(kind: Any, name: str) -> str:
    """Return the name that a field is typed by, where it has another."""
    for mark in getattr(kind, "__metadata__", ()):
        written = getattr(mark, "name", None)
        if isinstance(written, str):
            return written
    return name


def _unknown(flag: str, known: set[str], prog: str, method: str | None) -> str:
    field = flag[2:].replace("-", "_")
    whose = owners(field) or owners(field.removeprefix("no_"))
    if method is not None and whose:
        return f"method {method!r} has no setting {flag}; it belongs to {', '.join(whose)}"
    return f"{prog} has no flag {shorten(flag)}{suggest(flag, known)}; '{prog} --help' lists them"


def _sentence(complaint: str, arguments: Sequence[str], prog: str) -> str:
    """Return what the parser means, without its box."""
    lines = [line.strip(" │╭╮╰╯─") for line in complaint.splitlines()]
    lines = [line for line in lines if line.strip("-")]
    text = " ".join(lines)
    found = _VALUE.search(text)
    if found:
        flag = found["flag"]
        kind = re.search(rf"{re.escape(flag)} (\S+)", text[found.end() :])
        given = [b for a, b in pairwise(arguments) if a.replace("_", "-") == flag]
        given += [word.partition("=")[2] for word in arguments if word.startswith(flag + "=")]
        got = f", got {shorten(repr(given[0]))}" if given else ""
        takes = f" takes {_KINDS.get(kind[1], kind[1])}" if kind else " has a bad value"
        return f"{flag}{takes}{got}; '{prog} --help' tells more"
    if "Missing from" in text:
        needed = [line for line in lines[1:] if re.fullmatch(r"[A-Z][A-Z_]*|--[\w-]+.*", line)]
        what = needed[0] if needed else "an argument"
        return f"{prog} needs {what}; '{prog} --help' tells more"
    # The first line is the title of the box.
    detail = shorten(re.sub(r"For full helptext.*", "", " ".join(lines[1:])).strip(" ."), 300)
    return f"{detail[:1].lower()}{detail[1:] or 'the arguments cannot be read'}; '{prog} --help' tells more"


_KINDS = {"INT": "a whole number", "FLOAT": "a number", "[INT": "whole numbers", "[FLOAT": "numbers"}
