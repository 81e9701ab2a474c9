"""One module per table or figure of the paper."""

from polinfer.reproduce.experiments import (
    ablations,
    accuracy,
    advising,
    blackjack,
    evidence,
    grid_sac,
    grids,
    tireworld,
    worked,
)

EXPERIMENTS = {
    module.EXPERIMENT.name: module.EXPERIMENT
    for module in (worked, grids, ablations, grid_sac, blackjack, tireworld, advising, accuracy, evidence)
}
"""In the order of the paper."""
