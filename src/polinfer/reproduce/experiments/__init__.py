"""One module per table or figure of the paper."""

from polinfer.reproduce.experiments import ablations, advising, blackjack, grid_sac, grids, tireworld, worked

EXPERIMENTS = {
    module.EXPERIMENT.name: module.EXPERIMENT
    for module in (worked, grids, ablations, grid_sac, blackjack, tireworld, advising)
}
"""In the order of the paper."""
