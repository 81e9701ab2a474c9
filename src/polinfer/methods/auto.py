"""The best method that fits a problem."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from polinfer.annealing.config import TemperedConfig
from polinfer.core.errors import CostError, PolinferError, TooLargeError, check_at_least
from polinfer.core.progress import Progress
from polinfer.exact.enumeration import check_enumerable
from polinfer.methods.base import Delegation, Method, Needs, need_table
from polinfer.methods.exact import ExactConfig
from polinfer.methods.wake import WakeConfig
from polinfer.posterior.checkpoint import Checkpoint
from polinfer.posterior.config import MethodConfig
from polinfer.posterior.estimand import PAPER, Estimand
from polinfer.posterior.posterior import Posterior
from polinfer.problems.registry import Problem


@dataclass(frozen=True, kw_only=True)
class AutoConfig(MethodConfig):
    """What decides between methods."""

    method: ClassVar[str] = "auto"
    limit: int = 1_000_000
    """The largest number of policies to enumerate."""

    def __post_init__(self) -> None:
        check_at_least("limit", self.limit, 0)


class Auto(Method[AutoConfig]):
    """Enumeration, annealing or wake, by what the problem allows."""

    name = "auto"
    summary = "The best method that fits: exact where policies are few, tempered on tables, else wake."
    needs = Needs.SIMULATOR
    Config = AutoConfig

    def delegate(self, problem: Problem, config: AutoConfig) -> Delegation:
        """Return the method that fits, and why."""
        try:
            table = need_table(problem)
        except CostError:
            raise
        except PolinferError as error:
            return Delegation(WakeConfig(), f"wake, since there is no table ({error})")
        try:
            _, count = check_enumerable(table, config.limit)
            return Delegation(ExactConfig(), f"exact, since all {count:,} policies can be enumerated")
        except TooLargeError:
            states = f"{table.num_states:,} states"
            return Delegation(
                TemperedConfig(), f"tempered, since {states} have too many policies to enumerate"
            )

    def run(
        self,
        problem: Problem,
        config: AutoConfig,
        *,
        seed: int = 0,
        seeds: int = 1,
        progress: Progress | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> Posterior:
        """Refuse: `infer` runs the method that was chosen."""
        raise PolinferError("method 'auto' stands for another; polinfer.infer chooses it")

    def estimand(self, config: AutoConfig) -> Estimand:
        """Return what all that it chooses from aim at."""
        return PAPER
