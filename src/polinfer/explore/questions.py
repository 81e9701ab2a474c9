"""Questions about one posterior: what it does *given* choices, and how probable these are."""

from __future__ import annotations

import math
import time

import msgspec

from polinfer.core.errors import PolinferError
from polinfer.explore.answers import AnswerRecord, answer_record
from polinfer.posterior.posterior import Posterior
from polinfer.problems.tabular import TabularMDP

Choices = dict[int, int]
"""States of the table, and the action that is taken in each."""


def given_record(
    posterior: Posterior, choices: Choices, *, draft: bool = False, scale: float = 1.0
) -> AnswerRecord:
    """Describe the posterior of the policies that make these choices, see `Posterior.given`."""
    began = time.monotonic()
    found = condition(posterior, choices)
    record = answer_record(found, draft=draft, began=began, scale=scale)
    if found.condition is None:
        return record
    chance = math.exp(found.condition.log_probability)
    stderr = chance * found.condition.stderr
    return msgspec.structs.replace(record, chance=chance, chance_stderr=stderr, source=found.condition.source)


def condition(posterior: Posterior, choices: Choices) -> Posterior:
    """Return `Posterior.given` these choices."""
    table = posterior.view
    assert isinstance(table, TabularMDP)
    check_choices(table, choices)
    # Pairs: states of some problems are no keys of a dictionary.
    return posterior.given([(posterior.states[state], action) for state, action in choices.items()])


def check_choices(table: TabularMDP, choices: Choices) -> None:
    """Refuse numbers that no state or action has; what no policy can choose is refused by `given`."""
    for state, action in choices.items():
        if not 0 <= state < table.num_states or not 0 <= action < table.num_actions:
            raise PolinferError(f"there is no action {action} in a state {state}")
