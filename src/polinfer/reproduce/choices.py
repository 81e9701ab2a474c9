"""What the paper leaves open, and how we filled it in: every choice with its reason.

The report prints this list.  Nothing here was chosen by looking at the paper's tables but where it says so.
"""

from __future__ import annotations

from typing import NamedTuple


class Choice(NamedTuple):
    """One setting that the paper does not print."""

    name: str
    value: float | int | str
    reason: str


GRID_RATE = Choice(
    "learning rate of VSMC and wake, grid worlds",
    3e-4,
    "the upper end of the paper's range; smaller rates have not converged after 50,000 sweeps",
)
BLACKJACK_RATE = Choice(
    "learning rate of VSMC and wake, Blackjack",
    3e-4,
    "as for the grid worlds: short episodes, so a sweep tells little about many states",
)
TIREWORLD_RATE = Choice(
    "learning rate of VSMC and wake, Tireworld",
    3e-5,
    "the rate of our prototype; its results at this rate are near the paper's, so it was kept",
)
ADVISING_RATE = Choice(
    "learning rate of VSMC and wake, Advising",
    1e-4,
    "the middle of the paper's range, on a logarithmic scale",
)
SAC_PRESET = Choice(
    "preset of SAC",
    "a",
    "CleanRL's settings for discrete actions, which the paper says it adapted",
)
SAC_GAMMA = Choice(
    "discount of SAC",
    0.99,
    "CleanRL's; with 1 and alpha 1 an agent that is paid for entropy gains from never ending, and the grid "
    "worlds have no fixed point",
)
TIREWORLD_HORIZON = Choice(
    "horizon of Tireworld",
    20,
    "longer than any route, so it cuts off no episode of the paper's semantics; the competition's own is 40",
)
ADVISING_HORIZON = Choice("horizon of Advising", 40, "the competition's; the paper prints none")
RED_CELLS = Choice(
    "red cells of the grid worlds",
    "see docs/problems",
    "the paper shows them in a figure without saying which they are: two corners, and the centre",
)
EDGES = Choice(
    "bumping into an edge of a grid",
    "pays the cell again",
    "'no effect' on the place, while the reward is of 'the cell to which the agent moves'",
)
ENCODING = Choice(
    "what networks see",
    "grids: one-hot column and row; others: counts and flags",
    "the paper says only that all networks have two hidden layers of 64",
)
BLACKJACK_START = Choice(
    "deal of a sweep of Blackjack",
    "shared",
    "one deal for all particles of a sweep, as one world for all of them; the rows 'own deals' give every "
    "particle its own, which is no posterior but may be what the paper ran",
)
ADVISING_SETS = Choice(
    "actions of Advising",
    "sets of at most `load` courses not yet passed, the empty set included",
    "the paper's 'up to a maximum course load of currently eligible courses'; prerequisites only change the "
    "odds in the competition's file",
)
WAKE_SWEEPS = Choice(
    "particles and worlds of wake",
    "10 particles, 1 world",
    "the same sweeps as VSMC, so that the objective is all that differs; more worlds bring it to the "
    "posterior's definition, see docs/methods",
)
MIX_SHARE = Choice(
    "share of the surrogate in the mix",
    0.8,
    "of 0.5, 0.8 and 0.95, tried on gridworld/multimodal and tireworld/4, the one that beat the surrogate on "
    "both; the rest is wake",
)
MIX_BASELINE = Choice(
    "baseline of the mix",
    "running",
    "a running mean of log Z-hat, step by step, which takes variance from the score term; the paper has none",
)

CHOICES: tuple[Choice, ...] = (
    GRID_RATE,
    BLACKJACK_RATE,
    TIREWORLD_RATE,
    ADVISING_RATE,
    SAC_PRESET,
    SAC_GAMMA,
    TIREWORLD_HORIZON,
    ADVISING_HORIZON,
    RED_CELLS,
    EDGES,
    ENCODING,
    BLACKJACK_START,
    ADVISING_SETS,
    WAKE_SWEEPS,
    MIX_SHARE,
    MIX_BASELINE,
)
