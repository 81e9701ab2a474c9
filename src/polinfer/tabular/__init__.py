"""MDPs as tables: from arrays, from files, from simulators that list their outcomes."""

from polinfer.tabular.files import load_table, save_table
from polinfer.tabular.rows import OutcomeRows
from polinfer.tabular.table import TabularMDP
from polinfer.tabular.tabulate import tabulate

__all__ = ["OutcomeRows", "TabularMDP", "load_table", "save_table", "tabulate"]
