"""From what a user holds, a state or an environment's own observation, to rows of a table."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from polinfer.core.errors import PolinferError, is_whole
from polinfer.core.protocol import MDP
from polinfer.problems.adapters.observations import SeenOnly
from polinfer.problems.registry import Problem
from polinfer.problems.tabular.exploration.host import identity_of
from polinfer.problems.tabular.table import TabularMDP


class Lookup:
    """The rows of a table by identity, for one problem.

    Parameters
    ----------
    problem
        What the user asked about: an MDP, a simulator, or the table itself.
    table
        The table that the answer is on.
    """

    def __init__(self, problem: Problem, table: TabularMDP) -> None:
        self.problem, self.table = problem, table
        self._rows = {row.tobytes(): number for number, row in enumerate(table.identities)}

    def rows(self, state: Any) -> list[int]:
        """Return the rows that `state` may stand for: one, unless an observation does not tell more."""
        if self.problem is self.table:
            return [self._number(state)]
        if isinstance(self.problem, MDP):
            read = getattr(self.problem, "identity_of", None)
            identity = self.problem.identity(state) if read is None else read(state)
            return [self._row(np.asarray(identity, np.int32), state)]
        read = getattr(self.problem, "key_of", None)
        key = state if read is None else read(state)
        if not isinstance(key, SeenOnly):
            # Vectorised environments show the end, too, before they start again.
            over = identity_of(key, True)
            return [self._row(over if self._ends_only(key) else identity_of(key, False), key)]
        found = self.table.observed.get(key.digest)
        if not found:
            raise PolinferError(
                "this observation was not met while the problem was explored; it cannot be reached from the "
                "start"
            )
        return found

    def _ends_only(self, key: Any) -> bool:
        going, over = (identity_of(key, flag).tobytes() for flag in (False, True))
        return going not in self._rows and over in self._rows

    def _number(self, state: Any) -> int:
        if isinstance(state, str):
            return self.table.number_of(state)  # as its rows name them
        number = state.item() if isinstance(state, np.ndarray) and state.size == 1 else state
        if hasattr(number, "item"):
            number = number.item()
        if not is_whole(number) or not 0 <= int(number) < self.table.num_states:
            raise PolinferError(f"state {state} is outside 0..{self.table.num_states - 1}")
        return int(number)

    def _row(self, identity: NDArray[np.int32], state: Any) -> int:
        row = self._rows.get(identity.tobytes())
        if row is None:
            shown = identity.tolist() if isinstance(self.problem, MDP) else repr(state)[:200]
            raise PolinferError(f"state {shown} cannot be reached from the start of this problem")
        return row


def split_observations(problem: Problem, observation: Any) -> list[Any] | None:
    """Return the observations of a batch, as vectorised environments stack them; None for a single one."""
    split = getattr(problem, "split", None)
    if split is not None:
        found: list[Any] | None = split(observation)
        return found
    if (
        isinstance(problem, TabularMDP)
        and isinstance(observation, np.ndarray | list)
        and np.ndim(observation) == 1
    ):
        return list(observation)
    return None


def native_action(problem: Problem, action: int) -> Any:
    """Return what the problem's own environment takes for an action: the number, if it has no other form."""
    native = getattr(problem, "native_action", None)
    return int(action) if native is None else native(int(action))
