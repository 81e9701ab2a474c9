"""What methods that sample whole policies have in common."""

from __future__ import annotations

import numpy as np

from polinfer.posterior.diagnostics import Diagnostic, fact, warning
from polinfer.posterior.posterior import Posterior
from polinfer.problems.tabular.table import TabularMDP

_CLOSE = 0.05  # standard error of the marginal policy, total variation, mean over states
_WIDE = 0.3  # standard error of log Z


def diagnose_sample(posterior: Posterior, about: Diagnostic, remedy: str) -> list[Diagnostic]:
    """Return what the standard errors of a sample say, and what it was judged by."""
    whole, table = posterior.policies, posterior.view
    assert whole is not None
    assert isinstance(table, TabularMDP)
    errors = np.zeros((1, 1)) if whole.policy_stderr is None else whole.policy_stderr[~table.absorbing]
    worst, typical = float(errors.max(initial=0.0)), float(errors.sum(axis=-1).mean() / 2)
    found = [
        fact(
            "standard-errors",
            f"log Z {whole.log_evidence:.3f} ± {whole.log_evidence_stderr:.3f}; the marginal policy has a "
            f"standard error of {typical:.2g} (total variation, mean over states), at most {worst:.2g} for "
            "one action.",
        ),
        about,
    ]
    if whole.log_evidence_stderr > _WIDE or typical > _CLOSE:
        found.append(warning("wide-standard-errors", f"The standard errors are large: {remedy}."))
    return found


EVALUATED_EXACTLY = fact(
    "exact-returns", "Every policy was evaluated exactly: the target is exp(J), the paper's definition."
)
