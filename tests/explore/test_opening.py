"""What the command is given, and the page that needs no server."""

import json
import re
import socket
from dataclasses import replace
from pathlib import Path

import pytest

import polinfer
from polinfer.cli import main
from polinfer.cli.explore import Explore
from polinfer.core.errors import PolinferError
from polinfer.explore.opening import explore_posterior, opened
from polinfer.explore.records import GridProblem, NamedProblem, OpenedProblem
from polinfer.explore.report import assemble
from polinfer.explore.server import DEFAULT, static_files


def test_a_problem_is_opened_as_what_it_is(tmp_path: Path) -> None:
    with opened(None) as start:
        assert start.problem == DEFAULT
    with opened(polinfer.make("gridworld/ablation", reward_scale=2.0)) as start:
        assert start.problem == NamedProblem("gridworld/ablation", reward_scale=2.0)
    with opened(polinfer.make("gridworld", map="S.G", success_prob=0.7)) as start:
        assert isinstance(start.problem, GridProblem)
        assert (start.problem.map, start.problem.success_prob) == ("S.G", 0.7)
    with opened(polinfer.tabulate(polinfer.make("gridworld/ablation"))) as start:
        assert isinstance(start.problem, OpenedProblem)
        assert Path(start.sources[0][1]).is_file()
    (tmp_path / "map.txt").write_text("S.W\n..G\n", encoding="utf-8")
    with opened(tmp_path / "map.txt") as start:
        assert start.problem == GridProblem("S.W\n..G", horizon=15)


def test_the_command_takes_a_map_with_options_and_a_run_without(tmp_path: Path) -> None:
    (tmp_path / "map.txt").write_text("S.W\n..G\n", encoding="utf-8")
    plain = Explore(what=str(tmp_path / "map.txt"))
    assert plain.given() == tmp_path / "map.txt"
    with opened(replace(plain, horizon=9, reward_scale=2.0).given()) as start:
        assert start.problem == GridProblem("S.W\n..G", horizon=9, reward_scale=2.0)
    polinfer.infer(polinfer.make("continuation"), "exact").save(tmp_path / "run")
    with pytest.raises(PolinferError, match="has its own"):
        Explore(what=str(tmp_path / "run"), horizon=9).given()


def test_a_run_is_opened_and_saves_beside_it(tmp_path: Path) -> None:
    polinfer.infer(polinfer.make("continuation"), "exact").save(tmp_path / "run")
    with opened(tmp_path / "run") as start:
        assert isinstance(start.problem, OpenedProblem)
        assert start.folder == tmp_path.resolve()
    with pytest.raises(PolinferError, match="no such file"), opened(tmp_path / "nothing"):
        pass


def test_the_command_says_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert main(["explore", "continuation", "--no-open", "--port", port]) == 2
    assert f"port {port} is taken" in capsys.readouterr().err
    assert main(["explore", "continuation", "--no-open", "--port", "99999"]) == 2
    assert main(["explore", "no/such"]) == 2
    assert main(["explore", "continuation", "--no-open", "--host", "192.0.2.1"]) == 2
    assert "cannot listen there" in capsys.readouterr().err


def test_only_a_table_can_be_explored() -> None:
    class Shown:
        view = object()

    with pytest.raises(PolinferError, match="on a table"):
        explore_posterior(Shown())  # type: ignore[arg-type]


def test_a_page_without_a_server_holds_everything_and_escapes_it() -> None:
    page = assemble("<script>", {"start": {"title": "</script><script>alert(1)</script>"}, "records": {}})
    assert page.count("<script") == 3
    assert "alert(1)</script>" not in page
    assert "<title>polinfer: &lt;script>" in page
    found = re.search(r'<script type="importmap">(.*?)</script>', page)
    assert found is not None
    imports = json.loads(found[1])["imports"]
    assert set(imports) == {f"page/{name}" for name in static_files() if name.endswith(".js")}
    assert not re.search(r'(src|href)="http', page)


def test_a_name_that_comes_twice_in_an_upload_is_refused() -> None:
    from polinfer.core.errors import PolinferError
    from polinfer.explore.limits import read_upload

    for body in (b'{"horizon": 3, "horizon": 4}', b'{"horizon": NaN}', b"\xff", b"{} x"):
        with pytest.raises(PolinferError, match="not JSON"):
            read_upload(body)
