"""What `polinfer explore` and `posterior.explore` were given, as something that the page can show."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from polinfer.core.errors import PolinferError
from polinfer.explore.limits import preset_of
from polinfer.explore.records import GridProblem, NamedProblem, OpenedProblem
from polinfer.explore.server import DEFAULT, Start, serve
from polinfer.posterior.posterior import Posterior
from polinfer.posterior.saving import CONFIG
from polinfer.posterior.viewing import register_viewer
from polinfer.problems.domains import GridWorld
from polinfer.problems.domains.gridworld import gridworld
from polinfer.problems.registry import Problem, spec_of
from polinfer.problems.spec import Spec
from polinfer.problems.tables import shared_table
from polinfer.problems.tabular import TabularMDP, save_table
from polinfer.problems.tabular.files import SUFFIXES
from polinfer.runs.folder import load


def is_run(path: Path) -> bool:
    """Whether `path` is the folder of a run."""
    return path.is_dir() and (path / CONFIG).is_file()


def is_map(path: Path) -> bool:
    """Whether `path` is a file that can only be a text map."""
    return path.is_file() and path.suffix not in SUFFIXES


@contextmanager
def opened(given: Problem | Path | None) -> Iterator[Start]:
    """Prepare what the page starts with: a problem, a run folder, a text map, or nothing."""
    here = Path.cwd()
    if given is None:
        yield Start(DEFAULT, folder=here)
    elif isinstance(given, Path) and is_run(given):
        load(given)  # Refuses a damaged one now, with its sentence.
        digest = _digest(str(given.resolve()))
        yield Start(
            OpenedProblem(digest),
            given.name,
            ((digest, str(given.resolve())),),
            given.resolve().parent,
            f"polinfer.load({given.name!r})",
            is_run=True,
        )
    elif isinstance(given, Path):
        if not given.exists():
            raise PolinferError(f"{given}: no such file or folder")
        yield Start(_of_grid(gridworld(given)), given.name, folder=given.resolve().parent)
    else:
        spec = spec_of(given)
        known = None if spec is None else preset_of(spec.name, dict(spec.options))
        if spec is not None and known is not None:
            asked = {name: spec.options[name] for name in ("horizon", "reward_scale") if name in spec.options}
            yield Start(NamedProblem(known, **asked), folder=here)
            return
        if isinstance(given, GridWorld):
            yield Start(_of_grid(given), folder=here)
            return
        with tempfile.TemporaryDirectory(prefix="polinfer-explore-") as scratch:
            path = Path(scratch) / "problem.npz"
            save_table(shared_table(given), path)
            digest = _digest(str(path))
            name = "" if spec is None else spec.name
            yield Start(OpenedProblem(digest), name, ((digest, str(path)),), here, _expression(spec))


def explore_posterior(posterior: Posterior, *, port: int | None = None, open_browser: bool = True) -> None:
    """Show a posterior in the browser, until this is interrupted."""
    if not isinstance(posterior.view, TabularMDP):
        raise PolinferError(
            "only a posterior on a table can be explored; tabulate the problem and infer again"
        )
    shown = posterior
    if spec_of(posterior.mdp) is None:
        shown = replace(posterior, mdp=posterior.view)
    with tempfile.TemporaryDirectory(prefix="polinfer-explore-") as scratch:
        folder = Path(scratch) / "posterior"
        shown.save(folder)
        with opened(folder) as start:
            serve(
                replace(start, folder=Path.cwd(), source="posterior"),
                port=port,
                open_browser=open_browser,
                ready=lambda serving: print(f"polinfer explore: {serving.address}", flush=True),
            )


def _of_grid(grid: GridWorld) -> GridProblem:
    names = [name for name in GridProblem.__struct_fields__ if name != "map"]
    return GridProblem("\n".join(grid.rows), **{name: getattr(grid, name) for name in names})


def _expression(spec: Spec | None) -> str:
    """Return what makes the problem in Python; a table of one's own is called `table`."""
    if spec is None:
        return "table"
    options = "".join(f", {name}={value!r}" for name, value in spec.options.items())
    return f"polinfer.make({spec.name!r}{options})"


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


register_viewer(explore_posterior)
