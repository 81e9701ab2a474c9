"""Names that look like formulas: pictures show them as they are."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np

from polinfer import exact
from polinfer.plots.crosses import letters
from polinfer.plots.graph import graph_figure, graph_of
from polinfer.plots.panels import PolicyPanel
from polinfer.plots.picture import Picture
from polinfer.plots.policy import policy_table_figure
from polinfer.plots.save import save_figure
from polinfer.problems.domains.worked import table_from_rows

FORMULA = "$x^$"  # an error in matplotlib's language of formulas


def test_a_name_with_dollars_is_no_formula(tmp_path: Path) -> None:
    rows = [(FORMULA, "$a$", "b", 1.0, 1.0), (FORMULA, "$_{", "c", 1.0, 2.0), ("c", "$a$", "b", 1.0, 0.0)]
    table = table_from_rows(rows, start=FORMULA, horizon=2)
    panels = [PolicyPanel(FORMULA, exact.uniform_policy(table), np.ones(table.num_states))]
    graph = graph_of(table, panels)
    assert graph is not None
    for drawn in (policy_table_figure(table, panels), graph_figure(table, graph, panels)):
        save_figure(drawn, tmp_path / "drawn.png")


def test_powers_of_ten_stay_formulas() -> None:
    figure = Picture()
    ax = figure.add_subplot(title=FORMULA, xscale="log", xlim=(1, 1e6))
    figure.savefig(io.BytesIO())
    assert ax.get_xticklabels()[0].get_parse_math()
    assert not ax.title.get_parse_math()


def test_a_mark_with_dollars_is_no_formula() -> None:
    (path,) = letters([FORMULA], np.zeros((1, 2)), size=0.5).get_paths()
    assert len(path.vertices) > 20
