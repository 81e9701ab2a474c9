"""How much each experiment may spend."""

from __future__ import annotations

from dataclasses import dataclass

from polinfer.core.errors import PolinferError, suggest


@dataclass(frozen=True)
class Budget:
    """Seeds, training and evaluation of every run of the paper's tables and figures."""

    name: str
    seeds: int
    sweeps: int  # of VSMC and of wake
    steps: int  # of soft actor-critic
    episodes: int  # per seed, to evaluate
    seed_batch: int  # seeds in a unit of work
    optimised: bool = True  # compile for speed; where little is run, compiling is most of it


BUDGETS = {
    budget.name: budget
    for budget in (
        Budget("smoke", seeds=2, sweeps=20, steps=1_000, episodes=100, seed_batch=2, optimised=False),
        Budget("quick", seeds=5, sweeps=2_000, steps=40_000, episodes=1_000, seed_batch=5),
        # The paper's own: Section Experiments.
        Budget("paper", seeds=25, sweeps=50_000, steps=1_000_000, episodes=10_000, seed_batch=25),
    )
}


def budget_named(name: str) -> Budget:
    """Return the budget of that name."""
    if name not in BUDGETS:
        raise PolinferError(
            f"unknown budget {name!r}{suggest(name, BUDGETS)}; there are {', '.join(BUDGETS)}"
        )
    return BUDGETS[name]
