"""From words to a command, and from an error to one sentence."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import tyro

from polinfer.cli.compare import Compare
from polinfer.cli.listing import List
from polinfer.cli.output import remarks
from polinfer.cli.plan import Plan
from polinfer.errors import PolinferError

Command = (
    Annotated[List, tyro.conf.subcommand("list")]
    | Annotated[Plan, tyro.conf.subcommand("plan")]
    | Annotated[Compare, tyro.conf.subcommand("compare")]
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code."""
    command = tyro.cli(
        Command,
        prog="polinfer",
        description="Planning in Markov decision processes as Bayesian inference over policies.",
        args=arguments,
        config=(tyro.conf.OmitSubcommandPrefixes, tyro.conf.FlagCreatePairsOff),
    )
    try:
        command.run()
    except PolinferError as error:
        if command.debug:
            raise
        remarks().print(f"polinfer: {error}", style="red", markup=False, soft_wrap=True)
        return 2
    except KeyboardInterrupt:
        remarks().print("polinfer: stopped")
        return 130
    except BrokenPipeError:
        # The reader of our output left (`polinfer list | head`): nothing is wrong.
        sys.stderr.close()
        return 0
    return 0
