"""Questions about one posterior: what it does *given* a choice, and how probable choices are together."""

from __future__ import annotations

import time
from dataclasses import replace

import msgspec
import numpy as np

from polinfer import exact
from polinfer.core.errors import PolinferError
from polinfer.exact.solution import Floats
from polinfer.explore.answers import AnswerRecord, answer_record, executed, floats, whole
from polinfer.posterior.posterior import Posterior
from polinfer.problems.tabular import TabularMDP

Choices = dict[int, int]
"""States of the table, and the action that is taken in each."""


def given_record(posterior: Posterior, choices: Choices) -> AnswerRecord:
    """Describe the posterior of the policies that make these choices."""
    began, table = time.monotonic(), posterior.view
    assert isinstance(table, TabularMDP)
    _check(table, choices)
    chance = posterior.probability({posterior.states[s]: a for s, a in choices.items()})
    conditional = _condition(posterior, choices)
    record = answer_record(conditional, draft=False, began=began)
    return msgspec.structs.replace(record, chance=chance.probability, chance_stderr=chance.stderr)


def _condition(posterior: Posterior, choices: Choices) -> Posterior:
    return posterior.given({posterior.states[s]: a for s, a in choices.items()})


def _check(table: TabularMDP, choices: Choices) -> None:
    for state, action in choices.items():
        if not 0 <= state < table.num_states or not 0 <= action < table.num_actions:
            raise PolinferError(f"there is no action {action} in a state {state}")
        if table.absorbing[state] or not table.legal_actions[state, action]:
            raise PolinferError(
                f"{table.action_names[action]!r} is not legal in state {table.state_names[state]!r}"
            )
