"""`polinfer plan`: the main job."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import tyro

from polinfer.analysis.evaluation import Mode, evaluate
from polinfer.analysis.summary import summarise
from polinfer.cli.output import (
    OutputFlags,
    enumeration_progress,
    print_json,
    remarks,
    sampling_progress,
    tables,
    training_progress,
)
from polinfer.cli.plan_tables import plan_tables
from polinfer.cli.problem import Problem
from polinfer.cli.settings import (
    SacFlags,
    TemperedFlags,
    TrainFlags,
    config_of_flags,
    refuse_all,
    sampling_config_of,
)
from polinfer.core.errors import PolinferError, check_at_least
from polinfer.core.files import write_json
from polinfer.exact.enumeration import DEFAULT_LIMIT
from polinfer.learning.fit import Config, check_request
from polinfer.methods.inference import has_table, infer_exact, infer_sampled
from polinfer.plots.run import draw_run
from polinfer.posterior.posterior import Posterior
from polinfer.posterior.saving import save
from polinfer.problems.registry import Problem as AnyProblem
from polinfer.problems.tabular.files import SUFFIXES
from polinfer.runs.folder import SUMMARY, choose_folder, train_in_folder


@dataclass(frozen=True)
class Plan(OutputFlags):
    """Infer the posterior over policies of one problem; print a table, draw pictures, keep a run folder.

    Examples: 'polinfer plan gridworld/multimodal --seeds 25', 'polinfer plan my_mdp.npz --sweeps 5000',
    'polinfer plan gridworld/ablation --method exact', 'polinfer plan blackjack --method sac --alpha 0.1'.
    """

    problem: tyro.conf.OmitArgPrefixes[Problem]
    method: Literal["vsmc", "svi", "iwae", "wake", "tempered", "particles", "exact", "sac"] = "wake"
    """How: see 'polinfer list'."""
    seeds: int = 1
    """Independent runs, trained at once."""
    seed: int = 0
    """The first seed."""
    train: tyro.conf.OmitArgPrefixes[TrainFlags] = field(default_factory=TrainFlags)
    """Settings of training for vsmc, svi, iwae and wake, and of sweeps for particles; width and depth are
    those of sac's networks, too."""
    sac: tyro.conf.OmitArgPrefixes[SacFlags] = field(default_factory=SacFlags)
    """Settings of soft actor-critic; those that are left out come from the preset."""
    tempered: tyro.conf.OmitArgPrefixes[TemperedFlags] = field(default_factory=TemperedFlags)
    """Settings of tempered sampling."""
    limit: int = DEFAULT_LIMIT
    """For 'exact': the largest number of policies to enumerate."""
    episodes: int = 10_000
    """Episodes per seed that the result is evaluated on ('exact' is evaluated exactly)."""
    mode: Mode = "resample"
    """Execution: draw an action at every step, as the paper does, or one policy per episode (thompson)."""
    out: Path | None = None
    """The run folder; a new one under runs/ by default."""
    resume: bool = False
    """Go on with the run in --out where it was stopped."""
    overwrite: bool = False
    """Allow --out to be a folder that holds a run, and replace it."""

    def run(self) -> None:
        """Infer, evaluate, print, draw."""
        started = time.perf_counter()
        mdp = self.problem.make()
        if self.resume and self.out is None:
            raise PolinferError("--resume needs --out, the folder of the run to go on with")
        check_at_least("episodes", self.episodes, 1)
        if self.limit != DEFAULT_LIMIT and self.method != "exact":
            raise PolinferError(
                f"method {self.method!r} has no setting 'limit'; it belongs to method 'exact'"
            )
        if self.method in ("exact", "tempered", "particles"):
            posterior = self._solve(mdp)
            folder = self._folder()
            save(posterior, folder)
        else:
            # Everything is checked before the folder is touched: a bad request loses nothing.
            on_table = self.method == "wake" and has_table(mdp)
            config = config_of_flags(self.method, self.train, self.sac, on_table)
            check_request(mdp, config, self.seed, self.seeds)
            folder = self._folder()
            posterior = self._train(mdp, config, folder)
        evaluation = evaluate(
            mdp,
            posterior,
            episodes=self.episodes,
            mode=self.mode,
            seed=self.seed,
            exactly=posterior.policies is not None and self.mode == "resample",
        )
        record: dict[str, Any] = {
            "domain": self.problem.domain,
            "options": self.problem.options,
            **summarise(posterior, evaluation, time.perf_counter() - started),
            "run": str(folder),
        }
        write_json(folder / SUMMARY, record)
        pictures = draw_run(posterior, evaluation, folder)
        if self.json:
            print_json(record)
            return
        tables().print(*plan_tables(record))
        for line in record["diagnostics"]:
            remarks().print(line, markup=False)
        remarks().print(
            f"run folder: {folder}   pictures: {', '.join(p.name for p in pictures)}", markup=False
        )

    def _solve(self, mdp: AnyProblem) -> Posterior:
        """Answer by a method that does not train."""
        if self.seeds != 1:
            raise PolinferError(f"method {self.method!r} has one answer; leave out --seeds")
        if self.resume:
            raise PolinferError(f"method {self.method!r} has nothing to resume; leave out --resume")
        if self.method == "exact":
            refuse_all(self.method, self.train, self.sac)
            with enumeration_progress() as enumerated:
                return infer_exact(mdp, limit=self.limit, progress=enumerated)
        config = sampling_config_of(self.method, self.train, self.sac, self.tempered)
        with sampling_progress(self.method) as sampled:
            return infer_sampled(mdp, self.method, config, seed=self.seed, progress=sampled)

    def _folder(self) -> Path:
        if self.resume and self.out is not None:
            return self.out
        name = self.problem.domain
        stem = Path(name).stem if Path(name).suffix in SUFFIXES else re.sub(r"[^\w.-]+", "-", name)
        return choose_folder(self.out, f"{stem}-{self.method}", self.overwrite)

    def _train(self, mdp: AnyProblem, config: Config, folder: Path) -> Posterior:
        with training_progress(config, self.seeds) as trained:
            return train_in_folder(
                mdp,
                self.method,
                config,
                folder,
                seed=self.seed,
                seeds=self.seeds,
                resume=self.resume,
                progress=trained,
            )
