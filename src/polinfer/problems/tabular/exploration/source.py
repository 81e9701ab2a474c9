"""What the search asks of a simulator: states by number, and draws of what follows them."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from polinfer.core.protocol import Ending
from polinfer.problems.tabular.exploration.counts import Drawn


class Described(NamedTuple):
    """What a table keeps of the states; every array has one row per state."""

    state_names: list[str] | None
    action_names: tuple[str, ...] | None
    features: NDArray[np.float32] | None
    identities: NDArray[np.int32]
    endings: tuple[Ending, ...]
    ending_of: NDArray[np.int32] | None
    prior: NDArray[np.float64] | None
    discount: float
    sources: list[Any]
    keys: tuple[str, ...] | None  # what states are, as Python literals; None where that cannot be written
    observed: dict[bytes, list[int]]  # rows by the hash of an observation; empty where those are the states


@runtime_checkable
class Playing(Protocol):
    """A source that can also play whole episodes."""

    @property
    def hiding(self) -> bool:
        """Whether states may hold more than they are compared by."""
        ...

    def play(self, steps: int) -> tuple[Drawn, dict[int, int]]:
        """Play episodes of random actions for so many steps; return the draws and how often each start came.

        The `way` of a draw is the number of its episode.
        """
        ...

    def witness(self, episodes: int, steps: int, policies: NDArray[np.float32]) -> Drawn:
        """Play episodes, half by random actions and half by `policies` ``[H, S, A]``, and find no new states.

        The successor of what leads to a state that is not known is -1.
        """
        ...

    def origins(self, way: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the episodes ``[n]`` that representatives ``[n]`` go back to."""
        ...


class Source(Protocol):
    """A simulator and the states of it that were found; a state may be known by several representatives.

    Representatives (*ways*) of a state have one identity and were reached by different ways.  Where the
    process is Markov in the identity, they behave alike.
    """

    compiled: bool
    num_actions: int
    horizon: int
    chunk: int  # states to expand between two reports

    def __len__(self) -> int:
        """Return the number of states found."""
        ...

    def start(self, draws: int) -> dict[int, int]:
        """Draw first states; return how often each came."""
        ...

    def is_terminal(self, state: int) -> bool:
        """Return whether the episode is over in a state."""
        ...

    def legal(self, state: int, way: int = 0) -> NDArray[np.bool_]:
        """Return the legal actions ``[A]``."""
        ...

    def ways(self, state: int) -> int:
        """Return how many representatives of a state there are."""
        ...

    def name(self, state: int) -> str:
        """Name a state for a message."""
        ...

    def action_names(self) -> tuple[str, ...]:
        """Return the names of the actions."""
        ...

    def advice(self) -> str:
        """Return what would make the states fewer, for a message."""
        ...

    def sample(
        self, pairs: NDArray[np.int64], draws: NDArray[np.int64], way: NDArray[np.int64]
    ) -> tuple[Drawn, NDArray[np.bool_]]:
        """Draw the outcomes of pairs ``[n, 2]``; also return which pairs ``[n]`` involve no chance.

        A pair that involves no chance is drawn once.
        """
        ...

    def describe(self) -> Described:
        """Return what a table keeps."""
        ...
