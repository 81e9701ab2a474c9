"""From a request to a problem: the same validators as for files, and bounds on what a page may ask for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from polinfer.core.errors import PolinferError, check_finite, suggest
from polinfer.core.protocol import MDP
from polinfer.core.strict_json import parse_json
from polinfer.explore.records import (
    MAX_HORIZON,
    MAX_SIDE,
    MAX_STATES,
    GridProblem,
    JobRequest,
    NamedProblem,
    OpenedProblem,
    ProblemRequest,
)
from polinfer.problems.domains.gridworld import GridWorld
from polinfer.problems.registry import Problem, list_domains, make
from polinfer.problems.tables import shared_table, table_of
from polinfer.problems.tabular import TabularMDP, load_table
from polinfer.problems.tabular.files import table_from_mapping
from polinfer.runs.folder import load

PRESETS: dict[str, str] = {
    "gridworld/multimodal": "Two ways (paper)",
    "gridworld/unimodal": "One way (paper)",
    "gridworld/flat": "Flat (paper)",
    "gridworld/ablation": "Swamp beside the goal (paper)",
    "gym:FrozenLake-v1": "FrozenLake",
    "gym:CliffWalking-v1": "CliffWalking",
    "continuation": "Worked example: 0.55 or 0.73",
    "tireworld/1": "Triangle Tireworld 1",
    "blackjack": "Blackjack",
    "advising/1 relevant": "Academic Advising 1, relevant courses",
}
"""Problems that the page offers, with what it calls them.  Other addresses of Gymnasium are not made: they
may name modules to import."""

SETTINGS: dict[str, dict[str, Any]] = {
    "gym:CliffWalking-v1": {"horizon": 100},
    "advising/1 relevant": {"relevant_only": True},
}
"""Options of presets; a word behind a name tells it from the problem without them."""

Sources = dict[str, str]
"""Where the worker finds opened problems: digest to path, of a run folder or of a table file."""


def check_request(request: JobRequest) -> None:
    """Refuse what is out of bounds, before anything is computed."""
    check_problem(request.problem)
    if not 1e-4 <= check_finite("scale", request.scale) <= 1e4:
        raise PolinferError(f"scale must lie in 0.0001..10000, got {request.scale:g}")
    if len(request.given) > 8:
        raise PolinferError(f"at most 8 choices can be given, got {len(request.given)}")
    if not 1 <= request.sweeps <= 50_000:
        raise PolinferError(f"sweeps must lie in 1..50000, got {request.sweeps}")
    if not 0 <= request.seed < 2**31:
        raise PolinferError(f"seed must lie in 0..{2**31 - 1}, got {request.seed}")


def check_problem(problem: ProblemRequest) -> None:
    """Refuse a problem that is out of bounds; its states are counted when it is made."""
    if problem.horizon is not None and not 1 <= problem.horizon <= MAX_HORIZON:
        raise PolinferError(f"horizon must lie in 1..{MAX_HORIZON} here, got {problem.horizon}")
    if not 0 < check_finite("reward_scale", problem.reward_scale) <= 1e4:
        raise PolinferError(f"reward_scale must be above 0 and at most 10000, got {problem.reward_scale:g}")
    if isinstance(problem, GridProblem):
        rows = problem.map.split("\n")
        if len(rows) > MAX_SIDE or max(map(len, rows)) > MAX_SIDE:
            raise PolinferError(f"a map may have at most {MAX_SIDE} by {MAX_SIDE} cells here")
        # The class takes rows and nothing else, so no map can be mistaken for the name of a file.
        GridWorld(tuple(rows), **{k: v for k, v in msgspec.structs.asdict(problem).items() if k != "map"})
    elif isinstance(problem, NamedProblem) and problem.name not in known_names():
        raise PolinferError(
            f"unknown problem {problem.name!r}{suggest(problem.name, known_names())}; choose one of the list"
        )


def known_names() -> list[str]:
    """Return the names that a page may ask for: built-in problems that need no file, and the presets."""
    # Advising has too many states, and `gridworld` needs a map.
    others = (name for name in list_domains() if name != "gridworld" and not name.startswith("advising/"))
    return [*PRESETS, *(name for name in others if name not in PRESETS)]


def make_problem(problem: ProblemRequest, sources: Sources) -> Problem:
    """Make the problem that a page asks for; refuse one that is no table of bounded size."""
    check_problem(problem)
    made: Problem
    if isinstance(problem, GridProblem):
        made = make("gridworld", **msgspec.structs.asdict(problem))
    elif isinstance(problem, NamedProblem):
        made = make(problem.name.split()[0], **_options(problem))
    else:
        made = open_source(_source(problem, sources), problem)
    table = (
        made
        if isinstance(made, TabularMDP)
        else table_of(made, MAX_STATES)
        if isinstance(made, MDP)
        else None
    )
    if table is None or table.num_states > MAX_STATES:
        raise PolinferError(
            f"the problem is no table of at most {MAX_STATES:,} states, which the page can show; "
            "use polinfer plan"
        )
    return made


def open_source(path: Path, problem: OpenedProblem) -> Problem:
    """Return the problem of a run folder, or of a table file."""
    if not path.is_dir():
        return load_table(path).with_problem(horizon=problem.horizon, reward_scale=problem.reward_scale)
    found = load(path).mdp
    if problem.horizon is None and problem.reward_scale == 1.0:
        return found
    return shared_table(found).with_problem(horizon=problem.horizon, reward_scale=problem.reward_scale)


def read_upload(body: bytes) -> TabularMDP:
    """Return the table that was uploaded as JSON, checked as a file would be."""
    try:
        contents = parse_json(body.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise PolinferError(f"the file is not JSON ({error}); a table file is an object with names") from None
    if not isinstance(contents, dict):
        raise PolinferError("the file is not an object with names, as a table file is")
    table = table_from_mapping(contents)
    if table.num_states > MAX_STATES or table.horizon > MAX_HORIZON:
        raise PolinferError(
            f"the table has {table.num_states:,} states and horizon {table.horizon:,}; "
            f"the page takes at most {MAX_STATES:,} and {MAX_HORIZON:,}"
        )
    return table


def _source(problem: OpenedProblem, sources: Sources) -> Path:
    if problem.digest not in sources:
        raise PolinferError("this address belongs to a table that is not open; open the file again")
    return Path(sources[problem.digest])


def preset_of(name: str, options: dict[str, Any]) -> str | None:
    """Return the name under which the page knows a problem with these options, if it does."""
    for known in known_names():
        settings = SETTINGS.get(known, {})
        own = {option for option in settings if option != "horizon"}
        same = all(options.get(option) == settings[option] for option in own)
        if known.split()[0] == name and same and set(options) <= own | {"horizon", "reward_scale"}:
            return known
    return None


def _options(problem: NamedProblem) -> dict[str, Any]:
    options = dict(SETTINGS.get(problem.name, {}))
    if problem.horizon is not None:
        options["horizon"] = problem.horizon
    if problem.reward_scale != 1.0:
        options["reward_scale"] = problem.reward_scale
    return options
