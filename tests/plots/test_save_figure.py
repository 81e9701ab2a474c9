"""Files of figures: the same bytes for the same figure, whole or not at all, from any thread."""

import ast
import pathlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import polinfer.plots
from polinfer.plots import PolicyPanel, policy_map_figure, save_figure


def figure(title="some title"):
    grid = polinfer.make("gridworld/ablation")
    policy = np.random.default_rng(0).dirichlet(np.ones(4), (3, 6))
    return policy_map_figure(grid, [PolicyPanel(title, policy, np.arange(6.0))])


@pytest.mark.parametrize(("suffix", "magic"), [(".png", b"\x89PNG"), (".pdf", b"%PDF"), (".PNG", b"\x89PNG")])
def test_bytes_are_reproducible(tmp_path, suffix, magic):
    one, two = tmp_path / f"one{suffix}", tmp_path / f"two{suffix}"
    save_figure(figure(), one)
    save_figure(figure(), str(two))
    assert one.read_bytes() == two.read_bytes()
    assert one.read_bytes().startswith(magic)
    assert b"CreationDate" not in one.read_bytes()  # it may agree by chance: it counts in seconds
    save_figure(figure("another title"), two)
    assert one.read_bytes() != two.read_bytes()


def test_a_png_has_its_resolution_and_names_no_software(tmp_path):
    drawn = figure()
    save_figure(drawn, tmp_path / "figure.png")
    content = (tmp_path / "figure.png").read_bytes()
    assert b"atplotlib" not in content
    size = [int.from_bytes(content[at : at + 4], "big") for at in (16, 20)]
    np.testing.assert_allclose(size, 160 * drawn.get_size_inches(), atol=1)


def test_an_svg_is_dateless(tmp_path):
    save_figure(figure(), tmp_path / "figure.svg")
    content = (tmp_path / "figure.svg").read_text()
    assert "<svg" in content
    assert "<dc:date>" not in content


def test_another_suffix_is_refused_and_nothing_written(tmp_path):
    with pytest.raises(polinfer.PolinferError, match=r"must end in \.png, \.svg or \.pdf, got 'figure\.gif'"):
        save_figure(figure(), tmp_path / "figure.gif")
    assert not list(tmp_path.iterdir())


def test_a_failure_leaves_the_old_file(tmp_path):
    path = tmp_path / "figure.png"
    path.write_bytes(b"old")
    broken = figure()

    def fail(file, **_):
        file.write(b"half")
        raise ValueError("broken")

    broken.savefig = fail
    with pytest.raises(ValueError, match="broken"):
        save_figure(broken, path)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_threads_draw_the_same_figures(tmp_path):
    names = [tmp_path / f"{i}.png" for i in range(6)]
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda name: save_figure(figure(), name), names))
    assert len({name.read_bytes() for name in names}) == 1


def test_no_module_touches_the_global_state_of_matplotlib():
    for file in pathlib.Path(polinfer.plots.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            names = (
                [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
            )
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not {"matplotlib.pyplot", "pyplot", "rcParams", "matplotlib"} & set(names), file.name
