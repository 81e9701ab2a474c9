"""Questions about one posterior: what it does *given* a choice, and how probable choices are together."""

from __future__ import annotations

import math
import time

import msgspec
import numpy as np

from polinfer.core.errors import PolinferError
from polinfer.explore.answers import AnswerRecord, answer_record
from polinfer.methods import infer
from polinfer.posterior.posterior import Posterior
from polinfer.problems.tabular import TabularMDP

Choices = dict[int, int]
"""States of the table, and the action that is taken in each."""


def given_record(posterior: Posterior, choices: Choices) -> AnswerRecord:
    """Describe the posterior of the policies that make these choices."""
    began, table = time.monotonic(), posterior.view
    assert isinstance(table, TabularMDP)
    check_choices(table, choices)
    conditional = condition(posterior, choices)
    record = answer_record(conditional, draft=False, began=began)
    chance, stderr = _chance(table, posterior, conditional, choices)
    return msgspec.structs.replace(record, chance=chance, chance_stderr=stderr)


def _chance(
    table: TabularMDP, whole: Posterior, conditional: Posterior, choices: Choices
) -> tuple[float | None, float | None]:
    """Return the probability of the choices: their reference measure times the ratio of the evidences."""
    if whole.policies is None or conditional.policies is None:
        return None, None
    apart = conditional.policies.log_evidence - whole.policies.log_evidence
    measure = math.prod(float(table.prior[state, action]) for state, action in choices.items())
    chance = min(1.0, measure * math.exp(min(apart, 700.0)))
    errors = (conditional.policies.log_evidence_stderr, whole.policies.log_evidence_stderr)
    return chance, chance * math.hypot(*errors)


def condition(posterior: Posterior, choices: Choices) -> Posterior:
    """Return the posterior given choices: that of a reference measure which holds nothing else there."""
    table = posterior.view
    assert isinstance(table, TabularMDP)
    prior = table.prior.copy()
    for state, action in choices.items():
        prior[state] = np.arange(table.num_actions) == action
    return infer(table.with_problem(prior=prior), posterior.config, seed=posterior.seed)


def check_choices(table: TabularMDP, choices: Choices) -> None:
    """Refuse choices that no policy can make."""
    for state, action in choices.items():
        if not 0 <= state < table.num_states or not 0 <= action < table.num_actions:
            raise PolinferError(f"there is no action {action} in a state {state}")
        if table.absorbing[state] or not table.legal_actions[state, action]:
            raise PolinferError(
                f"{table.action_names[action]!r} is not legal in state {table.state_names[state]!r}"
            )
