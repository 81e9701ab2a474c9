"""MDPs as tables: from arrays, from files, from simulators that list their outcomes."""

from polinfer.problems.tabular.files import load_table, save_table
from polinfer.problems.tabular.rows import OutcomeRows
from polinfer.problems.tabular.table import TabularMDP
from polinfer.problems.tabular.tabulate import tabulate

__all__ = ["OutcomeRows", "TabularMDP", "load_table", "save_table", "tabulate"]
