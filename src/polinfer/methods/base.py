"""What a method is: the one interface that inference, analysis, run folders and the command line go through.

A method is a class in a file of its own and one line in `polinfer.methods`.  Nobody outside this room asks
for a method's name: what a method needs, can do and estimates is told by the attributes here.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from typing import ClassVar, Generic, NamedTuple, TypeVar

import jax.numpy as jnp
import numpy as np

from polinfer.core.errors import PolinferError, check_at_least
from polinfer.core.progress import Progress
from polinfer.exact.solution import Floats, PolicyPosterior
from polinfer.posterior.checkpoint import Checkpoint
from polinfer.posterior.config import MethodConfig
from polinfer.posterior.diagnostics import Diagnostic
from polinfer.posterior.estimand import Estimand
from polinfer.posterior.evidence import EvidenceBounds
from polinfer.posterior.oracle import Oracle
from polinfer.posterior.posterior import Posterior
from polinfer.posterior.trace import Trace
from polinfer.problems.registry import Problem
from polinfer.problems.tables import shared_table
from polinfer.problems.tabular.table import TabularMDP
from polinfer.smc.proposal import TableProposal

C = TypeVar("C", bound=MethodConfig)


class Needs(enum.Enum):
    """What a method must be given."""

    TABLE = "a problem that fits a table"
    JAX = "a problem written with JAX"
    SIMULATOR = "any simulator"

    def __str__(self) -> str:
        return self.value


class Delegation(NamedTuple):
    """The method that a problem is handed on to."""

    config: MethodConfig
    reason: str  # a phrase for people


class Method(ABC, Generic[C]):
    """One way from a problem to a posterior.

    Subclasses set the class attributes and implement `run` and `estimand`; the rest has defaults.  An
    instance holds no state: `polinfer.register_method` makes it known by its name.
    """

    name: ClassVar[str]
    """What users type."""
    summary: ClassVar[str]
    """One line for ``polinfer list``."""
    needs: ClassVar[Needs]
    """What it must be given."""
    many_seeds: ClassVar[bool] = False
    """Whether several seeds are run at once, as one posterior with a seed axis."""
    resumable: ClassVar[bool] = False
    """Whether a run that was stopped goes on from its last checkpoint."""
    whole_policies: ClassVar[bool] = False
    """Whether the posterior knows whole policies, and not only a proposal."""
    is_posterior: ClassVar[bool] = True
    """Whether the answer is an estimate of the posterior, or that of a baseline."""
    Config: type[C]
    """The configuration's type."""

    def complete(self, problem: Problem, config: C) -> C:
        """Fill in the fields whose defaults depend on the problem."""
        del problem
        return config

    def delegate(self, problem: Problem, config: C) -> Delegation | None:
        """Return another method's configuration, where this one only chooses; None where it infers itself."""
        del problem, config
        return None

    def check(self, problem: Problem, config: C, *, seed: int, seeds: int) -> None:
        """Refuse a request before anything is computed or written."""
        del problem, config
        check_at_least("seed", seed, 0)
        check_at_least("seeds", seeds, 1)
        if seeds != 1 and not self.many_seeds:
            raise PolinferError(f"method {self.name!r} has one answer; leave out --seeds (seeds={seeds})")

    @abstractmethod
    def run(
        self,
        problem: Problem,
        config: C,
        *,
        seed: int = 0,
        seeds: int = 1,
        progress: Progress | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> Posterior:
        """Infer; `config` is complete and the request was checked."""

    @abstractmethod
    def estimand(self, config: C) -> Estimand:
        """Return what the answer estimates."""

    def bounds(self, posterior: Posterior, sweeps: int, seed: int) -> EvidenceBounds:
        """Return bounds on ``log Z``; by fresh sweeps where the method has sweeps."""
        del posterior, sweeps, seed
        return EvidenceBounds()

    def diagnose(self, posterior: Posterior) -> list[Diagnostic]:
        """Return findings about an answer of this method."""
        del posterior
        return []

    def oracle(self, posterior: Posterior) -> Oracle | None:
        """Return the exact answer that this one tends to, where that is not the posterior."""
        del posterior
        return None


def table_posterior(
    problem: Problem,
    table: TabularMDP,
    config: MethodConfig,
    policy: Floats,
    policies: PolicyPosterior,
    *,
    seed: int = 0,
    trace: Trace | None = None,
) -> Posterior:
    """Return the posterior of a method that computes the marginal policy ``[S, A]`` itself."""
    rows = np.log(np.maximum(policy, np.finfo(np.float64).tiny))
    proposal = TableProposal(jnp.asarray(rows[None], jnp.float32))
    return Posterior(problem, table, config, proposal, 1, seed, trace or Trace(), policies)


def need_table(problem: Problem) -> TabularMDP:
    """Return the problem as a table, or say why it is none."""
    return shared_table(problem)
