"""`polinfer plan`: the main job."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import tyro

from polinfer.cli.figures import draw_run
from polinfer.cli.output import enumeration_progress, print_json, remarks, tables, training_progress
from polinfer.cli.plan_tables import plan_tables
from polinfer.cli.problem import Problem
from polinfer.cli.settings import TrainFlags, train_config_of
from polinfer.errors import PolinferError, check_at_least
from polinfer.evaluate import Mode, evaluate
from polinfer.exact.enumeration import DEFAULT_LIMIT
from polinfer.infer import check_request, infer_exact
from polinfer.learning.train import TrainConfig
from polinfer.mdp import MDP
from polinfer.posterior import Posterior
from polinfer.runs import SUMMARY, choose_folder, train_in_folder
from polinfer.saving import save
from polinfer.storage import write_json
from polinfer.summary import summarise


@dataclass(frozen=True)
class Plan:
    """Infer the posterior over policies of one problem; print a table, draw pictures, keep a run folder.

    Examples: 'polinfer plan gridworld/multimodal --seeds 25', 'polinfer plan my_mdp.npz --sweeps 5000',
    'polinfer plan gridworld/ablation --method exact'.
    """

    problem: tyro.conf.OmitArgPrefixes[Problem]
    method: Literal["vsmc", "svi", "iwae", "exact"] = "vsmc"
    """How: see 'polinfer list'."""
    seeds: int = 1
    """Independent runs, trained at once."""
    seed: int = 0
    """The first seed."""
    train: tyro.conf.OmitArgPrefixes[TrainFlags] = field(default_factory=TrainFlags)
    """Settings of training; 'exact' needs none."""
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
    json: bool = False
    """Print one JSON object on standard output, and nothing else."""
    debug: bool = False
    """Show the traceback of an error."""

    def run(self) -> None:
        """Infer, evaluate, print, draw."""
        started = time.perf_counter()
        mdp = self.problem.make()
        if self.resume and self.out is None:
            raise PolinferError("--resume needs --out, the folder of the run to go on with")
        check_at_least("episodes", self.episodes, 1)
        if self.method == "exact" and (self.seeds != 1 or self.train != TrainFlags()):
            raise PolinferError(
                "method 'exact' has one answer and no training; leave out --seeds and its settings"
            )
        if self.method == "exact":
            if self.resume:
                raise PolinferError("method 'exact' has nothing to resume; leave out --resume")
            with enumeration_progress() as enumerated:
                posterior = infer_exact(mdp, limit=self.limit, progress=enumerated)
            folder = self._folder()
            save(posterior, folder)
        else:
            # Everything is checked before the folder is touched: a bad request loses nothing.
            config = train_config_of(self.method, self.train)
            check_request(mdp, self.seed, self.seeds)
            folder = self._folder()
            posterior = self._train(mdp, config, folder)
        evaluation = evaluate(
            mdp,
            posterior,
            episodes=self.episodes,
            mode=self.mode,
            seed=self.seed,
            exactly=self.method == "exact" and self.mode == "resample",
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
        for line in posterior.diagnostics():
            remarks().print(line, markup=False)
        remarks().print(
            f"run folder: {folder}   pictures: {', '.join(p.name for p in pictures)}", markup=False
        )

    def _folder(self) -> Path:
        if self.resume and self.out is not None:
            return self.out
        name = self.problem.domain
        stem = Path(name).stem if Path(name).suffix else name.replace("/", "-")
        return choose_folder(self.out, f"{stem}-{self.method}", self.overwrite)

    def _train(self, mdp: MDP, config: TrainConfig, folder: Path) -> Posterior:
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
