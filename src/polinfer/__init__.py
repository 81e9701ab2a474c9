"""polinfer: planning in Markov decision processes as Bayesian inference over policies."""

from importlib.metadata import version as _version

from polinfer import domains as _domains  # registers the built-in problems
from polinfer import exact
from polinfer.errors import PolinferError
from polinfer.mdp import MDP, Ending, EnumerableMDP, Outcomes, Starts, Transition
from polinfer.registry import domains, make, register
from polinfer.tabular import TabularMDP, load_table, save_table, tabulate

__version__ = _version("polinfer")

__all__ = [
    "MDP",
    "Ending",
    "EnumerableMDP",
    "Outcomes",
    "PolinferError",
    "Starts",
    "TabularMDP",
    "Transition",
    "__version__",
    "domains",
    "exact",
    "load_table",
    "make",
    "register",
    "save_table",
    "tabulate",
]
del _domains
