"""From words to a command; the parser's complaints become one sentence."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import os
import re
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache
from itertools import pairwise
from typing import Any, cast, get_type_hints

import tyro

from polinfer.cli.flags import flag_of
from polinfer.core.errors import PolinferError, shorten, suggest
from polinfer.methods.registry import owners

_STYLE = (tyro.conf.DisallowNone, tyro.conf.FlagCreatePairsOff)
_REPEATED = ("--wrapper",)
_VALUE = re.compile(r"Error parsing (?P<flag>\S+?):")
_CHOICE = re.compile(
    r"invalid choice (?P<got>.*) for argument '(?P<flag>\S+)'\. Expected one of (?P<known>\(.*\))"
)
_LACKING = re.compile(r"Missing value for argument '(?P<flag>[^']*)'")


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


def _refuse_twice(arguments: Sequence[str], known: AbstractSet[str]) -> None:
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


@lru_cache(maxsize=64)
def known_flags(command: Any) -> frozenset[str]:
    """Return all flags of a command, ``--help`` included."""
    found, hints = {"--help"}, get_type_hints(command, include_extras=True)
    for field in dataclasses.fields(command):
        kind = _plain_type(hints.get(field.name, field.type))
        if dataclasses.is_dataclass(kind):
            found |= known_flags(cast(Any, kind))
            continue
        name = flag_of(_written_name(kind, field.name))
        # A switch has one form: that which changes its default.
        found.add("--no-" + name[2:] if field.default is True else name)
    return frozenset(found)


def _plain_type(kind: Any) -> Any:
    """Return a field's type without the parser's marks."""
    inner = getattr(kind, "__origin__", None)
    return inner if dataclasses.is_dataclass(inner) else kind


def _written_name(kind: Any, name: str) -> str:
    """Return the name that a field is typed by, where it has another."""
    for mark in getattr(kind, "__metadata__", ()):
        written = getattr(mark, "name", None)
        if isinstance(written, str):
            return written
    return name


def _unknown(flag: str, known: AbstractSet[str], prog: str, method: str | None) -> str:
    field = flag[2:].replace("-", "_")
    whose = owners(field) or owners(field.removeprefix("no_"))
    if method is not None and whose and method not in whose:
        return f"method {method!r} has no setting {flag}; it belongs to {', '.join(whose)}"
    return f"{prog} has no flag {shorten(flag)}{suggest(flag, known)}; '{prog} --help' lists them"


def _sentence(complaint: str, arguments: Sequence[str], prog: str) -> str:
    """Return what the parser means, without its box."""
    lines = [line.strip(" │╭╮╰╯─") for line in complaint.splitlines()]
    lines = [line for line in lines if line.strip("-")]
    text = " ".join(lines[1:])
    for reading in (_bad_value, _bad_choice, _missing, _no_place):
        said = reading(text, lines, arguments, prog)
        if said:
            return f"{said}; '{prog} --help' tells more"
    # The first line is the title of the box.
    detail = shorten(re.sub(r"For full helptext.*", "", text).strip(" ."), 300)
    return f"{detail[:1].lower()}{detail[1:] or 'the arguments cannot be read'}; '{prog} --help' tells more"


def _bad_value(text: str, lines: Sequence[str], arguments: Sequence[str], prog: str) -> str | None:
    found = _VALUE.search(text)
    if not found:
        return None
    flag = found["flag"]
    kind = re.search(rf"{re.escape(flag)} (\S+)", text[found.end() :])
    takes = _KINDS.get(kind[1], kind[1]) if kind else None
    given = _values(flag, arguments)
    wrong = [word for word in given if takes not in _KINDS.values() or not _reads_as(takes, word)]
    got = f", got {shorten(repr((wrong or given)[0]))}" if given else ""
    return f"{flag}{f' takes {takes}' if takes else ' has a bad value'}{got}"


def _bad_choice(text: str, lines: Sequence[str], arguments: Sequence[str], prog: str) -> str | None:
    found = _CHOICE.search(text)
    if not found:
        return None
    known = re.findall(r"'([^']*)'", found["known"])
    return f"{found['flag']} takes one of {', '.join(known)}, got {shorten(found['got'])}"


def _missing(text: str, lines: Sequence[str], arguments: Sequence[str], prog: str) -> str | None:
    found = _LACKING.search(text)
    if found and found["flag"].startswith("--"):
        return f"{found['flag']} needs a value behind it"
    if found:
        return f"{prog} needs {found['flag'].rpartition('.')[2].upper()}"
    if any("Missing from" in line for line in lines):
        needed = [line for line in lines[1:] if re.fullmatch(r"[A-Z][A-Z_]*|--[\w-]+.*", line)]
        return f"{prog} needs {needed[0] if needed else 'an argument'}"
    return None


def _no_place(text: str, lines: Sequence[str], arguments: Sequence[str], prog: str) -> str | None:
    _, found, rest = text.partition("Unrecognized options: ")
    if not found:
        return None
    # The parser separates words by commas, which words have, too: the longest that fits is meant.
    words = [part for word in arguments for part in (word, word.partition("=")[2]) if rest.startswith(part)]
    word = max(words, key=len, default="")
    for argument in arguments:
        flag, equals, value = argument.partition("=")
        if equals and value == word and flag.startswith("--"):
            return f"{flag} takes no value, got {shorten(repr(word))}"
    if word.startswith("-"):
        return f"{prog} has no flag {shorten(word)}"
    return f"{prog} has no place for {shorten(repr(word))}: a flag takes one value, and the rest is too much"


def _values(flag: str, arguments: Sequence[str]) -> list[str]:
    """Return the words that stand behind a flag."""
    for place, word in enumerate(arguments):
        name, equals, value = word.partition("=")
        if name.replace("_", "-") == flag:
            behind = [value] if equals else []
            for after in arguments[place + 1 :]:
                if after.startswith("--"):
                    break
                behind.append(after)
            return behind
    return []


def _reads_as(takes: str | None, word: str) -> bool:
    try:
        (int if takes in ("a whole number", "whole numbers") else float)(word)
    except ValueError:
        return False
    return True


_KINDS = {"INT": "a whole number", "FLOAT": "a number", "[INT": "whole numbers", "[FLOAT": "numbers"}
