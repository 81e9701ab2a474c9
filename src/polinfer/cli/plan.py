"""`polinfer plan`: the main job."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field, make_dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import tyro

from polinfer.analysis.evaluation import Mode, evaluate
from polinfer.analysis.judgement import Effort
from polinfer.analysis.reward_scale import FLAT, HALF_WAY, PEAKED, scale_record, suggest_scale
from polinfer.analysis.summary import summarise
from polinfer.cli.flags import config_of_flags, flags_of
from polinfer.cli.interrupt import interruptible
from polinfer.cli.output import OutputFlags, print_json, progress_bar, remarks, tables
from polinfer.cli.problem_flags import ProblemFlags
from polinfer.cli.run_tables import account_table, run_tables
from polinfer.core.errors import PolinferError, check_at_least
from polinfer.core.files import write_json
from polinfer.core.progress import watching
from polinfer.core.workers import workers
from polinfer.methods import DEFAULT_METHOD, METHODS, method_named, resolve
from polinfer.plots.run import draw_run
from polinfer.problems.registry import Problem
from polinfer.problems.tabular.files import SUFFIXES
from polinfer.runs.folder import SUMMARY, choose_folder, infer_in_folder, other_circumstances

_ABOUT = 0.15  # of the way: half-way need not be exact
_SCALE_SHARE = 0.4  # of a time limit, for the search of --reward-scale auto
_METHOD_SHARE = 0.7  # of a time limit; the certificate has the rest
_LEAST_LEFT = 1e-3  # seconds
_LEAST_ADVICE = 5.0  # seconds that looking for half-way may take; as long as the run at most
_LONGEST_STEM = 50  # letters of up to four bytes; a name may have 255
_UNPREFIXED: Any = tyro.conf.OmitArgPrefixes  # applied to a type that is made at run time


@dataclass(frozen=True)
class Plan(OutputFlags):
    """Infer the posterior over policies of one problem; print a table, draw pictures, keep a run folder.

    Examples: 'polinfer plan gridworld/multimodal --reward-scale 2', 'polinfer plan my_mdp.npz --horizon 50',
    'polinfer plan gridworld/ablation --method vsmc --seeds 25', 'polinfer plan blackjack --method sac'.
    """

    problem: tyro.conf.OmitArgPrefixes[ProblemFlags]
    method: Annotated[str, tyro.conf.arg(metavar="NAME")] = DEFAULT_METHOD
    """How: see 'polinfer list'."""
    seeds: int = 1
    """Independent runs at once, where the method can."""
    seed: int = 0
    """The first seed."""
    episodes: int = 10_000
    """Episodes per seed that the result is evaluated on; a method that knows whole policies is evaluated
    exactly."""
    mode: Mode = "stepwise"
    """Execution: draw an action at every step, as the paper does, or one policy per episode (thompson)."""
    certify: Effort = "default"
    """How much the certificate may take: about as long as the answer, or ten times as long (thorough)."""
    time_limit: float | None = None
    """Seconds for the whole command: after 70% of them the method ends with the best answer so far, the rest
    is for judging it.  Ctrl-C ends either one."""
    out: Path | None = None
    """The run folder; a new one under runs/ by default."""
    resume: bool = False
    """Go on with the run in --out where it was stopped."""
    overwrite: bool = False
    """Allow --out to be a folder that holds a run, and replace it."""
    jobs: int = 1
    """Processes for methods whose runs are independent (tempered with --replicas)."""
    cluster: str | None = None
    """Address of a Dask scheduler whose workers do that work instead, such as tcp://10.0.0.1:8786."""
    config: Any = None  # replaced by the flags of a method, see `plan_command`

    def run(self) -> None:
        """Infer, evaluate, print, draw."""
        started = time.perf_counter()
        if self.resume and self.out is None:
            raise PolinferError("--resume needs --out, the folder of the run to go on with")
        check_at_least("episodes", self.episodes, 1)
        check_at_least("jobs", self.jobs, 1)
        # Everything is checked before the folder is touched: a bad request loses nothing.
        config = config_of_flags(method_named(self.method), self.config)
        with progress_bar() as looking, watching(looking):  # a table may have to be explored first
            problem, chosen = self.problem.settle(
                looking, lambda: interruptible(self._left(started, _SCALE_SHARE), self.time_limit)
            )
            mdp = problem.make()
            request = resolve(mdp, config)
        if self.resume and not request.method.resumable:
            raise PolinferError(f"method {request.method.name!r} has nothing to resume; leave out --resume")
        request.method.check(mdp, request.config, seed=self.seed, seeds=self.seeds)
        if request.reason:
            remarks().print(f"method: {request.reason}", markup=False, soft_wrap=True)
        folder = self._folder(request.method.name)
        with (
            interruptible(self._left(started, _METHOD_SHARE), self.time_limit) as stopper,
            progress_bar(self.seeds) as progress,
            workers(self.jobs, self.cluster),
        ):
            posterior = infer_in_folder(
                mdp,
                config,
                folder,
                seed=self.seed,
                seeds=self.seeds,
                resume=self.resume,
                progress=progress,
            )
        # The answer is kept by now; Ctrl-C and the limit shorten the runs that it is compared with.
        with interruptible(self._left(started), self.time_limit) as judging:
            with progress_bar() as checking, watching(checking):
                evaluation = evaluate(
                    mdp,
                    posterior,
                    episodes=self.episodes,
                    mode=self.mode,
                    seed=self.seed,
                    exactly=posterior.policies is not None and self.mode == "stepwise",
                )
                took = time.perf_counter() - started
                summary = summarise(posterior, evaluation, took, self.certify)
            record: dict[str, Any] = {
                "domain": problem.domain,
                "options": problem.options,
                "stopped": stopper.answered or None,
                "reward_scale": None if chosen is None else scale_record(chosen),
                **summary,
                "run": str(folder),
            }
            if chosen is None and not judging.requested:
                record["scale_advice"] = self._advise(mdp, record)
            record["check_stopped"] = judging.answered or None
        write_json(folder / SUMMARY, record)
        pictures = draw_run(posterior, evaluation, record, folder)
        if self.json:
            print_json(record)
            return
        tables().print(*run_tables(record))
        for finding in record["diagnostics"]:
            remarks().print(finding["sentence"], markup=False)
        tables().print(account_table(record))
        remarks().print(
            f"run folder: {folder}   pictures: {', '.join(p.name for p in pictures)}", markup=False
        )

    def _left(self, started: float, share: float = 1.0) -> float | None:
        """Return the share of the seconds that are left of the time limit; None without one."""
        if self.time_limit is None:
            return None
        if not self.time_limit > 0:
            return self.time_limit  # refused by name where it is used
        return max(_LEAST_LEFT, share * (self.time_limit - (time.perf_counter() - started)))

    def _advise(self, mdp: Problem, record: dict[str, Any]) -> dict[str, Any] | None:
        """Return the reward scale that would be half-way, where this one is near an end of the way."""
        share = None if record["standing"] is None else record["standing"]["share"]
        if share is None or FLAT <= share <= PEAKED:
            return None
        with progress_bar() as progress:
            found = suggest_scale(
                mdp,
                HALF_WAY,
                seed=self.seed,
                tolerance=_ABOUT,
                time_limit=max(_LEAST_ADVICE, record["seconds"]),
                progress=progress,
            )
        own = float(record["options"].get("reward_scale", 1.0))
        return {**scale_record(found), "scale": own * found.scale}

    def _folder(self, method: str) -> Path:
        if self.resume and self.out is not None:
            note = other_circumstances(self.out)
            if note is not None:
                remarks().print(f"note: {note}", markup=False, soft_wrap=True)
            return self.out
        name = self.problem.domain
        stem = Path(name).stem if Path(name).suffix in SUFFIXES else re.sub(r"[^\w.-]+", "-", name)
        return choose_folder(self.out, f"{stem[:_LONGEST_STEM]}-{method}", self.overwrite)


def method_of(arguments: list[str]) -> str | None:
    """Return the method that is named among the words, None where none is."""
    for word, after in pairwise([*arguments, ""]):
        if word == "--method":
            return after
        if word.startswith("--method="):
            return word.partition("=")[2]
    return None


@lru_cache(maxsize=32)
def plan_command(method: str | None) -> Any:
    """Return `Plan` with the flags of one method; with None, without any, for the general help."""
    told = Annotated[str, tyro.conf.arg(metavar="NAME", help=_method_help())]
    fields: list[tuple[str, Any, Any]] = [("method", told, field(default=method or DEFAULT_METHOD))]
    if method is not None:
        flags, unprefixed = flags_of(method_named(method).Config), _UNPREFIXED
        fields.append(("config", unprefixed[flags], field(default_factory=flags)))
    else:
        fields.append(("config", Annotated[None, tyro.conf.Suppress], field(default=None)))
    return make_dataclass("Plan", fields, bases=(Plan,), frozen=True, namespace={"__doc__": Plan.__doc__})


def _method_help() -> str:
    return (
        f"How: one of {', '.join(METHODS)}. 'polinfer list' says what each does, "
        "'polinfer plan --method NAME --help' shows its settings."
    )
