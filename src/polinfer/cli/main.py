"""From words to a command, and from an error to one sentence."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.metadata import version
from typing import Annotated

import tyro

from polinfer.cli.compare import Compare
from polinfer.cli.explain import Explain
from polinfer.cli.listing import List
from polinfer.cli.output import remarks, tables
from polinfer.cli.path import Path
from polinfer.cli.plan import Plan
from polinfer.cli.report import Report
from polinfer.cli.reproduce import Reproduce
from polinfer.core.errors import PolinferError

Command = (
    Annotated[List, tyro.conf.subcommand("list")]
    | Annotated[Plan, tyro.conf.subcommand("plan")]
    | Annotated[Compare, tyro.conf.subcommand("compare")]
    | Annotated[Path, tyro.conf.subcommand("path")]
    | Annotated[Explain, tyro.conf.subcommand("explain")]
    | Annotated[Reproduce, tyro.conf.subcommand("reproduce")]
    | Annotated[Report, tyro.conf.subcommand("report")]
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code."""
    if list(sys.argv[1:] if arguments is None else arguments) == ["--version"]:
        tables().print(f"polinfer {version('polinfer')}")
        return 0
    command = tyro.cli(
        Command,
        prog="polinfer",
        description="Planning in Markov decision processes as Bayesian inference over policies.",
        args=arguments,
        config=(tyro.conf.OmitSubcommandPrefixes,),
    )
    try:
        command.run()
    except PolinferError as error:
        if command.debug:
            raise
        remarks().print(f"polinfer: {error}", style="red", markup=False, soft_wrap=True)
        return 2
    except BrokenPipeError:
        # The reader of our output left (`polinfer list | head`): nothing is wrong.
        sys.stderr.close()
        return 0
    except OSError as error:
        # A folder that cannot be written, a disk that is full: the user's to mend.
        if command.debug:
            raise
        where = f" ({error.filename})" if error.filename else ""
        remarks().print(
            f"polinfer: {error.strerror or error}{where}", style="red", markup=False, soft_wrap=True
        )
        return 2
    except KeyboardInterrupt:
        remarks().print("polinfer: stopped")
        return 130
    return 0
