"""The whole paper, rerun: every table and figure, resumable, with a verdict on every claim.

Data flows from `experiments` (what to run) over `unit`, `work` and `run` (running it) into `store`, and from
there over `experiment.results`, `tables` and `claims` to `findings`, `page` and `markdown` (telling it).
"""

from polinfer.reproduce.budgets import BUDGETS, Budget
from polinfer.reproduce.experiments import EXPERIMENTS

__all__ = ["BUDGETS", "EXPERIMENTS", "Budget"]
