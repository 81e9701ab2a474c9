"""polinfer: planning in Markov decision processes as Bayesian inference over policies."""

from importlib.metadata import version as _version

from polinfer import exact
from polinfer.actor_critic import SacConfig
from polinfer.analysis.certificate import Certificate, certify
from polinfer.analysis.comparison import compare
from polinfer.analysis.evaluation import Evaluation, evaluate
from polinfer.analysis.explanation import explain
from polinfer.analysis.reward_path import scale_path
from polinfer.core.errors import PolinferError
from polinfer.core.protocol import MDP, Ending, EnumerableMDP, Outcomes, Starts, Transition
from polinfer.learning.config import TrainConfig
from polinfer.methods.inference import infer
from polinfer.posterior.posterior import Posterior, SampledPolicy
from polinfer.posterior.saving import load, save
from polinfer.problems import domains as _domains  # noqa: F401 - registers the built-in problems
from polinfer.problems.adapters import from_gymnasium, from_rddl, to_gymnasium
from polinfer.problems.registry import list_domains, make, register
from polinfer.problems.tabular import TabularMDP, load_table, save_table, tabulate
from polinfer.smc import Sweep, SweepConfig

__version__ = _version("polinfer")

__all__ = [
    "MDP",
    "Certificate",
    "Ending",
    "EnumerableMDP",
    "Evaluation",
    "Outcomes",
    "PolinferError",
    "Posterior",
    "SacConfig",
    "SampledPolicy",
    "Starts",
    "Sweep",
    "SweepConfig",
    "TabularMDP",
    "TrainConfig",
    "Transition",
    "__version__",
    "certify",
    "compare",
    "evaluate",
    "exact",
    "explain",
    "from_gymnasium",
    "from_rddl",
    "infer",
    "list_domains",
    "load",
    "load_table",
    "make",
    "register",
    "save",
    "save_table",
    "scale_path",
    "tabulate",
    "to_gymnasium",
]
