"""From words to a command, and from an error to one sentence."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

from rich.console import Group
from rich.table import Table

from polinfer.cli.certify import Certify
from polinfer.cli.compare import Compare
from polinfer.cli.explain import Explain
from polinfer.cli.listing import List
from polinfer.cli.output import remarks, tables
from polinfer.cli.parser import parse
from polinfer.cli.path import Path
from polinfer.cli.plan import Plan, method_of, plan_command
from polinfer.cli.report import Report
from polinfer.cli.reproduce import Reproduce
from polinfer.core.errors import PolinferError, shorten, suggest
from polinfer.methods import DEFAULT_METHOD

_LONGEST = 900  # letters of a complaint

COMMANDS: dict[str, Any] = {
    "list": List,
    "plan": Plan,
    "compare": Compare,
    "path": Path,
    "explain": Explain,
    "certify": Certify,
    "reproduce": Reproduce,
    "report": Report,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words == ["--version"]:
        tables().print(f"polinfer {version('polinfer')}")
        return 0
    if not words or words[0] in ("-h", "--help"):
        tables().print(_overview())
        raise SystemExit(0 if words else 2)
    try:
        _parse(words).run()
    except PolinferError as error:
        if "--debug" in words:
            raise
        _complain(str(error))
        return 2
    except BrokenPipeError:
        # The reader of our output left (`polinfer list | head`): nothing is wrong.
        sys.stderr.close()
        return 0
    except OSError as error:
        # A folder that cannot be written, a disk that is full: the user's to mend.
        if "--debug" in words:
            raise
        where = f" ({error.filename})" if error.filename else ""
        _complain(f"{error.strerror or error}{where}")
        return 2
    except KeyboardInterrupt:
        remarks().print("polinfer: stopped")
        return 130
    return 0


def _complain(sentence: str) -> None:
    """Print one line, whatever a file or a word on the command line brought into it."""
    said = shorten(sentence, _LONGEST)
    remarks().print(f"polinfer: {said}", style="red", markup=False, soft_wrap=True)


def _parse(words: list[str]) -> Any:
    name, rest = words[0], words[1:]
    if name not in COMMANDS:
        raise PolinferError(
            f"unknown command {shorten(repr(name))}{suggest(name, COMMANDS)}; there are {', '.join(COMMANDS)}"
        )
    prog = f"polinfer {name}"
    if name != "plan":
        return parse(COMMANDS[name], prog, rest)
    method = method_of(rest)
    general_help = method is None and bool({"-h", "--help"} & set(rest))
    shown = None if general_help else method or DEFAULT_METHOD
    return parse(plan_command(shown), prog, rest, method=shown)


def _overview() -> Group:
    commands = Table.grid(padding=(0, 2))
    for name, command in COMMANDS.items():
        commands.add_row(f"  {name}", (command.__doc__ or "").splitlines()[0])
    return Group(
        "Planning in Markov decision processes as Bayesian inference over policies.\n",
        "usage: polinfer COMMAND [...]\n",
        commands,
        "\n'polinfer COMMAND --help' tells more about one.",
        "Start with: polinfer plan gridworld/multimodal --reward-scale 2",
    )
