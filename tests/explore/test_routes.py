"""Every route refuses what did not come from our own page, and says why in one sentence."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from polinfer.explore.records import MAX_BODY, MAX_UPLOAD
from polinfer.explore.security import CONTENT_SECURITY_POLICY
from polinfer.explore.server import PAGE, Start, make_app, static_files
from polinfer.explore.session import Session

from .asgi import Answer, call

pytest.importorskip("starlette")

PORT, TOKEN = 8123, "a-token-of-the-test"
GRID = {"type": "grid", "map": "WG\nS.\n..", "success_prob": 0.5, "horizon": 10}
JOB = {"kind": "draft", "problem": GRID}
BODIES: dict[str, Any] = {"/api/jobs": JOB, "/api/tables": {}, "/api/save": {"problem": GRID, "name": "run"}}
"""What our page would send."""


def routes_of(app: Any) -> list[tuple[str, str, Any]]:
    """Return method, path and body of every route that an application has."""
    found = []
    for route in app.routes:
        path = route.path.replace("{path:path}", "main.js").replace("{key}", "abc")
        assert "{" not in path
        methods = sorted(route.methods - {"HEAD"})
        found += [(method, path, BODIES[path] if method == "POST" else None) for method in methods]
    return found


ROUTES = routes_of(make_app(None, Start(), token=TOKEN, host="127.0.0.1", port=PORT)._app)  # type: ignore[arg-type]
POSTS = [route for route in ROUTES if route[0] == "POST"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("started")


@pytest.fixture(scope="module")
def app(folder: Path) -> Iterator[Any]:
    with Session() as session:
        yield make_app(session, Start(folder=folder), token=TOKEN, host="127.0.0.1", port=PORT)


class Client:
    """Sends what our own page would send, but for what a test changes."""

    def __init__(self, app: Any, cookie: str | None = TOKEN, host: str = f"127.0.0.1:{PORT}") -> None:
        self.app = app
        self.headers = {"host": host}
        if cookie is not None:
            self.headers["cookie"] = f"polinfer-{PORT}={cookie}"

    def get(self, path: str, **headers: str) -> Answer:
        return call(self.app, "GET", path, self.headers | headers)

    def post(self, path: str, body: Any, kind: str = "application/json") -> Answer:
        return call(self.app, "POST", path, self.headers | {"content-type": kind}, body)


client = Client


def send(client: Client, route: tuple[str, str, Any], **headers: str) -> Answer:
    method, path, body = route
    content = b"" if body is None else json.dumps(body).encode()
    kind = {} if body is None else {"content-type": "application/json"}
    return call(client.app, method, path, client.headers | kind | headers, content)


def test_the_routes_are_all_there_are(app: Any) -> None:
    from starlette.routing import Route

    assert all(isinstance(route, Route) for route in app._app.routes)  # Nothing is mounted beside them.
    assert routes_of(app._app) == ROUTES
    assert len(ROUTES) >= 9


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route[0]} {route[1]}")
class TestEveryRoute:
    def test_is_refused_without_the_token(self, app: Any, route: Any) -> None:
        for cookie in (None, "", "another"):
            answer = send(client(app, cookie=cookie), route)
            assert answer.status == 401
            assert "token" in answer.json()["error"]

    def test_is_refused_for_a_foreign_host(self, app: Any, route: Any) -> None:
        for host in (
            f"evil.example:{PORT}",
            "127.0.0.1:9",
            f"127.0.0.1.evil.example:{PORT}",
            f"192.0.2.7:{PORT}",
        ):
            assert send(client(app, host=host), route).status == 421

    def test_is_refused_from_a_foreign_origin(self, app: Any, route: Any) -> None:
        for origin in (
            "http://evil.example",
            f"https://127.0.0.1:{PORT}",
            "null",
            f"http://localhost:{PORT}",
        ):
            assert send(client(app), route, origin=origin).status == 403

    def test_is_refused_when_too_large(self, app: Any, route: Any) -> None:
        most = MAX_UPLOAD if route[1] == "/api/tables" else MAX_BODY
        large = {"content-type": "application/json", "content-length": str(most + 1)}
        own = client(app)
        assert call(app, route[0], route[1], own.headers | large).status == 413

    def test_forbids_other_sources(self, app: Any, route: Any) -> None:
        if route[1] == "/api/events":
            return  # A stream that does not end.
        answer = send(client(app), route)
        assert answer.headers["content-security-policy"] == CONTENT_SECURITY_POLICY
        assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("route", POSTS, ids=lambda route: route[1])
class TestEveryPost:
    def test_is_refused_when_malformed(self, app: Any, route: Any) -> None:
        for body in (b"", b"{", b"[]", b'"x"', b"\xff\xfe", b'{"kind": 3}', b"[" * 50_000, b'{"unknown": 1}'):
            answer = client(app).post(route[1], body)
            assert answer.status == 422, body[:20]
            assert len(answer.json()["error"]) > 10

    def test_is_refused_as_a_form(self, app: Any, route: Any) -> None:
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
            assert client(app).post(route[1], b"{}", kind).status == 415

    def test_is_refused_when_more_comes_than_was_announced(self, app: Any, route: Any) -> None:
        most = MAX_UPLOAD if route[1] == "/api/tables" else MAX_BODY
        chunks = (b" " * 65536 for _ in range(most // 65536 + 2))
        answer = client(app).post(route[1], chunks)
        assert answer.status == 413


def test_requests_of_other_sites_are_refused_by_what_the_browser_says(app: Any) -> None:
    assert send(client(app), ("GET", "/api/start", None), **{"sec-fetch-site": "cross-site"}).status == 403
    assert send(client(app), ("GET", "/api/start", None), **{"sec-fetch-site": "same-origin"}).status == 200


def test_the_printed_address_sets_the_cookie(app: Any) -> None:
    answer = client(app, cookie=None).get(f"/?token={TOKEN}")
    assert answer.status == 200
    cookie = answer.headers["set-cookie"]
    assert all(word in cookie for word in (TOKEN, "HttpOnly", "SameSite=Strict"))
    assert "set-cookie" not in client(app).get("/").headers
    assert client(app, cookie=None).get("/?token=wrong").status == 401
    assert client(app, cookie=None).get(f"/api/start?token={TOKEN}").status == 401


@pytest.mark.parametrize(
    "path", ["../server.py", "..%2fserver.py", "%2e%2e/security.py", "/etc/passwd", "index.html"]
)
def test_only_files_of_the_page_are_served(app: Any, path: str) -> None:
    assert client(app).get(f"/static/{path}").status == 404


def test_every_file_of_the_page_is_served_and_small(app: Any) -> None:
    files = static_files()
    assert {"main.js", "style.css", "model/path.js", "api/client.js", "views/grid.js"} <= files
    for name in files:
        assert client(app).get(f"/static/{name}").status == 200
    assert sum((PAGE / name).stat().st_size for name in files) < 300_000


@pytest.mark.parametrize("name", ["..", "../x", "/tmp/x", "a/b", "", ".hidden", "x" * 65, "a b", "ü"])
def test_nothing_is_saved_outside_the_folder(app: Any, folder: Path, name: str) -> None:
    answer = send(client(app), ("POST", "/api/save", {"problem": GRID, "name": name}))
    assert answer.status == 422
    assert list(folder.iterdir()) == []


def test_a_link_or_a_folder_is_not_saved_over(app: Any, folder: Path, tmp_path: Path) -> None:
    (folder / "link").symlink_to(tmp_path / "elsewhere")
    assert send(client(app), ("POST", "/api/save", {"problem": GRID, "name": "link"})).status == 422
    (folder / "link").unlink()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"map": "S.\n.Q"}, "unknown letter"),
        ({"map": "..\n.."}, "no start"),
        ({"map": "/etc/passwd"}, "unknown letter"),
        ({"map": "\n".join(["S" + "." * 30] * 30)}, "at most 30 by 30"),
        ({"horizon": 0}, "horizon"),
        ({"horizon": 1001}, "horizon"),
        ({"success_prob": 1.5}, "success_prob"),
        ({"goal_reward": 1e999}, "out of range"),
        ({"reward_scale": 0}, "reward_scale"),
        ({"type": "named"}, "the request cannot be read"),
        ({"type": "a\n" * 5000}, "the request cannot be read"),
    ],
)
def test_problems_out_of_bounds_are_refused(app: Any, change: dict[str, Any], words: str) -> None:
    body = json.dumps({"kind": "draft", "problem": GRID | change}).replace("Infinity", "1e999")
    answer = client(app).post("/api/jobs", body.encode())
    assert answer.status == 422
    assert words in answer.json()["error"]
    assert "\n" not in answer.json()["error"]
    assert len(answer.json()["error"]) < 400


@pytest.mark.parametrize(
    "problem",
    [
        {"type": "named", "name": "gym:os:system"},
        {"type": "named", "name": "gridworld"},
        {"type": "named", "name": "/etc/passwd.json"},
        {"type": "named", "name": "rddl:x"},
    ],
)
def test_only_known_names_are_made(app: Any, problem: dict[str, Any]) -> None:
    answer = send(client(app), ("POST", "/api/jobs", {"kind": "problem", "problem": problem}))
    assert answer.status == 422
    assert "unknown problem" in answer.json()["error"]


@pytest.mark.parametrize(
    "change",
    [
        {"scale": 0},
        {"scale": 1e9},
        {"given": [[0, 0]] * 9},
        {"sweeps": 10**6},
        {"seed": -1},
        {"kind": "evaluate"},
    ],
)
def test_questions_out_of_bounds_are_refused(app: Any, change: dict[str, Any]) -> None:
    assert send(client(app), ("POST", "/api/jobs", JOB | change)).status == 422


def test_a_table_is_opened_and_a_bad_one_refused(app: Any) -> None:
    table = {
        "state_names": ["on", "off"],
        "action_names": ["run", "stop"],
        "initial": "on",
        "absorbing": ["off"],
        "horizon": 3,
        "outcomes": [["on", "run", "on", 1.0, 1.0], ["on", "stop", "off", 1.0, 0.0]],
    }
    opened = send(client(app), ("POST", "/api/tables", table))
    assert opened.json()["type"] == "opened"
    refused = send(client(app), ("POST", "/api/tables", table | {"initial": "nowhere"}))
    assert refused.status == 422
    assert "nowhere" in refused.json()["error"]
