"""From words to a command, and from an error to one sentence."""

from __future__ import annotations

import contextlib
import errno
import importlib
import os
import sys
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

from rich.console import Group
from rich.table import Table

from polinfer.cli.output import drop_output, print_anywhere, remarks, tables
from polinfer.core.compiled_cache import keep_compiled_programs
from polinfer.core.errors import LONGEST_COMPLAINT, PolinferError, shorten, suggest
from polinfer.core.limits import limits_lifted
from polinfer.runs.lock import release_all

_MAKE_ROOM = "; make room, then run it again (a method that resumes goes on with --resume)"
_REMEDIES = {
    errno.ENOSPC: _MAKE_ROOM,
    errno.EDQUOT: _MAKE_ROOM,
    errno.EFBIG: "; let files be larger (ulimit -f), then run it again",
    errno.ENOENT: "; go to a folder that is there, or name one (--out)",
    errno.EROFS: "; name a folder that can be written to (--out)",
    errno.EACCES: "; name a folder that can be written to (--out)",
}

COMMANDS = {
    "list": "listing:List",
    "plan": "plan:Plan",
    "compare": "compare:Compare",
    "path": "path:Path",
    "explain": "explain:Explain",
    "explore": "explore:Explore",
    "certify": "certify:Certify",
    "reproduce": "reproduce:Reproduce",
    "report": "report:Report",
}
"""Modules and classes; only the one that is asked for is loaded, with the packages that it needs."""


def command_named(name: str) -> Any:
    """Return the dataclass of a command."""
    module, _, kind = COMMANDS[name].partition(":")
    return getattr(importlib.import_module(f"polinfer.cli.{module}"), kind)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code."""
    print_anywhere()
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        _obey(words)
    except PolinferError as error:
        if "--debug" in words:
            raise
        _complain(str(error))
        return 2
    except BrokenPipeError:
        # The reader of our output left (`polinfer list | head`): nothing is wrong.
        drop_output(sys.stdout)
        return 0
    except MemoryError:
        if "--debug" in words:
            raise
        _complain("not enough memory; choose a smaller problem, or fewer particles, policies or seeds")
        return 2
    except RuntimeError as error:
        sentence = _of_system(error)
        if sentence is None or "--debug" in words:
            raise
        _complain(sentence)
        return 2
    except OSError as error:
        # A folder that cannot be written, a disk that is full: the user's to mend.
        if "--debug" in words:
            raise
        where = f" ({error.filename})" if error.filename else ""
        _complain(f"{error.strerror or error}{where}{_REMEDIES.get(error.errno or 0, '')}")
        _give_up_output()
        return 2
    except KeyboardInterrupt:
        remarks().print("polinfer: stopped")
        return 130
    finally:
        release_all()
    return 0


def _obey(words: list[str]) -> None:
    """Do what the words say; what was printed is written when this ends."""
    try:
        if words == ["--version"]:
            tables().print(f"polinfer {version('polinfer')}")
        elif not words or words[0] in ("-h", "--help"):
            tables().print(_overview())
            raise SystemExit(0 if words else 2)
        else:
            command = _parse(words)
            _keep_compiled_programs()
            _check_platform()
            with limits_lifted(command.force):
                command.run()
    except SystemExit:
        sys.stdout.flush()
        raise
    sys.stdout.flush()


def _keep_compiled_programs() -> None:
    try:
        keep_compiled_programs()
    except PolinferError as error:
        # A command runs without: it only takes longer.
        remarks().print(f"note: {error}", markup=False, soft_wrap=True)


def _complain(sentence: str) -> None:
    """Print one line, whatever a file or a word on the command line brought into it."""
    said = shorten(sentence, LONGEST_COMPLAINT)
    # Where even that cannot be written (2> /dev/full) the exit code has to say it.
    with contextlib.suppress(OSError):
        remarks().print(f"polinfer: {said}", style="red", markup=False, soft_wrap=True)


def _give_up_output() -> None:
    """Let go of output that cannot be written: Python would try at its end and exit with its own code."""
    try:
        sys.stdout.flush()
    except OSError:
        drop_output(sys.stdout)


def _check_platform() -> None:
    """Refuse a platform that JAX is told to use and cannot: it would fail somewhere, with a riddle."""
    wanted = os.environ.get("JAX_PLATFORMS", "")
    if wanted in ("", "cpu"):
        return
    try:
        importlib.import_module("jax").devices()
    except (RuntimeError, AssertionError):
        raise PolinferError(
            f"JAX cannot use the platform {shorten(repr(wanted))} here; unset JAX_PLATFORMS, or set it to cpu"
        ) from None


def _of_system(error: RuntimeError) -> str | None:
    """Return what the user can mend of JAX's complaints, and of Python's; None for a bug."""
    told = str(error)
    if "can't start new thread" in told:
        return "no more threads are allowed here; allow more (ulimit -u), or use fewer --jobs"
    if "RESOURCE_EXHAUSTED" in told or "Out of memory" in told:
        return "not enough memory; choose a smaller problem, or fewer particles, policies or seeds"
    return None


def _parse(words: list[str]) -> Any:
    name, rest = words[0], words[1:]
    if name not in COMMANDS:
        raise PolinferError(
            f"unknown command {shorten(repr(name))}{suggest(name, COMMANDS)}; there are {', '.join(COMMANDS)}"
        )
    prog, command = f"polinfer {name}", command_named(name)
    parse = importlib.import_module("polinfer.cli.parser").parse
    if name != "plan":
        return parse(command, prog, rest)
    plan = importlib.import_module("polinfer.cli.plan")
    method = plan.method_of(rest)
    general_help = method is None and bool({"-h", "--help"} & set(rest))
    shown = None if general_help else method or plan.DEFAULT_METHOD
    return parse(plan.plan_command(shown), prog, rest, method=shown)


def _overview() -> Group:
    commands = Table.grid(padding=(0, 2))
    for name in COMMANDS:
        commands.add_row(f"  {name}", (command_named(name).__doc__ or "").splitlines()[0])
    return Group(
        "Planning in Markov decision processes as Bayesian inference over policies.\n",
        "usage: polinfer COMMAND [...]\n",
        commands,
        "\n'polinfer COMMAND --help' tells more about one.",
        "Start with: polinfer plan gridworld/multimodal --reward-scale 2",
    )
