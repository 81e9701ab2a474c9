"""`polinfer explore`: the page in the browser."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from polinfer.cli.output import OutputFlags, print_json, remarks
from polinfer.cli.problem_flags import ProblemFlags
from polinfer.core.errors import PolinferError
from polinfer.explore.opening import is_map, is_run, opened
from polinfer.explore.security import is_loopback
from polinfer.explore.server import Serving, serve
from polinfer.problems.domains.gridworld import gridworld
from polinfer.problems.registry import Problem


@dataclass(frozen=True)
class Explore(OutputFlags):
    """Show a problem, a map or a run in the browser: draw, slide the reward scale, ask, watch, compare.

    Examples: 'polinfer explore', 'polinfer explore gridworld/ablation', 'polinfer explore map.txt',
    'polinfer explore runs/demo'.
    """

    what: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="[PROBLEM|FILE|RUN]")] = ""
    """A name from 'polinfer list', a table file, a text map, or the folder of a run."""
    horizon: int | None = None
    """The largest number of steps in an episode; the problem's own by default."""
    reward_scale: float | None = None
    """A factor on every reward."""
    port: int | None = None
    """The port of the server; a free one by default."""
    host: str = "127.0.0.1"
    """The address to listen on.  Anything but loopback lets others on the network ask for the page."""
    open: bool = True
    """Open the browser; --no-open only prints the address."""

    def run(self) -> None:
        """Serve until interrupted."""
        if self.port is not None and not 1 <= self.port <= 65535:
            raise PolinferError(f"--port must lie in 1..65535, got {self.port}")
        if not is_loopback(self.host):
            remarks().print(
                "note: this listens to the network; whoever has the printed address may use it",
                style="yellow",
            )
        with opened(self.given()) as start:
            serve(
                start,
                host=self.host,
                port=self.port,
                open_browser=self.open and has_screen(),
                ready=self._announce,
            )

    def given(self) -> Problem | Path | None:
        """Return what is to be opened: a problem, the path of a map or a run, or nothing."""
        path = Path(self.what)
        if not self.what:
            return None
        asked = self.horizon is not None or self.reward_scale is not None
        if is_run(path) and asked:
            raise PolinferError(f"the run {path} has its own; leave out --horizon and --reward-scale")
        if is_run(path) or (is_map(path) and not asked):
            return path
        if is_map(path):
            factor = 1.0 if self.reward_scale is None else self.reward_scale
            return gridworld(path, horizon=self.horizon, reward_scale=factor)
        scale = None if self.reward_scale is None else repr(self.reward_scale)
        return ProblemFlags(self.what, horizon=self.horizon, reward_scale=scale).make()

    def _announce(self, serving: Serving) -> None:
        if self.json:
            print_json({"address": serving.address})
            sys.stdout.flush()
            return
        console = remarks()
        console.print(f"polinfer explore: {serving.address}", markup=False, soft_wrap=True)
        if self.open and not has_screen():
            port = serving.address.split(":")[2].split("/")[0]
            console.print(
                f"There is no screen here; from your own machine: ssh -L {port}:127.0.0.1:{port} "
                "THIS-MACHINE, then open the address there.",
                markup=False,
                soft_wrap=True,
            )
        console.print("Ctrl-C ends it.")


def has_screen() -> bool:
    """Whether a browser could be shown: not over a remote terminal, not without a display."""
    if sys.platform in ("darwin", "win32"):
        return "SSH_CONNECTION" not in os.environ
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
