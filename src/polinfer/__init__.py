"""polinfer: planning in Markov decision processes as Bayesian inference over policies."""

from importlib.metadata import version as _version

from polinfer import exact
from polinfer.analysis.certificate import Certificate, certify, diagnose
from polinfer.analysis.comparison import Comparison, compare
from polinfer.analysis.evaluation import Evaluation, evaluate
from polinfer.analysis.explanation import Explanation, explain
from polinfer.analysis.judgement import Verdict
from polinfer.analysis.policy_certificate import PolicyCertificate, certify_policy
from polinfer.analysis.reward_path import ScalePath, scale_path
from polinfer.analysis.reward_scale import ScaleSuggestion, suggest_scale
from polinfer.core.compiled_cache import keep_compiled_programs
from polinfer.core.display import set_viewer as _set_viewer
from polinfer.core.errors import PolinferError
from polinfer.core.progress import Report
from polinfer.core.protocol import MDP, Ending, EnumerableMDP, Outcomes, Starts, Transition
from polinfer.core.simulator import Simulator
from polinfer.explore import opening as _opening  # noqa: F401 - makes `Posterior.explore` known
from polinfer.methods import (
    METHODS,
    AutoConfig,
    ExactConfig,
    IwaeConfig,
    Method,
    MethodConfig,
    ParticlesConfig,
    RolloutsConfig,
    SacConfig,
    SviConfig,
    TemperedConfig,
    VsmcConfig,
    WakeConfig,
    infer,
    list_methods,
    register_method,
)
from polinfer.posterior.diagnostics import Diagnostic, Severity
from polinfer.posterior.estimand import Estimand, Target
from polinfer.posterior.posterior import Posterior, SampledPolicy
from polinfer.posterior.saving import save
from polinfer.problems import domains as _domains  # noqa: F401 - registers the built-in problems
from polinfer.problems.adapters import from_gymnasium, from_rddl, to_gymnasium
from polinfer.problems.registry import list_domains, make, register
from polinfer.problems.rescaled import rescaled
from polinfer.problems.tabular import TabularMDP, load_table, save_table, tabulate
from polinfer.problems.terms import with_terms
from polinfer.runs.folder import load

_set_viewer("polinfer.plots.cards")
__version__ = _version("polinfer")

__all__ = [
    "MDP",
    "METHODS",
    "AutoConfig",
    "Certificate",
    "Comparison",
    "Diagnostic",
    "Ending",
    "EnumerableMDP",
    "Estimand",
    "Evaluation",
    "ExactConfig",
    "Explanation",
    "IwaeConfig",
    "Method",
    "MethodConfig",
    "Outcomes",
    "ParticlesConfig",
    "PolicyCertificate",
    "PolinferError",
    "Posterior",
    "Report",
    "RolloutsConfig",
    "SacConfig",
    "SampledPolicy",
    "ScalePath",
    "ScaleSuggestion",
    "Severity",
    "Simulator",
    "Starts",
    "SviConfig",
    "TabularMDP",
    "Target",
    "TemperedConfig",
    "Transition",
    "Verdict",
    "VsmcConfig",
    "WakeConfig",
    "__version__",
    "certify",
    "certify_policy",
    "compare",
    "diagnose",
    "evaluate",
    "exact",
    "explain",
    "from_gymnasium",
    "from_rddl",
    "infer",
    "keep_compiled_programs",
    "list_domains",
    "list_methods",
    "load",
    "load_table",
    "make",
    "register",
    "register_method",
    "rescaled",
    "save",
    "save_table",
    "scale_path",
    "suggest_scale",
    "tabulate",
    "to_gymnasium",
    "with_terms",
]
