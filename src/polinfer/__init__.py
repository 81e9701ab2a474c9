"""polinfer: planning in Markov decision processes as Bayesian inference over policies."""

from importlib.metadata import version as _version

from polinfer import domains as _domains  # noqa: F401 - registers the built-in problems
from polinfer import exact
from polinfer.adapters import from_gymnasium, from_rddl, to_gymnasium
from polinfer.baselines import SacConfig
from polinfer.certificate import Certificate, certify
from polinfer.compare import compare
from polinfer.errors import PolinferError
from polinfer.evaluate import Evaluation, evaluate
from polinfer.explain import explain
from polinfer.infer import infer
from polinfer.learning.config import TrainConfig
from polinfer.mdp import MDP, Ending, EnumerableMDP, Outcomes, Starts, Transition
from polinfer.posterior import Posterior, SampledPolicy
from polinfer.registry import list_domains, make, register
from polinfer.saving import load, save
from polinfer.scale_path import scale_path
from polinfer.sweep import Sweep, SweepConfig
from polinfer.tabular import TabularMDP, load_table, save_table, tabulate

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
