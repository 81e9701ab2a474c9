"""Malformed requests to the explorer: each is answered, or refused in one sentence, and none ends the server."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest

pytest.importorskip("starlette")

from explore.asgi import Answer, call
from polinfer.core.errors import PolinferError
from polinfer.explore.limits import make_problem
from polinfer.explore.server import Start, make_app
from polinfer.explore.session import Session, _Job
from polinfer.explore.worker import Message

from .kinds import DENSE, SPARSE
from .mutate import WORDS, dump, mutate_bytes, mutate_json, odd_value

PORT, TOKEN = 8124, "a-token-of-the-test"
GRID = {"type": "grid", "map": "W.G\nSR.", "success_prob": 0.5, "horizon": 4, "swamp_reward": -3.0}
NAMED = {"type": "named", "name": "gridworld/ablation", "horizon": 3}
JOB = {"kind": "given", "problem": GRID, "scale": 2.0, "given": [[0, 1]], "sweeps": 10, "seed": 3}
FAST, SLOW = 300, 10_000
ANSWERED = {200, 202}
REFUSED = {400, 401, 403, 404, 405, 413, 415, 421, 422}


class Request(NamedTuple):
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


BASES: dict[tuple[str, str], list[Any]] = {
    ("GET", "/"): [None],
    ("GET", "/static/{path:path}"): [None],
    ("GET", "/api/start"): [None],
    ("GET", "/api/jobs/{key}"): [None],
    ("DELETE", "/api/jobs"): [None],
    ("GET", "/api/events"): [None],
    ("POST", "/api/jobs"): [JOB, {"kind": "problem", "problem": NAMED}, {"kind": "draft", "problem": GRID}],
    ("POST", "/api/tables"): [DENSE, SPARSE],
    ("POST", "/api/save"): [{"problem": GRID, "name": "../run", "scale": 1.0}],
}
"""Every route with the bodies that it takes."""


class UncomputedSession(Session):
    """Makes the problem of a request, as the worker does first, and computes nothing."""

    def _start_worker(self) -> None:
        self.wrong: list[str] = []

    def _stop_worker(self) -> None:
        pass

    def _compute(self, job: _Job, sent: bool) -> Message:
        try:
            make_problem(job.request.problem, self.sources)
        except PolinferError as error:
            return Message(job.number, error=str(error))
        except Exception as error:
            self.wrong.append(f"{type(error).__name__}: {error} for {job.request}")
        return Message(job.number, cancelled=True)


@pytest.fixture(scope="module")
def session() -> Iterator[UncomputedSession]:
    with UncomputedSession() as made:
        yield made


@pytest.fixture(scope="module")
def app(session: UncomputedSession, tmp_path_factory: pytest.TempPathFactory) -> Any:
    start = Start(folder=tmp_path_factory.mktemp("started"))
    return make_app(session, start, token=TOKEN, host="127.0.0.1", port=PORT)


def request_case(seed: int) -> Request:
    """Draw a request with something wrong, or odd, in it."""
    chance = Random(f"request {seed}")
    (method, path), bodies = chance.choice(
        [route for route in BASES.items() for _ in range(4 if route[0][0] == "POST" else 1)]
    )
    headers = {"host": f"127.0.0.1:{PORT}", "cookie": f"polinfer-{PORT}={TOKEN}"}
    base = chance.choice(bodies)
    body = b""
    if base is not None:
        headers["content-type"] = "application/json"
        body = mutate_json(chance, dump(base)) if chance.random() < 0.9 else mutate_bytes(chance, dump(base))
    for part in ("path:path", "key"):
        path = path.replace(f"{{{part}}}", _path(chance))
    if chance.random() < 0.1:
        path = "/" + _path(chance)
    if chance.random() < 0.15:
        name = chance.choice(
            ["host", "cookie", "origin", "content-type", "content-length", "sec-fetch-site", "x"]
        )
        headers[name] = _header(chance)
    if chance.random() < 0.05:
        method = chance.choice(
            ["PUT", "PATCH", "HEAD", "OPTIONS", "TRACE", "get", "", "\0", "POST", "DELETE"]
        )
    return Request(method, path, headers, body)


def _path(chance: Random) -> str:
    text = chance.choice(
        [*WORDS, "main.js", "%00", "..%2f..%2fserver.py", "a/b//c", "%ff%fe", "?token=x&token="]
    )
    return text.encode("utf-8", "replace").decode()[:3000]


def _header(chance: Random) -> str:
    value = chance.choice(
        [str(odd_value(chance)), f"[::1]:{PORT}", f"localhost:{PORT}", "]", ":", f"polinfer-{PORT}="]
    )
    return value.encode("ascii", "replace").decode()[:3000]


def fault(app: Any, request: Request) -> str | None:
    """Return what is wrong with the answer to a request; None where it is an answer or one sentence."""
    if request.path.split("?")[0] == "/api/events" and request.method in ("GET", "HEAD"):
        return None  # A stream; `test_routes` asks for it under every wrong header.
    began = time.monotonic()
    try:
        answer = call(app, request.method, request.path, request.headers, request.body)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    if time.monotonic() - began > 10:
        return "more than 10 s"
    return _fault_of(answer)


def _fault_of(answer: Answer) -> str | None:
    if answer.status in ANSWERED:
        return None
    if answer.status not in REFUSED:
        return f"status {answer.status}: {answer.body[:300]!r}"
    try:
        sentence = answer.json()["error"]
    except (ValueError, KeyError, TypeError):
        return f"no sentence with status {answer.status}: {answer.body[:200]!r}"
    return None if 0 < len(sentence) < 1000 else f"a sentence of {len(sentence)} letters: {sentence[:200]!r}"


def run_requests(app: Any, session: UncomputedSession, count: int) -> None:
    wrong = {}
    for seed in range(count):
        request = request_case(seed)
        found = fault(app, request)
        if found is not None:
            wrong[seed] = f"{found} for {request.method} {request.path[:80]} {request.body[:200]!r}"
    told = "\n".join(f"request {seed}: {found}" for seed, found in list(wrong.items())[:5])
    assert not wrong, f"{len(wrong)} of {count} cases\n{told}"
    assert session.wrong == []
    own = {"host": f"127.0.0.1:{PORT}", "cookie": f"polinfer-{PORT}={TOKEN}"}
    assert call(app, "GET", "/api/start", own).status == 200
    assert list(Path(session.scratch.name).glob("*.part")) == []


def test_every_route_is_among_the_cases(app: Any) -> None:
    routes = {
        (method, route.path) for route in app._app.routes for method in route.methods if method != "HEAD"
    }
    assert routes == set(BASES)


def test_malformed_requests(app: Any, session: UncomputedSession) -> None:
    run_requests(app, session, FAST)


@pytest.mark.slow
def test_ten_thousand_malformed_requests(app: Any, session: UncomputedSession) -> None:
    run_requests(app, session, SLOW)


def test_what_cannot_be_sent_by_a_page_is_refused_in_a_sentence(app: Any) -> None:
    own = {"host": f"127.0.0.1:{PORT}", "cookie": f"polinfer-{PORT}={TOKEN}"}
    for method, path in (("GET", "/api/nothing"), ("DELETE", "/api/start"), ("GET", "/api/save")):
        answer = call(app, method, path, own)
        assert answer.status in (404, 405)
        assert json.loads(answer.body)["error"].startswith("there is no")


def test_a_long_name_in_a_table_is_not_quoted_whole(app: Any) -> None:
    own = {
        "host": f"127.0.0.1:{PORT}",
        "cookie": f"polinfer-{PORT}={TOKEN}",
        "content-type": "application/json",
    }
    for table in (
        {**DENSE, "a" * 5000: 1},
        {**DENSE, "horizon": "3" * 5000},
        {**SPARSE, "initial": "b" * 5000},
    ):
        answer = call(app, "POST", "/api/tables", own, dump(table))
        assert answer.status == 422
        assert len(answer.json()["error"]) < 1000
