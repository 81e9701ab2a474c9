"""What notebooks show."""

import sys

import numpy as np
import pytest

import polinfer
from polinfer.plots.cards import card


@pytest.fixture(scope="module")
def posterior():
    return polinfer.infer(polinfer.make("gridworld/ablation"))


def test_every_result_has_a_card_without_links_to_elsewhere(posterior):
    shown = [
        posterior,
        polinfer.certify(posterior),
        polinfer.evaluate(posterior.mdp, posterior, exactly=True),
        polinfer.compare(posterior.mdp),
        posterior.view,
    ]
    for one in shown:
        html = one._repr_html_()
        assert html.startswith("<div")
        assert "http" not in html
        assert "<script" not in html
    assert "data:image/png;base64," in shown[0]._repr_html_()
    assert "1.280 (uniform -1.886, optimum 2.884)" in shown[0]._repr_html_()
    assert "trust: every policy was enumerated" in shown[1]._repr_html_()


def test_names_are_escaped():
    table = polinfer.TabularMDP.from_arrays(
        np.ones((1, 2, 1)), np.array([[0.0, 1.0]]), horizon=1, action_names=["<b>go</b>", "a&b"]
    )
    html = card(table)
    assert "<b>go" not in html
    assert "&lt;b&gt;go" in html
    assert "a&amp;b" in html


def test_the_frame_holds_the_probabilities(posterior):
    pytest.importorskip("pandas")
    frame = posterior.to_frame()
    start = frame[frame.state == "(1,2)"].set_index("action").probability
    assert start["down"] == pytest.approx(0.798, abs=1e-3)
    assert frame.groupby("state").probability.sum().to_numpy() == pytest.approx(1.0)


def test_arviz_gets_the_returns_of_drawn_policies(posterior):
    pytest.importorskip("arviz")
    found = posterior.to_arviz().posterior
    assert found["J"].shape == (1, 1000)
    # E[J] is 1.295, and the standard deviation of J below 2.
    assert float(found["J"].mean()) == pytest.approx(1.295, abs=5 * 2 / np.sqrt(1000))
    assert found["action"].shape[2] == 4


def test_what_is_missing_is_named(posterior, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(polinfer.PolinferError, match="needs pandas: pip install"):
        posterior.to_frame()


def test_a_figure_is_drawn(posterior):
    assert len(posterior.plot().axes) == 1
